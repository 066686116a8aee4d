"""What a dataset is, and the one of tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from minidl import ops
from minidl._core import Tensor
from minidl.errors import ShapeError


class Dataset:
    """Samples by number: a subclass writes ``__len__`` and ``__getitem__``.

    One that can make a whole batch at once also writes ``batch(indices)``, and the loader calls
    it, with an int64 array, instead of collating samples one by one.

    >>> class Squares(md.data.Dataset):
    ...     def __len__(self):
    ...         return 4
    ...     def __getitem__(self, index):
    ...         return index, index**2
    >>> next(iter(md.data.DataLoader(Squares(), batch_size=4)))[1]
    tensor([0, 1, 4, 9])
    """

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} does not say how long it is (__len__)")

    def __getitem__(self, index: int) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not give samples (__getitem__)")


class TensorDataset(Dataset):
    """Rows of tensors of the same length: sample i is (tensors[0][i], tensors[1][i], ...).

    >>> dataset = md.data.TensorDataset(md.ones(5, 2), md.arange(5))
    >>> len(dataset), dataset[3][1].item()
    (5, 3)
    """

    def __init__(self, *tensors: Tensor) -> None:
        lengths = [t.shape[0] if t.ndim else None for t in tensors]
        if not tensors or None in lengths or len(set(lengths)) > 1:
            shapes = ", ".join(str(tuple(t.shape)) for t in tensors) or "none"
            raise ShapeError(
                "TensorDataset takes tensors with the same length of the first axis, got "
                f"{shapes}"
            )
        self.tensors = tensors

    def __len__(self) -> int:
        return int(self.tensors[0].shape[0])

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def batch(self, indices: np.ndarray) -> tuple[Tensor, ...]:
        """The rows at ``indices``, one gather for each tensor."""
        chosen = ops.from_numpy(indices)
        return tuple(tensor[chosen] for tensor in self.tensors)
