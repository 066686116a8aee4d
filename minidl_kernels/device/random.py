"""Random numbers from the CPU's Philox streams: the same seed and offset, the same numbers.

What each element is made of is written in reference/random.py. Functions that make an array take
the device first; creators() in create.py binds it.
"""

import math
import struct

import numpy as np

from minidl_kernels.device.move import contiguous

__all__ = ["dropout"]

_ALL = (1 << 64) - 1


def stream(seed, offset):
    """The bytes of a Stream of common.h."""
    return struct.pack("2Q", seed & _ALL, offset & _ALL)


def dropout(x, p, seed, offset):
    """x / (1 - p) with probability 1 - p, else 0; its gradient is the same call on g."""
    if not 0 <= p <= 1:
        raise ValueError(f"dropout: p must be between 0 and 1, got {p}")
    x = contiguous(x)
    y = x.device.empty(x.shape, x.dtype)
    if y.size:
        x.device.launch("random", "dropout", x.device.spread(-(-y.size // 4)),
                        (x, y, stream(seed, offset), *threshold(p), y.size))
    return y


def threshold(p):
    """(the word below which an element is dropped, what the others are multiplied by)."""
    below = round(p * 2**32)
    return (2**32 - 1, 0.0) if below >= 2**32 else (below, 1 / (1 - p))


def _shape(shape):
    return (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)


def _floats(kernel, device, shape, seed, offset):
    y = device.empty(_shape(shape), np.float32)
    if y.size:
        device.launch("random", kernel, device.spread(-(-y.size // 4)),
                      (y, stream(seed, offset), y.size))
    return y


def uniform(device, shape, seed, offset):
    """float32 in [0, 1): multiples of 2^-24."""
    return _floats("uniform", device, shape, seed, offset)


def normal(device, shape, seed, offset):
    """float32 with mean 0 and variance 1, by the Box-Muller transform of pairs of words."""
    return _floats("normal", device, shape, seed, offset)


def bits64(device, n, seed, offset):
    """n numbers of 64 bits, as int64."""
    return _integers(device, (n,), seed, offset, 0, 0)


def integers(device, low, high, shape, seed, offset):
    """int64 in [low, high), uniform to within (high - low) / 2^64."""
    if not low < high:
        raise ValueError(f"integers: low must be below high, got {low} and {high}")
    return _integers(device, _shape(shape), seed, offset, low, high - low)


def _integers(device, shape, seed, offset, low, count):
    y = device.empty(shape, np.int64)
    if math.prod(shape):
        device.launch("random", "bits64", device.spread(-(-y.size // 2)),
                      (y, stream(seed, offset), low, count, y.size))
    return y
