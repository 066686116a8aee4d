"""Linear layers."""

from __future__ import annotations

import math
from typing import Any

from minidl import ops
from minidl._core import Tensor

from . import functional as F
from . import init
from .module import Module
from .parameter import Parameter


class Identity(Module):
    """``y = x``; takes and ignores any arguments.

    >>> x = md.ones(2)
    >>> nn.Identity()(x) is x
    True
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        """Return ``input``."""
        return input


class Linear(Module):
    """``y = x W^T + b``.

    Shapes: input (..., in_features), output (..., out_features), weight (out_features,
    in_features), bias (out_features). Both start as U(-1/sqrt(in_features), 1/sqrt(in_features)).

    >>> nn.Linear(4, 3)(md.randn(2, 5, 4)).shape
    (2, 5, 3)
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(ops.empty((out_features, in_features), device=device, dtype=dtype))
        self.bias: Parameter | None
        if bias:
            self.bias = Parameter(ops.empty((out_features,), device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new starting values."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        """(..., in_features) -> (..., out_features)."""
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """The constructor's arguments."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )

    def summary(self) -> str:
        """For error messages: ``Linear 128→384``."""
        return f"{type(self).__name__} {self.in_features}→{self.out_features}"
