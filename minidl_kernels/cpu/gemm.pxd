# C = beta * C + A @ B, element (i, k) of A at a[i * a_row + k * a_col], one step of each 1.
ctypedef void (*Gemm)(float *c, const float *a, const float *b, Py_ssize_t m, Py_ssize_t n,
                      Py_ssize_t k, Py_ssize_t ldc, Py_ssize_t a_row, Py_ssize_t a_col,
                      Py_ssize_t b_row, Py_ssize_t b_col, float beta) noexcept nogil
