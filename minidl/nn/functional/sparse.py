"""Tables looked up by number."""

from __future__ import annotations

from minidl import dtypes, ops
from minidl._core import Tensor
from minidl.errors import ArgumentError, DimensionError, DTypeError, UnsupportedError


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


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """1 at the class id, 0 elsewhere; -1 stands for the largest id + 1 classes.

    Shapes: tensor (...) of int64, output (..., num_classes) of int64.

    >>> F.one_hot(md.tensor([0, 2]))
    tensor([[1, 0, 0],
            [0, 0, 1]])
    """
    if tensor.dtype is not dtypes.int64:
        raise DTypeError(f"one_hot: class ids must be int64, got {tensor.dtype}")
    if num_classes == -1 and tensor.numel() == 0:
        raise ArgumentError("one_hot: num_classes must be given for a tensor without elements")
    if num_classes < -1 or num_classes == 0 and tensor.numel() == 0:
        raise ArgumentError(f"one_hot: num_classes must be positive, got {num_classes}")
    if tensor.numel():
        smallest, largest = int(tensor.min().item()), int(tensor.max().item())
        num_classes = largest + 1 if num_classes == -1 else num_classes
        if smallest < 0 or largest >= num_classes:
            raise DimensionError(
                f"one_hot: class ids must be in [0, {num_classes}), got "
                f"{smallest if smallest < 0 else largest}"
            )
    return (tensor.unsqueeze(-1) == ops.arange(num_classes)).to(dtypes.int64)
