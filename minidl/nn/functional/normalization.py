"""Normalization over groups of channels; that over the last axes is an op of its own."""

from __future__ import annotations

import math

from minidl import ops
from minidl._core import Tensor
from minidl.errors import ShapeError


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
    size = math.prod(shape[1:]) // num_groups
    groups = input.reshape((shape[0], num_groups, size))
    output = ops.layer_norm(groups, (size,), eps=eps).reshape(shape)
    channels = (1, shape[1]) + (1,) * (len(shape) - 2)
    if weight is not None:
        output = output * weight.reshape(channels)
    return output if bias is None else output + bias.reshape(channels)
