"""Reading and writing at the positions an index tensor or a mask names."""

import numpy as np

from minidl import errors
from minidl._core import inplace, op
from minidl._methods import TensorMethods
from minidl.ops.dims import axis
from minidl.ops.index import add_rows
from minidl.ops.promotion import element, raw
from minidl_kernels import ARRAYS, DeviceArray

__all__ = ["gather", "index_add", "index_copy", "index_fill", "index_select", "scatter",
           "scatter_add", "take", "take_along_dim"]


def scalar(name, value, dtype):
    """A number (or 0-d tensor) as an element of dtype."""
    if isinstance(value, ARRAYS):
        if value.ndim:
            raise errors.ShapeError(f"{name}: value must be a number or a 0-d tensor, got shape "
                                    f"{value.shape}")
    elif not isinstance(value, (int, float, np.number, np.bool_)):
        raise TypeError(f"{name}: value must be a number, got {type(value).__name__}")
    else:
        return np.asarray(element(name, value, dtype), dtype)
    if value.dtype.kind == "f" and dtype.kind in "iub" and value != np.trunc(value):
        raise errors.DTypeError(f"{name}: {value} does not fit a tensor of {dtype}")
    return value.astype(dtype)


def checked_index(name, index, n, shape, dim):
    """An integer index whose values lie in [0, n), or a sentence."""
    if not isinstance(index, ARRAYS) or index.dtype not in (np.int64, np.int32):
        raise errors.DTypeError(f"{name}: index must be an int64 tensor, got "
                                + str(getattr(index, "dtype", type(index).__name__)))
    # a device's kernels check themselves: nobody waits for it here
    if isinstance(index, np.ndarray) and index.size and (index.min() < 0 or index.max() >= n):
        bad = index.min() if index.min() < 0 else index.max()
        raise errors.DimensionError(f"{name}: index {bad} is out of range for dim {dim} of size "
                                    f"{n} (shape {shape})")
    return index


def along(name, x, dim, index, src=None):
    """(x as at least 1-d, key): x[key] has the index's shape and reads dim `dim` at the index."""
    d = axis(name, dim, x.ndim)
    lifted = x if x.ndim else x.reshape(1)
    at = index if np.ndim(index) else np.reshape(index, 1)
    for other, what in ((lifted, "the tensor"), (src, "the source")):
        if other is None:
            continue
        room = other.shape or (1,)
        if at.ndim != len(room):
            raise errors.ShapeError(f"{name}: index of shape {index.shape} must have as many dims "
                                    f"as {what} of shape {other.shape}")
        for i, (n, m) in enumerate(zip(at.shape, room, strict=True)):
            if n > m and (i != d or other is src) and at.size:
                raise errors.ShapeError(f"{name}: index of shape {index.shape} is larger than "
                                        f"{what} of shape {other.shape} in dim {i}")
    checked_index(name, at, lifted.shape[d], x.shape, dim)
    key = list(np.ogrid[tuple([slice(n) for n in at.shape])])
    key[d] = at
    return lifted, tuple(key)


def flat_places(shape, key):
    """The flat positions in an array of `shape` that x[key] reads."""
    shape = shape or (1,)
    return np.ravel_multi_index(np.broadcast_arrays(*key), shape) if np.prod(shape) \
        else np.zeros(0, np.int64)


@op
def gather(be, input, dim, index):
    """out[i, j] = input[i, index[i, j]] for dim=1, and likewise for any dim.

    >>> md.tensor([[1, 2], [3, 4]]).gather(1, md.tensor([[0], [1]]))
    tensor([[1],
            [4]])
    """
    if isinstance(index, ARRAYS) and index.size == 0:
        axis("gather", dim, input.ndim)
        shape = input.shape
        return be.zeros(index.shape, input.dtype), lambda g, need: be.zeros(shape, g.dtype)
    x, key = along("gather", input, dim, index)
    shape = input.shape
    if isinstance(x, DeviceArray):
        return along_on_device(be, x, axis("gather", dim, input.ndim), key, index.shape, shape)
    y = be.contiguous(x[key].reshape(index.shape))
    return y, lambda g, need: be.add_at(g, flat_places(shape, key), shape)


def along_on_device(be, x, d, key, out, shape):
    """gather() by a kernel that knows the dim: its gradient compares indices along that only."""
    at = key[d]

    def vjp(g, need):
        dx = be.scatter(be.zeros(x.shape, g.dtype), d, at, g.reshape(at.shape), True)
        return dx.reshape(shape)

    return be.gather(x, d, at).reshape(out), vjp


