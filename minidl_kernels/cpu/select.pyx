"""Elementwise kernels with arguments of their own: where, lerp, clamp, and those in place."""

cimport numpy as cnp
from libc.math cimport INFINITY
from minidl_kernels.cpu.elementwise cimport (
    Job, Operands, accumulate, compute, ew_flat, ew_row, execute, expect, number, put, put_array,
    ready, sum_to_shape, widen,
)
from minidl_kernels.cpu.memory cimport empty_like, f32, ptr

import numpy as np

from minidl_kernels.cpu.elementwise import mul, sub, sum_to

__all__ = ["add_", "clamp", "clamp_grad", "fill_", "lerp", "lerp_grad", "where", "where_grad"]

cnp.import_array()

cdef extern from "broadcast.h" nogil:
    ew_row ew_where_row, ew_mask_row, ew_lerp_row, ew_clamp_row, ew_clamp_grad_row
    ew_row ew_accumulate_row, ew_fill_row


cdef cnp.ndarray condition(object cond, str kernel):
    """cond as a contiguous array of bytes."""
    if not cnp.PyArray_Check(cond) or cnp.PyArray_TYPE(<cnp.ndarray>cond) not in (
            cnp.NPY_BOOL, cnp.NPY_UINT8):
        got = f"one of {cond.dtype}" if cnp.PyArray_Check(cond) else type(cond).__name__
        raise TypeError(f"{kernel}: expected a bool or uint8 array as condition, got {got}")
    return cnp.PyArray_GETCONTIGUOUS(<cnp.ndarray>cond)


def where(cond, a, b):
    """a where cond is true, else b; all three broadcast.

    >>> import numpy as np
    >>> where(np.array([True, False]), np.float32([1, 2]), 0.0)
    array([1., 0.], dtype=float32)
    """
    cdef Operands o
    cdef cnp.ndarray _c, _x, _y             # held while the job runs
    o.ndim = o.count = 0
    _c = put_array(&o, condition(cond, "where"), "where")
    _x = put(&o, a, "where")
    _y = put(&o, b, "where")
    return compute(&o, ew_where_row)


def where_grad(g, cond, a, b, need):
    """(da, db) of where(cond, a, b): g where cond chose the operand, summed to its shape."""
    cdef Operands o
    cdef cnp.ndarray dy = f32(g, "where_grad"), c = condition(cond, "where_grad"), x, y
    o.ndim = o.count = 0
    put_array(&o, c, "where_grad")
    x = put(&o, a, "where_grad")
    y = put(&o, b, "where_grad")
    expect(&o, dy, "where_grad")
    return (chosen(dy, c, x, 1) if need[0] else None, chosen(dy, c, y, 0) if need[1] else None)


cdef object chosen(cnp.ndarray dy, cnp.ndarray c, cnp.ndarray operand, int keep):
    """dy where (c != 0) == keep, summed to the operand's shape; None for a number."""
    cdef Operands o
    if operand is None:
        return None
    o.ndim = o.count = 0
    put_array(&o, c, "where_grad")
    put_array(&o, dy, "where_grad")
    o.job.keep = keep
    return sum_to_shape(compute(&o, ew_mask_row), cnp.PyArray_NDIM(operand),
                        cnp.PyArray_DIMS(operand))


def lerp(a, b, weight):
    """a + weight (b - a), from the nearer end; all three broadcast.

    >>> import numpy as np
    >>> lerp(np.float32([0, 2]), np.float32([4, 4]), 0.25)
    array([1. , 2.5], dtype=float32)
    """
    cdef Operands o
    cdef cnp.ndarray x, y, w
    o.ndim = o.count = 0
    x = put(&o, a, "lerp")
    y = put(&o, b, "lerp")
    w = put(&o, weight, "lerp")
    if x is None and y is None and w is None:
        raise TypeError("lerp: expected at least one float32 array, got three numbers")
    return compute(&o, ew_lerp_row)


