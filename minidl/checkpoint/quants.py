"""ggml's element types: blocks of 32 numbers with a common scale, and plain floats.

A quantized number is ``scale * q`` (Q8_0, and Q4_0 with q - 8) or ``scale * q + minimum`` (Q4_1).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

BLOCK = 32  # numbers


class Kind(NamedTuple):
    """An element type: ``numbers`` of it take ``nbytes`` bytes."""

    name: str
    numbers: int
    nbytes: int


KINDS = {
    0: Kind("F32", 1, 4), 1: Kind("F16", 1, 2), 30: Kind("BF16", 1, 2),
    2: Kind("Q4_0", BLOCK, 18), 3: Kind("Q4_1", BLOCK, 20), 8: Kind("Q8_0", BLOCK, 34),
}  # fmt: skip
NUMBERS = {kind.name: number for number, kind in KINDS.items()}


def decode(data: np.ndarray, name: str) -> np.ndarray:
    """The float32 numbers in the bytes of a tensor."""
    if name == "F32":
        return data.view("<f4").astype(np.float32)
    if name == "F16":
        return data.view("<f2").astype(np.float32)
    if name == "BF16":
        return (data.view("<u2").astype(np.uint32) << np.uint32(16)).view(np.float32)
    blocks = data.reshape(-1, KINDS[NUMBERS[name]].nbytes)
    scale = _half(blocks, 0)
    if name == "Q8_0":
        return (scale * blocks[:, 2:].view(np.int8).astype(np.float32)).reshape(-1)
    if name == "Q4_0":
        return (scale * (_nibbles(blocks[:, 2:]) - 8)).reshape(-1)
    return (scale * _nibbles(blocks[:, 4:]) + _half(blocks, 2)).reshape(-1)


def _half(blocks: np.ndarray, at: int) -> np.ndarray:
    """The float16 at a byte of each block, as a column of float32."""
    return np.ascontiguousarray(blocks[:, at : at + 2]).view("<f2").astype(np.float32)


def _nibbles(packed: np.ndarray) -> np.ndarray:
    """16 bytes hold 32 numbers: first the low halves of the bytes, then the high ones."""
    return np.concatenate([packed & 15, packed >> 4], axis=1).astype(np.float32)


def encode(values: np.ndarray, name: str) -> np.ndarray:
    """The bytes of float32 numbers as F32, F16 or Q8_0."""
    if name != "Q8_0":
        kind = {"F32": "<f4", "F16": "<f2"}[name]
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(values, np.float32).astype(kind).reshape(-1).view(np.uint8)
    blocks = np.ascontiguousarray(values, np.float32).reshape(-1, BLOCK)
    scale = np.abs(blocks).max(axis=1, keepdims=True) / np.float32(127)
    inverse = np.divide(1, scale, out=np.zeros_like(scale), where=scale != 0)
    scaled = blocks * inverse
    whole = np.floor(np.abs(scaled))
    whole += np.abs(scaled) - whole >= 0.5  # halves away from zero, as C's roundf
    quanta = np.copysign(whole, scaled).astype(np.int8).view(np.uint8)
    return np.concatenate([scale.astype("<f2").view(np.uint8), quanta], axis=1).reshape(-1)
