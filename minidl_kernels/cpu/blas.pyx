"""Matrix products: the one door to BLAS, cut into tiles for the pool.

Shape letters: C[M, N] = A[M, K] @ B[K, N], every matrix given by a pointer, a leading dimension and
whether it is stored transposed, so that views and transposes cost nothing. Tiles depend on the
shape only and K is never split, so the bits do not depend on the number of threads.
"""

cimport numpy as cnp
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset
from scipy.linalg.cython_blas cimport sgemm, sgemv

from minidl_kernels.cpu.memory cimport copy_f32, empty, f32, ptr
from minidl_kernels.cpu.threads cimport run

import numpy as np

cnp.import_array()

cdef enum:
    INT_LIMIT = 2147483647

cdef bint _use_blas = True


cdef struct Matrix:
    const float *data
    Py_ssize_t ld               # elements between stored rows
    bint transposed             # stored as [columns, rows]


cdef struct Product:
    float *c                    # OUT [batch, M, N], contiguous
    Matrix a                    # IN
    Matrix b                    # IN
    const float *bias           # IN [N] or NULL
    const Py_ssize_t *offsets_a  # IN per batch, or NULL for one product
    const Py_ssize_t *offsets_b
    Py_ssize_t m, n, k
    Py_ssize_t tile_m, tile_n, tiles
    float beta
    bint use_blas


# ----------------------------------------------------------------------------------- one tile

cdef void multiply_plain(float *c, const float *a, const float *b, Py_ssize_t m, Py_ssize_t n,
                         Py_ssize_t k, Py_ssize_t ldc, Py_ssize_t a_row, Py_ssize_t a_col,
                         Py_ssize_t b_row, Py_ssize_t b_col) noexcept nogil:
    """C += A @ B by three loops: what BLAS is compared with."""
    cdef Py_ssize_t i, j, p
    cdef float s
    for i in range(m):
        for j in range(n):
            s = c[i * ldc + j]
            for p in range(k):
                s += a[i * a_row + p * a_col] * b[p * b_row + j * b_col]
            c[i * ldc + j] = s


cdef void multiply(float *c, const float *a, const float *b, Py_ssize_t m, Py_ssize_t n,
                   Product *p) noexcept nogil:
    """One tile: C = beta * C + A @ B for the first m rows and n columns from the pointers."""
    # Fortran's column-major product of the transposes is our row-major product.
    cdef char flag_a = b'T' if p.a.transposed else b'N'
    cdef char flag_b = b'T' if p.b.transposed else b'N'
    cdef char flip
    cdef int mm = <int>m, nn = <int>n, kk = <int>p.k, one = 1, rows, columns
    cdef int lda = <int>p.a.ld, ldb = <int>p.b.ld, ldc = <int>p.n
    cdef float alpha = 1, beta = p.beta
    if m == 1:
        # c[n] = B^T a: B as Fortran sees it is [n, k] when stored plainly, [k, n] when transposed.
        flip = b'T' if p.b.transposed else b'N'
        rows = kk if p.b.transposed else nn
        columns = nn if p.b.transposed else kk
        sgemv(&flip, &rows, &columns, &alpha, <float*>b, &ldb, <float*>a,
              &lda if p.a.transposed else &one, &beta, c, &one)
    else:
        sgemm(&flag_b, &flag_a, &nn, &mm, &kk, &alpha, <float*>b, &ldb, <float*>a, &lda,
              &beta, c, &ldc)


