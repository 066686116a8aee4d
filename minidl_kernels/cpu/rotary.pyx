"""Rotary position embedding on the CPU.

Letters: B batches, H heads, T positions, D the width of a head.
"""

cimport numpy as cnp

from minidl_kernels.cpu cimport threads
from minidl_kernels.cpu.memory cimport copy_f32, empty, empty_like, f32, ptr

cnp.import_array()

cdef extern from "rotary.h":
    ctypedef struct Rotary:
        float *y
        const float *x
        const float *cos
        const float *sin
        Py_ssize_t y_b, y_h, y_t, x_b, x_h, x_t
        Py_ssize_t B, H, T, D
        int interleaved
        float sign

    ctypedef struct RotaryTable:
        threads.Task turn

cdef extern from *:
    """
    #define ROTARY_TABLE MINIDL_PICK(minidl_rotary)
    """
    const RotaryTable *ROTARY_TABLE

cdef const RotaryTable *K = ROTARY_TABLE


cdef cnp.ndarray door(object x, str name):
    """x as it is when it has four axes and a contiguous last one, else a contiguous copy."""
    cdef cnp.ndarray y
    cdef int i
    if not cnp.PyArray_Check(x) or cnp.PyArray_TYPE(<cnp.ndarray>x) != cnp.NPY_FLOAT32:
        f32(x, name + ": x")
    y = <cnp.ndarray>x
    if cnp.PyArray_NDIM(y) < 2:
        raise ValueError(f"{name}: x needs at least two axes (position, width), got {x.shape}")
    if cnp.PyArray_NDIM(y) != 4 or not cnp.PyArray_ISALIGNED(y) or cnp.PyArray_ISBYTESWAPPED(y):
        return f32(y, name + ": x")
    if cnp.PyArray_STRIDE(y, 3) != 4:
        return f32(y, name + ": x")
    for i in range(3):
        if cnp.PyArray_STRIDE(y, i) % 4:
            return copy_f32(y)
    return y


cdef cnp.ndarray result_for(cnp.ndarray x):
    """Four axes with positions outside heads stay so: the view of a projection gives one too."""
    cdef cnp.npy_intp[4] shape
    if cnp.PyArray_NDIM(x) != 4 or cnp.PyArray_STRIDE(x, 2) < cnp.PyArray_STRIDE(x, 1):
        return empty_like(x)
    shape = [x.shape[0], x.shape[2], x.shape[1], x.shape[3]]
    return cnp.PyArray_SwapAxes(empty(4, shape), 1, 2)


cdef object turn(str name, object input, object cos, object sin, bint interleaved, float sign):
    cdef Rotary r
    cdef cnp.ndarray x = door(input, name), y
    cdef cnp.ndarray c = f32(cos, name + ": cos"), s = f32(sin, name + ": sin")
    cdef int n = cnp.PyArray_NDIM(x)
    r.T, r.D = x.shape[n - 2], x.shape[n - 1]
    if r.D % 2:
        raise ValueError(f"{name}: the width of x must be even, got {r.D}")
    expected = (r.T, r.D // 2)
    if (<object>c).shape != expected or (<object>s).shape != expected:
        raise ValueError(f"{name}: x of shape {input.shape} needs cos and sin of shape {expected}, "
                         f"got {cos.shape} and {sin.shape}")
    y = result_for(x)
    r.y, r.x, r.cos, r.sin = ptr(y), ptr(x), ptr(c), ptr(s)
    r.interleaved, r.sign = interleaved, sign
    if n == 4:
        r.B, r.H = x.shape[0], x.shape[1]
        r.x_b, r.x_h = cnp.PyArray_STRIDE(x, 0) // 4, cnp.PyArray_STRIDE(x, 1) // 4
        r.x_t = cnp.PyArray_STRIDE(x, 2) // 4
        r.y_b, r.y_h = cnp.PyArray_STRIDE(y, 0) // 4, cnp.PyArray_STRIDE(y, 1) // 4
        r.y_t = cnp.PyArray_STRIDE(y, 2) // 4
    else:
        r.H = 1
        r.B = x.size // (r.T * r.D) if r.T * r.D else 0
        r.x_b = r.y_b = r.T * r.D
        r.x_h = r.y_h = 0
        r.x_t = r.y_t = r.D
    threads.run(K.turn, &r, r.B * r.T * r.H, max(1, 32768 // max(1, r.D)))
    return y


def rotary(x, cos, sin, interleaved=False):
    """y = (x1 cos - x2 sin, x2 cos + x1 sin) for every pair (x1, x2) of features.

    x [..., T, D] with D even; cos, sin [T, D/2], one row per position of x. A pair is
    (x[i], x[i + D/2]), as in Llama, or (x[2i], x[2i + 1]) when interleaved. A 4-D x may be a view
    with any strides but a contiguous last axis.

    >>> rotary(np.ones((1, 2), "f"), np.zeros((1, 1), "f"), np.ones((1, 1), "f"))   # a right angle
    array([[-1.,  1.]], dtype=float32)
    """
    return turn("rotary", x, cos, sin, interleaved, 1)


def rotary_grad(g, cos, sin, interleaved=False):
    """The gradient of a rotation: g turned by the negative angle."""
    return turn("rotary_grad", g, cos, sin, interleaved, -1)
