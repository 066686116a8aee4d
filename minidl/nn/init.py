"""Fill tensors with starting values: PyTorch's ``nn.init`` names, formulas and defaults.

Every function works in place, records no gradient and returns its tensor. ``generator`` is an
explicit ``md.Generator``; without one the global seed (``md.manual_seed``) decides.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Concatenate, ParamSpec

import numpy as np

from minidl import ops
from minidl._core import Tensor
from minidl.grad_mode import no_grad

P = ParamSpec("P")
_skipped = ContextVar("skipped", default=False)
_LINEAR = ("linear", "conv1d", "conv2d", "conv3d", "sigmoid")


@contextmanager
def skipped() -> Iterator[None]:
    """Within it the functions below leave tensors as they are, and random numbers untouched."""
    before = _skipped.set(True)
    try:
        yield
    finally:
        _skipped.reset(before)


def _fills(
    function: Callable[Concatenate[Tensor, P], Tensor],
) -> Callable[Concatenate[Tensor, P], Tensor]:
    @functools.wraps(function)
    def fill(tensor: Tensor, *args: P.args, **kwargs: P.kwargs) -> Tensor:
        return tensor if _skipped.get() else function(tensor, *args, **kwargs)

    return fill


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor that keeps the variance through a nonlinearity: tanh 5/3, relu sqrt(2),
    leaky_relu sqrt(2 / (1 + param^2)), selu 3/4, linear and sigmoid 1.

    >>> nn.init.calculate_gain("tanh")
    1.6666666666666667
    """
    if nonlinearity in _LINEAR:
        return 1.0
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "selu":
        return 3.0 / 4
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, (int, float)):
            raise ValueError(f"negative_slope {param!r} is not a number")
        return math.sqrt(2.0 / (1 + slope**2))
    raise ValueError(
        f"unknown nonlinearity {nonlinearity!r}: use linear, sigmoid, tanh, relu, leaky_relu, selu"
    )


def _fill(tensor: Tensor, values: Any) -> Tensor:
    with no_grad():
        tensor.copy_(values)
    return tensor


@_fills
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Values from the uniform distribution U(a, b).

    >>> weight = nn.init.uniform_(md.empty(3, 5), -1, 1)
    """
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


@_fills
def normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None
) -> Tensor:
    """Values from the normal distribution N(mean, std^2).

    >>> weight = nn.init.normal_(md.empty(3, 5), std=0.02)
    """
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


@_fills
def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Any = None,
) -> Tensor:
    """Values from N(mean, std^2) within [a, b]: x = mean + std * Phi^-1(u), u uniform between
    Phi((a - mean) / std) and Phi((b - mean) / std).

    >>> weight = nn.init.trunc_normal_(md.empty(3, 5), std=0.02)
    """
    from scipy.special import ndtr, ndtri  # costs 30 ms: paid by those who use it

    low, high = ndtr((a - mean) / std), ndtr((b - mean) / std)
    u = np.asarray(ops.rand(tuple(tensor.shape), generator=generator).numpy(), np.float64)
    x = np.clip(mean + std * ndtri(low + (high - low) * u), a, b)
    return _fill(tensor, Tensor(x))


@_fills
def constant_(tensor: Tensor, val: float) -> Tensor:
    """Every value is ``val``.

    >>> nn.init.constant_(md.empty(3), 0.25)
    tensor([0.2500, 0.2500, 0.2500])
    """
    with no_grad():
        tensor.fill_(val)
    return tensor


def ones_(tensor: Tensor) -> Tensor:
    """Every value is 1.

    >>> nn.init.ones_(md.empty(3))
    tensor([1., 1., 1.])
    """
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Every value is 0.

    >>> nn.init.zeros_(md.empty(3))
    tensor([0., 0., 0.])
    """
    return constant_(tensor, 0.0)


@_fills
def eye_(tensor: Tensor) -> Tensor:
    """1 on the diagonal of a matrix, 0 elsewhere.

    >>> nn.init.eye_(md.empty(2, 3))
    tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """
    if tensor.ndim != 2:
        raise ValueError(f"eye_ fills a matrix; the tensor has shape {tuple(tensor.shape)}")
    return _fill(tensor, ops.eye(*tensor.shape, dtype=tensor.dtype))


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """How many inputs feed an output, and how many outputs an input feeds.

    A weight (out, in, k1, k2, ...) has fan-in ``in * k1 * k2 ...``, fan-out ``out * k1 * k2 ...``.
    """
    if tensor.ndim < 2:
        raise ValueError(
            "fan-in and fan-out need a weight with at least 2 axes; the tensor has shape "
            f"{tuple(tensor.shape)}"
        )
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """U(-a, a) with a = gain * sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio, 2010).

    >>> weight = nn.init.xavier_uniform_(md.empty(3, 5), gain=nn.init.calculate_gain("relu"))
    """
    bound = gain * math.sqrt(6.0 / max(1, sum(_calculate_fan_in_and_fan_out(tensor))))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """N(0, std^2) with std = gain * sqrt(2 / (fan_in + fan_out)) (Glorot and Bengio, 2010).

    >>> weight = nn.init.xavier_normal_(md.empty(3, 5))
    """
    std = gain * math.sqrt(2.0 / max(1, sum(_calculate_fan_in_and_fan_out(tensor))))
    return normal_(tensor, 0.0, std, generator)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"mode {mode!r} is not supported, use 'fan_in' or 'fan_out'")
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    fan = fan_in if mode == "fan_in" else fan_out
    return calculate_gain(nonlinearity, a) / math.sqrt(max(1, fan))


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """U(-b, b) with b = gain * sqrt(3 / fan) (He et al., 2015); ``a`` is leaky_relu's slope.

    >>> weight = nn.init.kaiming_uniform_(md.empty(3, 5), nonlinearity="relu")
    """
    if 0 in tensor.shape:
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """N(0, std^2) with std = gain / sqrt(fan) (He et al., 2015); ``a`` is leaky_relu's slope.

    >>> weight = nn.init.kaiming_normal_(md.empty(3, 5), mode="fan_out")
    """
    if 0 in tensor.shape:
        return tensor
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


@_fills
def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """A (semi-)orthogonal matrix times ``gain``; axes after the first are taken as one.

    The Q of a QR decomposition of a normal matrix, signs fixed by R's diagonal.

    >>> weight = nn.init.orthogonal_(md.empty(3, 5))
    """
    if tensor.ndim < 2:
        raise ValueError(
            f"orthogonal_ needs at least 2 axes; the tensor has shape {tuple(tensor.shape)}"
        )
    if tensor.numel() == 0:
        return tensor
    rows, columns = tensor.shape[0], tensor.numel() // tensor.shape[0]
    shape = (max(rows, columns), min(rows, columns))
    normal = np.asarray(ops.randn(shape, generator=generator).numpy(), np.float64)
    q, r = np.linalg.qr(normal)
    q *= np.where(np.diagonal(r) < 0, -1.0, 1.0)
    q = q.T if rows < columns else q
    return _fill(tensor, Tensor(gain * q.reshape(tuple(tensor.shape))))
