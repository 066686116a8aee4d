"""All parameters of a group in one kernel call: sort them by backend, note what was written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from minidl._core import Tensor, written
from minidl_kernels import EXACT, HOST

FLOAT32 = np.dtype(np.float32)


def backend_of(tensor: Tensor) -> Any:
    """The backend that updates ``tensor`` in place: its device's, the compiled kernels for plain
    float32 memory, NumPy for every other dtype and for views."""
    array = tensor.array
    if not isinstance(array, np.ndarray):
        return array.backend
    return HOST if array.dtype is FLOAT32 and array.flags.carray else EXACT


def by_backend(tensors: Iterable[Tensor]) -> dict[Any, list[Tensor]]:
    """The tensors of each backend, in their order."""
    groups: dict[Any, list[Tensor]] = {}
    for tensor in tensors:
        groups.setdefault(backend_of(tensor), []).append(tensor)
    return groups


def gradients(params: list[Tensor]) -> list[Any]:
    """The raw gradients of ``params``, contiguous."""
    grads = [param.grad.array for param in params]
    return [(EXACT if isinstance(g, np.ndarray) else g.backend).contiguous(g) for g in grads]


def mark_written(tensors: list[Tensor], name: str) -> None:
    """Tell the tape that ``name`` has overwritten these tensors."""
    for tensor in tensors:
        written(tensor, name)
