"""Rows of a table picked by index, and rows added into a table by index.

Shapes: weight [V, C], idx any shape of N elements.
"""

cimport numpy as cnp
from libc.stdint cimport int64_t
from libc.string cimport memset

from minidl_kernels.cpu.memory cimport copy_f32, empty, f32, ptr
from minidl_kernels.cpu.rows cimport grain_of, i64
from minidl_kernels.cpu.threads cimport Task, run

import numpy as np

cnp.import_array()

cdef extern from *:
    """
    #include "embedding.h"
    #define EMBEDDING_TABLE MINIDL_PICK(minidl_embedding)
    """
    ctypedef struct EmbeddingJob:
        float *out
        const float *in_ "in"
        const int64_t *idx
        Py_ssize_t N, C
        int64_t skip
    ctypedef struct EmbeddingTable:
        Task take, add
    const EmbeddingTable *EMBEDDING_TABLE
    Py_ssize_t ADD_STRIP

cdef const EmbeddingTable *K = EMBEDDING_TABLE


cdef cnp.ndarray indices(object idx, Py_ssize_t V, str name):
    """idx at the door, every element of it in [0, V)."""
    cdef cnp.ndarray a = i64(idx, name)
    cdef const int64_t *p = <const int64_t*>cnp.PyArray_DATA(a)
    cdef Py_ssize_t i
    for i in range(cnp.PyArray_SIZE(a)):
        if not 0 <= p[i] < V:
            raise IndexError(f"{name}: index {p[i]} (element {i} of idx) is out of range for "
                             f"{V} rows")
    return a


cdef int add_rows(cnp.ndarray out, cnp.ndarray source, cnp.ndarray idx, int64_t skip) except -1:
    """out[idx[r]] += source[r], the columns of out cut into pieces for the threads."""
    cdef EmbeddingJob job
    cdef Py_ssize_t strips, grain
    job.out, job.in_, job.idx = ptr(out), ptr(source), <const int64_t*>cnp.PyArray_DATA(idx)
    job.N, job.C, job.skip = cnp.PyArray_SIZE(idx), cnp.PyArray_DIM(out, 1), skip
    strips = (job.C + ADD_STRIP - 1) // ADD_STRIP
    grain = grain_of(job.N * ADD_STRIP)
    run(K.add, &job, strips, max(grain, (strips + 7) // 8))
    return 0


cdef tuple leading_shape(cnp.ndarray g):
    return tuple([cnp.PyArray_DIM(g, k) for k in range(cnp.PyArray_NDIM(g) - 1)])


def embedding(weight, idx):
    """weight[idx]. weight [V, C], idx [...] int64 -> [..., C]

    >>> embedding(np.eye(3, dtype="float32"), np.array([2]))
    array([[0., 0., 1.]], dtype=float32)
    """
    cdef EmbeddingJob job
    cdef cnp.ndarray w = f32(weight, "embedding"), i, out
    cdef cnp.npy_intp dims[65]
    cdef int k, ndim
    if cnp.PyArray_NDIM(w) != 2:
        raise ValueError(f"embedding: expected weight [V, C], got shape {(<object>w).shape}")
    i = indices(idx, cnp.PyArray_DIM(w, 0), "embedding")
    ndim = cnp.PyArray_NDIM(i)
    if ndim > 63:
        raise ValueError("embedding: idx has 64 axes, at most 63 leave room for the result's")
    for k in range(ndim):
        dims[k] = cnp.PyArray_DIM(i, k)
    dims[ndim] = cnp.PyArray_DIM(w, 1)
    out = empty(ndim + 1, dims)
    job.out, job.in_, job.idx = ptr(out), ptr(w), <const int64_t*>cnp.PyArray_DATA(i)
    job.N, job.C, job.skip = cnp.PyArray_SIZE(i), cnp.PyArray_DIM(w, 1), -1
    run(K.take, &job, job.N, grain_of(job.C))
    return out


def embedding_grad(g, idx, Py_ssize_t V, padding_idx):
    """dweight[v] = sum of g where idx is v, 0 for padding_idx (None: there is none).

    g [..., C], idx [...] int64 -> dweight [V, C]. Every element is summed in the order of the
    indices, whatever the number of threads.
    """
    cdef cnp.ndarray ga = f32(g, "embedding_grad"), i, out
    cdef cnp.npy_intp dims[2]
    if V < 0:
        raise ValueError(f"embedding_grad: V must not be negative, got {V}")
    i = indices(idx, V, "embedding_grad")
    if cnp.PyArray_NDIM(ga) == 0 or leading_shape(ga) != (<object>i).shape:
        raise ValueError(f"embedding_grad: g has shape {(<object>ga).shape}, expected that of idx "
                         f"{(<object>i).shape} and one more axis")
    dims[0], dims[1] = V, cnp.PyArray_DIM(ga, cnp.PyArray_NDIM(ga) - 1)
    out = empty(2, dims)
    memset(ptr(out), 0, cnp.PyArray_NBYTES(out))
    add_rows(out, ga, i, -1 if padding_idx is None else padding_idx)
    return out


def index_add_rows(dst, idx, src):
    """dst[idx[r]] += src[r] for every r in order, in place; returns dst.

    dst [V, C] C-contiguous and writeable, idx [N] int64, src [N, C]
    """
    cdef cnp.ndarray s = f32(src, "index_add_rows"), d, i
    if not cnp.PyArray_Check(dst) or cnp.PyArray_TYPE(dst) != cnp.NPY_FLOAT32 \
            or not cnp.PyArray_ISCARRAY(dst) or cnp.PyArray_NDIM(dst) != 2:
        raise TypeError("index_add_rows: dst must be a writeable C-contiguous float32 [V, C] array")
    d = dst
    i = indices(idx, cnp.PyArray_DIM(d, 0), "index_add_rows")
    if cnp.PyArray_NDIM(s) != 2 or cnp.PyArray_NDIM(i) != 1 \
            or cnp.PyArray_DIM(s, 0) != cnp.PyArray_DIM(i, 0) \
            or cnp.PyArray_DIM(s, 1) != cnp.PyArray_DIM(d, 1):
        raise ValueError(f"index_add_rows: expected dst [V, C], idx [N], src [N, C], got shapes "
                         f"{dst.shape}, {(<object>i).shape}, {(<object>s).shape}")
    if np.may_share_memory(s, d):
        s = copy_f32(s)
    add_rows(d, s, i, -1)
    return dst
