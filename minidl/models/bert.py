"""BERT: an encoder that turns texts into vectors.

Shape letters: B batch, T tokens, C width.
"""

from __future__ import annotations

from dataclasses import dataclass

from minidl import nn, ops
from minidl._core import Tensor
from minidl.nn import functional as F

from .base import Model
from .hf import Layout


@dataclass
class BERTConfig:
    """The size of a BERT; the defaults are those of bert-base-uncased.

    >>> md.models.BERTConfig(width=384, hidden=1536).context
    512
    """

    vocab_size: int = 30522
    context: int = 512
    layers: int = 12
    heads: int = 12
    width: int = 768
    hidden: int = 3072
    segments: int = 2
    norm_eps: float = 1e-12
    dropout: float = 0.0


PRESETS = {
    "tiny": BERTConfig(vocab_size=256, context=64, layers=2, heads=2, width=64, hidden=256),
    "nano": BERTConfig(vocab_size=256, context=128, layers=4, heads=4, width=128, hidden=512),
    "base": BERTConfig(vocab_size=256, context=256, layers=6, heads=6, width=384, hidden=1536),
    "minilm": BERTConfig(layers=6, width=384, hidden=1536),
    "bert-base": BERTConfig(),
}


class Block(nn.Module):
    """x = norm1(x + attn(x)); x = norm2(x + ffn(x)): the norm behind the sum, as in BERT."""

    def __init__(self, config: BERTConfig) -> None:
        super().__init__()
        self.attn = nn.MultiHeadAttention(config.width, config.heads, dropout=config.dropout)
        self.norm1 = nn.LayerNorm(config.width, config.norm_eps)
        self.ffn = nn.FeedForward(config.width, config.hidden, dropout=config.dropout)
        self.norm2 = nn.LayerNorm(config.width, config.norm_eps)
        self.dropout = config.dropout

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """(B, T, C) -> (B, T, C); ``mask`` (B, 1, 1, T) is True where there is a token."""
        x = self.norm1(x + F.dropout(self.attn(x, mask=mask), self.dropout, self.training))
        return self.norm2(x + self.ffn(x))


class BERT(Model):
    """Embeddings of token, position and segment, then post-norm blocks that look both ways.

    Shapes: index (B, T) of token numbers -> (B, T, width); ``embed`` -> (B, width). Of Hugging
    Face's weights the pooler and the heads of pre-training have no place here.

    >>> model = md.models.BERT.from_preset("tiny")
    >>> model(md.tensor([[1, 2, 3]])).shape
    (1, 3, 64)
    """

    presets = PRESETS
    layout = Layout(
        names={
            "token": "embeddings.word_embeddings",
            "position": "embeddings.position_embeddings",
            "segment": "embeddings.token_type_embeddings",
            "norm": "embeddings.LayerNorm",
            "blocks.{}.attn.qkv": ("encoder.layer.{}.attention.self.query",
                                   "encoder.layer.{}.attention.self.key",
                                   "encoder.layer.{}.attention.self.value"),
            "blocks.{}.attn.proj": "encoder.layer.{}.attention.output.dense",
            "blocks.{}.norm1": "encoder.layer.{}.attention.output.LayerNorm",
            "blocks.{}.ffn.up": "encoder.layer.{}.intermediate.dense",
            "blocks.{}.ffn.down": "encoder.layer.{}.output.dense",
            "blocks.{}.norm2": "encoder.layer.{}.output.LayerNorm",
        },
        wrapper="bert.",
        ignored=r"embeddings\.position_ids|pooler\..*|cls\..*",
    )

    def __init__(self, config: BERTConfig) -> None:
        super().__init__(config)
        self.token = nn.Embedding(config.vocab_size, config.width)
        self.position = nn.Embedding(config.context, config.width)
        self.segment = nn.Embedding(config.segments, config.width)
        self.norm = nn.LayerNorm(config.width, config.norm_eps)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self._initialise()

    def forward(
        self, index: Tensor, mask: Tensor | None = None, segments: Tensor | None = None
    ) -> Tensor:
        """(B, T) -> (B, T, C). ``mask`` (B, T) is 1 for a token and 0 for padding; ``segments``
        (B, T) tells the first text of a pair (0) from the second (1)."""
        self._check_length(index)
        B, T = index.shape
        segments = ops.zeros_like(index) if segments is None else segments
        x = self.token(index) + self.position.weight[:T] + self.segment(segments)  # [B, T, C]
        x = F.dropout(self.norm(x), self.config.dropout, self.training)
        seen = None if mask is None else (mask != 0).reshape(B, 1, 1, T)
        for block in self.blocks:
            x = block(x, seen)                                                     # [B, T, C]
        return x

    def embed(self, index: Tensor, mask: Tensor | None = None) -> Tensor:
        """One vector of length 1 a text: the mean over its tokens, (B, T) -> (B, C).

        >>> model = md.models.BERT.from_preset("tiny")
        >>> model.embed(md.tensor([[1, 2, 3], [4, 5, 0]]), md.tensor([[1, 1, 1], [1, 1, 0]])).shape
        (2, 64)
        """
        x = self(index, mask)                                                      # [B, T, C]
        if mask is None:
            return F.normalize(x.mean(1), dim=-1)
        weight = (mask != 0).to(x.dtype).unsqueeze(-1)                             # [B, T, 1]
        return F.normalize((x * weight).sum(1) / weight.sum(1), dim=-1)