def lerp_grad(g, a, b, weight, need):
    """(da, db, dweight) of lerp(a, b, weight), each summed to its operand's shape."""
    cdef Operands o
    cdef cnp.ndarray dy = f32(g, "lerp_grad"), x, y, w
    o.ndim = o.count = 0
    x = put(&o, a, "lerp_grad")
    y = put(&o, b, "lerp_grad")
    w = put(&o, weight, "lerp_grad")
    expect(&o, dy, "lerp_grad")
    rest = 1.0 - weight if w is None else sub(1.0, w)
    return (sum_to(mul(dy, rest), np.shape(x)) if need[0] and x is not None else None,
            sum_to(mul(dy, weight), np.shape(y)) if need[1] and y is not None else None,
            sum_to(mul(dy, b - a if x is None and y is None else sub(b, a)), np.shape(w))
            if need[2] and w is not None else None)


cdef int limits(Job *job, object lo, object hi, str kernel) except -1:
    job.lo = -INFINITY if lo is None else <float>number(lo, kernel)
    job.hi = INFINITY if hi is None else <float>number(hi, kernel)
    return 0


def clamp(x, lo, hi):
    """min(max(x, lo), hi); None for a limit that is not there.

    >>> import numpy as np
    >>> clamp(np.float32([-2, 0.5, 2]), -1, 1)
    array([-1. ,  0.5,  1. ], dtype=float32)
    """
    cdef cnp.ndarray a = f32(x, "clamp"), out
    cdef Job job
    limits(&job, lo, hi, "clamp")
    out = empty_like(a)
    ew_flat(&job, 1, cnp.PyArray_SIZE(a), 0)
    job.operand[0] = ptr(a)
    execute(&job, ew_clamp_row, out)
    return out


def clamp_grad(g, x, lo, hi):
    """g where lo <= x <= hi, else 0."""
    cdef cnp.ndarray dy = f32(g, "clamp_grad"), a = f32(x, "clamp_grad"), out
    cdef Job job
    limits(&job, lo, hi, "clamp_grad")
    if not cnp.PyArray_SAMESHAPE(dy, a):
        raise ValueError(f"clamp_grad: g has shape {np.shape(dy)} and x {np.shape(a)}, expected "
                         "the same")
    out = empty_like(a)
    ew_flat(&job, 2, cnp.PyArray_SIZE(a), 0)
    job.operand[0] = ptr(dy)
    job.operand[1] = ptr(a)
    execute(&job, ew_clamp_grad_row, out)
    return out


cdef cnp.ndarray writable(object dst, str kernel):
    """dst if a kernel can write to it in place."""
    if not ready(dst) or not cnp.PyArray_ISWRITEABLE(<cnp.ndarray>dst):
        raise TypeError(f"{kernel}: expected a writable C-contiguous float32 array to write to")
    return <cnp.ndarray>dst


def add_(dst, src):
    """dst += src in place, src broadcast to dst's shape; returns dst.

    >>> import numpy as np
    >>> add_(np.float32([[1, 2], [3, 4]]), np.float32([10, 20]))
    array([[11., 22.],
           [13., 24.]], dtype=float32)
    """
    cdef cnp.ndarray out = writable(dst, "add_"), source
    cdef Operands o
    if cnp.PyArray_Check(src):
        source = f32(src, "add_")
        if (ptr(out) < ptr(source) + cnp.PyArray_SIZE(source)
                and ptr(source) < ptr(out) + cnp.PyArray_SIZE(out)
                and not (ptr(source) == ptr(out) and cnp.PyArray_SAMESHAPE(source, out))):
            source = source.copy()          # a part of dst would be written before it is read
        src = source
    o.ndim = o.count = 0
    widen(&o, out, "add_")
    source = put(&o, src, "add_")
    accumulate(&o, ew_accumulate_row, out, "add_")
    return out


def fill_(dst, value):
    """Every element of dst set to value, in place; returns dst."""
    cdef cnp.ndarray out = writable(dst, "fill_")
    cdef Job job
    job.lo = <float>number(value, "fill_")
    ew_flat(&job, 0, cnp.PyArray_SIZE(out), 0)
    execute(&job, ew_fill_row, out)
    return out
