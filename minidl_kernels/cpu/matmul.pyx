"""Matrix products, cut into tiles for the pool.

Shape letters: C[M, N] = A[M, K] @ B[K, N], every matrix given by a pointer, a leading dimension and
whether it is stored transposed, so that views and transposes cost nothing. On CPUs with AVX2 or
AVX-512 our own products run (simd/matmul.c), elsewhere BLAS. Tiles and the steps of K depend on the
shape only and are added in one order, so the bits do not depend on the number of threads.
"""

cimport numpy as cnp
from cpython.exc cimport PyErr_CheckSignals
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from minidl_kernels.cpu.gemm cimport Gemm
from minidl_kernels.cpu.memory cimport copy_f32, empty, f32, ptr
from minidl_kernels.cpu.threads cimport run, run_heavy
from minidl_kernels.cpu.threads import get_num_threads

import numpy as np

cnp.import_array()

cdef extern from "matmul.h":
    ctypedef struct Product:
        float *c
        const float *a
        const float *b
        Py_ssize_t a_row, a_col, b_row, b_col
        const float *bias
        const Py_ssize_t *a_item
        const Py_ssize_t *b_item
        Py_ssize_t m, n, k, down, columns, first, last
        float *packed
        float *steps
        uint64_t number
        int failed
    ctypedef struct MatmulTable:
        Py_ssize_t nr, wide
        Py_ssize_t (*tiles)(const Product *p) noexcept nogil
        Py_ssize_t (*steps)(Py_ssize_t k) noexcept nogil
        void (*pack)(void *product, Py_ssize_t begin, Py_ssize_t end) noexcept nogil
        void (*multiply)(void *product, Py_ssize_t begin, Py_ssize_t end) noexcept nogil
        void (*own)(void *product, Py_ssize_t begin, Py_ssize_t end) noexcept nogil
        void (*add_steps)(void *product, Py_ssize_t begin, Py_ssize_t end) noexcept nogil
        void (*items)(void *product, Py_ssize_t begin, Py_ssize_t end) noexcept nogil
        void (*strips)(void *product, Py_ssize_t begin, Py_ssize_t end) noexcept nogil
        void (*few)(void *product, Py_ssize_t begin, Py_ssize_t end) noexcept nogil

cdef extern from *:
    """
    #define MATMUL_TABLE MINIDL_PICK(minidl_matmul)
    """
    const MatmulTable *MATMUL_TABLE

cdef const MatmulTable *K = MATMUL_TABLE

cdef enum:
    INT_LIMIT = 2147483647
    TALL = 192                  # rows of a tile: its part of A fills half of a usual L2 cache
    LOW = 512                   # rows for which columns are dealt out
    SHORT = 24                  # rows and
    BROAD = 384                 # columns that a tile keeps as long as there is a choice
    PACKED = 4 << 20            # floats of B packed at a time
    OWN = 768 << 10             # floats of B that each thread packs for itself, for tiles of
    STRIP = 64 << 10            # floats of B in a strip of many: half of a usual L2 cache
    LEAST = 30                  # rows at least: below that packing costs as much as multiplying
    APART = 128 << 10           # elements of a gradient whose steps of K are computed apart

cdef bint _use_blas = True
cdef uint64_t _number = 1       # of the next product that threads pack for themselves
cdef Gemm _gemm = NULL          # BLAS, loaded when first needed


cdef struct Matrix:
    const float *data
    Py_ssize_t ld               # elements between stored rows
    bint transposed             # stored as [columns, rows]


cdef inline Py_ssize_t round_up(Py_ssize_t x, Py_ssize_t unit) noexcept nogil:
    return (x + unit - 1) // unit * unit


# -------------------------------------------------------------------- our own packed product

