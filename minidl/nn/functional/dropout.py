"""Dropout."""

from __future__ import annotations

from minidl import ops
from minidl._core import Tensor
from minidl.errors import ArgumentError


def dropout(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """x * mask / (1 - p) in training, each element of the mask 0 with probability ``p``; else x.

    >>> F.dropout(md.ones(4), 0.5, training=False)
    tensor([1., 1., 1., 1.])
    """
    if not 0 <= p <= 1:
        raise ArgumentError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0:
        return input
    return input.copy_(ops.dropout(input, p)) if inplace else ops.dropout(input, p)
