"""Activations: elementwise functions of any shape, and the gated and normalising ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minidl import dtypes, ops
from minidl._core import Tensor
from minidl.errors import ArgumentError, DTypeError, ShapeError

_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_SCALE = 1.0507009873554804934193349852946


def _inplace(function: Callable[..., Tensor], input: Tensor, *args: float) -> Tensor:
    """Write function(input, ...) over ``input``; it sees a copy, so its gradient stays right."""
    return input.copy_(function(input.clone(), *args))


def _floating(name: str, input: Tensor) -> None:
    """Refuse integers, as PyTorch does: their sums would overflow on the way to a float."""
    if not input.dtype.is_floating_point:
        raise DTypeError(
            f"{name}: expected a floating-point tensor, got {input.dtype.name}; convert with "
            ".float()"
        )


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0).

    >>> F.relu(md.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    if inplace:
        return _inplace(relu, input)
    return ops.relu(input)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x, 0), 6).

    >>> F.relu6(md.tensor([-1.0, 2.0, 8.0]))
    tensor([0., 2., 6.])
    """
    return hardtanh(input, 0.0, 6.0, inplace)


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """min(max(x, min_val), max_val), with gradient 0 at and beyond the limits.

    >>> F.hardtanh(md.tensor([-3.0, 0.5]))
    tensor([-1.0000,  0.5000])
    """
    if inplace:
        return _inplace(hardtanh, input, min_val, max_val)
    if min_val > max_val:
        raise ArgumentError(f"hardtanh: min_val ({min_val}) must not exceed max_val ({max_val})")
    if input.dtype in (dtypes.uint8, dtypes.bool) and (min_val < 0 or input.dtype == dtypes.bool):
        raise DTypeError(f"hardtanh: {input.dtype.name} does not hold the limit {min_val}")
    if not input.dtype.is_floating_point:
        min_val, max_val = int(min_val), int(max_val)  # integers stay integers
    inside = (input > min_val) & (input < max_val)
    return ops.where(inside, input, input.detach().clamp(min_val, max_val))


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x where x > threshold, else value.

    >>> F.threshold(md.tensor([0.05, 2.0]), 0.1, 20)
    tensor([20.,  2.])
    """
    if inplace:
        return input.copy_(ops.where(input <= threshold, value, input.clone()))
    return ops.where(input <= threshold, value, input)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x where x > 0, else negative_slope * x.

    >>> F.leaky_relu(md.tensor([-1.0, 2.0]), 0.1)
    tensor([-0.1000,  2.0000])
    """
    _floating("leaky_relu", input)
    if inplace:
        return _inplace(leaky_relu, input, negative_slope)
    return ops.where(input > 0, input, input * negative_slope)


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """x where x > 0, else weight * x; one weight for all, or one per channel (axis 1).

    Shapes: input (N, C, ...), weight (C) or (1).

    >>> F.prelu(md.tensor([-1.0, 2.0]), md.tensor([0.25]))
    tensor([-0.2500,  2.0000])
    """
    if weight.ndim > 1:
        raise ShapeError(f"prelu: weight must be 0-D or 1-D, got shape {tuple(weight.shape)}")
    if weight.numel() != 1:
        channels = input.shape[1] if input.ndim > 1 else 1
        if input.ndim == 0 or weight.numel() != channels:
            raise ShapeError(
                f"prelu: weight has {weight.numel()} elements, expected {channels} (or 1) for an "
                f"input of shape {tuple(input.shape)}"
            )
        weight = weight.reshape((1, -1) + (1,) * (input.ndim - 2))
    elif weight.ndim == 1 and input.ndim == 0:
        weight = weight.reshape(())
    return ops.where(input > 0, input, weight * input)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where x > 0, else alpha * (exp(x) - 1).

    >>> F.elu(md.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """
    _floating("elu", input)
    if inplace:
        return _inplace(elu, input, alpha)
    # exp of the negative part only: a large x would give inf, and inf * 0 in the gradient.
    negative = ops.expm1(ops.where(input > 0, 0.0, input)) * alpha
    return ops.where(input > 0, input, negative)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """scale * elu(x, alpha), with the constants of self-normalising networks.

    >>> F.selu(md.tensor([1.0]))
    tensor([1.0507])
    """
    _floating("selu", input)
    if inplace:
        return _inplace(selu, input)
    return elu(input, _SELU_ALPHA) * _SELU_SCALE


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where x > 0, else alpha * (exp(x / alpha) - 1).

    >>> F.celu(md.tensor([-1.0, 2.0]), 2.0)
    tensor([-0.7869,  2.0000])
    """
    _floating("celu", input)
    if inplace:
        return _inplace(celu, input, alpha)
    if alpha == 0:
        raise ArgumentError("celu: alpha must not be 0")
    negative = ops.expm1(ops.where(input > 0, 0.0, input) / alpha) * alpha
    return ops.where(input > 0, input, negative)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x * sigmoid(x), also called swish.

    >>> F.silu(md.tensor([1.0]))
    tensor([0.7311])
    """
    if inplace:
        return _inplace(silu, input)
    return ops.silu(input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * tanh(softplus(x)).

    >>> F.mish(md.tensor([1.0]))
    tensor([0.8651])
    """
    _floating("mish", input)
    if inplace:
        return _inplace(mish, input)
    return input * ops.tanh(ops.softplus(input))


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """relu6(x + 3) / 6.

    >>> F.hardsigmoid(md.tensor([0.0]))
    tensor([0.5000])
    """
    _floating("hardsigmoid", input)
    if inplace:
        return _inplace(hardsigmoid, input)
    return relu6(input + 3) / 6


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * relu6(x + 3) / 6.

    >>> F.hardswish(md.tensor([1.0]))
    tensor([0.6667])
    """
    _floating("hardswish", input)
    if inplace:
        return _inplace(hardswish, input)
    return input * relu6(input + 3) / 6


def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """0 where |x| <= lambd, else x.

    >>> F.hardshrink(md.tensor([0.3, 2.0]))
    tensor([0., 2.])
    """
    return ops.where(ops.abs(input) <= lambd, 0.0, input)


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x - lambd above lambd, x + lambd below -lambd, 0 between.

    >>> F.softshrink(md.tensor([0.3, 2.0]))
    tensor([0.0000, 1.5000])
    """
    if not lambd >= 0:
        raise ArgumentError(f"softshrink: lambd must not be negative, got {lambd}")
    inside = ops.abs(input) <= lambd
    return ops.where(inside, 0.0, input - ops.sign(input) * lambd)


def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x).

    >>> F.tanhshrink(md.tensor([1.0]))
    tensor([0.2384])
    """
    return input - ops.tanh(input)


def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|).

    >>> F.softsign(md.tensor([1.0]))
    tensor([0.5000])
    """
    return input / (ops.abs(input) + 1)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """a * sigmoid(b), where a and b are the halves of x along ``dim``.

    Shapes: (..., 2n, ...) -> (..., n, ...).

    >>> F.glu(md.randn(2, 8)).shape
    (2, 4)
    """
    if input.ndim == 0:
        raise ShapeError("glu: takes a tensor with at least one axis, got a 0-d tensor")
    if input.shape[dim] % 2:
        raise ShapeError(
            f"glu: the axis to halve must be even, axis {dim} has size {input.shape[dim]} "
            f"(input shape {tuple(input.shape)})"
        )
    a, b = ops.chunk(input, 2, dim)
    return a * ops.sigmoid(b)


def _need_dim(name: str, dim: Any) -> int:
    if dim is None:
        raise TypeError(f"{name}: say over which axis, for example {name}(input, dim=-1)")
    return dim


def softmax(input: Tensor, dim: Any = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """exp(x_i) / sum_j exp(x_j) over the axis ``dim``; ``dtype`` converts the input first.

    >>> F.softmax(md.zeros(4), dim=-1)
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """
    return ops.softmax(input, _need_dim("softmax", dim), dtype)


def softmin(input: Tensor, dim: Any = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """softmax(-x).

    >>> F.softmin(md.zeros(2), dim=-1)
    tensor([0.5000, 0.5000])
    """
    return ops.softmax(-input, _need_dim("softmin", dim), dtype)


def log_softmax(
    input: Tensor, dim: Any = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """x_i - log(sum_j exp(x_j)) over the axis ``dim``; ``dtype`` converts the input first.

    >>> F.log_softmax(md.zeros(2), dim=-1)
    tensor([-0.6931, -0.6931])
    """
    return ops.log_softmax(input, _need_dim("log_softmax", dim), dtype)
