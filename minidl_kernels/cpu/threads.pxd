ctypedef void (*Task)(void *ctx, Py_ssize_t begin, Py_ssize_t end) noexcept nogil

cdef int run(Task task, void *ctx, Py_ssize_t n, Py_ssize_t grain) except -1
cdef int run_heavy(Task task, void *ctx, Py_ssize_t n, Py_ssize_t grain) except -1
