"""Softmax, LayerNorm and RMSNorm over the last axis, each with its gradient.

Shapes: x [..., C]; N is the number of rows, the product of the leading axes.
"""

cimport numpy as cnp

from minidl_kernels.cpu.memory cimport empty, empty_like, f32, ptr
from minidl_kernels.cpu.rows cimport grain_of, same_shape
from minidl_kernels.cpu.threads cimport Task, even_grain, run

cnp.import_array()

cdef extern from *:
    """
    #include "norm.h"
    #define NORM_TABLE MINIDL_PICK(minidl_norm)
    """
    ctypedef struct SoftmaxJob:
        float *out
        const float *a
        const float *y
        Py_ssize_t N, C
    ctypedef struct NormJob:
        float *y
        float *mean
        float *rstd
        const float *x
        const float *weight
        const float *bias
        Py_ssize_t N, C
        double eps
    ctypedef struct NormGradJob:
        float *dx
        float *dweight
        float *dbias
        const float *g
        const float *x
        const float *weight
        const float *mean
        const float *rstd
        Py_ssize_t N, C, chunk
    ctypedef struct NormTable:
        Task softmax, softmax_grad, log_softmax, log_softmax_grad
        Task layer_norm, layer_norm_grad, rms_norm, rms_norm_grad
        void (*fold)(float *out, const float *partial, Py_ssize_t chunks, Py_ssize_t C) noexcept
    const NormTable *NORM_TABLE

cdef const NormTable *K = NORM_TABLE


cdef cnp.ndarray rows_of(object x, str name, Py_ssize_t *N, Py_ssize_t *C):
    """x at the door with its number of rows and their length."""
    cdef cnp.ndarray a = f32(x, name)
    cdef int i, last = cnp.PyArray_NDIM(a) - 1
    if last < 0:
        raise ValueError(f"{name}: expected at least one axis, got a scalar")
    C[0] = cnp.PyArray_DIM(a, last)
    N[0] = 1
    for i in range(last):
        N[0] *= cnp.PyArray_DIM(a, i)
    return a


cdef cnp.ndarray like(object x, cnp.ndarray other, str name, str what):
    """x at the door, which must have the shape of `other`."""
    cdef cnp.ndarray a = f32(x, name)
    if not same_shape(a, other):
        raise ValueError(f"{name}: {what} has shape {(<object>a).shape}, "
                         f"expected {(<object>other).shape}")
    return a


cdef cnp.ndarray vector(object x, Py_ssize_t n, float fill, str name, str what):
    """x at the door, which must have n elements; an array of `fill` where x is None."""
    cdef cnp.ndarray a
    cdef cnp.npy_intp dims = n
    cdef float *p
    cdef Py_ssize_t i
    if x is None:
        a = empty(1, &dims)
        p = ptr(a)
        for i in range(n):
            p[i] = fill
        return a
    a = f32(x, name)
    if cnp.PyArray_SIZE(a) != n:
        raise ValueError(f"{name}: {what} has {cnp.PyArray_SIZE(a)} elements, expected {n}")
    return a


cdef cnp.ndarray softmax_family(Task task, object a, object y, str name):
    cdef SoftmaxJob job
    cdef Py_ssize_t N, C
    cdef cnp.ndarray source = rows_of(a, name, &N, &C), saved = None, out = empty_like(source)
    job.y = NULL
    if y is not None:
        saved = like(y, source, name, "y")
        job.y = ptr(saved)
    job.out = ptr(out)
    job.a = ptr(source)
    job.N = N
    job.C = C
    if C > 0:
        run(task, &job, N, even_grain(N, grain_of(C)))
    return out


def softmax(x):
    """exp(x) / sum(exp(x)) over the last axis. x [..., C] -> [..., C]

    >>> softmax(np.zeros((1, 4), "float32"))
    array([[0.25, 0.25, 0.25, 0.25]], dtype=float32)
    """
    return softmax_family(K.softmax, x, None, "softmax")


def softmax_grad(g, y):
    """y (g - sum(g y)), where y = softmax(x). g, y [..., C] -> dx [..., C]"""
    return softmax_family(K.softmax_grad, g, f32(y, "softmax_grad"), "softmax_grad")


def log_softmax(x):
    """x - log(sum(exp(x))) over the last axis. x [..., C] -> [..., C]"""
    return softmax_family(K.log_softmax, x, None, "log_softmax")


def log_softmax_grad(g, y):
    """g - exp(y) sum(g), where y = log_softmax(x). g, y [..., C] -> dx [..., C]"""
    return softmax_family(K.log_softmax_grad, g, f32(y, "log_softmax_grad"), "log_softmax_grad")


