"""Rows picked by index and rows added by index in NumPy."""

import numpy as np


def embedding(weight, idx):
    """weight[idx]. weight [V, C], idx [...] -> [..., C]"""
    return weight[_in_range(idx, weight.shape[0], "embedding")]


def embedding_grad(g, idx, V, padding_idx):
    """dweight[v] = sum of g where idx is v, 0 for padding_idx. g [..., C] -> dweight [V, C]"""
    dweight = np.zeros((V, g.shape[-1]), g.dtype)
    np.add.at(dweight, _in_range(idx, V, "embedding_grad"), g)
    if padding_idx is not None:
        dweight[padding_idx] = 0
    return dweight


def index_add_rows(dst, idx, src):
    """dst[idx[r]] += src[r] for every r, in place; returns dst. dst [V, C], idx [N], src [N, C]"""
    np.add.at(dst, _in_range(idx, dst.shape[0], "index_add_rows"), src)
    return dst


def _in_range(idx, V, name):
    wrong = np.flatnonzero((idx < 0) | (idx >= V))
    if wrong.size:
        raise IndexError(f"{name}: index {idx.ravel()[wrong[0]]} (element {wrong[0]} of idx) "
                         f"is out of range for {V} rows")
    return idx
