"""Rotary frequencies of models whose context was stretched after training."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minidl.errors import ArgumentError


def frequencies(head_dim: int, base: float, scaling: dict[str, Any]) -> np.ndarray:
    """base^(-2i / D), slowed down as ``scaling`` (Hugging Face's ``rope_scaling``) says.

    "linear" divides all by ``factor``. "llama3" divides those that turn less than
    ``low_freq_factor`` times within the original context, leaves those that turn more than
    ``high_freq_factor`` times, and goes over from one to the other in between.

    >>> frequencies(4, 100.0, {"rope_type": "linear", "factor": 2.0}).tolist()
    [0.5, 0.05]
    """
    plain: np.ndarray = base ** -(np.arange(0, head_dim, 2) / head_dim)
    kind = scaling.get("rope_type", scaling.get("type"))
    try:
        if kind == "linear":
            return plain / scaling["factor"]
        if kind == "llama3":
            low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
            turns = scaling["original_max_position_embeddings"] * plain / (2 * math.pi)
            kept = np.clip((turns - low) / (high - low), 0.0, 1.0)
            return kept * plain + (1 - kept) * plain / scaling["factor"]
    except KeyError as error:
        raise ArgumentError(f"rope_scaling of type {kind!r} does not say {error}") from None
    raise ArgumentError(
        f"rope_scaling of type {kind!r:.80} is not among those that minidl has: linear, llama3"
    )
