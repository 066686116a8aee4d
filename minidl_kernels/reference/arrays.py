"""Making and copying arrays: every result is fresh, contiguous and 64-byte aligned."""

import numpy as np

from minidl_kernels.cpu.memory import broadcast_to as broadcast_to  # a view at C's cost
from minidl_kernels.cpu.memory import empty_array as empty


def full(shape, value, dtype):
    """An array of `shape` with every element `value`."""
    out = empty(shape, dtype)
    out.fill(value)
    return out


def ones(shape, dtype):
    return full(shape, 1, dtype)


def zeros(shape, dtype):
    return full(shape, 0, dtype)


def copy(x):
    """A contiguous copy of x."""
    out = empty(x.shape, x.dtype)
    np.copyto(out, x)
    return out


def contiguous(x):
    """x itself when C-contiguous, else a copy."""
    return x if x.flags.c_contiguous else copy(x)


def cast(x, dtype):
    """x as another dtype, always a copy; what does not fit becomes what C makes of it, silently."""
    out = empty(x.shape, dtype)
    with np.errstate(invalid="ignore", over="ignore"):
        np.copyto(out, x, casting="unsafe")
    return out
