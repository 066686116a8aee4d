"""Multi-head attention: minidl's own layer, with grouped heads, rotary positions and a KV cache."""

from __future__ import annotations

from typing import Any

from minidl import dtypes, ops
from minidl._core import Tensor
from minidl.errors import ArgumentError, GradientError, ShapeError
from minidl.grad_mode import is_grad_enabled
from minidl.ops.attention import cached_attention

from . import functional as F
from .fused import add_linear
from .linear import Linear
from .module import Module
from .rotary import RotaryEmbedding


class KVCache:
    """Keys and values of the positions seen so far, in buffers that never move.

    Shapes: keys and values (B, H, max_len, D); ``append`` takes (B, H, T, D) and returns what is
    there now, (B, H, length, D), as views.

    >>> attention = nn.MultiHeadAttention(16, 2, causal=True)
    >>> cache = attention.make_cache(batch_size=1, max_len=64)
    >>> with md.no_grad():
    ...     y = attention(md.randn(1, 5, 16), cache=cache)  # fills the first 5 positions
    ...     y = attention(md.randn(1, 1, 16), cache=cache)  # attends to all 6
    >>> y.shape, cache.length
    ((1, 1, 16), 6)
    """

    def __init__(
        self,
        batch_size: int,
        num_heads: int,
        max_len: int,
        head_dim: int,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        shape = (batch_size, num_heads, max_len, head_dim)
        self.keys = ops.zeros(shape, device=device, dtype=dtype)
        self.values = ops.zeros(shape, device=device, dtype=dtype)
        self.max_len = max_len
        self.length = 0

    def room(self, count: int, new: Tensor) -> tuple[int, int]:
        """Where ``count`` positions more start and end; raises if they or ``new`` do not fit."""
        start, end = self.length, self.length + count
        if end > self.max_len:
            raise ArgumentError(
                f"the KV cache is full: it holds {start} of {self.max_len} positions and "
                f"{count} more came; make it with a larger max_len"
            )
        if new.requires_grad and is_grad_enabled():
            raise GradientError(
                "a KV cache keeps no gradients; call the model under md.no_grad()"
            )
        return start, end

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Write the new positions behind the old ones; return all of them."""
        start, end = self.room(keys.shape[2], keys)
        self.keys[:, :, start:end] = keys
        self.values[:, :, start:end] = values
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]

    def truncate(self, length: int = 0) -> None:
        """Forget all positions from ``length`` on."""
        if not 0 <= length <= self.length:
            raise ArgumentError(f"cannot truncate a cache of {self.length} positions to {length}")
        self.length = length


class MultiHeadAttention(Module):
    """softmax(Q K^T / sqrt(D)) V for each head, heads joined and projected.

    Q comes from ``x``, K and V from ``x`` too or from ``context`` (cross-attention).
    ``num_kv_heads`` < ``num_heads`` shares each key-value head between several query heads;
    ``causal`` lets a position see itself and earlier ones only; ``rotary`` (True or the base)
    turns queries and keys by their position.

    Shapes: x (B, T, embed_dim), context (B, S, kv_dim), output (B, T, embed_dim). ``mask``
    broadcasts to (B, num_heads, T, S): bool (True: attend) or floating (added to the scores).

    >>> attention = nn.MultiHeadAttention(64, 4, causal=True)
    >>> attention(md.randn(2, 10, 64)).shape
    (2, 10, 64)
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        num_kv_heads: int | None = None,
        head_dim: int | None = None,
        kv_dim: int | None = None,
        causal: bool = False,
        rotary: bool | float = False,
        bias: bool = True,
        dropout: float = 0.0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        if head_dim is None and embed_dim % num_heads:
            raise ValueError(
                f"MultiHeadAttention: embed_dim ({embed_dim}) must be divisible by num_heads "
                f"({num_heads}), or head_dim given"
            )
        if num_heads % kv_heads:
            raise ValueError(
                f"MultiHeadAttention: num_heads ({num_heads}) must be a multiple of num_kv_heads "
                f"({kv_heads})"
            )
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.num_kv_heads = kv_heads
        self.head_dim = embed_dim // num_heads if head_dim is None else head_dim
        self.kv_dim = kv_dim
        self.causal = causal
        self.dropout = dropout
        factory = {"bias": bias, "device": device, "dtype": dtype}
        q_size, kv_size = num_heads * self.head_dim, 2 * kv_heads * self.head_dim
        if kv_dim is None:
            self.qkv = Linear(embed_dim, q_size + kv_size, **factory)
        else:
            self.q = Linear(embed_dim, q_size, **factory)
            self.kv = Linear(kv_dim, kv_size, **factory)
        self.proj = Linear(q_size, embed_dim, **factory)
        self.rotary: RotaryEmbedding | None = None
        if rotary:
            base = 10000.0 if rotary is True else float(rotary)
            self.rotary = RotaryEmbedding(self.head_dim, base)

    def make_cache(self, batch_size: int, max_len: int) -> KVCache:
        """An empty cache for ``max_len`` positions of this layer."""
        weight = self.proj.weight
        return KVCache(
            batch_size,
            self.num_kv_heads,
            max_len,
            self.head_dim,
            device=weight.device,
            dtype=weight.dtype,
        )

    def _project(self, x: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """q (B, H, T, D), k and v (B, Hkv, S, D)."""
        q_size, kv_size = self.num_heads * self.head_dim, self.num_kv_heads * self.head_dim
        if self.kv_dim is not None:
            if context is None:
                raise ArgumentError("this is a cross-attention layer (kv_dim): pass context")
            q, kv = self.q(x), self.kv(context)
            k, v = ops.split(kv, [kv_size, kv_size], -1)
        elif context is None:
            q, k, v = ops.split(self.qkv(x), [q_size, kv_size, kv_size], -1)
        else:
            weight, bias = self.qkv.weight, self.qkv.bias
            q = F.linear(x, weight[:q_size], None if bias is None else bias[:q_size])
            kv = F.linear(context, weight[q_size:], None if bias is None else bias[q_size:])
            k, v = ops.split(kv, [kv_size, kv_size], -1)
        return self._heads(q), self._heads(k), self._heads(v)

    def _heads(self, x: Tensor) -> Tensor:
        batch, length, size = x.shape
        heads = size // self.head_dim
        return x.reshape((batch, length, heads, self.head_dim)).transpose(1, 2)

    def forward(
        self,
        x: Tensor,
        context: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        cache: KVCache | None = None,
        positions: Tensor | None = None,
        residual: Tensor | None = None,
    ) -> Tensor:
        """(B, T, embed_dim) -> (B, T, embed_dim).

        With a ``cache`` the keys and values of ``x`` join those of earlier calls, and positions
        go on from there. ``positions`` (B, T) gives each token its own (rotary only). What
        ``residual`` (B, T, embed_dim) holds is added to the output.
        """
        if x.ndim != 3:
            raise ShapeError(f"attention takes (batch, length, width), got {tuple(x.shape)}")
        if cache is not None and context is None and self.kv_dim is None:
            return self._joined(self._attend_cached(self.qkv(x), mask, cache, positions), residual)
        q, k, v = self._project(x, context)
        if self.rotary is not None:
            start = 0 if cache is None else cache.length
            q = self.rotary(q, start, positions)
            k = self.rotary(k, start, positions)
        if cache is not None:
            k, v = cache.append(k, v)
        mask, is_causal = self._causal_mask(mask, q.shape[2], k.shape[2], x.device)
        y = F.scaled_dot_product_attention(
            q,
            k,
            v,
            attn_mask=mask,
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=is_causal,
            enable_gqa=self.num_kv_heads != self.num_heads,
        )
        batch, length = x.shape[:2]
        return self._joined(y.transpose(1, 2).reshape((batch, length, -1)), residual)

    def _joined(self, heads: Tensor, residual: Tensor | None) -> Tensor:
        return self.proj(heads) if residual is None else add_linear(self.proj, heads, residual)

    def _attend_cached(
        self, qkv: Tensor, mask: Tensor | None, cache: KVCache, positions: Tensor | None
    ) -> Tensor:
        """The packed projection (B, T, ...) -> the heads' outputs (B, T, H * D)."""
        batch, length, _ = qkv.shape
        start, end = cache.room(length, qkv)
        cos = sin = None
        if self.rotary is not None:
            reach = end
            if positions is not None:
                positions = positions.expand(batch, length)
                reach = int(positions.max().item()) + 1
            cos, sin = self.rotary.tables(reach, qkv.dtype)
        mask, is_causal = self._causal_mask(mask, length, end, qkv.device)
        y = cached_attention(
            qkv, cache.keys, cache.values, start, mask, is_causal, cos, sin, positions
        )
        cache.length = end
        return y

    def _causal_mask(
        self, mask: Tensor | None, queries: int, keys: int, device: Any
    ) -> tuple[Tensor | None, bool]:
        """The mask and whether the kernel's own causal mask does: the last query sees all keys."""
        if not self.causal or queries == 1:
            return mask, False
        if mask is None and queries == keys:
            return None, True
        seen = ops.ones((queries, keys), dtype=dtypes.bool, device=device).tril(keys - queries)
        if mask is None:
            return seen, False
        if mask.is_floating_point():
            return mask.masked_fill(~seen, float("-inf")), False
        return mask & seen, False

    def extra_repr(self) -> str:
        """The constructor's arguments."""
        text = f"{self.embed_dim}, num_heads={self.num_heads}"
        if self.num_kv_heads != self.num_heads:
            text += f", num_kv_heads={self.num_kv_heads}"
        return f"{text}, causal={self.causal}"

    def summary(self) -> str:
        """For error messages: ``MultiHeadAttention 128/4``, width and heads."""
        return f"{type(self).__name__} {self.embed_dim}/{self.num_heads}"
