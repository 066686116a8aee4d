ctypedef void (*Task)(void *ctx, Py_ssize_t begin, Py_ssize_t end) noexcept nogil

cdef int run(Task task, void *ctx, Py_ssize_t n, Py_ssize_t grain) except -1
cdef int run_heavy(Task task, void *ctx, Py_ssize_t n, Py_ssize_t grain) except -1


cdef inline Py_ssize_t even_grain(Py_ssize_t n, Py_ssize_t grain) noexcept nogil:
    """`grain` or less, such that n items are one piece or an even number where n allows: of
    three pieces, two threads would do two while one waits."""
    cdef Py_ssize_t pieces = (n + grain - 1) // grain
    if pieces < 2:
        return grain
    pieces += pieces & 1
    return (n + pieces - 1) // pieces
