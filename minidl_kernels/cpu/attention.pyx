"""Scaled dot-product attention on the CPU, forward and backward, memory linear in the sequence.

Letters: B batches, H query heads, Hk key heads, T queries, S keys, D and Dv the widths of a head.
"""

cimport numpy as cnp
from libc.math cimport rint, sqrt
from libc.stdint cimport uint32_t, uint64_t

from minidl_kernels.cpu cimport threads
from minidl_kernels.cpu.memory cimport copy_f32, empty, f32, ptr

import numpy as np

from minidl_kernels.reference.attention import attention_mask_grad

cnp.import_array()

cdef extern from "attention.h":
    ctypedef struct AttentionRows:
        float *data
        Py_ssize_t b, h, t

    ctypedef struct Attention:
        AttentionRows q, k, v, out, g, dq, dk, dv
        double *lse
        const void *mask
        int mask_is_bool
        Py_ssize_t mask_b, mask_h, mask_t, mask_s
        Py_ssize_t B, H, Hk, T, S, D, Dv
        int causal
        float scale
        int dropout
        uint32_t threshold
        float keep_scale
        uint64_t seed, offset
        Py_ssize_t parts
        float *dq_parts
        int failed

    ctypedef struct AttentionTable:
        Py_ssize_t (*forward_tasks)(const Attention *a) noexcept nogil
        threads.Task forward
        threads.Task backward
        threads.Task sum_parts

cdef extern from *:
    """
    #define ATTENTION_TABLE MINIDL_PICK(minidl_attention)
    """
    const AttentionTable *ATTENTION_TABLE

cdef const AttentionTable *K = ATTENTION_TABLE

cdef enum:
    PIECE = 2000000         # multiplications worth handing to another thread
    HEAVY = 6000000         # multiplications worth waking the pool for
    LONG = 1000000000       # multiplications of one task above which Ctrl-C would wait too long
    TASKS = 8               # backward tasks wanted before a head's keys are split between several
    MOST_PARTS = 16         # bounds the memory of the parts of dq


cdef cnp.ndarray door(object x, str what):
    """x as a 4-D float32 array with a contiguous last axis; anything else is copied or refused."""
    cdef cnp.ndarray y
    cdef int i
    if not cnp.PyArray_Check(x) or cnp.PyArray_TYPE(<cnp.ndarray>x) != cnp.NPY_FLOAT32:
        f32(x, what)
    y = <cnp.ndarray>x
    if cnp.PyArray_NDIM(y) != 4:
        raise ValueError(f"{what}: expected 4 axes (batch, heads, length, width), got shape "
                         f"{x.shape}")
    if not cnp.PyArray_ISALIGNED(y) or cnp.PyArray_ISBYTESWAPPED(y):
        return copy_f32(y)
    if cnp.PyArray_STRIDE(y, 3) != 4 and cnp.PyArray_DIM(y, 3) > 1:
        return copy_f32(y)
    for i in range(3):
        if cnp.PyArray_STRIDE(y, i) % 4:
            return copy_f32(y)
    return y


cdef void set_rows(AttentionRows *rows, cnp.ndarray x) noexcept:
    rows.data = ptr(x)
    rows.b = cnp.PyArray_STRIDE(x, 0) // 4
    rows.h = cnp.PyArray_STRIDE(x, 1) // 4
    rows.t = cnp.PyArray_STRIDE(x, 2) // 4


