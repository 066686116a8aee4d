"""Dropout."""

from __future__ import annotations

from minidl._core import Tensor

from . import functional as F
from .module import Module


class Dropout(Module):
    """In training mode ``y = x * mask / (1 - p)`` where each element of the mask is 0 with
    probability ``p``; in evaluation mode ``y = x``.

    Shapes: any.

    >>> nn.Dropout(0.1).eval()(md.ones(3))
    tensor([1., 1., 1.])
    """

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Any shape -> the same shape."""
        return F.dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        """The constructor's arguments."""
        return f"p={self.p}, inplace={self.inplace}"
