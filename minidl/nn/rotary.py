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
    they are not saved. Halves are paired as in Llama's published weights. ``frequencies`` (D/2)
    take the place of base^(-2i / D) in models whose context was stretched.

    >>> nn.RotaryEmbedding(8)(md.randn(2, 4, 16, 8)).shape
    (2, 4, 16, 8)
    """

    cos: Tensor
    sin: Tensor

    def __init__(
        self, head_dim: int, base: float = 10000.0, max_len: int = 0, frequencies: Any = None
    ) -> None:
        super().__init__()
        if head_dim % 2:
            raise ValueError(f"RotaryEmbedding: head_dim must be even, got {head_dim}")
        self.head_dim = head_dim
        self.base = base
        steps = np.arange(0, head_dim, 2, dtype=np.float64) / head_dim
        self._frequencies = base**-steps if frequencies is None else frequencies
        self._length = 0
        self._grow(max_len)

    def _grow(self, length: int) -> None:
        """Tables cos and sin (length, D/2) for at least this many positions."""
        self._length = length
        angles = np.outer(np.arange(length), self._frequencies)
        where = self.cos.device if "cos" in self._buffers else None
        for name, of in (("cos", np.cos), ("sin", np.sin)):
            table = Tensor(of(angles).astype(np.float32)).to(where)
            self.register_buffer(name, table, persistent=False)

    def tables(self, length: int, dtype: Any) -> tuple[Tensor, Tensor]:
        """cos and sin of the positions 0, 1, ..., at least ``length`` of them: (length, D/2)."""
        if length > self._length:
            self._grow(max(length, 2 * self._length))
        if self.cos.dtype != dtype:
            self.cos, self.sin = self.cos.to(dtype), self.sin.to(dtype)
        return self.cos, self.sin

    def forward(self, input: Tensor, start: int = 0, positions: Any = None) -> Tensor:
        """Rotate (B, H, T, D) for positions ``start``, start + 1, ...; or for ``positions`` (B, T),
        when each row of the batch has its own."""
        if positions is None:
            end = start + input.shape[-2]
            cos, sin = self.tables(end, input.dtype)
            return ops.rotary(input, cos[start:end], sin[start:end])
        B, H, T, D = input.shape
        at = positions.expand(B, T).reshape((B * T,))
        cos, sin = self.tables(int(at.max().item()) + 1, input.dtype)
        # Rows at different positions are to the op one row that is B times as long.
        flat = input.transpose(1, 2).reshape((1, B * T, H, D)).transpose(1, 2)
        turned = ops.rotary(flat, cos[at], sin[at])
        return turned.transpose(1, 2).reshape((B, T, H, D)).transpose(1, 2)

    def extra_repr(self) -> str:
        """The constructor's arguments."""
        return f"{self.head_dim}, base={self.base}"

