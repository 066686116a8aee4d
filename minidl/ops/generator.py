"""Random numbers from a counter (Philox): the same on any thread count and any device.

A Generator is a seed and an offset into its stream. Every call reserves as many blocks of the
stream as its elements need, so what a call returns depends on the seed and on the calls before it,
never on who computes which part.
"""

import os

import numpy as np

from minidl import errors
from minidl._core import Tensor
from minidl.ops.device import CPU, backend_on
from minidl.ops.dims import integer
from minidl_kernels import EXACT, HOST

__all__ = ["Generator", "default_generator"]

_ALL = (1 << 64) - 1


class Generator:
    """A stream of random numbers of its own, at a place in it.

    >>> g = md.Generator().manual_seed(1)
    >>> a = md.rand(3, generator=g)
    >>> bool((a == md.rand(3, generator=g.manual_seed(1))).all())
    True
    """

    def __init__(self, device="cpu"):
        backend_on("Generator", device)
        self._seed = 0
        self._offset = 0

    device = CPU

    def manual_seed(self, seed):
        """Start the stream of this seed from its beginning."""
        self._seed = integer("manual_seed", seed, "seed") & _ALL
        self._offset = 0
        return self

    def seed(self):
        """Start from a seed the operating system picks, and return it."""
        self.manual_seed(int.from_bytes(os.urandom(8), "little"))
        return self._seed

    def initial_seed(self):
        """The seed of the stream."""
        return self._seed

    def get_state(self):
        """The seed and the place in the stream, as an int64 tensor of two elements."""
        return Tensor(np.array([self._seed, self._offset], np.uint64).view(np.int64))

    def set_state(self, new_state):
        """Continue from a state that get_state() returned."""
        state = new_state.array if isinstance(new_state, Tensor) else np.asarray(new_state)
        if state.shape != (2,) or state.dtype != np.int64:
            raise errors.ArgumentError("set_state: expected the int64 tensor of two elements that "
                                       f"get_state() returns, got {state.dtype} of {state.shape}")
        self._seed, self._offset = [int(n) & _ALL for n in state]
        return self

    def reserve(self, n, per_block=4):
        """(seed, offset) of the next blocks of the stream, enough for n elements, now used up."""
        offset = self._offset
        self._offset = offset + -(-n // per_block) & _ALL
        return self._seed, offset

    def __getstate__(self):
        return {"_seed": self._seed, "_offset": self._offset}


default_generator = Generator()
default_generator.seed()


def chosen(generator):
    if generator is None:
        return default_generator
    if not isinstance(generator, Generator):
        raise TypeError(f"generator: expected md.Generator, got {type(generator).__name__}")
    return generator


def uniform_array(shape, dtype, generator, be=EXACT):
    """Uniform in [0, 1): 24 bits each for float32, 53 for float64; made where `be` computes."""
    n = int(np.prod(shape, dtype=object))
    if be is not EXACT:
        return drawn_on(be, be.uniform, shape, dtype, chosen(generator).reserve(n))
    if dtype == np.float64:
        bits = HOST.bits64(n, *chosen(generator).reserve(n, 2))
        return ((bits >> np.uint64(11)) * 2.0**-53).reshape(shape)
    values = HOST.uniform(shape, *chosen(generator).reserve(n))
    return values if dtype == np.float32 else EXACT.cast(values, dtype)


def drawn_on(be, draw, shape, dtype, place):
    """float32 numbers drawn on a device, as another dtype that it has."""
    values = draw(shape, *place)
    return values if dtype == np.float32 else be.cast(values, dtype)


def normal_array(shape, dtype, generator, be=EXACT):
    """Mean 0 and variance 1; float64 by the Box-Muller transform of pairs of 53-bit numbers."""
    n = int(np.prod(shape, dtype=object))
    if be is not EXACT:
        return drawn_on(be, be.normal, shape, dtype, chosen(generator).reserve(n))
    if dtype == np.float64:
        pairs = uniform_array((-(-n // 2), 2), dtype, generator)
        r = np.sqrt(-2 * np.log1p(-pairs[:, 0]))
        t = 2 * np.pi * pairs[:, 1]
        return np.stack([r * np.cos(t), r * np.sin(t)], 1).reshape(-1)[:n].reshape(shape)
    values = HOST.normal(shape, *chosen(generator).reserve(n))
    return values if dtype == np.float32 else EXACT.cast(values, dtype)


def integer_array(name, low, high, shape, generator, be=EXACT):
    """int64 in [low, high), made where `be` computes."""
    low, high = integer(name, low, "low"), integer(name, high, "high")
    if low >= high:
        raise errors.ArgumentError(f"{name}: expected low < high, got {low} and {high}")
    n = int(np.prod(shape, dtype=object))
    make = HOST.integers if be is EXACT else be.integers
    return make(low, high, shape, *chosen(generator).reserve(n, 2))
