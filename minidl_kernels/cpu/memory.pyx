"""The caching allocator: 64-byte aligned blocks in size classes, handed out again when freed.

A block belongs to the arrays that view it and returns to its size class when the last of them
dies, so a steady training step asks the operating system for nothing. Callers hold the GIL.
"""

cimport numpy as cnp
from cpython.ref cimport Py_INCREF, PyObject
from libc.stdlib cimport realloc

import numpy as np

cnp.import_array()

cdef extern from "aligned.h":
    void *aligned_take(size_t nbytes) nogil
    void aligned_give(void *pointer, size_t nbytes) nogil

cdef extern from "numpy/arrayobject.h":
    int PyArray_SetBaseObject(cnp.ndarray arr, object base) except -1
    object PyArray_NewFromDescr(type subtype, cnp.dtype descr, int nd, cnp.npy_intp *dims,
                                cnp.npy_intp *strides, void *data, int flags, PyObject *obj)

cdef enum:
    # Four classes to a power of two from 64 bytes up: at most a fifth of a block is unused.
    CLASSES = 224
    # Cached memory above this much more than what was ever in use at once is given back.
    SLACK = 64 << 20
    # A block of this size is in no cache of a core.
    LARGE = 8 << 20

cdef struct Stack:
    void **items
    Py_ssize_t count
    Py_ssize_t room

cdef Stack _free[CLASSES]
cdef size_t _in_use = 0, _peak = 0, _cached = 0
cdef Py_ssize_t _taken = 0, _given = 0, _served = 0


cdef inline int class_of(size_t nbytes) noexcept nogil:
    """The smallest class whose size is at least nbytes."""
    cdef int power = 6
    if nbytes <= 64:
        return 0
    while (<size_t>1 << (power + 1)) < nbytes:
        power += 1
    return (power - 6) * 4 + <int>((nbytes - (<size_t>1 << power) - 1) >> (power - 2)) + 1


cdef inline size_t size_of(int size_class) noexcept nogil:
    cdef int power = 6 + size_class // 4
    return (<size_t>1 << power) + ((<size_t>(size_class % 4)) << (power - 2))


cdef class Block:
    def __cinit__(self):
        self.pointer = NULL

    def __dealloc__(self):
        if self.pointer != NULL:
            _release(self.pointer, self.size_class)


cdef void _release(void *pointer, int size_class) noexcept:
    global _in_use, _cached
    cdef Stack *stack = &_free[size_class]
    cdef size_t nbytes = size_of(size_class)
    cdef Py_ssize_t room
    cdef void **items
    _in_use -= nbytes
    if stack.count == stack.room:
        room = stack.room * 2 + 8
        items = <void**>realloc(stack.items, room * sizeof(void*))
        if items == NULL:
            aligned_give(pointer, nbytes)
            return
        stack.items = items
        stack.room = room
    stack.items[stack.count] = pointer
    stack.count += 1
    _cached += nbytes


cdef void *_pop(Stack *stack, bint large) noexcept nogil:
    """The block that was freed last, since it may be in a cache still; of large ones the lowest.

    So a step has each of its large arrays where the step before had it: one that is written past
    the caches does not take the place of one that is in them.
    """
    cdef Py_ssize_t chosen = stack.count - 1, i
    cdef void *pointer
    for i in range(stack.count if large else 0):
        if stack.items[i] < stack.items[chosen]:
            chosen = i
    pointer = stack.items[chosen]
    stack.count -= 1
    stack.items[chosen] = stack.items[stack.count]
    return pointer


cdef Block _take(size_t nbytes):
    """A block of at least nbytes, from the cache when it has one of the class."""
    global _in_use, _peak, _cached, _taken, _served
    cdef int size_class = class_of(nbytes)
    cdef Stack *stack = &_free[size_class]
    cdef size_t size = size_of(size_class)
    cdef Block block = Block.__new__(Block)
    cdef void *pointer
    if stack.count > 0:
        pointer = _pop(stack, size >= LARGE)
        _cached -= size
        _served += 1
    else:
        if _in_use + _cached + size > _peak + _peak // 2 + SLACK:
            _empty_cache()
        pointer = aligned_take(size)
        if pointer == NULL:
            _empty_cache()
            pointer = aligned_take(size)
        if pointer == NULL:
            raise MemoryError(f"cannot allocate {nbytes:,} bytes ({_in_use:,} bytes are in use)")
        _taken += 1
    block.pointer = pointer
    block.size_class = size_class
    block.nbytes = size
    block.epoch = 0
    _in_use += size
    if _in_use > _peak:
        _peak = _in_use
    return block


cdef void _empty_cache() noexcept:
    global _cached, _given
    cdef int c
    for c in range(CLASSES):
        while _free[c].count > 0:
            _free[c].count -= 1
            aligned_give(_free[c].items[_free[c].count], size_of(c))
            _cached -= size_of(c)
            _given += 1


