"""Counter-based random numbers on the CPU: Philox4x32-10, bit for bit those of the reference.

`seed` and `offset` are 64-bit integers; minidl_kernels/reference/random.py says which counter makes
which element. After a call of n elements the next offset is at least ceil(n / 4) further (ceil(n /
2) for bits64 and integers).
"""

cimport numpy as cnp
from libc.math cimport rint
from libc.stdint cimport int64_t, uint64_t

from minidl_kernels.cpu cimport threads
from minidl_kernels.cpu.memory cimport allocate, empty_like, f32, ptr

import operator

cnp.import_array()

cdef extern from "random.h":
    ctypedef struct Random:
        void *y
        const float *x
        uint64_t seed, offset, threshold
        float scale
        int64_t low
        uint64_t range

    ctypedef struct RandomTable:
        threads.Task uniform
        threads.Task normal
        threads.Task dropout
        threads.Task bits64
        threads.Task integers

cdef extern from *:
    """
    #define RANDOM_TABLE MINIDL_PICK(minidl_random)
    """
    const RandomTable *RANDOM_TABLE

cdef const RandomTable *K = RANDOM_TABLE

cdef enum:
    GRAIN = 8192    # elements of a piece, a multiple of RANDOM_STEP


cdef cnp.ndarray new(str name, object shape, int typenum):
    """An uninitialised array of `shape`, an int or a sequence of ints."""
    cdef cnp.npy_intp[64] dims
    cdef int i = 0
    shape = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    if len(shape) > 64:
        raise ValueError(f"{name}: at most 64 axes are possible, got {len(shape)}")
    for n in shape:
        try:
            dims[i] = operator.index(n)
        except TypeError:
            raise TypeError(f"{name}: a shape is made of ints, got {shape}") from None
        except OverflowError:
            raise MemoryError(f"{name}: cannot allocate an array of shape {shape}") from None
        if dims[i] < 0:
            raise ValueError(f"{name}: negative size in shape {shape}")
        i += 1
    return allocate(i, dims, typenum)


cdef int set_stream(Random *r, str name, object seed, object offset) except -1:
    try:
        r.seed = operator.index(seed) & 0xFFFFFFFFFFFFFFFF
        r.offset = operator.index(offset) & 0xFFFFFFFFFFFFFFFF
    except TypeError:
        raise TypeError(f"{name}: seed and offset must be ints, got {type(seed).__name__} and "
                        f"{type(offset).__name__}") from None
    return 0


def uniform(shape, seed, offset):
    """float32 in [0, 1): multiples of 2^-24.

    >>> float(uniform((2, 3), seed=0, offset=0)[0, 0])
    0.39904642105102539
    """
    cdef Random r
    cdef cnp.ndarray y
    set_stream(&r, "uniform", seed, offset)
    y = new("uniform", shape, cnp.NPY_FLOAT32)
    r.y = cnp.PyArray_DATA(y)
    threads.run(K.uniform, &r, y.size, GRAIN)
    return y


def normal(shape, seed, offset):
    """float32 with mean 0 and variance 1, by the Box-Muller transform of pairs of words."""
    cdef Random r
    cdef cnp.ndarray y
    set_stream(&r, "normal", seed, offset)
    y = new("normal", shape, cnp.NPY_FLOAT32)
    r.y = cnp.PyArray_DATA(y)
    threads.run(K.normal, &r, y.size, GRAIN)
    return y


def bits64(n, seed, offset):
    """n uint64, two to a block, the low half first."""
    cdef Random r
    cdef cnp.ndarray y
    set_stream(&r, "bits64", seed, offset)
    y = new("bits64", (n,), cnp.NPY_UINT64)
    r.y = cnp.PyArray_DATA(y)
    threads.run(K.bits64, &r, y.size, GRAIN)
    return y


def integers(low, high, shape, seed, offset):
    """int64 in [low, high), uniform to within (high - low) / 2^64."""
    cdef Random r
    cdef cnp.ndarray y
    set_stream(&r, "integers", seed, offset)
    if not -(1 << 63) <= low < high <= 1 << 63:
        raise ValueError("integers: low must be below high, both within int64, got "
                         f"{low} and {high}")
    if high - low == 1 << 64:
        raise ValueError("integers: a range of 2^64 values is one too many; see bits64")
    r.low, r.range = low, high - low
    y = new("integers", shape, cnp.NPY_INT64)
    r.y = cnp.PyArray_DATA(y)
    threads.run(K.integers, &r, y.size, GRAIN)
    return y


def dropout(x, double p, seed, offset):
    """x / (1 - p) with probability 1 - p, else 0; its gradient is the same call on g."""
    cdef Random r
    cdef cnp.ndarray x_ = f32(x, "dropout: x"), y
    if not 0 <= p <= 1:
        raise ValueError(f"dropout: p must be between 0 and 1, got {p}")
    set_stream(&r, "dropout", seed, offset)
    y = empty_like(x_)
    r.y, r.x = cnp.PyArray_DATA(y), ptr(x_)
    r.threshold = <uint64_t>rint(p * 4294967296.0)
    r.scale = 0 if p == 1 else 1 / (1 - p)
    threads.run(K.dropout, &r, y.size, GRAIN)
    return y
