"""Llama: RMSNorm, rotary positions, SwiGLU and grouped-query attention.

Shape letters: B batch, T tokens, C width, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from minidl import nn
from minidl._core import Tensor
from minidl.nn import functional as F

from .base import Model
from .cache import Cache
from .hf import Layout
from .rope import frequencies


@dataclass
class LlamaConfig:
    """The size of a Llama. ``hidden`` is 8/3 of the width, rounded up, unless given; ``tied``
    makes the head the token embedding. ``head_dim`` is width / heads unless given; ``qkv_bias``
    is Qwen2's; ``rope_scaling`` is Hugging Face's entry of that name (rope.py).

    >>> md.models.LlamaConfig(heads=4, kv_heads=2, width=64).rope_base
    10000.0
    """

    vocab_size: int = 32000
    context: int = 2048
    layers: int = 12
    heads: int = 12
    kv_heads: int = 4
    width: int = 768
    hidden: int | None = None
    rope_base: float = 10000.0
    norm_eps: float = 1e-5
    tied: bool = True
    dropout: float = 0.0
    head_dim: int | None = None
    qkv_bias: bool = False
    rope_scaling: dict[str, Any] | None = None


PRESETS = {
    "tiny": LlamaConfig(vocab_size=256, context=64, layers=2, heads=2, kv_heads=1, width=64),
    "nano": LlamaConfig(vocab_size=256, context=128, layers=4, heads=4, kv_heads=2, width=128),
    "base": LlamaConfig(vocab_size=256, context=256, layers=6, heads=6, kv_heads=2, width=384),
    "smollm2-135m": LlamaConfig(vocab_size=49152, context=8192, layers=30, heads=9, kv_heads=3,
                                width=576, hidden=1536, rope_base=100000.0),
}


class Llama(Model):
    """Token embeddings, pre-norm blocks with rotary positions, and a head, tied or not.

    Shapes: index (B, T) of token numbers -> logits (B, T, vocab_size).

    >>> model = md.models.Llama.from_preset("tiny")
    >>> model(md.tensor([[1, 2, 3]])).shape
    (1, 3, 256)
    """

    presets = PRESETS
    layout = Layout(
        prefix="model.",
        names={
            "token": "embed_tokens",
            "blocks.{}.norm1": "layers.{}.input_layernorm",
            "blocks.{}.attn.qkv": ("layers.{}.self_attn.q_proj", "layers.{}.self_attn.k_proj",
                                   "layers.{}.self_attn.v_proj"),
            "blocks.{}.attn.proj": "layers.{}.self_attn.o_proj",
            "blocks.{}.norm2": "layers.{}.post_attention_layernorm",
            "blocks.{}.ffn.gate": "layers.{}.mlp.gate_proj",
            "blocks.{}.ffn.up": "layers.{}.mlp.up_proj",
            "blocks.{}.ffn.down": "layers.{}.mlp.down_proj",
            "norm": "norm",
            "head": "lm_head",
        },
        bare=("lm_head",),
        ignored=r".*rotary_emb\.inv_freq",
    )

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__(config)
        self.token = nn.Embedding(config.vocab_size, config.width)
        # Hugging Face pairs the halves of a head for the rotation, as RotaryEmbedding does: their
        # projections need no permutation (those of Meta's own files would).
        self.blocks = nn.ModuleList(
            nn.TransformerBlock(
                config.width,
                config.heads,
                num_kv_heads=config.kv_heads,
                hidden_dim=config.hidden,
                rotary=config.rope_base,
                norm="rms",
                norm_eps=config.norm_eps,
                activation="swiglu",
                bias=False,
                dropout=config.dropout,
            )
            for _ in range(config.layers)
        )
        for block in self.blocks:
            _adapt(block, config)
        self.norm = nn.RMSNorm(config.width, config.norm_eps)
        self.head = nn.Linear(config.width, config.vocab_size, bias=False)
        if config.tied:
            self.head.weight = self.token.weight
        self._initialise()

    def forward(
        self, index: Tensor, targets: Tensor | None = None, cache: Cache | None = None
    ) -> Any:
        """Logits (B, T, V); with ``targets`` (B, T) logits and mean loss, -100 not counted.

        With a ``cache`` the tokens follow those it holds, and the logits are those of the last
        token alone, (B, 1, V): what generating needs.
        """
        self._check_length(index, 0 if cache is None else cache.length)
        B, T = index.shape
        positions, mask = (None, None) if cache is None else cache.place(T)
        x = F.dropout(self.token(index), self.config.dropout, self.training)       # [B, T, C]
        for i, block in enumerate(self.blocks):
            layer = None if cache is None else cache.layers[i]
            x = block(x, mask=mask, cache=layer, positions=positions)              # [B, T, C]
        if cache is not None:
            x = x[:, -1:]                                                          # [B, 1, C]
        logits = self.head(self.norm(x))                                           # [B, T, V]
        if targets is None:
            return logits
        return logits, F.cross_entropy(logits.reshape(B * T, -1), targets.reshape(B * T))


def _adapt(block: Any, config: LlamaConfig) -> None:
    """What relatives of Llama change about attention: the head's size, biases, frequencies."""
    if config.head_dim not in (None, block.attn.head_dim):
        block.attn = nn.MultiHeadAttention(
            config.width,
            config.heads,
            num_kv_heads=config.kv_heads,
            head_dim=config.head_dim,
            causal=True,
            rotary=config.rope_base,
            bias=False,
            dropout=config.dropout,
        )
    attn = block.attn
    if config.qkv_bias:
        attn.qkv = nn.Linear(attn.qkv.in_features, attn.qkv.out_features)
    if config.rope_scaling is not None:
        turned = frequencies(attn.head_dim, config.rope_base, config.rope_scaling)
        attn.rotary = nn.RotaryEmbedding(attn.head_dim, config.rope_base, frequencies=turned)