cdef void cut_packed(Product *p, Py_ssize_t k) noexcept nogil:
    """Tiles of at most TALL rows; more and smaller ones where there would be too few to share.

    Every tile packs its rows again and reads all of its part of B, so wide tiles are cut across
    first, then down, and narrow ones only where nothing else is left.
    """
    cdef double flops = 2.0 * p.m * p.n * k
    cdef Py_ssize_t wanted = 1 if flops < 4e6 else 2 if flops < 2e7 else 4 if flops < 1e8 else 8
    cdef Py_ssize_t down = (p.m + TALL - 1) // TALL, across = 1
    if down > 4:
        down = round_up(down, 4)
    # A tile of 4 GFLOP takes some 50 ms, after which Ctrl-C is looked at.
    while down * across < wanted or flops / (down * across) > 4e9:
        if p.n // across >= 2 * BROAD:
            across *= 2
        elif p.m // down >= 2 * SHORT:
            down *= 2
        elif p.n // across >= 4 * K.nr:
            across *= 2
        else:
            break
    p.down = down
    p.columns = round_up((p.n + across - 1) // across, K.nr)


cdef int multiply_packed(Product *p, Py_ssize_t batch) except -1:
    """Small products whole, several to a piece; large ones one by one, their tiles shared."""
    cdef double flops = 2.0 * p.m * p.n * p.k
    cdef float *c = p.c
    cdef const float *a = p.a
    cdef const float *b = p.b
    cdef Py_ssize_t i
    if p.m < 4:
        run(K.few, p, batch * ((p.n + K.wide - 1) // K.wide), max(1, 65536 // (K.wide * p.k)))
        if p.failed:
            raise MemoryError("matmul: no memory for the scratch space of a product")
        return 0
    cut_packed(p, p.k)
    if flops < 4e6 or (batch >= 4 and flops < 2e8 and p.n * p.k <= PACKED):
        p.last = p.n
        p.columns = round_up(p.n, K.nr)
        if flops * batch < 1.5e7:
            run(K.items, p, batch, max(1, <Py_ssize_t>(2e6 / flops)))
        else:
            run_heavy(K.items, p, batch, max(1, <Py_ssize_t>(2e6 / flops)))
    else:
        for i in range(batch):
            if i:
                PyErr_CheckSignals()        # a product of some milliseconds does not look
            p.c = c + i * p.m * p.n
            p.a = a + (p.a_item[i] if p.a_item != NULL else 0)
            p.b = b + (p.b_item[i] if p.b_item != NULL else 0)
            if p.m <= LOW and p.a_col == 1 and p.n >= 4 * K.nr:
                multiply_strips(p)
            elif p.m >= LEAST * p.down and round_up(p.n, K.nr) * p.k <= OWN:
                multiply_own(p)
            else:
                multiply_large(p)
    if p.failed:
        raise MemoryError("matmul: no memory for the scratch space of a product")
    return 0


cdef int multiply_strips(Product *p) except -1:
    """One product of few rows, which are read in place: each piece packs its own columns of B."""
    cdef double flops = 2.0 * p.m * p.n * p.k
    cdef Py_ssize_t wanted = 2 if flops < 2e7 else 4
    if flops >= 5e7:
        wanted = max(8, round_up((p.n * p.k + STRIP - 1) // STRIP, 2))
    p.columns = round_up((p.n + wanted - 1) // wanted, K.nr)
    p.down = (p.m + TALL - 1) // TALL
    return run_heavy(K.strips, p, (p.n + p.columns - 1) // p.columns, 1)


cdef int multiply_own(Product *p) except -1:
    """One product whose B is small enough that every thread packs it for itself.

    The gradient of a weight sums over the rows of two activations, and every tile needs all rows.
    Its steps of K are computed apart where there are threads for it: the bits are the same.
    """
    global _number
    cdef Py_ssize_t steps = K.steps(p.k)
    cdef cnp.npy_intp room = (steps - 1) * p.m * p.n
    cdef cnp.ndarray later = None
    p.first = 0
    p.last = p.n
    p.number = _number
    _number += steps
    if (p.a_col == 1 or p.bias != NULL or room == 0 or steps > 4 or p.m * p.n > APART
            or get_num_threads() == 1):
        return run_heavy(K.own, p, K.tiles(p), 1)
    cut_packed(p, p.k // steps)
    later = empty(1, &room)
    p.steps = ptr(later)
    run_heavy(K.own, p, steps * K.tiles(p), 1)
    run(K.add_steps, p, p.m * p.n, 16384)
    p.steps = NULL
    return 0


cdef int multiply_large(Product *p) except -1:
    """One product: pack some columns of B, multiply all of A by them, and so on."""
    cdef Py_ssize_t most = max(K.nr, PACKED // p.k // K.nr * K.nr), panels
    cdef cnp.npy_intp room = round_up(min(most, p.n), K.nr) * p.k
    cdef cnp.ndarray packed = empty(1, &room)
    p.packed = ptr(packed)
    p.first = 0
    while p.first < p.n:
        PyErr_CheckSignals()
        p.last = min(p.first + most, p.n)
        panels = (p.last - p.first + K.nr - 1) // K.nr
        run(K.pack, p, panels, max(1, 16384 // (K.nr * p.k)))
        run_heavy(K.multiply, p, K.tiles(p), 1)
        p.first = p.last
    return 0


# ------------------------------------------------------------------------- BLAS and plain loops

cdef void multiply_plain(float *c, const float *a, const float *b, Py_ssize_t m, Py_ssize_t n,
                         Product *p) noexcept nogil:
    """C += A @ B by three loops: what the benchmarks compare with."""
    cdef Py_ssize_t i, j, k
    cdef float s
    for i in range(m):
        for j in range(n):
            s = c[i * p.n + j]
            for k in range(p.k):
                s += a[i * p.a_row + k * p.a_col] * b[k * p.b_row + j * p.b_col]
            c[i * p.n + j] = s


cdef inline Py_ssize_t tile_rows(const Product *p) noexcept nogil:
    return round_up((p.m + p.down - 1) // p.down, 8) if p.down > 1 else p.m


cdef void tiles_task(void *ctx, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    """Tiles of a batch of products, by BLAS or by plain loops."""
    cdef Product *p = <Product*>ctx
    cdef Py_ssize_t rows = tile_rows(p), down = (p.m + rows - 1) // rows
    cdef Py_ssize_t tiles = down * ((p.n + p.columns - 1) // p.columns)
    cdef Py_ssize_t t, item, i, j, m, n, row
    cdef const float *a
    cdef const float *b
    cdef float *c
    for t in range(begin, end):
        item = t // tiles
        i = t % tiles % down * rows
        j = t % tiles // down * p.columns
        m = min(rows, p.m - i)
        n = min(p.columns, p.n - j)
        a = p.a + i * p.a_row + (p.a_item[item] if p.a_item != NULL else 0)
        b = p.b + j * p.b_col + (p.b_item[item] if p.b_item != NULL else 0)
        c = p.c + (item * p.m + i) * p.n + j
        if p.bias != NULL or not _use_blas:
            for row in range(m):
                if p.bias != NULL:
                    memcpy(c + row * p.n, p.bias + j, n * sizeof(float))
                else:
                    memset(c + row * p.n, 0, n * sizeof(float))
        if _use_blas:
            _gemm(c, a, b, m, n, p.k, p.n, p.a_row, p.a_col, p.b_row, p.b_col,
                  0 if p.bias == NULL else 1)
        else:
            multiply_plain(c, a, b, m, n, p)


cdef int multiply_tiles(Product *p, Py_ssize_t batch) except -1:
    """Halve the longer side until there are enough tiles; every cut makes BLAS pack again.

    Above 16 GFLOP a tile has at most 2 (some 30 ms), after which Ctrl-C is looked at.
    """
    global _gemm
    cdef double flops = 2.0 * p.m * p.n * p.k
    cdef Py_ssize_t down = 1, across = 1, wanted
    if _use_blas and _gemm == NULL:
        from minidl_kernels.cpu import scipy_blas
        scipy_blas.load()
        from minidl_kernels.cpu import blas
        _gemm = <Gemm>PyCapsule_GetPointer(blas.gemm_pointer(), NULL)
    wanted = 1 if flops < 4e6 else 2 if flops < 1.2e8 else 4 if flops < 2e9 else 8
    wanted = max(wanted, <Py_ssize_t>(flops / 2e9))
    while down * across < wanted:
        if p.m // down >= p.n // across and p.m // down >= 32:
            down *= 2
        elif p.n // across >= 32:
            across *= 2
        else:
            break
    p.down = down
    p.columns = round_up((p.n + across - 1) // across, 8) if across > 1 else p.n
    down = (p.m + tile_rows(p) - 1) // tile_rows(p)
    across = (p.n + p.columns - 1) // p.columns
    return run_heavy(tiles_task, p, batch * down * across,
                     1 if down * across > 1 else max(1, <Py_ssize_t>(2e6 / flops)))


cdef int compute(Product *p, Matrix a, Matrix b, Py_ssize_t batch) except -1:
    """Run a product whose sizes, bias and output are set."""
    cdef Py_ssize_t row
    if batch == 0 or p.m == 0 or p.n == 0:
        return 0
    if p.k == 0:                 # a sum of no terms
        for row in range(batch * p.m):
            if p.bias != NULL:
                memcpy(p.c + row * p.n, p.bias, p.n * sizeof(float))
            else:
                memset(p.c + row * p.n, 0, p.n * sizeof(float))
        return 0
    p.a = a.data
    p.b = b.data
    p.a_row = 1 if a.transposed else a.ld
    p.a_col = a.ld if a.transposed else 1
    p.b_row = 1 if b.transposed else b.ld
    p.b_col = b.ld if b.transposed else 1
    if K.nr and _use_blas:
        return multiply_packed(p, batch)
    return multiply_tiles(p, batch)


include "operands.pxi"


# ------------------------------------------------------------------------------ Python kernels

def matmul(a, b):
    """a[..., M, K] @ b[..., K, N] -> [..., M, N], batch axes broadcast."""
    cdef Product p
    cdef Matrix left, right
    cdef cnp.npy_intp shape[64]
    cdef Py_ssize_t batch = 1, i
    cdef Py_ssize_t *offsets = NULL
    memset(&p, 0, sizeof(p))
    cdef cnp.ndarray x = as_matrix(a, &left, "matmul")
    cdef cnp.ndarray y = as_matrix(b, &right, "matmul")
    cdef int ndx = cnp.PyArray_NDIM(x), ndy = cnp.PyArray_NDIM(y), nd = max(ndx, ndy)
    cdef cnp.ndarray out
    p.m = cnp.PyArray_DIM(x, ndx - 2)
    p.k = cnp.PyArray_DIM(x, ndx - 1)
    p.n = cnp.PyArray_DIM(y, ndy - 1)
    if cnp.PyArray_DIM(y, ndy - 2) != p.k:
        raise ValueError(f"matmul: shapes {a.shape} and {b.shape} do not fit: "
                         f"{p.k} columns against {b.shape[ndy - 2]} rows")
    if nd > 2:
        batch_shape = a.shape[:ndx - 2]
        if batch_shape != b.shape[:ndy - 2]:
            batch_shape = np.broadcast_shapes(batch_shape, b.shape[:ndy - 2])
        for i in range(nd - 2):
            shape[i] = batch_shape[i]
            batch *= shape[i]
    shape[nd - 2] = p.m
    shape[nd - 1] = p.n
    out = empty(nd, shape)
    p.c = ptr(out)
    if nd > 2 and cnp.PyArray_SIZE(out) > 0:
        if (ndy == 2 and not left.transposed and cnp.PyArray_IS_C_CONTIGUOUS(x)
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
            p.a_item = offsets
            p.b_item = offsets + batch
    try:
        compute(&p, left, right, batch)
    finally:
        free(offsets)
    return out


def linear(x, weight, bias):
    """x[..., K] @ weight[N, K]^T + bias[N] -> [..., N]; bias may be None."""
    cdef Product p
    cdef Matrix right
    cdef cnp.npy_intp shape[64]
    cdef int i, nd
    cdef cnp.ndarray a, w, c, out
    memset(&p, 0, sizeof(p))
    w = as_matrix(weight, &right, "linear")
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
    right.transposed = not right.transposed
    if bias is not None:
        c = f32(bias, "linear")
        if cnp.PyArray_SIZE(c) != p.n:
            raise ValueError(f"linear: bias of shape {bias.shape} does not fit {p.n} outputs")
        p.bias = ptr(c)
    out = empty(nd, shape)
    p.c = ptr(out)
    compute(&p, Matrix(ptr(a), max(p.k, 1), False), right, 1)
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
    shape[0] = p.m
    shape[1] = p.n
    out = empty(2, shape)
    p.c = ptr(out)
    compute(&p, Matrix(ptr(a), max(p.m, 1), True), Matrix(ptr(b), max(p.n, 1), False), 1)
    return out


def use_blas(bint enabled):
    """Switch to plain loops (False) or back (True): what the benchmarks compare."""
    global _use_blas
    _use_blas = enabled
