"""The one door to BLAS: SciPy's, which runs on one thread inside our own tiles.

Loading SciPy takes tens of milliseconds, so this module is imported when a product first needs it.
"""

from cpython.pycapsule cimport PyCapsule_New
from scipy.linalg.cython_blas cimport sgemm, sgemv

from minidl_kernels.cpu.gemm cimport Gemm


cdef void gemm(float *c, const float *a, const float *b, Py_ssize_t m, Py_ssize_t n, Py_ssize_t k,
               Py_ssize_t ldc, Py_ssize_t a_row, Py_ssize_t a_col, Py_ssize_t b_row,
               Py_ssize_t b_col, float beta) noexcept nogil:
    """C = beta * C + A @ B, element (i, k) of A at a[i * a_row + k * a_col], one step of each 1."""
    # Fortran's column-major product of the transposes is our row-major product.
    cdef char flag_a = b'N' if a_col == 1 else b'T'
    cdef char flag_b = b'N' if b_col == 1 else b'T'
    cdef int mm = <int>m, nn = <int>n, kk = <int>k, one = 1
    cdef int lda = <int>(max(a_row, k) if a_col == 1 else max(a_col, m))
    cdef int ldb = <int>(max(b_row, n) if b_col == 1 else max(b_col, k))
    cdef int ldcc = <int>ldc, step = <int>a_col
    cdef float alpha = 1
    if m > 1:
        sgemm(&flag_b, &flag_a, &nn, &mm, &kk, &alpha, <float*>b, &ldb, <float*>a, &lda, &beta, c,
              &ldcc)
    elif b_col == 1:             # one row: B^T a, B as Fortran sees it being [n, k]
        sgemv(&flag_b, &nn, &kk, &alpha, <float*>b, &ldb, <float*>a, &step, &beta, c, &one)
    else:                        # or [k, n]
        sgemv(&flag_b, &kk, &nn, &alpha, <float*>b, &ldb, <float*>a, &step, &beta, c, &one)


def gemm_pointer():
    """The address of `gemm`, a Gemm of gemm.pxd, in a capsule."""
    cdef Gemm function = gemm
    return PyCapsule_New(<void*>function, NULL, NULL)
