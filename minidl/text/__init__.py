"""Tokenizers with one interface (encode, decode, vocab_size, save, load), and text to train on."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .bpe import BPETokenizer
    from .corpus import load_corpus
    from .pretrained import PretrainedTokenizer
    from .simple import ByteTokenizer, CharTokenizer

__all__ = ["BPETokenizer", "ByteTokenizer", "CharTokenizer", "PretrainedTokenizer", "load_corpus"]


def __getattr__(name: str) -> Any:
    """Import a tokenizer when it is first used: `import minidl` stays fast."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import bpe, corpus, pretrained, simple

    for module in (simple, bpe, corpus, pretrained):
        if hasattr(module, name):
            return getattr(module, name)
