"""Padding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minidl import ops
from minidl._core import Tensor
from minidl.errors import ArgumentError, ShapeError, UnsupportedError


def pad(
    input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Tensor:
    """Put ``value`` (0) around the last axes: ``pad = (left, right)`` for the last one,
    ``(left, right, top, bottom)`` for the last two, and so on; a negative number cuts off.
    ``mode`` "reflect", "replicate" and "circular" repeat the input's own elements instead.

    >>> F.pad(md.ones(2), (1, 2))
    tensor([0., 1., 1., 0., 0.])
    """
    pad = [int(n) for n in pad]
    if len(pad) % 2 or len(pad) // 2 > input.ndim:
        raise ShapeError(
            f"pad: takes two numbers for each padded axis, at most {2 * input.ndim} for an input "
            f"of shape {tuple(input.shape)}; got {len(pad)}"
        )
    if mode != "constant":
        return _pad_by_index(input, pad, mode, value)
    for i in range(0, len(pad), 2):
        dim = input.ndim - 1 - i // 2
        input = _pad_axis(input, dim, pad[i], pad[i + 1], 0.0 if value is None else value)
    return input


def _pad_by_index(input: Tensor, pad: list[int], mode: str, value: float | None) -> Tensor:
    """The borders repeat elements of the input: each axis is read at these positions."""
    if mode not in ("reflect", "replicate", "circular"):
        raise UnsupportedError(
            f"pad: mode {mode!r} is not supported, use 'constant', 'reflect', 'replicate' or "
            "'circular'"
        )
    if value is not None:
        raise ArgumentError(f"pad: mode {mode!r} takes no value")
    if not 1 <= input.ndim - len(pad) // 2 <= 2 or len(pad) > 6:
        raise UnsupportedError(
            f"pad: mode {mode!r} pads the last 1, 2 or 3 axes of a tensor with one or two more, "
            f"got {len(pad) // 2} of {input.ndim}"
        )
    for i in range(0, len(pad), 2):
        dim = input.ndim - 1 - i // 2
        input = input.index_select(dim, _positions(input, dim, pad[i], pad[i + 1], mode))
    return input


def _positions(input: Tensor, dim: int, before: int, after: int, mode: str) -> Tensor:
    size = input.shape[dim]
    limit = {"reflect": size - 1, "circular": size, "replicate": max(before, after)}[mode]
    kept = size + min(0, before) + min(0, after)
    left = kept if mode == "circular" else min(size, size + before + after)
    if max(before, after) > limit or left <= 0:
        raise ShapeError(
            f"pad: ({before}, {after}) does not fit axis {dim} of size {size} in mode {mode!r} "
            f"(input shape {tuple(input.shape)})"
        )
    places = np.arange(-before, size + after)
    if mode == "replicate":
        places = places.clip(0, size - 1)
    elif mode == "circular":  # around what a negative number leaves
        first = max(0, -before)
        places = first + (places - first) % kept
    else:
        places = size - 1 - abs(size - 1 - abs(places))
    return Tensor(places).to(input.device)


def _pad_axis(input: Tensor, dim: int, before: int, after: int, value: float) -> Tensor:
    size = input.shape[dim]
    if size + before + after < 0:
        raise ShapeError(
            f"pad: ({before}, {after}) leaves {size + before + after} elements of axis {dim} "
            f"(input shape {tuple(input.shape)})"
        )
    kept = ops.narrow(input, dim, max(0, -before), size + min(0, before) + min(0, after))

    def border(amount: int) -> Tensor:
        shape = (*kept.shape[:dim], amount, *kept.shape[dim + 1 :])
        return input.new_full(shape, value)

    parts = [border(before)] if before > 0 else []
    parts.append(kept)
    if after > 0:
        parts.append(border(after))
    return ops.cat(parts, dim) if len(parts) > 1 else kept