cdef int set_inputs(Attention *a, str name, cnp.ndarray q, cnp.ndarray k, cnp.ndarray v,
                    bint is_causal, object scale) except -1:
    set_rows(&a.q, q)
    set_rows(&a.k, k)
    set_rows(&a.v, v)
    a.B, a.H, a.T, a.D = q.shape[0], q.shape[1], q.shape[2], q.shape[3]
    a.Hk, a.S, a.Dv = k.shape[1], k.shape[2], v.shape[3]
    if k.shape[0] != a.B or v.shape[0] != a.B:
        raise ValueError(f"{name}: query, key and value have {a.B}, {k.shape[0]} and {v.shape[0]} "
                         "batches; they must agree")
    if k.shape[3] != a.D:
        raise ValueError(f"{name}: query has width {a.D} and key {k.shape[3]}; they must agree")
    if v.shape[1] != a.Hk or v.shape[2] != a.S:
        raise ValueError(f"{name}: key has shape {(<object>k).shape} and value "
                         f"{(<object>v).shape}; heads and length must agree")
    if a.H and (a.Hk == 0 or a.H % a.Hk):
        raise ValueError(f"{name}: {a.H} query heads are not a multiple of {a.Hk} key heads")
    a.causal = is_causal
    a.scale = 1 / sqrt(<double>max(a.D, 1)) if scale is None else scale
    return 0


