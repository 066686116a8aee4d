"""Rotary position embedding."""

from __future__ import annotations

from typing import Any

import numpy as np

from minidl import ops
from minidl._core import Tensor

from .module import Module


class RotaryEmbedding(Module):
    """Turn each pair (x_i, x_{i + D/2}) of a head by the angle position * base^(-2i / D).

    Shapes: (B, H, T, D) -> (B, H, T, D), D even. The tables grow with the longest position seen;
    they are not saved. Halves are paired as in Llama's published weights.

    >>> nn.RotaryEmbedding(8)(md.randn(2, 4, 16, 8)).shape
    (2, 4, 16, 8)
    """

    def __init__(self, head_dim: int, base: float = 10000.0, max_len: int = 0) -> None:
        super().__init__()
        if head_dim % 2:
            raise ValueError(f"RotaryEmbedding: head_dim must be even, got {head_dim}")
        self.head_dim = head_dim
        self.base = base
        self._length = 0
        self._grow(max_len)

    def _grow(self, length: int) -> None:
        """Tables cos and sin (length, D/2) for at least this many positions."""
        self._length = length
        steps = np.arange(0, self.head_dim, 2, dtype=np.float64) / self.head_dim
        angles = np.outer(np.arange(length), self.base**-steps)
        self.register_buffer("cos", Tensor(np.cos(angles).astype(np.float32)), persistent=False)
        self.register_buffer("sin", Tensor(np.sin(angles).astype(np.float32)), persistent=False)

    def tables(self, start: int, length: int) -> tuple[Tensor, Tensor]:
        """cos and sin (length, D/2) of the positions start ... start + length - 1."""
        end = start + length
        if end > self._length:
            self._grow(max(end, 2 * self._length))
        return self.cos[start:end], self.sin[start:end]

    def forward(self, input: Tensor, start: int = 0, positions: Any = None) -> Tensor:
        """Rotate (B, H, T, D) for positions ``start``, start + 1, ...; or for ``positions`` (B, T),
        when each row of the batch has its own."""
        if positions is None:
            cos, sin = self.tables(start, input.shape[-2])
            return ops.rotary(input, cos.to(input.dtype), sin.to(input.dtype))
        self.tables(0, int(positions.max().item()) + 1)
        # (B, 1, T, D/2): the same angles for every head of a row.
        cos = self.cos[positions].unsqueeze(1).to(input.dtype)
        sin = self.sin[positions].unsqueeze(1).to(input.dtype)
        x1, x2 = ops.chunk(input, 2, -1)
        return ops.cat([x1 * cos - x2 * sin, x2 * cos + x1 * sin], -1)

    def extra_repr(self) -> str:
        """The constructor's arguments."""
        return f"{self.head_dim}, base={self.base}"

