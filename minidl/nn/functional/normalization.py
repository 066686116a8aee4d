"""Normalization over the last axes or over groups of channels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minidl import ops
from minidl._core import Tensor
from minidl.errors import ShapeError


def _flat(
    name: str, input: Tensor, shape: Sequence[int], **params: Tensor | None
) -> tuple[Tensor, list[Tensor | None]]:
    """``input`` and the parameters with the normalised axes as one; their shapes are checked."""
    shape = tuple(shape)
    if not shape:
        raise ShapeError(f"{name}: normalized_shape must name at least one axis")
    if tuple(input.shape[-len(shape) :]) != shape:
        raise ShapeError(
            f"{name}: the input's last axes must be {shape} (normalized_shape), the input has "
            f"shape {tuple(input.shape)}"
        )
    for what, param in params.items():
        if param is not None and tuple(param.shape) != shape:
            raise ShapeError(
                f"{name}: {what} has shape {tuple(param.shape)}, expected normalized_shape {shape}"
            )
    if len(shape) == 1:
        return input, list(params.values())
    flat = [None if p is None else p.reshape((-1,)) for p in params.values()]
    return input.flatten(-len(shape)), flat


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """(x - mean) / sqrt(var + eps) * weight + bias over the last ``len(normalized_shape)`` axes.

    Shapes: input and output (..., *normalized_shape), weight and bias normalized_shape.

    >>> F.layer_norm(md.randn(2, 8), (8,)).mean(-1)
    tensor([0., 0.])
    """
    flat, (weight, bias) = _flat("layer_norm", input, normalized_shape, weight=weight, bias=bias)
    return _restore(input, flat, ops.layer_norm(flat, weight, bias, eps))


def rms_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """x / sqrt(mean(x^2) + eps) * weight over the last ``len(normalized_shape)`` axes.

    Shapes: input and output (..., *normalized_shape), weight normalized_shape. ``eps=None`` is
    the smallest step of the input's dtype.

    >>> F.rms_norm(md.full((2,), 3.0), (2,))
    tensor([1., 1.])
    """
    flat, (weight,) = _flat("rms_norm", input, normalized_shape, weight=weight)
    if eps is None:
        eps = float(np.finfo(input.dtype.numpy).eps)
    return _restore(input, flat, ops.rms_norm(flat, weight, eps))


def _restore(input: Tensor, flat: Tensor, output: Tensor) -> Tensor:
    return output if flat is input else output.reshape(tuple(input.shape))


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """(x - mean) / sqrt(var + eps) * weight + bias, over each of ``num_groups`` groups of channels.

    Shapes: input and output (N, C, ...), weight and bias (C).

    >>> F.group_norm(md.randn(2, 6, 5), 3).shape
    (2, 6, 5)
    """
    if input.ndim < 2 or input.shape[1] % num_groups:
        raise ShapeError(
            f"group_norm: takes (N, C, ...) with C divisible by {num_groups} groups, got "
            f"{tuple(input.shape)}"
        )
    shape = tuple(input.shape)
    groups = input.reshape((shape[0], num_groups, -1))
    output = ops.layer_norm(groups, None, None, eps).reshape(shape)
    channels = (1, shape[1]) + (1,) * (len(shape) - 2)
    if weight is not None:
        output = output * weight.reshape(channels)
    return output if bias is None else output + bias.reshape(channels)
