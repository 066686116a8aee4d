cdef void gemm(float *c, const float *a, const float *b, Py_ssize_t m, Py_ssize_t n, Py_ssize_t k,
               Py_ssize_t ldc, Py_ssize_t a_row, Py_ssize_t a_col, Py_ssize_t b_row,
               Py_ssize_t b_col, float beta) noexcept nogil
