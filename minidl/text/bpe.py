"""Byte pair encoding, by Hugging Face's `tokenizers` (the extra `text`)."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from minidl.errors import ArgumentError

Path = str | os.PathLike[str]


def library() -> Any:
    """The `tokenizers` package, or a sentence that says how to get it."""
    try:
        import tokenizers
    except ImportError as error:
        raise ImportError(
            "BPETokenizer needs the package `tokenizers`: pip install 'minidl[text]'"
        ) from error
    return tokenizers


class BPETokenizer:
    """Byte pair encoding. One that :meth:`train` makes is byte-level, as GPT-2's: every text
    survives encode and decode. :meth:`load` reads a tokenizer.json (GPT-2, Llama), or a folder
    with one or with vocab.json and merges.txt.

    >>> tokenizer = md.text.BPETokenizer.train(["low lower lowest"] * 9, vocab_size=260)
    >>> tokenizer.decode(tokenizer.encode("slow é"))
    'slow é'
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    @classmethod
    def train(cls, texts: Iterable[str], vocab_size: int) -> BPETokenizer:
        """Learn the merges of a byte-level vocabulary from texts."""
        if vocab_size < 256:
            raise ArgumentError(
                f"BPETokenizer: the bytes alone are 256 tokens, so vocab_size={vocab_size} is too "
                "small"
            )
        tokenizer, trainers = _byte_level(library().models.BPE()), library().trainers
        alphabet = library().pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size, initial_alphabet=alphabet, show_progress=False
        )
        tokenizer.train_from_iterator(texts, trainer)
        return cls(tokenizer)

    @classmethod
    def train_files(cls, paths: Iterable[Path], vocab_size: int) -> BPETokenizer:
        """Learn the merges from text files."""

        def texts() -> Iterable[str]:
            for path in paths:
                with open(path, encoding="utf-8", newline="") as file:
                    yield file.read()

        return cls.train(texts(), vocab_size)

    @property
    def vocab_size(self) -> int:
        """How many tokens there are, special ones among them."""
        return int(self.tokenizer.get_vocab_size())

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, without special ones around it."""
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of tokens."""
        found = [int(i) for i in ids]
        return str(self.tokenizer.decode(found, skip_special_tokens=False))

    def save(self, path: Path) -> None:
        """Write a tokenizer.json, which Hugging Face's libraries read too."""
        from .simple import write_text

        write_text(path, self.tokenizer.to_str())

    @classmethod
    def load(cls, path: Path) -> BPETokenizer:
        """Read a tokenizer.json, or a folder with it or with vocab.json and merges.txt."""
        tokenizers, place = library(), os.fspath(path)
        if os.path.isdir(place):
            vocab, merges = (os.path.join(place, name) for name in ("vocab.json", "merges.txt"))
            place = os.path.join(place, "tokenizer.json")
            if not os.path.exists(place) and os.path.exists(vocab) and os.path.exists(merges):
                return cls(_byte_level(tokenizers.models.BPE.from_file(vocab, merges)))
        if not os.path.exists(place):
            raise FileNotFoundError(
                f"{place} is not there; BPETokenizer.load takes a tokenizer.json, or a folder with "
                "it or with vocab.json and merges.txt"
            )
        return cls(tokenizers.Tokenizer.from_file(place))


def _byte_level(model: Any) -> Any:
    """A tokenizer as GPT-2's around a model: no prefix space, nothing lost."""
    tokenizers = library()
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    return tokenizer
