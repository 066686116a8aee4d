"""Elementwise kernels with arguments of their own: where, lerp, clamp, and those in place."""

cimport numpy as cnp
from libc.math cimport INFINITY
from minidl_kernels.cpu.elementwise cimport (
    Job, Operands, ew_flat, ew_row, execute, number, operands, ready, sum_to_shape,
)
from minidl_kernels.cpu.memory cimport empty_like, f32, ptr

from minidl_kernels.cpu.elementwise import mul, sub, sum_to

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
    cdef Operands o = operands("where")
    o.array(condition(cond, "where"))
    o.add(a)
    o.add(b)
    return o.compute(ew_where_row)


def where_grad(g, cond, a, b, need):
    """(da, db) of where(cond, a, b): g where cond chose the operand, summed to its shape."""
    cdef Operands o = operands("where_grad")
    cdef cnp.ndarray dy = f32(g, "where_grad"), c = condition(cond, "where_grad"), d
    o.array(c)
    o.add(a)
    o.add(b)
    o.expect(dy)
    grads = []
    for operand, needed, keep in ((a, need[0], 1), (b, need[1], 0)):
        if not needed or not cnp.PyArray_Check(operand):
            grads.append(None)
            continue
        o = operands("where_grad")
        o.array(c)
        o.array(dy)
        o.job.keep = keep
        d = o.compute(ew_mask_row)
        grads.append(sum_to_shape(d, cnp.PyArray_NDIM(<cnp.ndarray>operand),
                                  cnp.PyArray_DIMS(<cnp.ndarray>operand)))
    return tuple(grads)


def lerp(a, b, weight):
    """a + weight (b - a), from the nearer end; all three broadcast.

    >>> import numpy as np
    >>> lerp(np.float32([0, 2]), np.float32([4, 4]), 0.25)
    array([1. , 2.5], dtype=float32)
    """
    cdef Operands o = operands("lerp")
    o.add(a)
    o.add(b)
    o.add(weight)
    return o.compute(ew_lerp_row)


def lerp_grad(g, a, b, weight, need):
    """(da, db, dweight) of lerp(a, b, weight), each summed to its operand's shape."""
    cdef Operands o = operands("lerp_grad")
    cdef cnp.ndarray dy = f32(g, "lerp_grad")
    o.add(a)
    o.add(b)
    o.add(weight)
    o.expect(dy)
    grads = []
    for operand, needed, slope in ((a, need[0], lambda: mul(dy, sub(1.0, weight))),
                                   (b, need[1], lambda: mul(dy, weight)),
                                   (weight, need[2], lambda: mul(dy, sub(b, a)))):
        wanted = needed and cnp.PyArray_Check(operand)
        grads.append(sum_to(slope(), operand.shape) if wanted else None)
    return tuple(grads)


cdef int limits(Job *job, object lo, object hi, str kernel) except -1:
    job.lo = -INFINITY if lo is None else number(lo, kernel)
    job.hi = INFINITY if hi is None else number(hi, kernel)
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
    cdef Operands o = operands("clamp_grad")
    cdef cnp.ndarray dy = f32(g, "clamp_grad")
    limits(&o.job, lo, hi, "clamp_grad")
    o.array(dy)
    o.array(f32(x, "clamp_grad"))
    o.expect(o.arrays[1])
    o.expect(dy)
    return o.compute(ew_clamp_grad_row)


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
    cdef Operands o = operands("add_")
    if cnp.PyArray_Check(src):
        source = f32(src, "add_")
        if (ptr(out) < ptr(source) + cnp.PyArray_SIZE(source)
                and ptr(source) < ptr(out) + cnp.PyArray_SIZE(out)
                and not (ptr(source) == ptr(out) and cnp.PyArray_SAMESHAPE(source, out))):
            source = source.copy()          # a part of dst would be written before it is read
        src = source
    o.widen(out)
    o.add(src)
    return o.accumulate(ew_accumulate_row, out)


def fill_(dst, value):
    """Every element of dst set to value, in place; returns dst."""
    cdef cnp.ndarray out = writable(dst, "fill_")
    cdef Job job
    job.lo = number(value, "fill_")
    ew_flat(&job, 0, cnp.PyArray_SIZE(out), 0)
    execute(&job, ew_fill_row, out)
    return out
