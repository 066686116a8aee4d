"""Cross-entropy fused with its log-softmax: one pass forward, one pass backward.

Shapes: logits [N, V], target [N].
"""

cimport numpy as cnp
from libc.stdint cimport int64_t

from minidl_kernels.cpu.memory cimport empty, empty_like, f32, ptr
from minidl_kernels.cpu.reduce import sum as sum_of
from minidl_kernels.cpu.rows cimport i64
from minidl_kernels.cpu.threads cimport Task, run

cnp.import_array()

cdef extern from *:
    """
    #include "loss.h"
    #define LOSS_TABLE MINIDL_PICK(minidl_loss)
    """
    ctypedef struct LossJob:
        float *out
        double *lse
        const float *g
        const float *logits
        const int64_t *target
        Py_ssize_t V
        bint each
        int64_t ignore
        double smoothing
    ctypedef struct LossTable:
        Task cross_entropy, cross_entropy_grad
    const LossTable *LOSS_TABLE

cdef const LossTable *K = LOSS_TABLE

cdef enum:
    PIECE = 8192                # logits of a piece: some ten microseconds of exponentials


cdef int check(cnp.ndarray x, cnp.ndarray t, double smoothing, str name) except -1:
    if cnp.PyArray_NDIM(x) != 2 or cnp.PyArray_NDIM(t) != 1 \
            or cnp.PyArray_DIM(t, 0) != cnp.PyArray_DIM(x, 0):
        raise ValueError(f"{name}: expected logits [N, V] and target [N], got shapes "
                         f"{(<object>x).shape} and {(<object>t).shape}")
    if not 0.0 <= smoothing <= 1.0:
        raise ValueError(f"{name}: label_smoothing must be between 0 and 1, got {smoothing}")
    return 0


cdef int check_target(const int64_t *t, Py_ssize_t N, Py_ssize_t V, int64_t ignore,
                      str name) except -1:
    cdef Py_ssize_t r
    for r in range(N):
        if not (0 <= t[r] < V or t[r] == ignore):
            raise IndexError(f"{name}: target[{r}] is {t[r]}, expected a class from 0 to {V - 1} "
                             f"({V} classes) or ignore_index {ignore}")
    return 0


def cross_entropy(logits, target, int64_t ignore_index, double label_smoothing):
    """log(sum(exp(x))) - (1 - s) x[target] - s mean(x) of each row, 0 where target is ignored.

    logits [N, V], target [N] int64 -> losses [N], lse [N] for the gradient. lse is float64, so that
    exp(x - lse) keeps its digits when the logits are large.
    """
    cdef LossJob job
    cdef cnp.ndarray x = f32(logits, "cross_entropy"), t = i64(target, "cross_entropy"), out, lse
    check(x, t, label_smoothing, "cross_entropy")
    cdef Py_ssize_t N = cnp.PyArray_DIM(x, 0), V = cnp.PyArray_DIM(x, 1)
    job.target = <const int64_t*>cnp.PyArray_DATA(t)
    check_target(job.target, N, V, ignore_index, "cross_entropy")
    out = empty(1, cnp.PyArray_DIMS(x))
    lse = cnp.PyArray_EMPTY(1, cnp.PyArray_DIMS(x), cnp.NPY_FLOAT64, 0)
    job.out, job.lse, job.g = ptr(out), <double*>cnp.PyArray_DATA(lse), NULL
    job.logits, job.V, job.ignore, job.smoothing = ptr(x), V, ignore_index, label_smoothing
    run(K.cross_entropy, &job, N, max(1, PIECE // max(1, V)))
    return out, lse


def counted_mean(losses, target, int64_t ignore_index):
    """(the sum of the losses over the number of targets that are not ignored, this number).

    losses [N], target [N] int64 -> 0-d, int
    """
    cdef cnp.ndarray y = f32(losses, "counted_mean"), t = i64(target, "counted_mean"), mean
    cdef const int64_t *ids = <const int64_t*>cnp.PyArray_DATA(t)
    cdef Py_ssize_t r, count = 0
    if not cnp.PyArray_SAMESHAPE(y, t):
        raise ValueError(f"counted_mean: losses of shape {(<object>y).shape} and targets of shape "
                         f"{(<object>t).shape}, expected the same")
    for r in range(cnp.PyArray_SIZE(t)):
        count += ids[r] != ignore_index
    mean = sum_of(y, (), False)
    ptr(mean)[0] = ptr(mean)[0] / <float>count
    return mean, count


def cross_entropy_grad(g, logits, target, lse, int64_t ignore_index, double label_smoothing,
                       count=None):
    """g (softmax(x) - s / V - (1 - s) onehot(target)) of each row, 0 where target is ignored.

    g [N], or one number for every row (0-d), divided by `count` where that is given; logits [N, V],
    target [N] int64, lse [N] as cross_entropy gave it -> dlogits [N, V]
    """
    cdef LossJob job
    cdef cnp.ndarray x = f32(logits, "cross_entropy_grad"), t = i64(target, "cross_entropy_grad")
    cdef cnp.ndarray ga = f32(g, "cross_entropy_grad"), out, saved
    cdef float share
    check(x, t, label_smoothing, "cross_entropy_grad")
    cdef Py_ssize_t N = cnp.PyArray_DIM(x, 0), V = cnp.PyArray_DIM(x, 1)
    if not cnp.PyArray_Check(lse) or cnp.PyArray_TYPE(lse) != cnp.NPY_FLOAT64 \
            or not cnp.PyArray_ISCARRAY_RO(lse):
        raise TypeError("cross_entropy_grad: expected the lse that cross_entropy returned")
    saved = lse
    job.each = cnp.PyArray_NDIM(ga) != 0
    if cnp.PyArray_SIZE(ga) != (N if job.each else 1) or cnp.PyArray_SIZE(saved) != N:
        raise ValueError(f"cross_entropy_grad: g has {cnp.PyArray_SIZE(ga)} and lse "
                         f"{cnp.PyArray_SIZE(saved)} elements, expected {N}, one for each row")
    job.g = ptr(ga)
    if count is not None:
        if job.each:
            raise ValueError("cross_entropy_grad: count goes with one g for all rows, not with a g "
                             f"of shape {(<object>ga).shape}")
        share = <float>(<double>job.g[0] / <double>count)
        job.g = &share
    job.target = <const int64_t*>cnp.PyArray_DATA(t)
    check_target(job.target, N, V, ignore_index, "cross_entropy_grad")
    out = empty_like(x)
    job.out, job.lse = ptr(out), <double*>cnp.PyArray_DATA(saved)
    job.logits, job.V, job.ignore, job.smoothing = ptr(x), V, ignore_index, label_smoothing
    run(K.cross_entropy_grad, &job, N, max(1, PIECE // max(1, V)))
    return out
