"""Padding."""

from __future__ import annotations

from collections.abc import Sequence

from minidl import ops
from minidl._core import Tensor
from minidl.errors import ShapeError, UnsupportedError


def pad(
    input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Tensor:
    """Put ``value`` (0) around the last axes: ``pad = (left, right)`` for the last one,
    ``(left, right, top, bottom)`` for the last two, and so on; a negative number cuts off.

    >>> F.pad(md.ones(2), (1, 2))
    tensor([0., 1., 1., 0., 0.])
    """
    if mode != "constant":
        raise UnsupportedError(f"pad: mode {mode!r} is not supported, only 'constant' is")
    pad = [int(n) for n in pad]
    if len(pad) % 2 or len(pad) // 2 > input.ndim:
        raise ShapeError(
            f"pad: takes two numbers for each padded axis, at most {2 * input.ndim} for an input "
            f"of shape {tuple(input.shape)}; got {len(pad)}"
        )
    for i in range(0, len(pad), 2):
        dim = input.ndim - 1 - i // 2
        input = _pad_axis(input, dim, pad[i], pad[i + 1], 0.0 if value is None else value)
    return input


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
        return ops.full(shape, value, dtype=input.dtype)

    parts = [border(before)] if before > 0 else []
    parts.append(kept)
    if after > 0:
        parts.append(border(after))
    return ops.cat(parts, dim) if len(parts) > 1 else kept
