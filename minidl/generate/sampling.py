"""Sampler: from logits to the next token."""

from __future__ import annotations

from typing import Any

import numpy as np

from minidl import dtypes, ops
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
        out = np.zeros(np.shape(logits))
        for row, *given in zip(out, logits, history, strict=True):
            ids, p = self._candidates(*given)
            row[ids] = p
        return out

    def __call__(self, logits: Any, history: Any) -> Any:
        """The next token of each row, (B,)."""
        chosen = np.empty(len(logits), np.int64)
        if self.temperature > 0:
            points = ops.rand(len(logits), dtype=dtypes.float64, generator=self.generator).tolist()
        for b, row in enumerate(logits):
            if self.temperature == 0:
                chosen[b] = self._penalised(row, history[b]).argmax()
                continue
            ids, p = self._candidates(row, history[b])
            place = np.searchsorted(p.cumsum(), points[b], side="right")
            chosen[b] = ids[min(place, len(ids) - 1)]
        return chosen

    def _candidates(self, logits: Any, tokens: Any) -> tuple[Any, Any]:
        """The tokens of one row that may come, and their probabilities."""
        logits = self._penalised(logits, tokens)
        ids = np.arange(len(logits))
        if self.temperature == 0:
            return ids[logits.argmax(), None], np.ones(1)
        if self.top_k is not None and self.top_k < len(ids):
            ids = np.flatnonzero(logits >= np.partition(logits, -self.top_k)[-self.top_k])
            logits = logits[ids]
        p = np.exp((logits - logits.max()) / self.temperature).astype(np.float64)
        p /= p.sum()
        if self.top_p is not None:
            # Those below this have less than 1 - top_p together: they need no sorting.
            often = np.flatnonzero(p >= (1 - self.top_p) / (2 * len(p)))
            order = often[np.argsort(-p[often], kind="stable")]
            before = p[order].cumsum() - p[order]              # of all likelier tokens
            kept = order[: max(1, np.count_nonzero(before < self.top_p))]
            ids, p = ids[kept], p[kept]
        if self.min_p is not None:
            kept = p >= self.min_p * p.max()
            ids, p = ids[kept], p[kept]
        return ids, p / p.sum()

    def _penalised(self, logits: Any, tokens: Any) -> Any:
        if self.repetition_penalty == 1:
            return logits
        logits, seen = np.array(logits), np.unique(tokens)
        logits[seen] *= np.where(logits[seen] > 0, 1 / self.repetition_penalty,
                                 self.repetition_penalty)
        return logits
