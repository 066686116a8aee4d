cimport numpy as cnp

cdef extern from "broadcast.h" nogil:
    enum: EW_MAX_NDIM, EW_GRAIN
    ctypedef void (*ew_unary)(float *y, const float *x, Py_ssize_t n) noexcept
    ctypedef void (*ew_unary_grad)(float *dx, const float *g, const float *s,
                                   Py_ssize_t n) noexcept
    ctypedef void (*ew_binary)(float *y, const float *a, const float *b, Py_ssize_t n,
                               int fixed) noexcept
    ctypedef void (*ew_binary_grad)(float *d, const float *g, const float *a, const float *b,
                                    Py_ssize_t n, int fixed) noexcept
    ctypedef struct EwUnary:
        const char *name
        const char *saves
        ew_unary forward
        ew_unary_grad grad
    ctypedef struct EwBinary:
        const char *name
        const char *da_formula
        const char *db_formula
        ew_binary forward
        ew_binary_grad da
        ew_binary_grad db
    ctypedef struct ElementwiseTable:
        const EwUnary *unary
        const EwBinary *binary
    ctypedef struct Job
    ctypedef void (*ew_row)(const Job *job, float *out, const Py_ssize_t *at, Py_ssize_t n) noexcept
    ctypedef union EwKernel:
        ew_unary unary
        ew_unary_grad unary_grad
        ew_binary binary
        ew_binary_grad binary_grad
    ctypedef struct Job:
        const ElementwiseTable *table
        ew_row row
        EwKernel kernel
        float *out
        const void *operand[3]
        int keep, ndim
        float lo, hi
        Py_ssize_t size
    ctypedef struct SumJob:
        const ElementwiseTable *table
        float *out
        const float *x
        Py_ssize_t outer, length, inner, chunk, chunks, width
    void ew_flat(Job *job, int operands, Py_ssize_t size, int fixed) noexcept
    ew_row ew_unary_row, ew_unary_grad_row, ew_binary_row, ew_binary_grad_row
    void ew_broadcast(Job *job, int ndim, const Py_ssize_t *shape, int operands, const int *ndims,
                      const Py_ssize_t **shapes) noexcept
    void ew_piece(void *ctx, Py_ssize_t begin, Py_ssize_t end) noexcept
    Py_ssize_t ew_sum_plan(SumJob *job) noexcept
    void ew_sum_piece(void *ctx, Py_ssize_t begin, Py_ssize_t end) noexcept


cdef int execute(Job *job, ew_row row, cnp.ndarray out) except -1
cdef double number(object x, str kernel) except? -1.0
cdef cnp.ndarray sum_to_shape(cnp.ndarray g, int ndim, const cnp.npy_intp *shape)


cdef inline bint ready(object x) noexcept:
    """Is x a float32 array that a kernel can read as it is?"""
    return (cnp.PyArray_Check(x) and cnp.PyArray_TYPE(<cnp.ndarray>x) == cnp.NPY_FLOAT32
            and cnp.PyArray_ISCARRAY_RO(<cnp.ndarray>x))


cdef struct Operands:
    # Contiguous arrays and numbers, and the shape they broadcast to; ndim and count start at 0.
    Job job
    int ndim
    int count
    int ndims[3]
    float value[3]
    const Py_ssize_t *shapes[3]
    Py_ssize_t shape[EW_MAX_NDIM]


cdef int widen(Operands *o, cnp.ndarray x, str kernel) except -1
cdef cnp.ndarray put_array(Operands *o, cnp.ndarray x, str kernel)
cdef cnp.ndarray put(Operands *o, object x, str kernel)
cdef cnp.ndarray compute(Operands *o, ew_row row)
cdef int accumulate(Operands *o, ew_row row, cnp.ndarray out, str kernel) except -1
cdef int expect(const Operands *o, cnp.ndarray g, str kernel) except -1


cdef class UnaryKernel:
    """One entry of S_UNARY in scalar.h; `saves` says whether its gradient needs x or y."""
    cdef const EwUnary *entry
    cdef readonly str name, grad_name, saves
    cdef cnp.ndarray forward(self, object x)
    cdef cnp.ndarray grad(self, object g, object s)


cdef class BinaryKernel:
    """One entry of S_BINARY in scalar.h."""
    cdef const EwBinary *entry
    cdef readonly str name, grad_name
    cdef dict powers                    # of pow: exponents that a unary kernel computes
    cdef cnp.ndarray forward(self, object a, object b)
    cdef cnp.ndarray stretched(self, object a, object b)
    cdef tuple grad(self, object g, object a, object b, object need)
