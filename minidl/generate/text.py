"""TextWriter: the text of tokens as they come, in whole characters and never past a stop string."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

UNFINISHED = "\ufffd"       # what the first bytes of a character decode to, until the others come
CONTEXT = 4                 # tokens of the prompt that say how the next one is written


class TextWriter:
    """``push`` takes a token and returns what can be shown of the text by now.

    A character's first bytes wait for the others, and text that may yet become a ``stop`` string
    waits until that is clear. Only the last tokens are decoded again, so a token costs the same
    however long the text is.

    >>> writer = md.generate.text.TextWriter(md.text.ByteTokenizer(), [], stop=["END"])
    >>> [writer.push(byte) for byte in "né.EN!".encode()]
    ['n', '', 'é', '.', '', '', 'EN!']
    """

    def __init__(self, tokenizer: Any, prompt: Sequence[int], stop: Sequence[str] = ()) -> None:
        self.tokenizer, self.stop = tokenizer, stop
        self.stopped = False
        self._held = ""                         # may be the start of a stop string
        self._ids = list(prompt[-CONTEXT:])
        # How many characters of the text of _ids were given out.
        self._shown = len(self._decode().rstrip(UNFINISHED))

    def push(self, token: int) -> str:
        """The text that one more token makes certain; sets ``stopped`` at a stop string."""
        self._ids.append(token)
        text = self._decode()
        whole = len(text.rstrip(UNFINISHED))
        # At most three bytes wait for a fourth: more are no character, and are shown as such.
        certain = max(whole, len(text) - 3)
        piece, self._shown = text[self._shown : certain], max(self._shown, certain)
        if whole == len(text):
            # A tokenizer may write a token differently at the start of a text: keep one before.
            self._ids = self._ids[-1:]
            self._shown = len(self._decode())
        return self._before_stop(piece)

    def end(self) -> str:
        """What was held back, when no more tokens come."""
        if self.stopped:
            return ""
        rest = self._before_stop(self._decode()[self._shown :])
        rest, self._held = rest + self._held, ""
        return rest

    def _decode(self) -> str:
        return str(self.tokenizer.decode(self._ids))

    def _before_stop(self, piece: str) -> str:
        text = self._held + piece
        places = [text.find(word) for word in self.stop if word in text]
        if places:
            self.stopped, self._held = True, ""
            return text[: min(places)]
        hold = max((_overlap(text, word) for word in self.stop), default=0)
        self._held = text[len(text) - hold :]
        return text[: len(text) - hold]


def _overlap(text: str, word: str) -> int:
    """How many characters at the end of ``text`` are the first of ``word``."""
    return next((n for n in range(min(len(word) - 1, len(text)), 0, -1)
                 if text.endswith(word[:n])), 0)
