"""Lengths, angles and distances."""

from __future__ import annotations

from minidl import ops
from minidl._core import Tensor
from minidl.errors import UnsupportedError


def normalize(
    input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """x / max(||x||_p, eps) along ``dim``.

    >>> F.normalize(md.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """
    if out is not None:
        raise UnsupportedError("normalize: out= is not supported, use the returned tensor")
    return input / ops.norm(input, p, dim, keepdim=True).clamp(min=eps)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """x1 . x2 / (max(||x1||, eps) * max(||x2||, eps)) along ``dim``.

    Shapes: x1 and x2 broadcast; the output lacks ``dim``.

    >>> F.cosine_similarity(md.tensor([[1.0, 0.0]]), md.tensor([[1.0, 1.0]]))
    tensor([0.7071])
    """
    x1, x2 = ops.broadcast_tensors(x1, x2)
    length1 = ops.norm(x1, 2, dim, keepdim=True).clamp(min=eps)
    length2 = ops.norm(x2, 2, dim, keepdim=True).clamp(min=eps)
    return ((x1 / length1) * (x2 / length2)).sum(dim)


def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """||x1 - x2 + eps||_p over the last axis.

    >>> F.pairwise_distance(md.tensor([[0.0, 0.0]]), md.tensor([[3.0, 4.0]]))
    tensor([5.0000])
    """
    return ops.norm(x1 - x2 + eps, p, -1, keepdim=keepdim)
