"""TransformerBlock: the pre-norm block that GPT and Llama are stacks of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minidl._core import Tensor

from . import functional as F
from .attention import KVCache, MultiHeadAttention
from .feedforward import FeedForward, SwiGLU
from .fused import norm_and_skip
from .module import Module
from .normalization import LayerNorm, RMSNorm


class TransformerBlock(Module):
    """x = x + attn(norm1(x)); x = x + ffn(norm2(x)).

    ``norm`` is "layer" or "rms"; ``activation`` is "swiglu" for the gated feed-forward layer, or
    one of FeedForward's. The defaults are GPT-2's; Llama's are ``norm="rms", activation="swiglu",
    rotary=True, bias=False``.

    Shapes: (B, T, embed_dim) -> (B, T, embed_dim).

    >>> nn.TransformerBlock(64, 4)(md.randn(2, 10, 64)).shape
    (2, 10, 64)
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        num_kv_heads: int | None = None,
        hidden_dim: int | None = None,
        causal: bool = True,
        rotary: bool | float = False,
        norm: str = "layer",
        norm_eps: float = 1e-5,
        activation: str | Callable[[Tensor], Tensor] = "gelu",
        bias: bool = True,
        dropout: float = 0.0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if norm not in ("layer", "rms"):
            raise ValueError(f'TransformerBlock: norm must be "layer" or "rms", got {norm!r}')
        factory = {"device": device, "dtype": dtype}

        def new_norm() -> Module:
            if norm == "rms":
                return RMSNorm(embed_dim, norm_eps, **factory)
            return LayerNorm(embed_dim, norm_eps, bias=bias, **factory)

        options = {"bias": bias, "dropout": dropout, **factory}
        self.norm1 = new_norm()
        self.attn = MultiHeadAttention(
            embed_dim,
            num_heads,
            num_kv_heads=num_kv_heads,
            causal=causal,
            rotary=rotary,
            **options,
        )
        self.norm2 = new_norm()
        self.ffn: Module
        if activation == "swiglu":
            self.ffn = SwiGLU(embed_dim, hidden_dim, **options)
        else:
            self.ffn = FeedForward(embed_dim, hidden_dim, activation=activation, **options)
        self.dropout = dropout

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        cache: KVCache | None = None,
        positions: Tensor | None = None,
    ) -> Tensor:
        """(B, T, embed_dim) -> (B, T, embed_dim)."""
        if x.device != "cpu":
            return self._on_device(x, {"mask": mask, "cache": cache, "positions": positions})
        y = self.attn(self.norm1(x), mask=mask, cache=cache, positions=positions)
        x = x + F.dropout(y, self.dropout, self.training)
        return x + self.ffn(self.norm2(x))

    def _on_device(self, x: Tensor, options: dict[str, Any]) -> Tensor:
        """The same with fewer launches: x is added within the products, and the gradients that
        meet at x within the norms."""
        h, x = norm_and_skip(self.norm1, x)
        if self.dropout and self.training:
            x = x + F.dropout(self.attn(h, **options), self.dropout, True)
        else:
            x = self.attn(h, residual=x, **options)
        h, x = norm_and_skip(self.norm2, x)
        return self.ffn(h, residual=x)