cdef cnp.ndarray allocate(int ndim, const cnp.npy_intp *shape, int typenum):
    """An uninitialised C-contiguous array of any plain dtype over a block of the cache."""
    cdef size_t nbytes = 1
    cdef size_t limit = <size_t>1 << 60
    cdef int i
    cdef cnp.dtype descr = cnp.PyArray_DescrFromType(typenum)
    cdef Block block
    cdef cnp.ndarray out
    for i in range(ndim):
        if shape[i] < 0:
            raise ValueError("negative dimensions are not allowed: "
                             f"got shape {tuple([shape[j] for j in range(ndim)])}")
    for i in range(ndim):
        if shape[i] == 0:
            nbytes = 0
    if nbytes:
        nbytes = descr.itemsize
        for i in range(ndim):
            if nbytes > limit // <size_t>shape[i]:
                raise MemoryError("cannot allocate an array of shape "
                                  f"{tuple([shape[j] for j in range(ndim)])}: too many bytes")
            nbytes *= <size_t>shape[i]
    block = _take(nbytes)
    out = cnp.PyArray_New(cnp.ndarray, ndim, <cnp.npy_intp*>shape, typenum, NULL, block.pointer, 0,
                          cnp.NPY_ARRAY_CARRAY, <object>NULL)
    Py_INCREF(block)
    PyArray_SetBaseObject(out, block)
    return out


cdef cnp.ndarray empty(int ndim, const cnp.npy_intp *shape):
    return allocate(ndim, shape, cnp.NPY_FLOAT32)


cdef cnp.ndarray empty_like(cnp.ndarray x):
    return allocate(cnp.PyArray_NDIM(x), cnp.PyArray_DIMS(x), cnp.NPY_FLOAT32)


cdef cnp.ndarray copy_f32(cnp.ndarray x):
    """A C-contiguous copy of a float32 array of any strides."""
    cdef cnp.ndarray out = empty_like(x)
    cnp.PyArray_CopyInto(out, x)
    return out


def empty_array(shape, dtype="float32"):
    """An uninitialised C-contiguous, 64-byte aligned array from the cache.

    >>> empty_array((2, 3)).shape
    (2, 3)
    """
    cdef cnp.npy_intp dims[64]
    cdef cnp.dtype descr = np.dtype(dtype)
    cdef int i, ndim
    if isinstance(shape, int):
        shape = (shape,)
    ndim = <int>len(shape)
    if ndim > 64:
        raise ValueError(f"at most 64 dimensions are possible, got {ndim}")
    for i in range(ndim):
        dims[i] = <Py_ssize_t>shape[i]          # refuses 1.5, which an int would cut to 1
    if descr.hasobject or descr.itemsize == 0:
        raise TypeError(f"empty: no arrays of dtype {descr} are made here, only of plain numbers")
    if descr.isbuiltin != 1:
        # bfloat16 and its like are NumPy extension types: bytes from the cache, seen as that type.
        return empty_array((*shape, descr.itemsize), "uint8").view(descr).reshape(shape)
    return allocate(ndim, dims, descr.type_num)


def broadcast_to(cnp.ndarray x not None, tuple shape not None):
    """A read-only view of x stretched to `shape`; as NumPy's, without its Python frames.

    >>> broadcast_to(np.ones((2, 1)), (3, 2, 4)).strides
    (0, 8, 0)
    """
    cdef cnp.npy_intp dims[64]
    cdef cnp.npy_intp strides[64]
    cdef int ndim = <int>min(len(shape), 65), own = cnp.PyArray_NDIM(x), d, k
    cdef bint fits = own <= ndim <= 64
    cdef cnp.ndarray out
    cdef cnp.dtype descr
    for d in range(ndim if fits else 0):
        dims[d] = shape[d]
        strides[d] = 0
        k = d - ndim + own
        fits = fits and dims[d] >= 0
        if k >= 0 and cnp.PyArray_DIM(x, k) != 1:
            fits = fits and cnp.PyArray_DIM(x, k) == dims[d]
            strides[d] = cnp.PyArray_STRIDE(x, k)
    if not fits:
        raise ValueError(f"shape {(<object>x).shape} does not broadcast to {shape}")
    descr = x.descr
    Py_INCREF(descr)
    out = PyArray_NewFromDescr(cnp.ndarray, descr, ndim, dims, strides, cnp.PyArray_DATA(x), 0,
                               NULL)
    Py_INCREF(x)
    PyArray_SetBaseObject(out, x)
    return out


def empty_cache():
    """Give all cached (unused) memory back to the operating system."""
    _empty_cache()


def memory_stats():
    """Bytes in use, their peak, bytes cached, and how often the operating system was asked.

    `os_allocations` stops growing once a training loop is steady; `cache_hits` grows instead.

    >>> sorted(memory_stats())
    ['cache_hits', 'cached_bytes', 'in_use_bytes', 'os_allocations', 'os_frees', 'peak_bytes']
    """
    return {"in_use_bytes": _in_use, "peak_bytes": _peak, "cached_bytes": _cached,
            "os_allocations": _taken, "os_frees": _given, "cache_hits": _served}


def reset_peak_memory():
    """Start measuring the peak anew, from what is in use now."""
    global _peak
    _peak = _in_use
