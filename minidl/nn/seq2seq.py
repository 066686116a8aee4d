"""Transformer: encoder and decoder together, with PyTorch's arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minidl import ops
from minidl._core import Tensor
from minidl.errors import ShapeError

from . import functional as F
from . import init
from .module import Module
from .normalization import LayerNorm
from .transformer import (
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)


class Transformer(Module):
    """The encoder reads ``src``, the decoder attends to it while it reads ``tgt``.

    Shapes: src (S, N, E), tgt (T, N, E), or batch first, or without N; output as tgt.

    >>> model = nn.Transformer(64, 4, 2, 2, batch_first=True)
    >>> model(md.randn(2, 7, 64), md.randn(2, 10, 64)).shape
    (2, 10, 64)
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = F.relu,
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        layer = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps)
        options: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        order = {"batch_first": batch_first, "norm_first": norm_first, **options}
        self.encoder = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(*layer, **order),
            num_encoder_layers,
            LayerNorm(d_model, eps=layer_norm_eps, **options),
        )
        self.decoder = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(*layer, **order),
            num_decoder_layers,
            LayerNorm(d_model, eps=layer_norm_eps, **options),
        )
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def _reset_parameters(self) -> None:
        for param in self.parameters():
            if param.ndim > 1:
                init.xavier_uniform_(param)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Any of the shapes of ``tgt`` -> the same shape."""
        axis = 0 if self.batch_first else 1
        if src.ndim == tgt.ndim == 3 and src.shape[axis] != tgt.shape[axis]:
            raise ShapeError(
                f"src {tuple(src.shape)} and tgt {tuple(tgt.shape)} differ in their batch (axis "
                f"{axis}; batch_first={self.batch_first})"
            )
        for name, x in (("src", src), ("tgt", tgt)):
            if x.shape[-1] != self.d_model:
                raise ShapeError(
                    f"{name} has last axis {x.shape[-1]}, expected d_model = {self.d_model}"
                )
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        return self.decoder(
            tgt,
            memory,
            tgt_mask,
            memory_mask,
            tgt_key_padding_mask,
            memory_key_padding_mask,
            tgt_is_causal,
            memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """A causal mask (sz, sz): 0 on and below the diagonal, -inf above.

        >>> nn.Transformer.generate_square_subsequent_mask(2)
        tensor([[  0., -inf],
                [  0.,   0.]])
        """
        return ops.triu(ops.full((sz, sz), float("-inf"), device=device, dtype=dtype), 1)
