"""Optimizer steps over all parameters in one pass of the pool.

Every kernel takes lists of arrays. Arrays are cut into pieces of a fixed size, all pieces of all
arrays are handed to the pool together, and sums are combined in the order of the pieces.
"""

cimport numpy as cnp
from libc.math cimport pow, sqrt
from libc.stdlib cimport free, malloc

from minidl_kernels.cpu.memory cimport ptr
from minidl_kernels.cpu.threads cimport Task, run

cnp.import_array()

cdef extern from "optim.h":
    ctypedef struct AdamSettings:
        float lr, beta1, beta2, eps, decay, correction1, correction2, sign
        int decoupled
    ctypedef struct SgdSettings:
        float lr, momentum, dampening, decay, sign
        int nesterov, first
    ctypedef struct LionSettings:
        float lr, beta1, beta2, decay, sign
    ctypedef struct OptimTable:
        void (*adam)(float *p, float *m, float *v, const float *g, Py_ssize_t n,
                     const AdamSettings *s) noexcept nogil
        void (*sgd)(float *p, float *buffer, const float *g, Py_ssize_t n,
                    const SgdSettings *s) noexcept nogil
        void (*lion)(float *p, float *m, const float *g, Py_ssize_t n,
                     const LionSettings *s) noexcept nogil
        double (*sqsum)(const float *x, Py_ssize_t n) noexcept nogil
        void (*scale)(float *x, Py_ssize_t n, float factor) noexcept nogil
    const OptimTable *pick "MINIDL_PICK" (OptimTable family)
    OptimTable minidl_optim

cdef const OptimTable *K = pick(minidl_optim)

cdef enum:
    PIECE = 8192                # elements
    GRAIN = 4                   # pieces to one task of the pool


cdef struct Piece:
    float *x[4]                 # up to four arrays walked together
    Py_ssize_t n
    double partial


cdef struct Work:
    Piece *pieces
    void *settings
    float factor


