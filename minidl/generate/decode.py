"""generate() and stream(): one token after the other, keys and values kept in fixed buffers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from minidl._core import Tensor
from minidl.errors import ArgumentError
from minidl.grad_mode import no_grad

from .sampling import Sampler


class _Decoder:
    """Rows of tokens flush right in one array, and the window of it that the model sees.

    When the context is full, the window starts again with its later half: so a token costs no more
    than the context on average, however many are generated.
    """

    def __init__(self, model: Any, prompts: list[Any], count: int) -> None:
        if not prompts or min(map(len, prompts)) == 0:
            raise ArgumentError("a prompt needs at least one token")
        self.model, self.end = model, max(map(len, prompts))
        self.context = model.config.context
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
        new = Tensor(self.tokens[:, self.done : self.end].copy())
        logits = self.model(new, cache=self.cache)[:, -1].numpy()              # [B, V]
        chosen = sampler(logits, self.rows())
        self.done, self.end = self.end, self.end + 1
        self.tokens[:, self.done] = chosen
        return chosen

    def rows(self) -> list[Any]:
        """The tokens of each row, without padding."""
        return [row[start : self.end]
                for row, start in zip(self.tokens, self.padding, strict=True)]


def _cut(text: str, stop: Sequence[str]) -> tuple[str, bool]:
    """The text before the first stop string, and whether there was one."""
    places = [text.find(word) for word in stop if word in text]
    return (text[: min(places)], True) if places else (text, False)


def generate(
    model: Any,
    prompts: Any,
    max_new_tokens: int,
    *,
    tokenizer: Any = None,
    stop: Sequence[str] = (),
    eos_id: int | None = None,
    **sampling: Any,
) -> list[Any]:
    """What the model continues each prompt with, prompts not included.

    ``prompts`` are lists of token numbers, or texts with a ``tokenizer``; the results alike. A
    row ends after ``max_new_tokens``, before ``eos_id`` or before a ``stop`` string. ``sampling``
    are the arguments of Sampler: temperature, top_k, top_p, min_p, repetition_penalty, seed.

    >>> model = md.models.GPT.from_preset("tiny")
    >>> found = md.generate.generate(model, [[1, 2, 3], [4]], 5, temperature=0)
    >>> [len(row) for row in found]
    [5, 5]
    """
    if stop and tokenizer is None:
        raise ArgumentError("stop strings need a tokenizer")
    ids = [tokenizer.encode(p) if isinstance(p, str) else p for p in prompts]
    decoder, sampler = _Decoder(model, ids, max_new_tokens), Sampler(**sampling)
    results: list[Any] = [[] for _ in ids]
    open_rows = set(range(len(ids)))
    was_training = model.training
    model.eval()
    try:
        for _ in range(max_new_tokens):
            for b, token in enumerate(decoder.step(sampler).tolist()):
                if b in open_rows:
                    if token != eos_id:
                        results[b].append(token)
                    stopped = stop and _cut(tokenizer.decode(results[b]), stop)[1]
                    if token == eos_id or stopped:
                        open_rows.discard(b)
            if not open_rows:
                break
    finally:
        model.train(was_training)
    if tokenizer is None:
        return results
    return [_cut(tokenizer.decode(row), stop)[0] for row in results]


def stream(
    model: Any, prompt: Any, max_new_tokens: int, *, eos_id: int | None = None, **sampling: Any
) -> Iterator[int]:
    """The tokens that continue one prompt (token numbers), each as soon as it is known.

    >>> model = md.models.GPT.from_preset("tiny")
    >>> len(list(md.generate.stream(model, [1, 2, 3], 4, seed=1)))
    4
    """
    decoder, sampler = _Decoder(model, [prompt], max_new_tokens), Sampler(**sampling)
    was_training = model.training
    model.eval()
    try:
        for _ in range(max_new_tokens):
            token = int(decoder.step(sampler)[0])
            if token == eos_id:
                return
            yield token
    finally:
        model.train(was_training)
