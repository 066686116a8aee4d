"""Counter-based random numbers: Philox4x32-10, the same numbers on any thread count and device.

A stream is named by two 64-bit integers, `seed` and `offset`. Block i of a seed is the Philox
cipher of the counter (i mod 2^32, i // 2^32, 0, 0) under the key (seed mod 2^32, seed // 2^32),
with i taken modulo 2^64: four 32-bit words. `offset` is the number of the first block, so two calls
do not overlap when the second offset lies beyond the first by `blocks(n)` of the first call.

Element e, in C order of the shape, is made from (w: word = lane of a block, b = offset + block):

    words      w(e)       lane e % 4 of block e // 4
    uniform    w(e) // 2^8 * 2^-24                             in [0, 1), 24 bits
    dropout    x[e] * (0 if w(e) < round(p * 2^32) else 1 / (1 - p))
    bits64     lane 2 (e % 2) + 2^32 * lane 2 (e % 2) + 1      of block e // 2
    integers   low + (bits64(e) * (high - low)) // 2^64
    normal     from the words a, b that start at lane 2 (e // 2 % 2) of block e // 4:
               r = sqrt(-2 log((a + 1/2) 2^-32)),  t = 2 pi (b + 1/2) 2^-32,
               r cos t where e is even, r sin t where it is odd
    attention  dropout with e counted in C order of the [B, H, T, S] scores
"""

import numpy as np

__all__ = ["bits64", "dropout", "integers", "normal", "uniform"]

_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
_ALL = (1 << 64) - 1


def blocks(n, per_block=4):
    """How many Philox blocks n elements use: advance the offset by this much after a call."""
    return -(-n // per_block)


def philox(counter, seed):
    """Philox4x32-10 of counters [N, 4] (uint32) under one 64-bit seed -> [N, 4] uint32."""
    c0, c1, c2, c3 = np.asarray(counter, np.uint64).T
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF
    for _ in range(10):
        p, q = c0 * _M0, c2 * _M1
        c0, c1, c2, c3 = (q >> _HALF) ^ c1 ^ np.uint64(k0), q & _LOW, \
                         (p >> _HALF) ^ c3 ^ np.uint64(k1), p & _LOW
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3], axis=1).astype(np.uint32)


def words(n, seed, offset):
    """The first n 32-bit words of the stream."""
    block = np.arange(blocks(n), dtype=np.uint64) + np.uint64(offset & _ALL)
    zero = np.zeros_like(block)
    counter = np.stack([block & _LOW, block >> _HALF, zero, zero], axis=1)
    return philox(counter, seed & _ALL).reshape(-1)[:n]


def _size(shape):
    return int(np.prod(shape, dtype=object)) if np.iterable(shape) else int(shape)


def uniform(shape, seed, offset):
    """float32 in [0, 1): multiples of 2^-24."""
    w = words(_size(shape), seed, offset)
    return ((w >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)).reshape(shape)


def normal(shape, seed, offset):
    """float32 with mean 0 and variance 1, by the Box-Muller transform of pairs of words."""
    n = _size(shape)
    pairs = (words(blocks(n) * 4, seed, offset).reshape(-1, 2) + 0.5) * 2.0**-32
    r, t = np.sqrt(-2 * np.log(pairs[:, 0])), 2 * np.pi * pairs[:, 1]
    out = np.stack([r * np.cos(t), r * np.sin(t)], axis=1).reshape(-1)[:n]
    return out.astype(np.float32).reshape(shape)


def bits64(n, seed, offset):
    """n uint64, two to a block, the low half first."""
    pairs = words(2 * n, seed, offset).reshape(-1, 2).astype(np.uint64)
    return pairs[:, 0] | pairs[:, 1] << _HALF


def integers(low, high, shape, seed, offset):
    """int64 in [low, high), uniform to within (high - low) / 2^64."""
    if not low < high:
        raise ValueError(f"integers: low must be below high, got {low} and {high}")
    out = [low + (int(b) * (high - low) >> 64) for b in bits64(_size(shape), seed, offset)]
    return np.array(out, np.int64).reshape(shape)


def keep_words(w, p):
    """Which elements stay at dropout probability p, from their words."""
    return w.astype(np.uint64) >= np.uint64(round(p * 2**32))


def dropout(x, p, seed, offset):
    """x / (1 - p) with probability 1 - p, else 0; its gradient is the same call on g."""
    if not 0 <= p <= 1:
        raise ValueError(f"dropout: p must be between 0 and 1, got {p}")
    keep = keep_words(words(x.size, seed, offset), p).reshape(x.shape)
    scale = x.dtype.type(0 if p == 1 else 1 / (1 - p))
    return x * np.where(keep, scale, x.dtype.type(0))