@op
def take_along_dim(be, input, indices, dim=None):
    """gather() whose tensor and indices broadcast against each other; dim=None reads it flat.

    >>> x = md.tensor([[3, 1], [2, 4]])
    >>> x.take_along_dim(x.argsort(1), 1)
    tensor([[1, 3],
            [2, 4]])
    """
    shape = input.shape
    x, d = (input.reshape(-1), 0) if dim is None else (input, axis("take_along_dim", dim,
                                                                   input.ndim))
    at = indices.reshape(-1) if dim is None else indices
    if at.ndim != x.ndim:
        raise errors.ShapeError(f"take_along_dim: indices of shape {indices.shape} must have as "
                                f"many dims as the tensor of shape {shape}")
    if at.dtype.kind != "i":
        raise errors.DTypeError(f"take_along_dim: indices must be int64, got {at.dtype}")
    try:
        other = np.broadcast_shapes((*x.shape[:d], 1, *x.shape[d + 1:]),
                                    (*at.shape[:d], 1, *at.shape[d + 1:]))
    except ValueError:
        raise errors.ShapeError(f"take_along_dim: shapes {shape} and {indices.shape} do not "
                                "broadcast") from None
    wide = np.broadcast_to(x, other[:d] + x.shape[d:d + 1] + other[d + 1:])
    at = np.broadcast_to(at, other[:d] + at.shape[d:d + 1] + other[d + 1:])
    at = np.where(at < 0, at + (wide.shape[d] if wide.ndim else 1), at)
    wide, key = along("take_along_dim", wide, d, at)

    def vjp(g, need):
        dx = be.add_at(g, flat_places(wide.shape, key), wide.shape)
        return be.sum_to(dx, x.shape).reshape(shape)

    return be.contiguous(wide[key].reshape(at.shape)), vjp


@op
def take(be, input, index):
    """The elements at flat positions, in the index's shape; negative positions count from the end.

    >>> md.tensor([[1, 2], [3, 4]]).take(md.tensor([0, 3]))
    tensor([1, 4])
    """
    n = input.size
    at = np.where(index < 0, index + n, index) if index.dtype.kind == "i" else index
    at = checked_index("take", at, n, input.shape, "0 (flat)")
    shape = input.shape
    return be.contiguous(input.reshape(-1)[at].reshape(index.shape)), \
        lambda g, need: be.add_at(g, at, shape)


# ------------------------------------------------------------------------------ rows along a dim

@op(storage=True)
def index_select(be, input, dim, index):
    """The slices of a dim at the positions of a 1-D index.

    >>> md.tensor([[1, 2], [3, 4]]).index_select(0, md.tensor([1]))
    tensor([[3, 4]])
    """
    x, d, at = rows_along("index_select", input, dim, index)
    shape = input.shape
    y = be.contiguous(x.take(at, d))
    return (y if shape else y.reshape(())), \
        lambda g, need: add_along(be, g, d, at, shape)


def rows_along(name, x, dim, index):
    """(x as at least 1-d, axis, 1-D index) of an op that works on slices of a dim."""
    d = axis(name, dim, x.ndim)
    lifted = x if x.ndim else x.reshape(1)
    if not isinstance(index, ARRAYS) or index.ndim > 1:
        raise errors.ShapeError(f"{name}: index must be a vector, got "
                                + str(getattr(index, "shape", type(index).__name__)))
    return lifted, d, checked_index(name, index.reshape(-1), lifted.shape[d], x.shape, dim)


def add_along(be, g, d, at, shape):
    """Zeros of `shape` plus the slices g[..., i, ...] at position at[i] of dim d."""
    if not shape:
        return be.sum_to(g.reshape(-1), (1,)).reshape(())
    rows = np.moveaxis(g, d, 0)
    return np.moveaxis(add_rows(be, rows, at, (shape[d], *rows.shape[1:])), 0, d)


def slices(x, d):
    """x with dim d first."""
    return np.moveaxis(x, d, 0)


def checked_source(name, x, d, at, source):
    """The source of an op on slices, in x's dims: its shape must be x's with dim d indexed."""
    if not isinstance(source, ARRAYS):
        raise TypeError(f"{name}: the source must be a tensor, got {type(source).__name__}")
    lifted = source if source.ndim else source.reshape(1)
    expected = (*x.shape[:d], len(at), *x.shape[d + 1:])
    if lifted.shape != expected:
        raise errors.ShapeError(f"{name}: the source has shape {source.shape}, expected {expected}")
    if source.dtype != x.dtype:
        raise errors.DTypeError(f"{name}: the source is {source.dtype}, the tensor {x.dtype}")
    return lifted


@op
def index_add(be, input, dim, index, source, alpha=1):
    """input with alpha * source[i] added to the slice index[i] of a dim.

    >>> md.zeros(3).index_add(0, md.tensor([0, 0, 2]), md.ones(3))
    tensor([2., 0., 1.])
    """
    x, d, at = rows_along("index_add", input, dim, index)
    rows = checked_source("index_add", x, d, at, source)
    if alpha != 1:
        rows = (rows * alpha).astype(x.dtype)
    y = be.add(x, add_along(be, rows, d, at, x.shape)).reshape(input.shape)
    shape, lifted = source.shape, x.shape

    def vjp(g, need):
        ds = None
        if need[3]:
            ds = g.reshape(lifted).take(at, d).reshape(shape)
            ds = ds if alpha == 1 else ds * ds.dtype.type(alpha)
        return g, None, None, ds

    return y, vjp


