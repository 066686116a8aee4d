"""Tables looked up by number."""

from __future__ import annotations

from minidl import ops
from minidl._core import Tensor
from minidl.errors import UnsupportedError


def check_embedding_options(max_norm: object, scale_grad_by_freq: bool, sparse: bool) -> None:
    """Refuse the options of PyTorch's embedding that minidl does not have."""
    if max_norm is not None:
        raise UnsupportedError(
            "embedding: max_norm is not supported; rescale the rows of the weight yourself"
        )
    if scale_grad_by_freq:
        raise UnsupportedError("embedding: scale_grad_by_freq is not supported")
    if sparse:
        raise UnsupportedError("embedding: sparse gradients are not supported, use sparse=False")


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """``weight[input]``; the row ``padding_idx`` gets no gradient.

    Shapes: input (...) of integers in [0, V), weight (V, D), output (..., D).

    >>> F.embedding(md.tensor([1, 0]), md.eye(3))
    tensor([[0., 1., 0.],
            [1., 0., 0.]])
    """
    if max_norm is not None or scale_grad_by_freq or sparse:
        check_embedding_options(max_norm, scale_grad_by_freq, sparse)
    return ops.embedding(weight, input, padding_idx)
