"""What the kernels over rows share: the door for indices, and how many rows make a piece."""

cimport numpy as cnp


cdef inline cnp.ndarray i64(object x, str what):
    """x as a C-contiguous int64 array, copied only when it is not contiguous."""
    if cnp.PyArray_Check(x) and cnp.PyArray_TYPE(<cnp.ndarray>x) == cnp.NPY_INT64:
        if cnp.PyArray_ISCARRAY_RO(<cnp.ndarray>x):
            return <cnp.ndarray>x
        return cnp.PyArray_NewCopy(<cnp.ndarray>x, cnp.NPY_CORDER)
    raise TypeError(
        f"{what}: expected an int64 array, got "
        + (f"one of {x.dtype}" if cnp.PyArray_Check(x) else type(x).__name__)
    )


cdef inline Py_ssize_t grain_of(Py_ssize_t width) noexcept nogil:
    """Rows of `width` elements that are worth handing to another thread."""
    return 1 if width > 32768 else 32768 // (width if width > 0 else 1)


cdef inline bint same_shape(cnp.ndarray a, cnp.ndarray b) noexcept:
    cdef int i
    if cnp.PyArray_NDIM(a) != cnp.PyArray_NDIM(b):
        return False
    for i in range(cnp.PyArray_NDIM(a)):
        if cnp.PyArray_DIM(a, i) != cnp.PyArray_DIM(b, i):
            return False
    return True