@op(storage=True)
def index_copy(be, input, dim, index, source):
    """input with the slices index[i] of a dim replaced by source[i]."""
    x, d, at = rows_along("index_copy", input, dim, index)
    rows = checked_source("index_copy", x, d, at, source)
    y = be.copy(x)
    slices(y, d)[at] = slices(rows, d)
    shape, kept, lifted = source.shape, input.shape, y.shape

    def vjp(g, need):
        dx = be.copy(g.reshape(lifted))
        slices(dx, d)[at] = 0
        return dx.reshape(kept), None, None, g.reshape(lifted).take(at, d).reshape(shape)

    return y.reshape(kept), vjp


@op
def index_fill(be, input, dim, index, value):
    """input with the slices index[i] of a dim set to a number."""
    x, d, at = rows_along("index_fill", input, dim, index)
    value = scalar("index_fill", value, input.dtype)
    y = be.copy(x)
    slices(y, d)[at] = value
    kept, lifted = input.shape, x.shape

    def vjp(g, need):
        dx = be.copy(g.reshape(lifted))
        slices(dx, d)[at] = 0
        dv = None
        if len(need) > 3 and need[3]:
            dv = raw(slices(g.reshape(lifted), d)[np.unique(at)].sum())
        return dx.reshape(kept), None, None, dv

    return y.reshape(kept), vjp


# --------------------------------------------------------------------------------------- scatter

@op
def scatter(be, input, dim, index, src, reduce=None):
    """input with out[i, index[i, j]] = src[i, j] for dim=1; src may be a number.

    >>> md.zeros(2, 3).scatter(1, md.tensor([[2], [0]]), 1.0)
    tensor([[0., 0., 1.],
            [1., 0., 0.]])
    """
    if reduce is not None:
        raise errors.UnsupportedError("scatter: reduce= is not supported; use scatter_add")
    return scattered(be, "scatter", input, dim, index, src)


@op
def scatter_add(be, input, dim, index, src):
    """input with out[i, index[i, j]] += src[i, j] for dim=1, and likewise for any dim."""
    if not isinstance(src, ARRAYS):
        raise TypeError(f"scatter_add: src must be a tensor, got {type(src).__name__}")
    return scattered(be, "scatter_add", input, dim, index, src)


def scattered(be, name, input, dim, index, src):
    """The two kinds of scatter: replace and add."""
    tensor = isinstance(src, ARRAYS) and (src.ndim or not index.ndim)
    if isinstance(src, ARRAYS) and src.dtype != input.dtype:
        raise errors.DTypeError(f"{name}: src is {src.dtype}, the tensor {input.dtype}")
    add = name == "scatter_add"
    kept = input.shape
    if index.size == 0:
        axis(name, dim, input.ndim)
        return be.copy(input), lambda g, need: (g, None, None, be.zeros(np.shape(src), g.dtype))
    x, key = along(name, input, dim, index, src if tensor else None)
    shape = src.shape if tensor else ()
    part = tuple([slice(n) for n in (index.shape or (1,))])
    values = src.reshape(shape or (1,))[part] if tensor else scalar(name, src, input.dtype)
    if add:
        y = be.add(x, be.add_at(values, flat_places(x.shape, key), x.shape))
    else:
        y = be.copy(x)
        y[key] = values

    lifted = x.shape

    def vjp(g, need):
        dx, ds = g, None
        if not add and need[0]:
            dx = be.copy(g).reshape(lifted)
            dx[key] = 0
            dx = dx.reshape(kept)
        if len(need) > 3 and need[3]:
            taken = g.reshape(lifted)[key]
            if tensor:
                ds = be.zeros(shape or (1,), g.dtype)
                ds[part] = taken
                ds = ds.reshape(shape)
            else:
                ds = raw(taken.sum())
        return dx, None, None, ds

    return y.reshape(kept), vjp


# -------------------------------------------------------------------------------- in-place forms

def _inplace(of):
    def method(self, *args, **kwargs):
        if kwargs:
            names = of.params[1:]
            args = (*args, *[kwargs.pop(n) for n in names[len(args):] if n in kwargs])
            if kwargs:
                raise TypeError(f"{of.__name__}_: unknown argument '{next(iter(kwargs))}'")
        return inplace(of, self, *args)

    method.__name__ = of.__name__ + "_"
    method.__doc__ = f"{of.__name__}() that overwrites the tensor."
    return method


for _op in (index_add, index_copy, index_fill, scatter, scatter_add):
    setattr(TensorMethods, _op.__name__ + "_", _inplace(_op))
