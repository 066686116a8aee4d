"""GPT: GPT-2's decoder.

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


@dataclass
class GPTConfig:
    """The size of a GPT; the defaults are GPT-2's with 124M parameters.

    >>> md.models.GPTConfig(layers=2, heads=2, width=64).context
    1024
    """

    vocab_size: int = 50257
    context: int = 1024
    layers: int = 12
    heads: int = 12
    width: int = 768
    dropout: float = 0.0
    bias: bool = True
    norm_eps: float = 1e-5


PRESETS = {
    "tiny": GPTConfig(vocab_size=256, context=64, layers=2, heads=2, width=64),
    "nano": GPTConfig(vocab_size=256, context=128, layers=4, heads=4, width=128),
    "base": GPTConfig(vocab_size=256, context=256, layers=6, heads=6, width=384),
    "nanogpt-cpu": GPTConfig(vocab_size=65, context=64, layers=4, heads=4, width=128, bias=False),
    "gpt2": GPTConfig(),
    "gpt2-medium": GPTConfig(layers=24, heads=16, width=1024),
}


class GPT(Model):
    """Token and position embeddings, pre-norm blocks, and a head that is the token embedding.

    Shapes: index (B, T) of token numbers -> logits (B, T, vocab_size).

    >>> model = md.models.GPT.from_preset("tiny")
    >>> index = md.tensor([[1, 2, 3]])
    >>> model(index).shape
    (1, 3, 256)
    >>> logits, loss = model(index, targets=md.tensor([[2, 3, 4]]))
    """

    presets = PRESETS
    layout = Layout(
        prefix="transformer.",
        names={
            "token": "wte",
            "position": "wpe",
            "blocks.{}.norm1": "h.{}.ln_1",
            "blocks.{}.attn.qkv": "h.{}.attn.c_attn",
            "blocks.{}.attn.proj": "h.{}.attn.c_proj",
            "blocks.{}.norm2": "h.{}.ln_2",
            "blocks.{}.ffn.up": "h.{}.mlp.c_fc",
            "blocks.{}.ffn.down": "h.{}.mlp.c_proj",
            "norm": "ln_f",
            "head": "lm_head",
        },
        bare=("lm_head",),
        # Their linear layers are Conv1D, which keeps its weight as (in, out).
        transposed=("blocks.{}.attn.qkv", "blocks.{}.attn.proj", "blocks.{}.ffn.up",
                    "blocks.{}.ffn.down"),
        ignored=r"h\.\d+\.attn\.(masked_)?bias",
    )

    def __init__(self, config: GPTConfig) -> None:
        super().__init__(config)
        self.token = nn.Embedding(config.vocab_size, config.width)
        self.position = nn.Embedding(config.context, config.width)
        self.blocks = nn.ModuleList(
            nn.TransformerBlock(
                config.width,
                config.heads,
                norm_eps=config.norm_eps,
                activation="gelu_tanh",
                bias=config.bias,
                dropout=config.dropout,
            )
            for _ in range(config.layers)
        )
        self.norm = nn.LayerNorm(config.width, config.norm_eps, bias=config.bias)
        self.head = nn.Linear(config.width, config.vocab_size, bias=False)
        self.head.weight = self.token.weight
        self._initialise()

    def forward(
        self, index: Tensor, targets: Tensor | None = None, cache: Cache | None = None
    ) -> Any:
        """Logits (B, T, V); with ``targets`` (B, T) logits and mean loss, -100 not counted.

        With a ``cache`` the tokens follow those it holds, and the logits are those of the last
        token alone, (B, 1, V): what generating needs.
        """
        start = 0 if cache is None else cache.length
        self._check_length(index, start)
        B, T = index.shape
        positions, mask = (None, None) if cache is None else cache.place(T)
        if positions is None:
            place = self.position.weight[start : start + T]                # [T, C]
        else:
            place = self.position(positions)                               # [B, T, C]
        x = self.token(index) + place                                      # [B, T, C]
        x = F.dropout(x, self.config.dropout, self.training)
        for i, block in enumerate(self.blocks):
            x = block(x, mask=mask, cache=None if cache is None else cache.layers[i])
        if cache is not None:
            x = x[:, -1:]                                                  # [B, 1, C]
        logits = self.head(self.norm(x))                                   # [B, T, V]
        if targets is None:
            return logits
        return logits, F.cross_entropy(logits.reshape(B * T, -1), targets.reshape(B * T))