cdef void tiles_task(void *ctx, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef Product *p = <Product*>ctx
    cdef Py_ssize_t across = (p.n + p.tile_n - 1) // p.tile_n
    cdef Py_ssize_t t, batch, i, j, m, n, row
    cdef const float *a
    cdef const float *b
    cdef float *c
    for t in range(begin, end):
        batch = t // p.tiles
        i = (t % p.tiles) // across * p.tile_m
        j = (t % p.tiles) % across * p.tile_n
        m = min(p.tile_m, p.m - i)
        n = min(p.tile_n, p.n - j)
        a = p.a.data + (i if p.a.transposed else i * p.a.ld)
        b = p.b.data + (j * p.b.ld if p.b.transposed else j)
        c = p.c + (batch * p.m + i) * p.n + j
        if p.offsets_a != NULL:
            a += p.offsets_a[batch]
            b += p.offsets_b[batch]
        if p.bias != NULL:
            for row in range(m):
                memcpy(c + row * p.n, p.bias + j, n * sizeof(float))
        if p.use_blas:
            multiply(c, a, b, m, n, p)
        else:
            if p.bias == NULL and p.beta == 0:
                for row in range(m):
                    memset(c + row * p.n, 0, n * sizeof(float))
            multiply_plain(c, a, b, m, n, p.k, p.n,
                           1 if p.a.transposed else p.a.ld, p.a.ld if p.a.transposed else 1,
                           1 if p.b.transposed else p.b.ld, p.b.ld if p.b.transposed else 1)


cdef Py_ssize_t worthwhile_tiles(double flops) noexcept nogil:
    """Every cut makes BLAS pack one operand again, so small products get few tiles.

    Above 16 GFLOP a tile has at most 2 (some 30 ms), after which Ctrl-C is looked at.
    """
    if flops < 4e6:
        return 1
    if flops < 1.2e8:
        return 2
    if flops < 2e9:
        return 4
    return max(<Py_ssize_t>8, <Py_ssize_t>(flops / 2e9))


cdef void cut(Product *p) noexcept nogil:
    """Choose the tiles from the shape alone: halve the longer side until there are enough."""
    cdef Py_ssize_t down = 1, across = 1
    cdef Py_ssize_t wanted = worthwhile_tiles(2.0 * p.m * p.n * p.k)
    while down * across < wanted:
        if p.m // down >= p.n // across and p.m // down >= 32:
            down *= 2
        elif p.n // across >= 32:
            across *= 2
        else:
            break
    p.tile_m = round_up((p.m + down - 1) // down, 8) if down > 1 else p.m
    p.tile_n = round_up((p.n + across - 1) // across, 8) if across > 1 else p.n
    p.tiles = ((p.m + p.tile_m - 1) // p.tile_m) * ((p.n + p.tile_n - 1) // p.tile_n)


cdef inline Py_ssize_t round_up(Py_ssize_t x, Py_ssize_t unit) noexcept nogil:
    return (x + unit - 1) // unit * unit


cdef int compute(Product *p, Py_ssize_t batch) except -1:
    """Run a product whose sizes, matrices and output are set."""
    cdef Py_ssize_t grain
    if batch == 0 or p.m == 0 or p.n == 0:
        return 0
    if p.bias != NULL:
        p.beta = 1
    p.use_blas = _use_blas
    if p.k == 0:
        return fill_empty(p, batch)
    cut(p)
    grain = 1
    if p.tiles == 1:                 # small products: several to a piece
        grain = max(1, <Py_ssize_t>(2e6 / (2.0 * p.m * p.n * p.k)))
    return run(tiles_task, p, batch * p.tiles, grain)


cdef int fill_empty(Product *p, Py_ssize_t batch) except -1:
    """A product over no terms: beta * C, or the bias."""
    cdef Py_ssize_t row
    for row in range(batch * p.m):
        if p.bias != NULL:
            memcpy(p.c + row * p.n, p.bias, p.n * sizeof(float))
        elif p.beta == 0:
            memset(p.c + row * p.n, 0, p.n * sizeof(float))
    return 0


# ------------------------------------------------------------------------------------- operands

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


# ------------------------------------------------------------------------------ Python kernels

def matmul(a, b):
    """a[..., M, K] @ b[..., K, N] -> [..., M, N], batch axes broadcast."""
    cdef Product p
    cdef cnp.npy_intp shape[64]
    cdef Py_ssize_t batch = 1, i
    cdef Py_ssize_t *offsets = NULL
    memset(&p, 0, sizeof(p))
    cdef cnp.ndarray x = as_matrix(a, &p.a, "matmul")
    cdef cnp.ndarray y = as_matrix(b, &p.b, "matmul")
    cdef int ndx = cnp.PyArray_NDIM(x), ndy = cnp.PyArray_NDIM(y), nd = max(ndx, ndy)
    cdef cnp.ndarray out
    p.m = cnp.PyArray_DIM(x, ndx - 2)
    p.k = cnp.PyArray_DIM(x, ndx - 1)
    p.n = cnp.PyArray_DIM(y, ndy - 1)
    if cnp.PyArray_DIM(y, ndy - 2) != p.k:
        raise ValueError(f"matmul: shapes {a.shape} and {b.shape} do not fit: "
                         f"{p.k} columns against {b.shape[ndy - 2]} rows")
    if nd > 2:
        batch_shape = np.broadcast_shapes(a.shape[:ndx - 2], b.shape[:ndy - 2])
        for i in range(nd - 2):
            shape[i] = batch_shape[i]
            batch *= shape[i]
    shape[nd - 2] = p.m
    shape[nd - 1] = p.n
    out = empty(nd, shape)
    p.c = ptr(out)
    if nd > 2 and cnp.PyArray_SIZE(out) > 0:
        if (ndy == 2 and not p.a.transposed and cnp.PyArray_IS_C_CONTIGUOUS(x)
                and p.m * batch <= INT_LIMIT):
            p.m *= batch             # [..., M, K] @ [K, N]: one tall product
            batch = 1
        else:
            offsets = <Py_ssize_t*>malloc(2 * batch * sizeof(Py_ssize_t))
            if offsets == NULL:
                raise MemoryError(f"matmul: no memory for {batch} offsets")
            dims = np.array(batch_shape, np.int64)
            batch_offsets(x, dims, offsets)
            batch_offsets(y, dims, offsets + batch)
            p.offsets_a = offsets
            p.offsets_b = offsets + batch
    try:
        compute(&p, batch)
    finally:
        free(offsets)
    return out


def linear(x, weight, bias):
    """x[..., K] @ weight[N, K]^T + bias[N] -> [..., N]; bias may be None."""
    cdef Product p
    cdef cnp.npy_intp shape[64]
    cdef int i, nd
    cdef cnp.ndarray a, w, c, out
    memset(&p, 0, sizeof(p))
    w = as_matrix(weight, &p.b, "linear")
    a = as_rows(x, "linear")
    nd = cnp.PyArray_NDIM(a)
    if cnp.PyArray_NDIM(w) != 2 or cnp.PyArray_DIM(a, nd - 1) != cnp.PyArray_DIM(w, 1):
        raise ValueError(f"linear: input of shape {x.shape} does not fit a weight of shape "
                         f"{weight.shape}")
    p.n = cnp.PyArray_DIM(w, 0)
    p.k = cnp.PyArray_DIM(w, 1)
    p.m = 1
    for i in range(nd - 1):
        shape[i] = cnp.PyArray_DIM(a, i)
        p.m *= shape[i]
    shape[nd - 1] = p.n
    p.b.transposed = not p.b.transposed
    p.a.data = ptr(a)
    p.a.ld = max(p.k, 1)
    if bias is not None:
        c = f32(bias, "linear")
        if cnp.PyArray_SIZE(c) != p.n:
            raise ValueError(f"linear: bias of shape {bias.shape} does not fit {p.n} outputs")
        p.bias = ptr(c)
    out = empty(nd, shape)
    p.c = ptr(out)
    compute(&p, 1)
    return out


def linear_grad_weight(g, x):
    """g[..., N]^T @ x[..., K] -> [N, K], the gradient of linear's weight."""
    cdef Product p
    cdef cnp.npy_intp shape[2]
    cdef cnp.ndarray a = as_rows(g, "linear_grad_weight"), b = as_rows(x, "linear_grad_weight")
    cdef cnp.ndarray out
    cdef int nda = cnp.PyArray_NDIM(a), ndb = cnp.PyArray_NDIM(b)
    memset(&p, 0, sizeof(p))
    p.m = cnp.PyArray_DIM(a, nda - 1)
    p.n = cnp.PyArray_DIM(b, ndb - 1)
    p.k = count_rows(a)
    if p.k != count_rows(b):
        raise ValueError(f"linear_grad_weight: gradient of shape {g.shape} does not fit an input "
                         f"of shape {x.shape}")
    p.a = Matrix(ptr(a), max(p.m, 1), True)
    p.b = Matrix(ptr(b), max(p.n, 1), False)
    shape[0] = p.m
    shape[1] = p.n
    out = empty(2, shape)
    p.c = ptr(out)
    compute(&p, 1)
    return out


def use_blas(bint enabled):
    """Switch to plain loops (False) or back to BLAS (True): what the benchmarks compare."""
    global _use_blas
    _use_blas = enabled
