"""Softmax and its relatives, and the gated linear unit: functions along one axis, as modules."""

from __future__ import annotations

from minidl._core import Tensor

from . import functional as F
from .activation import Activation


class GLU(Activation):
    """a * sigmoid(b), where a and b are the halves of x along ``dim``.

    Shapes: (..., 2n, ...) -> (..., n, ...).

    >>> nn.GLU()(md.randn(2, 8)).shape
    (2, 4)
    """

    _shown = ("dim",)

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """(..., 2n, ...) -> (..., n, ...)."""
        return F.glu(input, self.dim)


class Softmax(Activation):
    """exp(x_i) / sum_j exp(x_j) over the axis ``dim``.

    >>> nn.Softmax(dim=-1)(md.zeros(4))
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

    _shown = ("dim",)

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Any shape -> the same shape."""
        return F.softmax(input, self.dim)


class LogSoftmax(Softmax):
    """x_i - log(sum_j exp(x_j)) over the axis ``dim``.

    >>> nn.LogSoftmax(dim=-1)(md.zeros(2))
    tensor([-0.6931, -0.6931])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Any shape -> the same shape."""
        return F.log_softmax(input, self.dim)


class Softmin(Softmax):
    """softmax(-x) over the axis ``dim``.

    >>> nn.Softmin(dim=-1)(md.zeros(2))
    tensor([0.5000, 0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Any shape -> the same shape."""
        return F.softmin(input, self.dim)