cdef void adam_task(void *ctx, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef Work *w = <Work*>ctx
    cdef Py_ssize_t i
    cdef Piece *p
    for i in range(begin, end):
        p = &w.pieces[i]
        K.adam(p.x[0], p.x[2], p.x[3], p.x[1], p.n, <AdamSettings*>w.settings)


cdef void sgd_task(void *ctx, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef Work *w = <Work*>ctx
    cdef Py_ssize_t i
    for i in range(begin, end):
        K.sgd(w.pieces[i].x[0], w.pieces[i].x[2], w.pieces[i].x[1], w.pieces[i].n,
              <SgdSettings*>w.settings)


cdef void lion_task(void *ctx, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef Work *w = <Work*>ctx
    cdef Py_ssize_t i
    for i in range(begin, end):
        K.lion(w.pieces[i].x[0], w.pieces[i].x[2], w.pieces[i].x[1], w.pieces[i].n,
               <LionSettings*>w.settings)


cdef void sqsum_task(void *ctx, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef Work *w = <Work*>ctx
    cdef Py_ssize_t i
    for i in range(begin, end):
        w.pieces[i].partial = K.sqsum(w.pieces[i].x[0], w.pieces[i].n)


cdef void scale_task(void *ctx, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef Work *w = <Work*>ctx
    cdef Py_ssize_t i
    for i in range(begin, end):
        K.scale(w.pieces[i].x[0], w.pieces[i].n, w.factor)


cdef cnp.ndarray plain(object x, str what, bint written):
    """x, which must be a C-contiguous float32 array (and writeable when it is written to)."""
    if not (cnp.PyArray_Check(x) and cnp.PyArray_TYPE(<cnp.ndarray>x) == cnp.NPY_FLOAT32
            and cnp.PyArray_ISCARRAY_RO(<cnp.ndarray>x)
            and (not written or cnp.PyArray_ISWRITEABLE(<cnp.ndarray>x))):
        raise TypeError(f"{what}: expected C-contiguous, writeable float32 arrays")
    return <cnp.ndarray>x


cdef Py_ssize_t cut(list columns, str what, Work *work) except -1:
    """Cut lists of arrays of equal shapes, walked together, into pieces; returns their number."""
    cdef Py_ssize_t count = 0, i, start, n, column, rows = len(<list>columns[0])
    cdef cnp.ndarray x
    for values in columns[1:]:
        if values is not None and len(<list>values) != rows:
            raise ValueError(f"{what}: lists of {rows} and {len(<list>values)} arrays")
    for i in range(rows):
        n = cnp.PyArray_SIZE(plain(columns[0][i], what, True))
        for column in range(1, len(columns)):
            if columns[column] is not None:
                x = plain(columns[column][i], what, column > 1)
                if cnp.PyArray_SIZE(x) != n:
                    raise ValueError(f"{what}: arrays of {n} and {cnp.PyArray_SIZE(x)} elements "
                                     f"at place {i}")
        count += (n + PIECE - 1) // PIECE
    work.pieces = <Piece*>malloc(max(count, 1) * sizeof(Piece))
    if work.pieces == NULL:
        raise MemoryError(f"{what}: no memory for {count} pieces")
    count = 0
    for i in range(rows):
        n = cnp.PyArray_SIZE(<cnp.ndarray>columns[0][i])
        for start in range(0, n, PIECE):
            work.pieces[count].n = min(<Py_ssize_t>PIECE, n - start)
            for column in range(4):
                work.pieces[count].x[column] = NULL
                if column < len(columns) and columns[column] is not None:
                    work.pieces[count].x[column] = ptr(<cnp.ndarray>columns[column][i]) + start
            count += 1
    return count


cdef int update(list arrays, str name, Task task, Work *work) except -1:
    """Run a step over all elements of all arrays."""
    cdef Py_ssize_t count = cut(arrays, name, work)
    try:
        return run(task, work, count, GRAIN)
    finally:
        free(work.pieces)


def adam_(list params, list grads, list m, list v, double lr, double beta1, double beta2,
          double eps, double weight_decay, double step, bint decoupled, bint maximize):
    """One step of Adam (decoupled=False) or AdamW over all params, in place.

    m += (1 - b1)(g - m);  v = b2 v + (1 - b2) g^2;
    p = p (1 - lr wd) - lr / (1 - b1^t) * m / (sqrt(v / (1 - b2^t)) + eps)
    """
    cdef AdamSettings s
    cdef Work work
    if step < 1:
        raise ValueError(f"adam: step counts from 1, got {step}")
    s.lr = lr
    s.beta1 = beta1
    s.beta2 = beta2
    s.eps = eps
    s.decay = weight_decay
    s.correction1 = 1 - pow(beta1, step)
    s.correction2 = sqrt(1 - pow(beta2, step))
    s.sign = -1 if maximize else 1
    s.decoupled = decoupled
    work.settings = &s
    update([params, grads, m, v], "adam", adam_task, &work)


def sgd_(list params, list grads, buffers, double lr, double momentum, double dampening,
         double weight_decay, bint nesterov, bint first, bint maximize):
    """One step of SGD over all params, in place; buffers is None without momentum."""
    cdef SgdSettings s
    cdef Work work
    s.lr = lr
    s.momentum = momentum
    s.dampening = dampening
    s.decay = weight_decay
    s.sign = -1 if maximize else 1
    s.nesterov = nesterov
    s.first = first
    work.settings = &s
    update([params, grads, buffers], "sgd", sgd_task, &work)


def lion_(list params, list grads, list m, double lr, double beta1, double beta2,
          double weight_decay, bint maximize):
    """One step of Lion over all params, in place.

    p = p (1 - lr wd) - lr sign(b1 m + (1 - b1) g);  m = b2 m + (1 - b2) g
    """
    cdef LionSettings s
    cdef Work work
    s.lr = lr
    s.beta1 = beta1
    s.beta2 = beta2
    s.decay = weight_decay
    s.sign = -1 if maximize else 1
    work.settings = &s
    update([params, grads, m], "lion", lion_task, &work)


def total_norm(list arrays):
    """The square root of the sum of squares of all elements of all arrays, as a float."""
    cdef Work work
    cdef double total = 0
    cdef Py_ssize_t i, count = cut([arrays], "total_norm", &work)
    try:
        run(sqsum_task, &work, count, GRAIN)
        for i in range(count):
            total += work.pieces[i].partial
    finally:
        free(work.pieces)
    return sqrt(total)


def scale_(list arrays, double factor):
    """Multiply all elements of all arrays by a factor, in place."""
    cdef Work work
    cdef Py_ssize_t count = cut([arrays], "scale", &work)
    work.factor = factor
    try:
        run(scale_task, &work, count, GRAIN)
    finally:
        free(work.pieces)
