"""Dropout."""

from __future__ import annotations

from minidl import ops
from minidl._core import Tensor


def dropout(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """x * mask / (1 - p) in training, each element of the mask 0 with probability ``p``; else x.

    >>> F.dropout(md.ones(4), 0.5, training=False)
    tensor([1., 1., 1., 1.])
    """
    dropped = ops.dropout(input, p, training)
    return input.copy_(dropped) if inplace and dropped is not input else dropped
