"""Samples to a batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from minidl import ops
from minidl._core import Tensor


def default_collate(samples: list[Any]) -> Any:
    """Stack tensors, arrays and numbers along a new first axis; tuples, lists and dicts become a
    batch of each of their parts; anything else stays a list.

    >>> default_collate([(md.zeros(3), 1), (md.ones(3), 0)])[1]
    tensor([1, 0])
    """
    first = samples[0]
    if isinstance(first, Tensor):
        return ops.stack(samples)
    if isinstance(first, np.ndarray):
        return ops.from_numpy(np.stack(samples))
    if isinstance(first, (bool, int, float, np.generic)):
        return ops.tensor([s.item() if isinstance(s, np.generic) else s for s in samples])
    if isinstance(first, dict):
        return {key: default_collate([sample[key] for sample in samples]) for key in first}
    if isinstance(first, (tuple, list)):
        lengths = sorted({len(sample) for sample in samples})
        if len(lengths) > 1:
            raise ValueError(
                f"default_collate: samples of {lengths[0]} and of {lengths[-1]} parts cannot be "
                "one batch; pass the DataLoader a collate_fn that pads them"
            )
        return tuple(default_collate(list(parts)) for parts in zip(*samples, strict=True))
    return list(samples)
