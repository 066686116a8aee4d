"""Normalization layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minidl import ops
from minidl._core import Tensor

from . import functional as F
from . import init
from .module import Module
from .parameter import Parameter


def _shape(normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    is_number = not isinstance(normalized_shape, Sequence) and hasattr(
        normalized_shape, "__index__"
    )
    return (int(normalized_shape),) if is_number else tuple(normalized_shape)  # type: ignore


class _Norm(Module):
    """Over the last axes, with a weight and maybe a bias of their shape."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None,
        weight: bool,
        bias: bool,
        device: Any,
        dtype: Any,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = weight
        for name, wanted in (("weight", weight), ("bias", bias)):
            param = None
            if wanted:
                param = Parameter(ops.empty(self.normalized_shape, device=device, dtype=dtype))
            self.register_parameter(name, param)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """The weight becomes 1, the bias 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def extra_repr(self) -> str:
        """The constructor's arguments."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}"
        )

    def summary(self) -> str:
        """For error messages: ``LayerNorm 128``."""
        return f"{type(self).__name__} {'×'.join(map(str, self.normalized_shape))}"


class LayerNorm(_Norm):
    """``y = (x - mean) / sqrt(var + eps) * weight + bias``, mean and (biased) variance taken over
    the last axes.

    Shapes: input and output (..., *normalized_shape), weight and bias normalized_shape, starting
    as 1 and 0.

    >>> nn.LayerNorm(8)(md.randn(2, 5, 8)).shape
    (2, 5, 8)
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        has_bias = elementwise_affine and bias
        super().__init__(normalized_shape, eps, elementwise_affine, has_bias, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        """(..., *normalized_shape) -> the same shape."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm(_Norm):
    """``y = x / sqrt(mean(x^2) + eps) * weight``, the mean taken over the last axes.

    Shapes: input and output (..., *normalized_shape), weight normalized_shape, starting as 1.
    ``eps=None`` is the smallest step of the dtype (1.19e-07 for float32), as in PyTorch.

    >>> nn.RMSNorm(8, eps=1e-6)(md.randn(2, 5, 8)).shape
    (2, 5, 8)
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(normalized_shape, eps, elementwise_affine, False, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        """(..., *normalized_shape) -> the same shape."""
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)


class GroupNorm(Module):
    """``y = (x - mean) / sqrt(var + eps) * weight + bias``, mean and variance taken over each of
    ``num_groups`` groups of channels.

    Shapes: input and output (N, num_channels, ...), weight and bias (num_channels).

    >>> nn.GroupNorm(2, 6)(md.randn(4, 6, 10)).shape
    (4, 6, 10)
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(
                f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})"
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            make = ops.ones if name == "weight" else ops.zeros
            value = make((num_channels,), device=device, dtype=dtype) if wanted else None
            self.register_parameter(name, None if value is None else Parameter(value))

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, ...) -> the same shape."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """The constructor's arguments."""
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}"
