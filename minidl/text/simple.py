"""Tokenizers that need no library: bytes, and characters."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from itertools import groupby
from typing import Any

from minidl.checkpoint import atomic, blocks
from minidl.errors import ArgumentError

Path = str | os.PathLike[str]


def to_bytes(text: str) -> bytes:
    """UTF-8, also of the lone surrogates that Python's strings may hold."""
    return text.encode("utf-8", "surrogatepass")


def to_text(data: bytes) -> str:
    """What ``to_bytes`` took; bytes that are no text, as a model may write, become U+FFFD."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace")


class ByteTokenizer:
    """The bytes of the text in UTF-8 are its tokens: 256 of them, nothing to train.

    >>> tokenizer = md.text.ByteTokenizer()
    >>> tokenizer.encode("né")
    [110, 195, 169]
    >>> tokenizer.decode([110, 195, 169])
    'né'
    """

    vocab_size = 256

    def encode(self, text: str) -> list[int]:
        """The tokens of a text."""
        return list(to_bytes(text))

    def decode(self, ids: Iterable[int]) -> str:
        """The text of tokens."""
        return to_text(bytes(checked(self, ids)))

    def save(self, path: Path) -> None:
        """Write a small JSON file."""
        write_json(path, {"tokenizer": "byte"})

    @classmethod
    def load(cls, path: Path) -> ByteTokenizer:
        """Read what ``save`` wrote."""
        read_json(path, "byte")
        return cls()


class CharTokenizer:
    """One token for each character of the text it was made from, in the order of their code
    points; then 256 tokens for bytes. A character it has not seen becomes the bytes of its UTF-8,
    so every text survives encode and decode. ``byte_fallback=False`` leaves the bytes out, for the
    smallest vocabulary; then an unseen character is an error.

    >>> tokenizer = md.text.CharTokenizer("hello")
    >>> tokenizer.encode("hole")
    [1, 3, 2, 0]
    >>> tokenizer.decode(tokenizer.encode("hé!")), tokenizer.vocab_size
    ('hé!', 260)
    """

    def __init__(self, text: Iterable[str], byte_fallback: bool = True) -> None:
        self.chars = sorted(set(text) if isinstance(text, str) else set().union(*text))
        self.byte_fallback = byte_fallback
        self._ids = {char: i for i, char in enumerate(self.chars)}

    @property
    def vocab_size(self) -> int:
        """How many tokens there are."""
        return len(self.chars) + 256 * self.byte_fallback

    def encode(self, text: str) -> list[int]:
        """The tokens of a text."""
        ids = self._ids
        try:
            return [ids[char] for char in text]
        except KeyError as error:
            if not self.byte_fallback:
                raise ArgumentError(
                    f"CharTokenizer: the character {error.args[0]!r} is not in its vocabulary; "
                    "make it from a text that has it, or with byte_fallback=True"
                ) from None
        first = len(self.chars)
        found: list[int] = []
        for char in text:
            known = ids.get(char)
            found += [first + b for b in to_bytes(char)] if known is None else [known]
        return found

    def decode(self, ids: Iterable[int]) -> str:
        """The text of tokens."""
        first = len(self.chars)
        parts = []
        for is_byte, run in groupby(checked(self, ids), lambda i: i >= first):
            if is_byte:
                parts.append(to_text(bytes(i - first for i in run)))
            else:
                parts.append("".join([self.chars[i] for i in run]))
        return "".join(parts)

    def save(self, path: Path) -> None:
        """Write the characters to a JSON file."""
        content = {"tokenizer": "char", "chars": self.chars, "byte_fallback": self.byte_fallback}
        write_json(path, content)

    @classmethod
    def load(cls, path: Path) -> CharTokenizer:
        """Read what ``save`` wrote."""
        content = read_json(path, "char")
        return cls(content["chars"], content["byte_fallback"])


def checked(tokenizer: ByteTokenizer | CharTokenizer, ids: Iterable[int]) -> list[int]:
    """Tokens as a list, all within the vocabulary."""
    found = [int(i) for i in ids]
    if found and not 0 <= min(found) <= max(found) < tokenizer.vocab_size:
        raise ArgumentError(
            f"{type(tokenizer).__name__}: tokens must be at least 0 and below "
            f"{tokenizer.vocab_size}, got {min(found)} to {max(found)}"
        )
    return found


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Save a tokenizer as JSON."""
    write_text(path, json.dumps(content))


def write_text(path: Path, text: str) -> None:
    """Save a file, whole or not at all."""
    data = text.encode()
    atomic.replace(os.fspath(path), lambda fd: blocks.write_at(fd, data, 0))


def read_json(path: Path, kind: str) -> dict[str, Any]:
    """The content of a saved tokenizer of this kind."""
    with open(path, encoding="utf-8") as file:
        content = json.load(file)
    if not isinstance(content, dict) or content.get("tokenizer") != kind:
        raise ArgumentError(f"{os.fspath(path)} is not a {kind} tokenizer that minidl saved")
    return content
