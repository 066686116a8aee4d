"""A shuffle without a list: where an index goes is a formula of the seed."""

from __future__ import annotations

import numpy as np

from minidl.errors import ArgumentError

ROUNDS = 6


def permuted(positions: np.ndarray, n: int, seed: int, epoch: int = 0) -> np.ndarray:
    """The elements at ``positions`` of a permutation of range(n) chosen by seed and epoch.

    A Feistel network, which is a permutation of [0, 4^h) whatever its round function, walked until
    it lands below n (twice on average, four times at worst). Nothing is stored: any position
    costs the same, and the shuffle of a billion samples takes no memory.

    >>> permuted(np.arange(5), 5, seed=1).tolist()
    [1, 2, 3, 4, 0]
    """
    x = np.array(positions, np.uint64)
    if n < 1 or (x.size and int(x.max()) >= n):
        raise ArgumentError(f"permuted: positions must be at least 0 and below n, which is {n}")
    half = max(1, -(-(n - 1).bit_length() // 2))
    keys = _mix(np.arange(1, ROUNDS + 1, dtype=np.uint64) + _mix(_word(seed) ^ _mix(_word(epoch))))
    x = _feistel(x, half, keys)
    outside = np.flatnonzero(x >= n)
    while outside.size:
        x[outside] = _feistel(x[outside], half, keys)
        outside = outside[x[outside] >= n]
    return x.astype(np.int64)


def _feistel(x: np.ndarray, half: int, keys: np.ndarray) -> np.ndarray:
    """ROUNDS times (left, right) = (right, left ^ hash(right)), on halves of ``half`` bits."""
    shift, mask = np.uint64(half), np.uint64((1 << half) - 1)
    left, right = x >> shift, x & mask
    for key in keys:
        left, right = right, left ^ (_mix(right ^ key) & mask)
    return left << shift | right


def _mix(x: np.ndarray) -> np.ndarray:
    """The finalizer of splitmix64: every bit of the result depends on every bit of x."""
    x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return x ^ x >> np.uint64(31)


def _word(number: int) -> np.ndarray:
    """A Python integer as an array of one element, in which products wrap around quietly."""
    return np.array([(number + 0x9E3779B97F4A7C15) & (1 << 64) - 1], np.uint64)