cdef object set_mask(Attention *a, str name, object mask):
    """Point `a` at the mask, broadcast but not copied; returns the array that must stay alive."""
    cdef cnp.ndarray m
    if mask is None:
        return None
    if not isinstance(mask, np.ndarray) or mask.dtype not in (np.bool_, np.float32):
        raise TypeError(f"{name}: the mask must be a bool or float32 array, got "
                        f"{getattr(mask, 'dtype', type(mask).__name__)}")
    if not mask.flags.aligned or not mask.dtype.isnative or any(
        s % mask.itemsize for s in mask.strides
    ):
        mask = mask.astype(mask.dtype.newbyteorder("="))
    try:
        m = np.broadcast_to(mask, (a.B, a.H, a.T, a.S))
    except ValueError:
        raise ValueError(f"{name}: a mask of shape {mask.shape} does not broadcast to "
                         f"(batch, heads, queries, keys) = {(a.B, a.H, a.T, a.S)}") from None
    a.mask = cnp.PyArray_DATA(m)
    a.mask_is_bool = cnp.PyArray_TYPE(m) == cnp.NPY_BOOL
    a.mask_b, a.mask_h, a.mask_t, a.mask_s = (s // mask.itemsize for s in (<object>m).strides)
    return m


cdef int set_dropout(Attention *a, str name, double p, object seed, object offset) except -1:
    cdef double threshold
    if not 0 <= p <= 1:
        raise ValueError(f"{name}: dropout_p must be between 0 and 1, got {p}")
    threshold = rint(p * 4294967296.0)
    a.dropout = p > 0
    a.keep_scale = 0 if threshold > 4294967295.0 else 1 / (1 - p)
    a.threshold = <uint32_t>min(threshold, 4294967295.0)
    try:
        a.seed = seed & 0xFFFFFFFFFFFFFFFF
        a.offset = offset & 0xFFFFFFFFFFFFFFFF
    except TypeError:
        raise TypeError(f"{name}: seed and offset must be ints, got {type(seed).__name__} and "
                        f"{type(offset).__name__}") from None
    return 0


cdef int share(threads.Task task, Attention *a, Py_ssize_t tasks, double work) except -1:
    """Run the tasks, which take `work` multiplications together; pieces from the shape only, and
    an even number of them where that can be."""
    cdef Py_ssize_t pieces = max(1, 2 * <Py_ssize_t>(min(work, 1e15) / PIECE / 2 + 0.5))
    cdef Py_ssize_t grain = max(1, (tasks + pieces - 1) // pieces)
    if work < HEAVY:
        return threads.run(task, a, tasks, grain)
    return threads.run_heavy(task, a, tasks, grain)


cdef double multiplications(Attention *a) noexcept:
    cdef double full = <double>a.B * a.H * a.T * a.S * (a.D + a.Dv)
    if a.T < 4:
        full *= 8       # so few queries wait for memory, not for the multiplier
    return full / 2 if a.causal and a.T == a.S else full


cdef cnp.ndarray rows_first(Py_ssize_t B, Py_ssize_t T, Py_ssize_t H, Py_ssize_t D):
    """[B, H, T, D] laid out as (B, T, H, D), so that joining the heads again is a free reshape."""
    cdef cnp.npy_intp[4] shape = [B, T, H, D]
    return cnp.PyArray_SwapAxes(empty(4, shape), 1, 2)


def attention(q, k, v, mask=None, is_causal=False, scale=None, dropout_p=0.0, seed=0, offset=0):
    """out = dropout(softmax(q k^T * scale + mask)) v, and lse = logsumexp of each row of scores.

    q [B,H,T,D], k [B,Hk,S,D], v [B,Hk,S,Dv] with H a multiple of Hk: query head h reads key head
    h // (H / Hk). mask: None, bool (True: attend) or float32 (added), broadcast to [B,H,T,S].
    is_causal: query i sees keys j <= i. A row that sees nothing gives zeros, and lse -inf.
    Score e of [B,H,T,S] in C order is dropped where word e of the Philox stream (seed, offset) is
    below dropout_p. Returns out [B,H,T,Dv] laid out as (B,T,H,Dv), and lse [B,H,T] in float64, so
    that exp(score - lse) keeps its digits when the scores are large.

    >>> out, lse = attention(q, k, v, is_causal=True)
    """
    cdef Attention a
    cdef cnp.ndarray q_ = door(q, "attention: query"), k_ = door(k, "attention: key")
    cdef cnp.ndarray v_ = door(v, "attention: value"), out, lse
    cdef cnp.npy_intp[3] shape
    cdef Py_ssize_t tasks
    a.mask = NULL
    a.failed = 0
    set_inputs(&a, "attention", q_, k_, v_, is_causal, scale)
    set_dropout(&a, "attention", dropout_p, seed, offset)
    mask = set_mask(&a, "attention", mask)
    out = rows_first(a.B, a.T, a.H, a.Dv)
    shape = [a.B, a.H, a.T]
    lse = cnp.PyArray_EMPTY(3, shape, cnp.NPY_FLOAT64, 0)
    set_rows(&a.out, out)
    a.lse = <double*>cnp.PyArray_DATA(lse)
    tasks = K.forward_tasks(&a)
    share(K.forward, &a, tasks, multiplications(&a))
    if a.failed:
        raise MemoryError("attention: no memory for the blocks of a head")
    return out, lse


cdef cnp.ndarray saved(lse):
    if not cnp.PyArray_Check(lse) or cnp.PyArray_TYPE(lse) not in (cnp.NPY_FLOAT64,
                                                                   cnp.NPY_FLOAT32):
        raise TypeError("attention_grad: expected the lse that attention returned")
    return cnp.PyArray_FROMANY(lse, cnp.NPY_FLOAT64, 0, 0, cnp.NPY_ARRAY_CARRAY_RO)


cdef bint third(AttentionRows *x, Attention *a) noexcept:
    cdef Py_ssize_t row = 3 * a.H * a.D
    return x.h == a.D and x.t == row and x.b == a.T * row


cdef bint packed(Attention *a) noexcept:
    """Are q, k and v the three equal thirds of one contiguous (B, T, 3, H, D) array?"""
    cdef Py_ssize_t width = a.H * a.D
    if a.H != a.Hk or a.T != a.S or a.D != a.Dv or width == 0:
        return False
    return (a.k.data == a.q.data + width and a.v.data == a.k.data + width
            and third(&a.q, a) and third(&a.k, a) and third(&a.v, a))


cdef Py_ssize_t choose_parts(Attention *a) noexcept:
    """Tasks that share the keys of one head: more when there are few heads, or very long ones."""
    cdef Py_ssize_t heads = a.B * a.Hk, blocks = (a.S + 63) // 64
    cdef double one = 5 * multiplications(a) / 2 / heads
    cdef Py_ssize_t parts = max((TASKS + heads - 1) // heads, <Py_ssize_t>(one / LONG))
    return max(1, min(min(parts, MOST_PARTS), min(blocks // 2, <Py_ssize_t>(one / PIECE))))


def attention_grad(g, q, k, v, out, lse, mask=None, is_causal=False, scale=None, dropout_p=0.0,
                   seed=0, offset=0, need=(True, True, True, False)):
    """Gradients (dq, dk, dv, dmask) of `attention` for the gradient g [B,H,T,Dv] of its output.

    Where `need` is False the gradient is None and its products are skipped. dq, dk and dv are laid
    out as (B, length, heads, width); when q, k and v are the thirds of one packed (B,T,3*H*D)
    array, they are the thirds of one packed array too. dmask has the mask's own shape.
    """
    cdef Attention a
    cdef cnp.ndarray q_ = door(q, "attention_grad: query"), k_ = door(k, "attention_grad: key")
    cdef cnp.ndarray v_ = door(v, "attention_grad: value"), g_ = door(g, "attention_grad: g")
    cdef cnp.ndarray out_ = door(out, "attention_grad: out"), lse_ = saved(lse)
    cdef cnp.ndarray parts, whole
    cdef cnp.npy_intp[5] shape
    cdef Py_ssize_t tasks
    cdef bint need_q, need_k, need_v, need_mask
    need_q, need_k, need_v, need_mask = need
    a.mask = a.dq.data = a.dk.data = a.dv.data = a.dq_parts = NULL
    a.failed = 0
    set_inputs(&a, "attention_grad", q_, k_, v_, is_causal, scale)
    set_dropout(&a, "attention_grad", dropout_p, seed, offset)
    held = set_mask(&a, "attention_grad", mask)
    expected = (a.B, a.H, a.T, a.Dv)
    if (<object>g_).shape != expected or (<object>out_).shape != expected:
        raise ValueError(f"attention_grad: g and out must have shape {expected}, got "
                         f"{(<object>g_).shape} and {(<object>out_).shape}")
    if (<object>lse_).shape != expected[:3]:
        raise ValueError(f"attention_grad: lse must have shape {expected[:3]}, got "
                         f"{(<object>lse_).shape}")
    set_rows(&a.g, g_)
    set_rows(&a.out, out_)
    a.lse = <double*>cnp.PyArray_DATA(lse_)
    dq = dk = dv = dmask = None
    if need_q and need_k and need_v and packed(&a):
        shape = [a.B, a.T, 3, a.H, a.D]
        whole = empty(5, shape)
        dq, dk, dv = (<object>whole).transpose(2, 0, 3, 1, 4)
    else:
        dq = rows_first(a.B, a.T, a.H, a.D) if need_q else None
        dk = rows_first(a.B, a.S, a.Hk, a.D) if need_k else None
        dv = rows_first(a.B, a.S, a.Hk, a.Dv) if need_v else None
    if need_q:
        set_rows(&a.dq, dq)
    if need_k:
        set_rows(&a.dk, dk)
    if need_v:
        set_rows(&a.dv, dv)
    if (need_q or need_k or need_v) and a.B * a.Hk > 0:
        a.parts = choose_parts(&a)
        if a.parts > 1 and need_q:
            shape = [a.parts, a.B, a.H, a.T, a.D]
            parts = empty(5, shape)
            a.dq_parts = ptr(parts)
        tasks = a.B * a.Hk * a.parts
        share(K.backward, &a, tasks, 5 * multiplications(&a) / 2)
        if a.failed:
            raise MemoryError("attention_grad: no memory for the blocks of a head")
        if a.dq_parts != NULL:
            threads.run(K.sum_parts, &a, a.B * a.H * a.T, max(1, 32768 // max(1, a.D)))
    if need_mask and held is not None and not a.mask_is_bool:
        dmask = attention_mask_grad(g_, q_, k_, v_, out_, lse_, mask, is_causal, a.scale,
                                    dropout_p, seed, offset)
    return dq, dk, dv, dmask
