"""Adding at repeated positions: the gradients of every kind of indexing."""

import numpy as np

from minidl_kernels.reference.arrays import cast, zeros


def add_at(values, places, shape):
    """Zeros of `shape` with values[i] added at the flat position places[i], in order of i.

    Floating-point sums are made in float64, integer ones exactly.
    """
    if values.dtype.kind == "f" and values.size:
        out = np.bincount(places.reshape(-1), values.reshape(-1), int(np.prod(shape)))
        return cast(out, values.dtype).reshape(shape)
    out = zeros(shape, values.dtype)
    np.add.at(out.reshape(-1), places.reshape(-1), values.reshape(-1))
    return out


def index_add_rows(rows, index, n):
    """out[n, W] with out[index[i]] += rows[i] in order of i, for rows [K, W] and index [K]."""
    out = zeros((n, rows.shape[1]), rows.dtype)
    if rows.size:
        order = np.argsort(index, kind="stable")
        starts = np.flatnonzero(np.diff(index[order], prepend=-1))
        out[index[order[starts]]] = np.add.reduceat(rows[order], starts, axis=0)
    return out
