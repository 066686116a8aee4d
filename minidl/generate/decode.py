"""generate() and stream(): one token after the other, keys and values kept in fixed buffers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from minidl._core import Tensor
from minidl.errors import ArgumentError
from minidl.grad_mode import no_grad

from .sampling import Sampler
from .text import TextWriter


class _Decoder:
    """Rows of tokens flush right in one array, and the window of it that the model sees.

    When the context is full, the window starts again with its later half: so a token costs no more
    than the context on average, however many are generated.
    """

    def __init__(self, model: Any, prompts: list[Any], count: int) -> None:
        if not prompts or min(map(len, prompts)) == 0:
            raise ArgumentError("a prompt needs at least one token")
        if count < 0:
            raise ArgumentError(f"max_new_tokens must be at least 0, got {count}")
        self.model, self.end = model, max(map(len, prompts))
        self.context, self.device = model.config.context, next(model.parameters()).device
        self.padding = [self.end - len(prompt) for prompt in prompts]
        self.tokens = np.zeros((len(prompts), self.end + count), np.int64)
        for row, prompt, start in zip(self.tokens, prompts, self.padding, strict=True):
            row[start : self.end] = prompt
        self.cache = model.make_cache(len(prompts), min(self.context, self.end + count))
        self._open(max(0, self.end - self.context))

    def _open(self, start: int) -> None:
        self.start = self.done = start
        self.cache.reset([max(0, padding - start) for padding in self.padding])

    @no_grad()
    def step(self, sampler: Sampler) -> Any:
        """Append and return the next token of each row, (B,)."""
        if self.end - self.start > self.context:
            self._open(self.end - (self.context + 1) // 2)
        new = Tensor(self.tokens[:, self.done : self.end].copy()).to(self.device)
        logits = self.model(new, cache=self.cache).cpu().numpy()[:, -1]        # [B, V]
        chosen = sampler(logits, self.rows())
        self.done, self.end = self.end, self.end + 1
        self.tokens[:, self.done] = chosen
        return chosen

    def rows(self) -> list[Any]:
        """The tokens of each row, without padding."""
        return [row[start : self.end]
                for row, start in zip(self.tokens, self.padding, strict=True)]


def _encoded(prompt: Any, tokenizer: Any) -> Any:
    if not isinstance(prompt, str):
        return prompt
    if tokenizer is None:
        raise ArgumentError("a prompt that is a text needs a tokenizer")
    return tokenizer.encode(prompt)


def _writers(tokenizer: Any, prompts: list[Any], stop: str | Sequence[str]) -> list[TextWriter]:
    """One a row; none without a tokenizer."""
    stop = (stop,) if isinstance(stop, str) else tuple(stop)
    if stop and tokenizer is None:
        raise ArgumentError("stop strings need a tokenizer")
    if "" in stop:
        raise ArgumentError("a stop string needs at least one character")
    return [] if tokenizer is None else [TextWriter(tokenizer, ids, stop) for ids in prompts]


def generate(
    model: Any,
    prompts: Any,
    max_new_tokens: int,
    *,
    tokenizer: Any = None,
    stop: str | Sequence[str] = (),
    eos_id: int | None = None,
    **sampling: Any,
) -> list[Any]:
    """What the model continues each prompt with, prompts not included.

    ``prompts`` are lists of token numbers, or texts where there is a ``tokenizer``; with one the
    results are texts, else lists of token numbers. A row ends after ``max_new_tokens``, before
    ``eos_id`` or before a ``stop`` string. ``sampling`` are the arguments of Sampler: temperature,
    top_k, top_p, min_p, repetition_penalty, seed.

    >>> model = md.models.GPT.from_preset("tiny")
    >>> found = md.generate.generate(model, [[1, 2, 3], [4]], 5, temperature=0)
    >>> [len(row) for row in found]
    [5, 5]
    """
    if isinstance(prompts, str):
        raise ArgumentError("generate takes a list of prompts; put the text into a list")
    ids = [_encoded(prompt, tokenizer) for prompt in prompts]
    writers, sampler = _writers(tokenizer, ids, stop), Sampler(**sampling)
    decoder = _Decoder(model, ids, max_new_tokens)
    results: list[Any] = [[] for _ in ids]
    open_rows = set(range(len(ids)))
    with _evaluating(model):
        for _ in range(max_new_tokens):
            chosen = decoder.step(sampler).tolist()
            for b in sorted(open_rows):
                if chosen[b] == eos_id:
                    open_rows.discard(b)
                    continue
                results[b].append(writers[b].push(chosen[b]) if writers else chosen[b])
                if writers and writers[b].stopped:
                    open_rows.discard(b)
            if not open_rows:
                break
    if not writers:
        return results
    return ["".join([*row, writer.end()]) for row, writer in zip(results, writers, strict=True)]


def stream(
    model: Any,
    prompt: Any,
    max_new_tokens: int,
    *,
    tokenizer: Any = None,
    stop: str | Sequence[str] = (),
    eos_id: int | None = None,
    **sampling: Any,
) -> Iterator[Any]:
    """What continues one prompt, piece by piece, each as soon as it is known.

    With a ``tokenizer`` the prompt may be a text and the pieces are texts: together what
    ``generate`` returns, in whole characters, and nothing of a ``stop`` string. Without one they
    are token numbers.

    >>> model = md.models.GPT.from_preset("tiny")
    >>> len(list(md.generate.stream(model, [1, 2, 3], 4, seed=1)))
    4
    >>> words = md.generate.stream(model, "To be", 4, tokenizer=md.text.ByteTokenizer())
    >>> for piece in words:
    ...     print(piece, end="", flush=True)  # doctest: +SKIP
    """
    ids = _encoded(prompt, tokenizer)
    writers, sampler = _writers(tokenizer, [ids], stop), Sampler(**sampling)
    decoder = _Decoder(model, [ids], max_new_tokens)

    def pieces() -> Iterator[Any]:
        writer = writers[0] if writers else None
        with _evaluating(model):
            for _ in range(max_new_tokens):
                token = int(decoder.step(sampler)[0])
                if token == eos_id:
                    break
                piece = token if writer is None else writer.push(token)
                if piece != "":
                    yield piece
                if writer is not None and writer.stopped:
                    break
        if writer is not None and (rest := writer.end()):
            yield rest

    return pieces()


@contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """The model in evaluation mode; afterwards each of its modules as it was."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
