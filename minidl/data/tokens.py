"""Tokens in a file that is mapped, not read.

The file: 8 bytes "MDLTOK01", the bytes of a token (2 or 4) and their number as two little-endian
uint64, then the tokens, little-endian.
"""

from __future__ import annotations

import os
import struct
from typing import Any

import numpy as np

from minidl import ops
from minidl._core import Tensor
from minidl.checkpoint import atomic, blocks
from minidl.errors import ArgumentError

from .dataset import Dataset

MAGIC = b"MDLTOK01"
HEADER = struct.Struct("<8sQQ")
DTYPES: dict[int, np.dtype[Any]] = {2: np.dtype("<u2"), 4: np.dtype("<u4")}


class TokenDataset(Dataset):
    """Windows of a long row of tokens, to predict each from those before it. Sample i is
    (tokens[s : s + block_size], tokens[s + 1 : s + block_size + 1]) at s = i * stride.

    ``source`` is a file that :meth:`write` made, or the tokens themselves. The default stride,
    block_size, makes each token a target once in an epoch; stride 1 with shuffling starts windows
    anywhere. Worker processes map the file too, and copy nothing.

    >>> dataset = md.data.TokenDataset(np.arange(10), block_size=4)
    >>> x, y = dataset[1]
    >>> x.tolist(), y.tolist(), len(dataset)
    ([4, 5, 6, 7], [5, 6, 7, 8], 2)
    """

    def __init__(self, source: Any, block_size: int, stride: int | None = None) -> None:
        self.path = os.fspath(source) if isinstance(source, (str, os.PathLike)) else None
        self.tokens = _tokens("TokenDataset", source) if self.path is None else _map(self.path)
        self.block_size = block_size
        self.stride = block_size if stride is None else stride
        if block_size < 1 or self.stride < 1:
            raise ArgumentError(
                f"TokenDataset: block_size and stride must be at least 1, got {block_size} and "
                f"{self.stride}"
            )
        if len(self.tokens) <= block_size:
            raise ArgumentError(
                f"TokenDataset: {len(self.tokens)} tokens are too few for one window of "
                f"{block_size} and its next token; use a smaller block_size or more text"
            )

    @staticmethod
    def write(path: str | os.PathLike[str], tokens: Any, vocab_size: int | None = None) -> None:
        """Save tokens, 2 bytes each when the vocabulary (or the largest token) allows it, else 4.
        The file is there whole or not at all.

        >>> md.data.TokenDataset.write("tokens.bin", [3, 1, 2])  # doctest: +SKIP
        """
        array = _tokens("TokenDataset.write", tokens)
        largest = int(array.max()) if len(array) else 0
        if vocab_size is not None and largest >= vocab_size:
            raise ArgumentError(
                f"TokenDataset.write: the token {largest} is not in a vocabulary of {vocab_size}"
            )
        size = 2 if max(largest + 1, vocab_size or 0) <= 1 << 16 else 4
        data = array.astype(DTYPES[size])
        header = HEADER.pack(MAGIC, size, len(data))

        def write(fd: int) -> None:
            blocks.write_at(fd, header, 0)
            blocks.write_at(fd, data.view(np.uint8), HEADER.size)

        atomic.replace(os.fspath(path), write)

    def __len__(self) -> int:
        return (len(self.tokens) - self.block_size - 1) // self.stride + 1

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"sample {index} of a dataset of {len(self)}")
        x, y = self.batch(np.array([index % len(self)]))
        return x[0], y[0]

    def batch(self, indices: np.ndarray) -> tuple[Tensor, Tensor]:
        """Inputs and targets (B, block_size), int64, by one gather from the file."""
        starts = np.asarray(indices, np.int64)[:, None] * self.stride
        windows = self.tokens[starts + np.arange(self.block_size + 1)].astype(np.int64)
        x, y = np.ascontiguousarray(windows[:, :-1]), np.ascontiguousarray(windows[:, 1:])
        return ops.from_numpy(x), ops.from_numpy(y)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        if self.path is not None:
            del state["tokens"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self.path is not None:
            self.tokens = _map(self.path)


def _tokens(name: str, tokens: Any) -> np.ndarray:
    """One axis of integers from 0 to 2^32 - 1."""
    array = tokens.numpy() if isinstance(tokens, Tensor) else np.asarray(tokens)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ArgumentError(
            f"{name}: tokens must be one row of integers, got {array.dtype} of shape {array.shape}"
        )
    if array.size and not 0 <= int(array.min()) <= int(array.max()) < 1 << 32:
        raise ArgumentError(f"{name}: tokens must be at least 0 and below 2^32")
    return array


def _map(path: str) -> np.ndarray:
    with open(path, "rb") as file:
        head = file.read(HEADER.size)
        length = os.fstat(file.fileno()).st_size
    if len(head) < HEADER.size or not head.startswith(MAGIC):
        raise ArgumentError(f"{path} is not a file of tokens; TokenDataset.write makes one")
    _, size, count = HEADER.unpack(head)
    if size not in DTYPES or length != HEADER.size + size * count:
        raise ArgumentError(
            f"{path} is damaged: {count} tokens of {size} bytes do not make its {length} bytes"
        )
    if not count:
        return np.empty(0, DTYPES[size])
    mapped = np.memmap(path, DTYPES[size], "r", HEADER.size, (count,))
    return mapped.view(np.ndarray)
