"""Model: what GPT, Llama and BERT have in common: presets, counts, Hugging Face's names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

from minidl import nn
from minidl._core import Tensor
from minidl.errors import ArgumentError, ShapeError

from .cache import Cache
from .hf import Layout, read_hf, write_hf

M = TypeVar("M", bound="Model")


class Model(nn.Module):
    """Blocks of attention and feed-forward layers, built from a config.

    A subclass sets ``presets``, ``layout`` (its names at Hugging Face) and,
    in ``__init__``, ``blocks``.
    """

    presets: ClassVar[dict[str, Any]]
    layout: ClassVar[Layout]
    config: Any
    blocks: Any

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config

    @classmethod
    def from_preset(cls: type[M], name: str, **changes: Any) -> M:
        """A new model of a named size, with some fields of its config changed.

        >>> md.models.GPT.from_preset("nano", vocab_size=65).num_parameters()
        818048
        """
        if name not in cls.presets:
            raise ArgumentError(
                f"{cls.__name__} has no preset {name!r}; there are {', '.join(cls.presets)}"
            )
        return cls(replace(cls.presets[name], **changes))

    @classmethod
    def from_hf(cls: type[M], state_dict: Mapping[str, Any], config: Any) -> M:
        """A model with the weights of Hugging Face's; ``config`` says what their shapes do not."""
        model = nn.utils.skip_init(cls, config)
        model.load_state_dict(read_hf(model, state_dict, cls.layout))
        return model

    def to_hf(self) -> dict[str, Tensor]:
        """The weights under Hugging Face's names and in its layout.

        >>> sorted(md.models.GPT.from_preset("tiny").to_hf())[-1]
        'transformer.wte.weight'
        """
        return write_hf(self, self.layout)

    def save_pretrained(
        self, path: Any, *, tokenizer: Any = None, max_shard_size: int = 5_000_000_000
    ) -> None:
        """Write a folder that ``from_pretrained`` of minidl and of transformers opens: config.json,
        the weights (in several files above ``max_shard_size`` bytes) and the ``tokenizer``.

        >>> import os, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> md.models.BERT.from_preset("tiny").save_pretrained(folder)
        >>> sorted(os.listdir(folder))
        ['config.json', 'model.safetensors']
        """
        from .pretrained import save_pretrained

        save_pretrained(self, path, tokenizer, max_shard_size)

    def save_onnx(self, path: Any) -> None:
        """Write an ONNX file (opset 20; the extra ``onnx``) for batches of any size and length.

        Its inputs are ``input_ids`` (B, T) of int64, and for BERT ``attention_mask`` and
        ``token_type_ids`` of the same shape; its output is ``logits``, or BERT's ``hidden``.
        """
        from .onnx import save_onnx

        save_onnx(self, path)

    def num_parameters(self) -> int:
        """How many numbers the model learns; tied weights count once."""
        return sum(p.numel() for p in self.parameters())

    def flops_per_token(self, length: int | None = None, training: bool = True) -> int:
        """Floating-point operations for one token of a sequence of ``length`` (the context).

        Two for every weight of a linear layer and 4 * width * length a layer for attention, as if
        nothing were masked; training takes three times as many as the forward pass.

        >>> md.models.GPT.from_preset("nano", vocab_size=65).flops_per_token(128)
        5554944
        """
        length = self.config.context if length is None else length
        linear = sum(m.weight.numel() for m in self.modules() if isinstance(m, nn.Linear))
        attention = sum(
            m.num_heads * m.head_dim for m in self.modules() if isinstance(m, nn.MultiHeadAttention)
        )
        return (2 * linear + 4 * attention * length) * (3 if training else 1)

    def flops_per_step(self, batch_size: int, length: int | None = None) -> int:
        """Floating-point operations of a training step on ``batch_size`` sequences.

        >>> md.models.GPT.from_preset("nano", vocab_size=65).flops_per_step(12, 128) // 10**9
        8
        """
        length = self.config.context if length is None else length
        return batch_size * length * self.flops_per_token(length)

    def make_cache(
        self, batch_size: int, max_len: int, padding: Sequence[int] | None = None
    ) -> Cache:
        """Empty buffers for the keys and values of ``max_len`` positions in every layer."""
        layers = [block.attn.make_cache(batch_size, max_len) for block in self.blocks]
        return Cache(layers, padding)

    def _check_length(self, index: Tensor, start: int = 0) -> None:
        if index.ndim != 2:
            raise ShapeError(
                f"{type(self).__name__} takes token numbers of shape (batch, length), got "
                f"{tuple(index.shape)}"
            )
        if start + index.shape[1] > self.config.context:
            before = f" after {start} in the cache" if start else ""
            raise ShapeError(
                f"{type(self).__name__} has a context of {self.config.context} positions; "
                f"{index.shape[1]} tokens came{before}"
            )

    def _initialise(self) -> None:
        """GPT-2's: N(0, 0.02), biases 0, and what ends a residual branch divided by sqrt(2 L)."""
        residual = 0.02 / (2 * len(self.blocks)) ** 0.5
        for name, p in self.named_parameters():
            if p.ndim == 2:
                deep = name.endswith(("attn.proj.weight", "ffn.down.weight"))
                nn.init.normal_(p, std=residual if deep else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(p)
