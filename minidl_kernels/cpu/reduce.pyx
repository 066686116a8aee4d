"""Reductions over any axes, and cumsum.

Every input is brought to x [outer, R, inner], reduced over the middle. Partial results are joined
in double over pieces that depend on the shape alone: the same bits on any number of threads.
"""

cimport numpy as cnp
from libc.math cimport INFINITY, isfinite, log
from libc.stdint cimport int64_t

import numpy as np

from minidl_kernels.cpu.memory cimport allocate, copy_f32, empty, empty_like, f32, ptr
from minidl_kernels.cpu.rows cimport grain_of
from minidl_kernels.cpu.threads cimport Task, run

cnp.import_array()

cdef extern from *:
    """
    #include "reduce.h"
    #define REDUCE_TABLE MINIDL_PICK(minidl_reduce)
    """
    ctypedef enum ReduceKind:
        REDUCE_SUM, REDUCE_DEV, REDUCE_SQDEV, REDUCE_EXPSUM, REDUCE_PROD, REDUCE_MAX, REDUCE_MIN
    ctypedef struct ReduceJob:
        float *out
        double *partial
        int64_t *index
        const float *x
        const float *shift
        Py_ssize_t outer, R, inner, block, blocks, strip, strips
        double scale, zero
    ctypedef struct ReduceTable:
        Task reduce[7]
        Task combine[7]
        Task find, cumsum
    const ReduceTable *REDUCE_TABLE
    Py_ssize_t REDUCE_STRIP

cdef const ReduceTable *K = REDUCE_TABLE

cdef struct Form:
    Py_ssize_t outer, R, inner
    Py_ssize_t times             # how many elements of the input each element of x stands for
    int ndim                     # the shape of the result
    cnp.npy_intp shape[64]


cdef cnp.ndarray arrange(object x, object axes, bint keepdim, str name, Form *form):
    """x as a contiguous [outer, R, inner], its sizes and the shape of the result in `form`."""
    cdef bint reduced[64]
    cdef cnp.ndarray a
    cdef int i, ndim
    if not cnp.PyArray_Check(x) or cnp.PyArray_TYPE(x) != cnp.NPY_FLOAT32:
        f32(x, name)
    a = x
    ndim = cnp.PyArray_NDIM(a)
    read_axes(axes, ndim, reduced, name)
    form.ndim = 0
    form.times = 1
    for i in range(ndim):
        if keepdim or not reduced[i]:
            form.shape[form.ndim] = 1 if reduced[i] else cnp.PyArray_DIM(a, i)
            form.ndim += 1
    if not cnp.PyArray_ISCARRAY_RO(a):
        a = straighten(a, reduced, form)
    if not collapse(a, reduced, form):
        order = [i for i in range(ndim) if not reduced[i]] + [i for i in range(ndim) if reduced[i]]
        a = copy_f32(a.transpose(order))
        form.outer *= form.inner
        form.inner = 1
    return a


cdef int read_axes(object axes, int ndim, bint *reduced, str name) except -1:
    cdef int i
    cdef Py_ssize_t axis
    cdef bint every = len(axes) == 0
    for i in range(ndim):
        reduced[i] = every
    for item in axes:
        axis = item
        if not 0 <= axis < ndim:
            raise IndexError(f"{name}: axis {axis} is out of range for an array of {ndim} axes")
        if reduced[axis]:
            raise ValueError(f"{name}: axis {axis} is given twice")
        reduced[axis] = True
    return 0


cdef cnp.ndarray straighten(cnp.ndarray a, bint *reduced, Form *form):
    """A contiguous array with the same reduction. Along a broadcast axis (stride 0) one element
    stands for all; a mere transpose of contiguous data is undone; anything else is copied."""
    cdef int i, ndim = cnp.PyArray_NDIM(a)
    cdef bint before[64]
    index = [slice(None)] * ndim
    for i in range(ndim):
        before[i] = reduced[i]
        if reduced[i] and cnp.PyArray_STRIDE(a, i) == 0 and cnp.PyArray_DIM(a, i) > 1:
            index[i] = slice(0, 1)
            form.times *= cnp.PyArray_DIM(a, i)
    a = a[tuple(index)]
    order = np.argsort([-abs(a.strides[k]) for k in range(ndim)], kind="stable").tolist()
    kept = [k for k in order if not reduced[k] and a.shape[k] != 1]
    view = a.transpose(order)
    if kept == sorted(kept) and cnp.PyArray_ISCARRAY_RO(view):
        for i in range(ndim):
            reduced[i] = before[<int>order[i]]
        return view
    return a if cnp.PyArray_ISCARRAY_RO(a) else copy_f32(a)


