"""Order: sort, argsort, topk, unique. NaN counts as the largest value, as in PyTorch."""

from collections import namedtuple

import numpy as np

from minidl import errors
from minidl._core import op
from minidl._methods import TensorMethods
from minidl.ops.dims import axis, integer
from minidl.ops.promotion import raw

__all__ = ["argsort", "sort", "topk", "unique"]

_Sort = namedtuple("_Sort", ("values", "indices"))
_TopK = namedtuple("_TopK", ("values", "indices"))


def order(x, d, descending):
    """Positions that sort x along d; equal elements keep their order either way."""
    if not descending:
        return np.argsort(x, d, kind="stable")
    back = np.argsort(np.flip(x, d), d, kind="stable")
    return np.flip(x.shape[d] - 1 - back, d)


def taken(be, x, at, d, shape):
    """x at positions along d, with the gradient put back there."""
    full, dtype = x.shape, x.dtype
    values = be.contiguous(np.take_along_axis(x, at, d))

    def vjp(gs, need):
        dx = be.zeros(full, dtype)
        np.put_along_axis(dx, at, gs[0].reshape(at.shape), d)
        return dx.reshape(shape)

    return (values if shape else values.reshape(()),
            at.astype(np.int64) if shape else np.zeros((), np.int64)), vjp


@op(method=False, name="sort")
def sorted_along(be, input, dim, descending):
    """(the elements in order along a dim, their positions)."""
    d = axis("sort", dim, input.ndim)
    x = input if input.ndim else input.reshape(1)
    return taken(be, x, order(x, d, descending), d, input.shape)


def sort(input, dim=-1, descending=False, stable=False):
    """(values, indices) in order along a dim; equal elements keep their order.

    >>> md.tensor([3, 1, 2]).sort().values
    tensor([1, 2, 3])
    """
    return _Sort(*sorted_along(input, dim, bool(descending)))


def argsort(input, dim=-1, descending=False, stable=False):
    """The positions that sort along a dim.

    >>> md.tensor([3, 1, 2]).argsort()
    tensor([1, 2, 0])
    """
    return sorted_along(input, dim, bool(descending))[1]


@op(method=False, name="topk")
def top(be, input, k, dim, largest):
    """The k largest (or smallest) elements along a dim in order, and their positions."""
    d = axis("topk", dim, input.ndim)
    x = input if input.ndim else input.reshape(1)
    k = integer("topk", k, "k")
    n = x.shape[d]
    if not 0 <= k <= n:
        raise errors.ArgumentError(f"topk: k={k} is out of range for dim {dim} of shape "
                                   f"{input.shape}")
    if input.dtype.kind == "b":
        raise errors.UnsupportedError("topk: not defined for bool tensors")
    if 0 < 16 * k < n:  # a few of many: find them first, then sort only those
        some = np.argpartition(x, n - k if largest else k - 1, d)
        some = np.sort(some.take(range(n - k, n) if largest else range(k), d), d)
        at = np.take_along_axis(some, order(np.take_along_axis(x, some, d), d, largest), d)
    else:
        at = order(x, d, largest).take(range(k), d)
    shape = input.shape
    return taken(be, x, at, d, shape)


def topk(input, k, dim=-1, largest=True, sorted=True):
    """(values, indices) of the k largest elements along a dim, largest first.

    >>> md.tensor([3, 1, 2]).topk(2).values
    tensor([3, 2])
    """
    return _TopK(*top(input, k, dim, bool(largest)))


@op(method=False, name="unique")
def distinct(be, input, dim, inverse, counts):
    """The distinct elements (or slices) in order, with what else was asked for."""
    d = None if dim is None else axis("unique", dim, input.ndim)
    if d is not None and input.ndim == 0:
        raise errors.ShapeError("unique: a 0-d tensor has no dim")
    out = np.unique(input, return_inverse=inverse, return_counts=counts, axis=d, equal_nan=False)
    out = list(out) if isinstance(out, tuple) else [out]
    if inverse:
        out[1] = out[1].reshape(input.shape if d is None else -1)
    return tuple([be.contiguous(raw(x)) for x in out]), None


def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The distinct elements in order, and with them positions in it and counts when asked for.

    >>> md.tensor([2, 1, 2]).unique(return_counts=True)
    (tensor([1, 2]), tensor([1, 2]))
    """
    out = distinct(input, dim, bool(return_inverse), bool(return_counts))
    return out if len(out) > 1 else out[0]


for _fn in (sort, argsort, topk, unique):
    setattr(TensorMethods, _fn.__name__, _fn)
