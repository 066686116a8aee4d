# How arrays become the matrices of a product, without a copy where strides allow it.

cdef int check_countable(Py_ssize_t rows, Py_ssize_t columns, object x, str what) except -1:
    """Refuse what BLAS cannot count, before anything of that size is copied or allocated."""
    if rows > INT_LIMIT or columns > INT_LIMIT:
        raise ValueError(f"{what}: BLAS counts in 32 bits and cannot take a matrix of {rows} rows "
                         f"and {columns} columns (shape {x.shape}); cut it into smaller ones")
    return 0


cdef Py_ssize_t count_rows(cnp.ndarray x) noexcept:
    """The product of all axes but the last."""
    cdef Py_ssize_t rows = 1
    cdef int i
    for i in range(cnp.PyArray_NDIM(x) - 1):
        rows *= cnp.PyArray_DIM(x, i)
    return rows


cdef cnp.ndarray as_rows(object x, str what):
    """x[..., K] as a contiguous array whose leading axes together are the rows of a matrix."""
    cdef int nd
    if cnp.PyArray_Check(x):
        nd = cnp.PyArray_NDIM(<cnp.ndarray>x)
        if nd < 1:
            raise ValueError(f"{what}: expected at least 1 dimension, got a 0-d array")
        check_countable(count_rows(x), cnp.PyArray_DIM(<cnp.ndarray>x, nd - 1), x, what)
    return f32(x, what)


cdef inline bint fits_ld(Py_ssize_t step, Py_ssize_t length) noexcept nogil:
    """Whether a step in bytes between rows of `length` floats can be a leading dimension."""
    return step % 4 == 0 and length <= step // 4 <= INT_LIMIT


cdef cnp.ndarray as_matrix(object x, Matrix *out, str what):
    """The last two axes of x as a Matrix without a copy when one of them is contiguous."""
    cdef cnp.ndarray a
    cdef Py_ssize_t rows, columns, row_step, column_step
    if not (cnp.PyArray_Check(x) and cnp.PyArray_TYPE(<cnp.ndarray>x) == cnp.NPY_FLOAT32
            and cnp.PyArray_ISBEHAVED_RO(<cnp.ndarray>x)):
        x = f32(x, what)
    a = <cnp.ndarray>x
    cdef int nd = cnp.PyArray_NDIM(a)
    if nd < 2:
        raise ValueError(f"{what}: expected at least 2 dimensions, got shape {x.shape}")
    rows = cnp.PyArray_DIM(a, nd - 2)
    columns = cnp.PyArray_DIM(a, nd - 1)
    row_step = cnp.PyArray_STRIDE(a, nd - 2)
    column_step = cnp.PyArray_STRIDE(a, nd - 1)
    check_countable(rows, columns, x, what)
    if (column_step == 4 or columns <= 1) and (rows <= 1 or fits_ld(row_step, columns)):
        out.transposed = False
        out.ld = max(row_step // 4 if rows > 1 else columns, columns, 1)
    elif (row_step == 4 or rows <= 1) and (columns <= 1 or fits_ld(column_step, rows)):
        out.transposed = True
        out.ld = max(column_step // 4 if columns > 1 else rows, rows, 1)
    else:
        a = copy_f32(a)
        out.transposed = False
        out.ld = max(columns, 1)
    out.data = <const float*>cnp.PyArray_DATA(a)
    return a


cdef int batch_offsets(cnp.ndarray a, cnp.ndarray batch_shape, Py_ssize_t *offsets) except -1:
    """Element offset of every matrix of a, broadcast over the batch axes."""
    cdef Py_ssize_t nb = cnp.PyArray_SIZE(batch_shape), i, axis, step, count = 1, size
    cdef cnp.npy_int64 *dims = <cnp.npy_int64*>cnp.PyArray_DATA(batch_shape)
    cdef int own = cnp.PyArray_NDIM(a) - 2
    for axis in range(nb):
        count *= dims[axis]
    for i in range(count):
        offsets[i] = 0
        size = i
        for axis in range(nb - 1, -1, -1):
            if axis >= nb - own and cnp.PyArray_DIM(a, <int>(axis - nb + own)) != 1:
                step = cnp.PyArray_STRIDE(a, <int>(axis - nb + own)) // 4
                offsets[i] += size % dims[axis] * step
            size //= dims[axis]
    return 0