def layer_norm(x, weight, bias, double eps):
    """(x - mean) rstd weight + bias with rstd = 1 / sqrt(var + eps) over the last axis.

    x [..., C], weight and bias of C elements or None -> y [..., C], mean [...], rstd [...]
    """
    cdef NormJob job
    cdef Py_ssize_t N, C
    cdef cnp.ndarray a = rows_of(x, "layer_norm", &N, &C)
    cdef cnp.ndarray w = vector(weight, C, 1, "layer_norm", "weight")
    cdef cnp.ndarray b = vector(bias, C, 0, "layer_norm", "bias")
    cdef cnp.ndarray y = empty_like(a)
    cdef cnp.ndarray mean = empty(cnp.PyArray_NDIM(a) - 1, cnp.PyArray_DIMS(a))
    cdef cnp.ndarray rstd = empty(cnp.PyArray_NDIM(a) - 1, cnp.PyArray_DIMS(a))
    job.y, job.mean, job.rstd = ptr(y), ptr(mean), ptr(rstd)
    job.x, job.weight, job.bias = ptr(a), ptr(w), ptr(b)
    job.N, job.C, job.eps = N, C, eps
    run(K.layer_norm, &job, N, even_grain(N, grain_of(C)))
    return y, mean, rstd


def rms_norm(x, weight, double eps):
    """x rstd weight with rstd = 1 / sqrt(mean(x^2) + eps) over the last axis.

    x [..., C], weight of C elements or None -> y [..., C], rstd [...]
    """
    cdef NormJob job
    cdef Py_ssize_t N, C
    cdef cnp.ndarray a = rows_of(x, "rms_norm", &N, &C)
    cdef cnp.ndarray w = vector(weight, C, 1, "rms_norm", "weight")
    cdef cnp.ndarray y = empty_like(a)
    cdef cnp.ndarray rstd = empty(cnp.PyArray_NDIM(a) - 1, cnp.PyArray_DIMS(a))
    job.y, job.mean, job.rstd = ptr(y), NULL, ptr(rstd)
    job.x, job.weight, job.bias = ptr(a), ptr(w), NULL
    job.N, job.C, job.eps = N, C, eps
    run(K.rms_norm, &job, N, even_grain(N, grain_of(C)))
    return y, rstd


cdef tuple norm_grad(Task task, g, x, weight, mean, rstd, bint need_x, bint need_w, bint need_b,
                     str name):
    """The gradients asked for; sums over rows are made per chunk of rows and folded in order."""
    cdef NormGradJob job
    cdef Py_ssize_t N, C, chunks
    cdef cnp.ndarray a = rows_of(x, name, &N, &C)
    cdef cnp.ndarray ga = like(g, a, name, "g"), w = vector(weight, C, 1, name, "weight")
    cdef cnp.ndarray m = None, r = vector(rstd, N, 0, name, "rstd")
    cdef cnp.ndarray dx = None, dw = None, db = None
    cdef cnp.npy_intp dims[2]
    job.chunk = even_grain(N, max(grain_of(C), (N + 63) // 64))
    chunks = (N + job.chunk - 1) // job.chunk
    dims[0], dims[1] = chunks, C
    job.dx = job.dweight = job.dbias = NULL
    job.mean = NULL
    if mean is not None:
        m = vector(mean, N, 0, name, "mean")
        job.mean = ptr(m)
    if need_x:
        dx = empty_like(a)
        job.dx = ptr(dx)
    need_w = need_w and weight is not None
    if need_w or need_b:
        # One pass makes both sums; what is not asked for costs an add, and is dropped.
        dw = empty(2, dims)
        job.dweight = ptr(dw)
        if mean is not None:
            db = empty(2, dims)
            job.dbias = ptr(db)
    job.g, job.x, job.weight, job.rstd, job.N, job.C = ptr(ga), ptr(a), ptr(w), ptr(r), N, C
    run(task, &job, chunks, 1)
    dw = folded(dw, chunks, C).reshape((<object>weight).shape) if need_w else None
    db = folded(db, chunks, C) if need_b else None
    return dx, dw, db


cdef object folded(cnp.ndarray partial, Py_ssize_t chunks, Py_ssize_t C):
    cdef cnp.npy_intp dims = C
    cdef cnp.ndarray out
    if chunks == 1:
        return partial.reshape(C)
    out = empty(1, &dims)
    K.fold(ptr(out), ptr(partial), chunks, C)
    return out


def layer_norm_grad(g, x, weight, mean, rstd, need):
    """With xhat = (x - mean) rstd and h = g weight:
    dx = rstd (h - mean(h) - xhat mean(h xhat)), dweight = sum(g xhat), dbias = sum(g).

    g, x [..., C], mean and rstd [...] as layer_norm gave them, need a triple of bools
    -> dx [..., C], dweight, dbias [C]; None for what is not needed or has no weight.
    """
    need_x, need_w, need_b = need
    if mean is None or rstd is None:
        raise TypeError("layer_norm_grad: expected the mean and rstd that layer_norm returned")
    return norm_grad(K.layer_norm_grad, g, x, weight, mean, rstd, need_x, need_w, need_b,
                     "layer_norm_grad")


def rms_norm_grad(g, x, weight, rstd, need):
    """With xhat = x rstd and h = g weight:
    dx = rstd (h - xhat mean(h xhat)), dweight = sum(g xhat).

    g, x [..., C], rstd [...] as rms_norm gave it, need a pair of bools -> dx [..., C], dweight
    """
    need_x, need_w = need
    if rstd is None:
        raise TypeError("rms_norm_grad: expected the rstd that rms_norm returned")
    dx, dw, _ = norm_grad(K.rms_norm_grad, g, x, weight, None, rstd, need_x, need_w, False,
                          "rms_norm_grad")
    return dx, dw
