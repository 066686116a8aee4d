"""Sampler: from logits to the next token."""

from __future__ import annotations

from typing import Any

import numpy as np

from minidl import ops
from minidl._core import Tensor
from minidl.errors import ArgumentError


class Sampler:
    """Draw from softmax(logits / temperature), cut down in this order.

    ``repetition_penalty`` divides positive (multiplies negative) logits of tokens already there;
    ``top_k`` keeps the k likeliest; ``top_p`` the fewest that together have probability p;
    ``min_p`` those with at least that share of the likeliest one's probability. Temperature 0 takes
    the likeliest. Without a ``seed`` the global one (``md.manual_seed``) decides.

    >>> sampler = md.generate.Sampler(temperature=0)
    >>> sampler(np.array([[0.0, 2.0, 1.0]]), [[0]])
    array([1])
    """

    def __init__(
        self,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        repetition_penalty: float = 1.0,
        seed: int | None = None,
    ) -> None:
        if temperature < 0 or repetition_penalty <= 0:
            raise ArgumentError(
                "temperature must be at least 0 and repetition_penalty above 0, got "
                f"{temperature} and {repetition_penalty}"
            )
        if top_k is not None and top_k < 1:
            raise ArgumentError(f"top_k must be at least 1, got {top_k}")
        for name, share in (("top_p", top_p), ("min_p", min_p)):
            if share is not None and not 0 <= share <= 1:
                raise ArgumentError(f"{name} must be from 0 to 1, got {share}")
        self.temperature, self.top_k, self.top_p, self.min_p = temperature, top_k, top_p, min_p
        self.repetition_penalty = repetition_penalty
        self.generator = None if seed is None else ops.Generator().manual_seed(seed)

    def probabilities(self, logits: Any, history: Any) -> Any:
        """(B, V) of logits and the tokens of each row -> (B, V) of what is drawn from."""
        logits = np.array(logits, np.float64)
        if self.repetition_penalty != 1:
            for row, tokens in zip(logits, history, strict=True):
                seen = np.unique(tokens)
                factor = np.where(row[seen] > 0, 1 / self.repetition_penalty,
                                  self.repetition_penalty)
                row[seen] *= factor
        if self.temperature == 0:
            return (np.arange(logits.shape[1]) == logits.argmax(1)[:, None]).astype(np.float64)
        logits /= self.temperature
        if self.top_k is not None and self.top_k < logits.shape[1]:
            least = np.partition(logits, -self.top_k, axis=1)[:, -self.top_k, None]
            logits[logits < least] = -np.inf
        p = np.exp(logits - logits.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        if self.top_p is not None:
            order = np.argsort(-p, axis=1, kind="stable")
            ranked = np.take_along_axis(p, order, 1)
            before = ranked.cumsum(1) - ranked                 # of all likelier tokens
            ranked[:, 1:][before[:, 1:] >= self.top_p] = 0
            np.put_along_axis(p, order, ranked, 1)
        if self.min_p is not None:
            p[p < self.min_p * p.max(1, keepdims=True)] = 0
        return p / p.sum(1, keepdims=True)

    def __call__(self, logits: Any, history: Any) -> Any:
        """The next token of each row, (B,)."""
        p = self.probabilities(logits, history)
        if self.temperature == 0:
            return p.argmax(1)
        return ops.multinomial(Tensor(p), 1, generator=self.generator).numpy()[:, 0]
