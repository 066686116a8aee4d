"""Cache: the keys and values of all layers of a model, for rows that may start with padding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minidl._core import Tensor
from minidl.errors import ShapeError
from minidl.nn import KVCache


class Cache:
    """One KVCache a layer, and the number of padding tokens before each row.

    Rows of different lengths stand flush right: row b starts after ``padding[b]`` tokens that
    nobody attends to, and its positions count from there.

    >>> model = md.models.GPT.from_preset("tiny")
    >>> cache = model.make_cache(batch_size=2, max_len=8, padding=[0, 1])
    >>> with md.no_grad():
    ...     logits = model(md.tensor([[1, 2, 3], [0, 2, 3]]), cache=cache)
    >>> cache.length, logits.shape
    (3, (2, 1, 256))
    """

    def __init__(self, layers: list[KVCache], padding: Sequence[int] | None = None) -> None:
        self.layers = layers
        self.reset(padding)

    @property
    def length(self) -> int:
        """How many positions are filled, padding included."""
        return self.layers[0].length

    def reset(self, padding: Sequence[int] | None = None) -> None:
        """Forget everything; the next rows start after ``padding`` tokens each."""
        for layer in self.layers:
            layer.truncate(0)
        batch, _, size, _ = self.layers[0].keys.shape
        if padding is not None and len(padding) != batch:
            raise ShapeError(f"padding has {len(padding)} numbers for a cache of {batch} rows")
        self._padding = self._seen = None
        if padding is not None and any(padding):
            self._padding = np.asarray(padding, np.int64).reshape(batch, 1)
            seen = np.arange(size) >= self._padding                        # [B, max_len]
            self._seen = Tensor(seen.reshape(batch, 1, 1, size)).to(self.layers[0].keys.device)

    def place(self, length: int) -> tuple[Tensor | None, Tensor | None]:
        """Positions (B, T) of the next ``length`` tokens, and the mask (B, 1, 1, S) of the keys
        they may see; None and None where no row has padding."""
        if self._padding is None or self._seen is None:
            return None, None
        start, end = self.length, self.length + length
        positions = np.maximum(np.arange(start, end) - self._padding, 0)   # [B, T]
        return Tensor(positions).to(self._seen.device), self._seen[..., :end]
