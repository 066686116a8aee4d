"""MultiheadAttention with PyTorch's signature, state-dict names and results."""

from __future__ import annotations

from typing import Any

from minidl import dtypes, ops
from minidl._core import Tensor
from minidl.errors import ArgumentError, DTypeError, ShapeError

from . import functional as F
from . import init
from .linear import Linear
from .module import Module
from .parameter import Parameter


class MultiheadAttention(Module):
    """softmax(Q K^T / sqrt(D) + mask) V for each head, heads joined and projected.

    Shapes: query (L, N, E), key (S, N, kdim), value (S, N, vdim), or batch first with
    ``batch_first``, or without N. ``key_padding_mask`` (N, S) and ``attn_mask`` (L, S) or
    (N * num_heads, L, S) are bool (True: do not attend) or added to the scores. Returns the output
    in the query's shape and the weights (N, L, S), (N, num_heads, L, S) unless averaged, or None.

    >>> attention = nn.MultiheadAttention(64, 4, batch_first=True)
    >>> x = md.randn(2, 10, 64)
    >>> attention(x, x, x, need_weights=False)[0].shape
    (2, 10, 64)
    """

    in_proj_weight: Parameter | None
    in_proj_bias: Parameter | None
    bias_k: Parameter | None
    bias_v: Parameter | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                "embed_dim and num_heads must be greater than 0, got "
                f"embed_dim={embed_dim} and num_heads={num_heads}"
            )
        if embed_dim % num_heads:
            raise ValueError(
                f"embed_dim ({embed_dim}) must be divisible by num_heads ({num_heads})"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        self.add_zero_attn = add_zero_attn

        def new(*shape: int) -> Parameter:
            return Parameter(ops.empty(shape, device=device, dtype=dtype))

        same = self._qkv_same_embed_dim
        self.register_parameter("in_proj_weight", new(3 * embed_dim, embed_dim) if same else None)
        for name, size in (("q", embed_dim), ("k", self.kdim), ("v", self.vdim)):
            self.register_parameter(f"{name}_proj_weight", None if same else new(embed_dim, size))
        self.register_parameter("in_proj_bias", new(3 * embed_dim) if bias else None)
        self.out_proj = Linear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        self.register_parameter("bias_k", new(1, 1, embed_dim) if add_bias_kv else None)
        self.register_parameter("bias_v", new(1, 1, embed_dim) if add_bias_kv else None)
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            if getattr(self, name) is not None:
                init.xavier_uniform_(getattr(self, name))
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
        if self.out_proj.bias is not None:
            init.zeros_(self.out_proj.bias)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from ``query`` to ``key`` and ``value``: (output, weights or None)."""
        if is_causal and attn_mask is None:
            raise ArgumentError(
                "is_causal is a hint about attn_mask: pass the mask too, for example "
                "Transformer.generate_square_subsequent_mask(length)"
            )
        batched = self._check_shapes(query, key, value)
        same = (key is query, value is key)
        query = self._batch_first(query, batched)
        key = query if same[0] else self._batch_first(key, batched)
        value = key if same[1] else self._batch_first(value, batched)
        q, k, v = self._project(query, key, value)
        extended = self.bias_k is not None or self.add_zero_attn
        causal = is_causal and key_padding_mask is None and not need_weights and not extended
        mask = None if causal else self._mask(q, k, attn_mask, key_padding_mask)
        k, v, mask = self._extend(k, v, mask)
        dropout = self.dropout if self.training else 0.0
        weights = None
        if need_weights:
            y, weights = _attend(q, k, v, mask, dropout)
        else:
            if mask is not None and not mask.is_floating_point():
                mask = ~mask
            y = F.scaled_dot_product_attention(q, k, v, mask, dropout, causal)
        output = self.out_proj(y.transpose(1, 2).reshape(tuple(query.shape)))
        if weights is not None and average_attn_weights:
            weights = weights.mean(1)
        return self._restore(output, weights, batched)

    def _check_shapes(self, query: Tensor, key: Tensor, value: Tensor) -> bool:
        """Are the inputs batched? Raise unless they fit together."""
        shapes = [tuple(t.shape) for t in (query, key, value)]
        if query.ndim not in (2, 3) or any(len(s) != query.ndim for s in shapes):
            raise ShapeError(
                "query, key and value must all have 3 axes, or all 2 (unbatched), got "
                f"{shapes[0]}, {shapes[1]} and {shapes[2]}"
            )
        for name, shape, size in zip(
            ("query", "key", "value"), shapes, (self.embed_dim, self.kdim, self.vdim), strict=True
        ):
            if shape[-1] != size:
                raise ShapeError(f"{name} has last axis {shape[-1]}, expected {size} ({shape})")
        if shapes[1][:-1] != shapes[2][:-1]:
            raise ShapeError(f"key {shapes[1]} and value {shapes[2]} differ in length or batch")
        axis = 0 if self.batch_first else 1
        if query.ndim == 3 and shapes[0][axis] != shapes[1][axis]:
            raise ShapeError(
                f"query {shapes[0]} and key {shapes[1]} differ in their batch (axis {axis}; "
                f"batch_first={self.batch_first})"
            )
        return query.ndim == 3

    def _batch_first(self, x: Tensor, batched: bool) -> Tensor:
        if not batched:
            return x.unsqueeze(0)
        return x if self.batch_first else x.transpose(0, 1)

    def _restore(
        self, output: Tensor, weights: Tensor | None, batched: bool
    ) -> tuple[Tensor, Tensor | None]:
        if not batched:
            return output.squeeze(0), None if weights is None else weights.squeeze(0)
        return (output if self.batch_first else output.transpose(0, 1)), weights

    def _project(
        self, query: Tensor, key: Tensor, value: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """q, k, v (N, H, length, D); one product where the inputs are the same."""
        size = self.embed_dim
        weight, bias = self.in_proj_weight, self.in_proj_bias
        if weight is not None and query is key and key is value:
            parts = ops.chunk(F.linear(query, weight, bias), 3, -1)
        elif weight is not None and key is value:
            q_bias = kv_bias = None
            if bias is not None:
                q_bias, kv_bias = bias[:size], bias[size:]
            kv = F.linear(key, weight[size:], kv_bias)
            parts = (F.linear(query, weight[:size], q_bias), *ops.chunk(kv, 2, -1))
        else:
            weights = (
                (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
                if weight is None
                else ops.chunk(weight, 3, 0)
            )
            biases = (None, None, None) if bias is None else ops.chunk(bias, 3, 0)
            inputs = (query, key, value)
            parts = [F.linear(*each) for each in zip(inputs, weights, biases, strict=True)]
        q, k, v = (self._heads(part) for part in parts)
        return q, k, v

    def _heads(self, x: Tensor) -> Tensor:
        shape = (x.shape[0], x.shape[1], self.num_heads, self.head_dim)
        return x.reshape(shape).transpose(1, 2)

    def _mask(
        self, q: Tensor, k: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None
    ) -> Tensor | None:
        """Both masks as one that broadcasts to (N, H, L, S): bool (True: hidden) or additive."""
        (batch, heads, length, _), source = q.shape, k.shape[2]
        if attn_mask is not None:
            shape = tuple(attn_mask.shape)
            if shape == (batch * heads, length, source):
                attn_mask = attn_mask.reshape((batch, heads, length, source))
            elif shape != (length, source):
                raise ShapeError(
                    f"attn_mask has shape {shape}, expected {(length, source)} or "
                    f"{(batch * heads, length, source)}"
                )
            _check_mask_dtype("attn_mask", attn_mask)
        if key_padding_mask is None:
            return attn_mask
        shape = tuple(key_padding_mask.shape)
        if shape != (batch, source) and not (batch == 1 and shape == (source,)):
            raise ShapeError(
                f"key_padding_mask has shape {shape}, expected {(batch, source)} (batch, source)"
            )
        _check_mask_dtype("key_padding_mask", key_padding_mask)
        padding = key_padding_mask.reshape((batch, 1, 1, source))
        if attn_mask is None:
            return padding
        if not attn_mask.is_floating_point() and not padding.is_floating_point():
            return attn_mask | padding
        return _additive(attn_mask, q) + _additive(padding, q)

    def _extend(
        self, k: Tensor, v: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """One more key and value from bias_k and bias_v, and one of zeros, if wanted."""
        batch, heads, _, size = k.shape
        extra = []
        if self.bias_k is not None and self.bias_v is not None:
            shape = (1, heads, 1, size)
            extra.append((self.bias_k.reshape(shape), self.bias_v.reshape(shape)))
        if self.add_zero_attn:
            zeros = k.new_zeros((1, heads, 1, size))
            extra.append((zeros, zeros))
        for more_k, more_v in extra:
            k = ops.cat([k, more_k.expand(batch, -1, -1, -1)], 2)
            v = ops.cat([v, more_v.expand(batch, -1, -1, -1)], 2)
            mask = None if mask is None else F.pad(mask, (0, 1))
        return k, v, mask

    def summary(self) -> str:
        """For error messages: ``MultiheadAttention 128/4``, width and heads."""
        return f"{type(self).__name__} {self.embed_dim}/{self.num_heads}"


def _check_mask_dtype(name: str, mask: Tensor) -> None:
    if not mask.is_floating_point() and mask.dtype is not dtypes.bool:
        raise DTypeError(f"{name} must be bool or floating point, got {mask.dtype}")


def _additive(mask: Tensor, like: Tensor) -> Tensor:
    """A bool mask (True: hidden) as 0 and -inf; a floating one in the dtype of ``like``."""
    if mask.is_floating_point():
        return mask.to(like.dtype)
    return like.new_zeros(tuple(mask.shape)).masked_fill(mask, float("-inf"))


def _attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout: float
) -> tuple[Tensor, Tensor]:
    """The output and the weights (N, H, L, S), which the fused kernel never makes."""
    scores = ops.matmul(q * q.shape[-1] ** -0.5, k.transpose(-2, -1))
    if mask is not None:
        scores = scores + _additive(mask, q)
    weights = F.dropout(F.softmax(scores, -1), dropout, dropout > 0)
    return ops.matmul(weights, v), weights