cdef bint collapse(cnp.ndarray a, bint *reduced, Form *form) noexcept:
    """The sizes of a in `form`; False when kept axes lie between reduced ones."""
    cdef int i
    cdef Py_ssize_t n
    cdef bint fits = True
    form.outer = form.R = form.inner = 1
    cdef bint met = False, left = False
    for i in range(cnp.PyArray_NDIM(a)):
        n = cnp.PyArray_DIM(a, i)
        if n == 1:
            continue
        if reduced[i]:
            fits = fits and not left
            met = True
            form.R *= n
        elif met:
            left = True
            form.inner *= n
        else:
            form.outer *= n
    return fits


cdef void plan(ReduceJob *job, Form *form, cnp.ndarray x, bint split) noexcept:
    """Pieces of some 32k elements; R is cut only when there are few columns and outer slices."""
    job.outer, job.R, job.inner = form.outer, form.R, form.inner
    job.x = ptr(x)
    job.shift = NULL
    job.partial = NULL
    job.index = NULL
    job.scale = 1
    job.zero = -0.0
    job.strip = 1
    if job.inner > 1:
        job.strips = (job.inner + REDUCE_STRIP - 1) // REDUCE_STRIP
        job.strip = ((job.inner + job.strips - 1) // job.strips + 15) // 16 * 16
    job.strips = (job.inner + job.strip - 1) // job.strip
    job.block = max(job.R, 1)
    if split and job.outer * job.strips < 64 and job.R * job.strip > 65536:
        job.block = max(32768 // job.strip, (job.R + 63) // 64)
    job.blocks = max((job.R + job.block - 1) // job.block, 1)


cdef Py_ssize_t grain(ReduceJob *job) noexcept:
    return grain_of(job.block * min(job.strip, job.inner))


cdef cnp.ndarray launch(ReduceKind kind, cnp.ndarray x, Form *form, cnp.ndarray shift,
                        double scale):
    """One reduction of the arranged x; `shift` [outer, inner] where the kind has one."""
    cdef ReduceJob job
    cdef cnp.ndarray out = empty(form.ndim, form.shape), partial
    cdef cnp.npy_intp size
    plan(&job, form, x, True)
    job.out = ptr(out)
    job.scale = scale
    if kind == REDUCE_SUM:
        job.zero = 0                    # sums start from -0, and end as PyTorch's at 0
    if shift is not None:
        job.shift = ptr(shift)
    if job.blocks > 1:
        size = job.outer * job.blocks * job.inner
        partial = allocate(1, &size, cnp.NPY_FLOAT64)
        job.partial = <double*>cnp.PyArray_DATA(partial)
    run(K.reduce[<int>kind], &job, job.outer * job.blocks * job.strips, grain(&job))
    if job.blocks > 1:
        K.combine[<int>kind](&job, 0, job.outer)
    return out


def sum(x, axes, bint keepdim):
    """Sum of x over `axes` (a tuple; empty: all of them).

    >>> sum(np.ones((2, 3), "float32"), (1,), False)
    array([3., 3.], dtype=float32)
    """
    cdef Form form
    cdef cnp.ndarray a = arrange(x, axes, keepdim, "sum", &form)
    return launch(REDUCE_SUM, a, &form, None, form.times)


def mean(x, axes, bint keepdim):
    """Mean of x over `axes` (empty: all); NaN over no elements."""
    cdef Form form
    cdef cnp.ndarray a = arrange(x, axes, keepdim, "mean", &form)
    return launch(REDUCE_SUM, a, &form, None, 1.0 / <double>form.R)


def prod(x, axes, bint keepdim):
    """Product of x over `axes` (empty: all)."""
    cdef Form form
    cdef cnp.ndarray a = arrange(x, axes, keepdim, "prod", &form)
    cdef cnp.ndarray out = launch(REDUCE_PROD, a, &form, None, 1)
    if form.times > 1:
        with np.errstate(over="ignore", under="ignore"):
            np.power(out, <double>form.times, out=out, casting="same_kind", dtype=np.float64)
    return out


cdef cnp.ndarray extreme(object x, object axes, bint keepdim, ReduceKind kind, str name):
    cdef Form form
    cdef cnp.ndarray a = arrange(x, axes, keepdim, name, &form)
    if form.R == 0 and form.outer * form.inner > 0:
        raise IndexError(f"{name}: an axis of size 0 has no extreme value, input shape {x.shape}")
    return launch(kind, a, &form, None, 1)


def amax(x, axes, bint keepdim):
    """Largest element over `axes` (empty: all), NaN where there is one."""
    return extreme(x, axes, keepdim, REDUCE_MAX, "amax")


def amin(x, axes, bint keepdim):
    """Smallest element over `axes` (empty: all), NaN where there is one."""
    return extreme(x, axes, keepdim, REDUCE_MIN, "amin")


def var(x, axes, bint keepdim, double correction):
    """sum((x - mean)^2) / (n - correction) over `axes` (empty: all), mean first."""
    cdef Form form
    cdef cnp.ndarray a = arrange(x, axes, keepdim, "var", &form)
    cdef cnp.ndarray m = launch(REDUCE_SUM, a, &form, None, 1.0 / <double>form.R), rest, out
    cdef double n = <double>form.R * <double>form.times, left = n - correction
    out = launch(REDUCE_SQDEV, a, &form, m, form.times / left if left > 0 else INFINITY)
    if left > 0:
        # Around a rounded mean the squares are too large by the square of what it is off.
        rest = launch(REDUCE_DEV, a, &form, m, 1.0 / <double>form.R)
        lower(ptr(out), ptr(rest), n / left, form.outer * form.inner)
    return out


cdef void lower(float *out, const float *rest, double factor, Py_ssize_t n) noexcept:
    cdef Py_ssize_t i
    cdef double exact
    for i in range(n):
        exact = out[i] - factor * rest[i] * rest[i]
        out[i] = <float>(0 if exact < 0 else exact)


def logsumexp(x, axes, bint keepdim):
    """log(sum(exp(x))) over `axes` (empty: all), safe for large x; -inf over no elements."""
    cdef Form form
    cdef cnp.ndarray a = arrange(x, axes, keepdim, "logsumexp", &form)
    cdef cnp.ndarray top = launch(REDUCE_MAX, a, &form, None, 1), out
    cdef float *t = ptr(top)
    cdef float *y
    cdef Py_ssize_t i
    for i in range(form.outer * form.inner):
        if not isfinite(t[i]):
            t[i] = 0
    out = launch(REDUCE_EXPSUM, a, &form, top, form.times)
    y = ptr(out)
    for i in range(form.outer * form.inner):
        y[i] = <float>(t[i] + log(y[i]))
    return out


def sqsum(x):
    """Sum of the squares of all elements, a scalar array."""
    cdef Form form
    cdef cnp.ndarray a = arrange(x, (), False, "sqsum", &form)
    return launch(REDUCE_SQDEV, a, &form, None, form.times)


cdef cnp.ndarray where_extreme(object x, object axis, ReduceKind kind, str name):
    """First index of the extreme value along axis, or in the flattened x."""
    cdef Form form
    cdef ReduceJob job
    cdef cnp.ndarray a = f32(first_of_broadcast(x, axis), name), best, out
    a = arrange(a, () if axis is None or cnp.PyArray_NDIM(a) == 0 else (axis,), False, name,
                &form)
    if form.R == 0 and form.outer * form.inner > 0:
        raise IndexError(f"{name}: an axis of size 0 has no extreme value, input shape {x.shape}")
    best = launch(kind, a, &form, None, 1)
    out = allocate(form.ndim, form.shape, cnp.NPY_INT64)
    plan(&job, &form, a, False)
    job.shift = ptr(best)
    job.index = <int64_t*>cnp.PyArray_DATA(out)
    run(K.find, &job, job.outer * job.strips, grain(&job))
    if axis is None and (<object>a).shape != x.shape:
        at = np.unravel_index(out[()], (<object>a).shape)
        out[()] = np.ravel_multi_index(at, x.shape)
    return out


cdef object first_of_broadcast(object x, object axis):
    """x with one element in place of equal ones along the broadcast axes to be searched."""
    if not isinstance(x, np.ndarray) or x.flags.c_contiguous:
        return x
    return x[tuple(slice(0, 1) if s == 0 and n > 1 and axis in (None, k) else slice(None)
                   for k, (s, n) in enumerate(zip(x.strides, x.shape)))]


def argmax(x, axis):
    """Index of the first largest element (the first NaN where there is one), int64.

    axis None: index into the flattened x.
    """
    return where_extreme(x, axis, REDUCE_MAX, "argmax")


def argmin(x, axis):
    """Index of the first smallest element (the first NaN where there is one), int64."""
    return where_extreme(x, axis, REDUCE_MIN, "argmin")


def cumsum(x, axis):
    """Running sum along axis. x [..., R, ...] -> the same shape"""
    cdef Form form
    cdef ReduceJob job
    cdef cnp.ndarray a = f32(x, "cumsum"), out = empty_like(a)
    arrange(a, (axis,) if cnp.PyArray_NDIM(a) else (), False, "cumsum", &form)
    plan(&job, &form, a, False)
    job.out = ptr(out)
    run(K.cumsum, &job, job.outer * job.strips, grain(&job))
    return out
