cimport numpy as cnp


cdef class Block:
    """A piece of 64-byte aligned memory, given back to the cache when the last array drops it."""
    cdef void *pointer
    cdef int size_class
    cdef readonly size_t nbytes
    cdef public Py_ssize_t epoch      # when an in-place op last wrote here: see minidl/_core.pyx
    cdef public object writer         # the name of that op


cdef cnp.ndarray allocate(int ndim, const cnp.npy_intp *shape, int typenum)
cdef cnp.ndarray empty(int ndim, const cnp.npy_intp *shape)
cdef cnp.ndarray empty_like(cnp.ndarray x)
cdef cnp.ndarray copy_f32(cnp.ndarray x)


cdef inline float* ptr(cnp.ndarray x) noexcept:
    return <float*>cnp.PyArray_DATA(x)


cdef inline cnp.ndarray f32(object x, str what):
    """The door of every kernel: x as a C-contiguous float32 array, copied only when it is not."""
    if cnp.PyArray_Check(x) and cnp.PyArray_TYPE(<cnp.ndarray>x) == cnp.NPY_FLOAT32:
        if cnp.PyArray_ISCARRAY_RO(<cnp.ndarray>x):
            return <cnp.ndarray>x
        return copy_f32(<cnp.ndarray>x)
    raise TypeError(
        f"{what}: expected a float32 array, got "
        + (f"one of {x.dtype}" if cnp.PyArray_Check(x) else type(x).__name__)
    )
