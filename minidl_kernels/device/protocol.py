"""NumPy's functions on device arrays: what an op writes as np.where(c, a, b) runs on the device.

NumPy hands its functions over through __array_function__ and __array_ufunc__. What is not listed
here is refused with a sentence; nothing comes to the host unless it is in _FETCHED, whose results
depend on all values at once and are computed by NumPy.
"""

import numpy as np

from minidl_kernels.device.array import DeviceArray
from minidl_kernels.device.index import multi_index

__all__ = ["array_function", "array_ufunc", "take"]

_UFUNCS = {
    np.add: "add", np.subtract: "sub", np.multiply: "mul", np.true_divide: "div", np.power: "pow",
    np.maximum: "maximum", np.minimum: "minimum", np.fmod: "fmod", np.negative: "neg",
    np.absolute: "abs", np.sign: "sign", np.exp: "exp", np.log: "log", np.sqrt: "sqrt",
    np.square: "square", np.trunc: "trunc", np.floor: "floor", np.rint: "round",
    np.equal: "eq", np.not_equal: "ne", np.less: "lt", np.less_equal: "le", np.greater: "gt",
    np.greater_equal: "ge", np.logical_and: "logical_and", np.logical_or: "logical_or",
    np.logical_xor: "logical_xor", np.logical_not: "logical_not", np.bitwise_and: "bitwise_and",
    np.bitwise_or: "bitwise_or", np.bitwise_xor: "bitwise_xor", np.invert: "bitwise_not",
    np.isnan: "isnan", np.isinf: "isinf", np.isfinite: "isfinite",
}


def array_ufunc(ufunc, method, inputs, out=None, **kwargs):
    """ufunc(*inputs) of arrays on one device and numbers, in their common dtype."""
    first = next(x for x in (*inputs, *(out or ())) if isinstance(x, DeviceArray))
    if method != "__call__" or ufunc not in _UFUNCS or kwargs:
        raise TypeError(f"np.{ufunc.__name__} is not available on {first.device.name}")
    for x in inputs:
        if isinstance(x, np.ndarray) and x.ndim:
            raise TypeError(f"np.{ufunc.__name__}: one array is on {first.device.name}, the other "
                            "on the CPU; move them to one place")
    if len(inputs) == 2:
        inputs = _common(ufunc, inputs)
    y = getattr(first.backend, _UFUNCS[ufunc])(*inputs)
    if out:
        first.backend.assign(out[0], y)
        return out[0]
    return y


def _result(*dtypes):
    """NumPy's common dtype, but float32 where it would take float64."""
    dtype = np.result_type(*dtypes)
    return np.dtype(np.float32) if dtype == np.float64 else dtype


def _common(ufunc, inputs):
    """Both operands in one dtype: arrays decide, a fraction makes integers float32."""
    dtype = _result(*[x.dtype for x in inputs if isinstance(x, DeviceArray)])
    numbers = [x for x in inputs if not isinstance(x, DeviceArray)]
    fraction = ufunc is np.true_divide or [x for x in numbers
                                           if isinstance(x, (float, np.floating))]
    if dtype.kind in "iub" and fraction:
        dtype = np.dtype(np.float32)
    elif dtype == np.bool_ and numbers and ufunc not in (np.equal, np.not_equal):
        dtype = np.dtype(np.int64) if not isinstance(numbers[0], (bool, np.bool_)) else dtype
    return [x.astype(dtype, copy=False) if isinstance(x, DeviceArray) else x for x in inputs]


# ----------------------------------------------------------------------------------- functions

def _axes(x, axis):
    """An axis argument of NumPy as the tuple of non-negative axes that reductions take."""
    if axis is None:
        return ()
    return tuple([a % x.ndim for a in ((axis,) if isinstance(axis, (int, np.integer)) else axis)])


def _broadcast_to(x, shape, subok=False):
    return x.backend.broadcast_to(x, (shape,) if isinstance(shape, int) else shape)


def _joined(name):
    def call(arrays, axis=0, out=None, dtype=None, casting="same_kind"):
        be = next(x for x in arrays if isinstance(x, DeviceArray)).backend
        dtype = _result(*[x.dtype for x in arrays]) if out is None else out.dtype
        parts = [x.astype(dtype, copy=False) for x in arrays]
        ndim = parts[0].ndim + (name == "stack")
        y = getattr(be, name)(parts, axis % max(ndim, 1))
        return y if out is None else be.assign(out, y)

    return call


def _where(condition, x=None, y=None):
    if x is None:
        raise TypeError("np.where of one argument is not available on a device; use nonzero()")
    arrays = [v for v in (x, y) if isinstance(v, DeviceArray)]
    be = (arrays or [condition])[0].backend
    if len(arrays) == 2 and x.dtype != y.dtype:
        x, y = _common(np.add, (x, y))
    if not isinstance(condition, DeviceArray):
        condition = be.full((), bool(condition), np.bool_)
    return be.where(condition, x, y)


def _moveaxis(x, source, destination):
    source, destination = _axes(x, source), _axes(x, destination)
    order = [d for d in range(x.ndim) if d not in source]
    for to, d in sorted(zip(destination, source, strict=True)):
        order.insert(to, d)
    return x.transpose(order)


def _expand_dims(x, axis):
    axis %= x.ndim + 1
    return x[(*[slice(None)] * axis, None)]


def _tile(x, counts):
    counts = (1,) * (x.ndim - len(counts)) + tuple(counts)
    x = x.reshape((1,) * (len(counts) - x.ndim) + x.shape)
    inner = [m for pair in zip(counts, x.shape, strict=True) for m in pair]
    ones = [m for n in x.shape for m in (1, n)]
    wide = x.backend.broadcast_to(x.reshape(ones), inner)
    return wide.reshape(tuple([c * n for c, n in zip(counts, x.shape, strict=True)]))


def _repeat(x, repeats, axis=None):
    counts = repeats.numpy() if isinstance(repeats, DeviceArray) else np.asarray(repeats)
    if axis is None:
        x, axis = x.reshape((-1,)), 0
    return take(x, x.device.array(np.repeat(np.arange(x.shape[axis]), counts)), axis)


def take(x, index, axis):
    """x at the positions of an integer array along an axis, whose dims take the axis's place."""
    be = x.backend
    if not isinstance(index, DeviceArray):
        index = x.device.array(np.asarray(index, np.int64))
    rows = be.take_rows(_moveaxis(x, axis, 0), index)
    order = list(range(index.ndim, index.ndim + axis % x.ndim))
    rest = [d for d in range(index.ndim, rows.ndim) if d not in order]
    return rows.transpose([*order, *range(index.ndim), *rest])


def _put_along_axis(x, indices, values, axis):
    be = x.backend
    be.assign(x, be.scatter(x, axis % x.ndim, indices, values, False))


def _broadcast_arrays(*arrays, subok=False):
    device = next(a for a in arrays if isinstance(a, DeviceArray)).device
    shape = np.broadcast_shapes(*[a.shape for a in arrays])
    placed = [a if isinstance(a, DeviceArray) else device.array(a) for a in arrays]
    return [device.backend.broadcast_to(a, shape) for a in placed]


def _ravel_multi_index(arrays, sizes):
    device = next(a for a in arrays if isinstance(a, DeviceArray)).device
    return multi_index(device, arrays, sizes)


def _reduced(name):
    def call(x, axis=None, out=None, dtype=None, keepdims=False):
        y = getattr(x.backend, name)(x, _axes(x, axis), bool(keepdims))
        return y if dtype is None else y.astype(dtype, copy=False)

    return call


def _flip(x, axis=None):
    return x.backend.flip(x, _axes(x, axis) or tuple(range(x.ndim)))


def _roll(x, shift, axis=None):
    if axis is None:
        return x.backend.roll(x, shift, None)
    shifts = (shift,) if isinstance(shift, int) else shift
    return x.backend.roll(x, shifts, _axes(x, axis))


_FUNCTIONS = {
    np.broadcast_to: _broadcast_to, np.concatenate: _joined("concatenate"),
    np.stack: _joined("stack"), np.where: _where, np.moveaxis: _moveaxis,
    np.expand_dims: _expand_dims, np.tile: _tile, np.repeat: _repeat, np.flip: _flip,
    np.roll: _roll, np.put_along_axis: _put_along_axis, np.any: _reduced("any"),
    np.all: _reduced("all"), np.sum: _reduced("sum"), np.max: _reduced("amax"),
    np.min: _reduced("amin"),
    np.shape: lambda x: x.shape, np.ndim: lambda x: x.ndim,
    np.reshape: lambda x, shape: x.reshape(shape),
    np.take_along_axis: lambda x, index, axis: x.backend.gather(x, axis % x.ndim, index),
    np.take: lambda x, index, axis: take(x, index, axis),
    np.tril: lambda x, k=0: x.backend.tril(x, k), np.triu: lambda x, k=0: x.backend.triu(x, k),
    np.count_nonzero: lambda x, axis=None: x.backend.count_nonzero(x, _axes(x, axis)),
    np.isneginf: lambda x: x.backend.eq(x, -np.inf),
    np.zeros_like: lambda x: x.backend.zeros(x.shape, x.dtype),
    np.broadcast_arrays: _broadcast_arrays, np.ravel_multi_index: _ravel_multi_index,
    np.cumsum: lambda x, axis=None: x.backend.cumsum(
        x.reshape((-1,)) if axis is None else x, 0 if axis is None else axis % x.ndim),
}
_FETCHED = (np.sort, np.argsort, np.argpartition, np.unique, np.argwhere, np.flatnonzero,
            np.cumprod)


def array_function(func, args, kwargs):
    """A function of NumPy of device arrays."""
    found = _FUNCTIONS.get(func)
    if found is not None:
        return found(*args, **kwargs)
    x = next(a for a in (*args, *kwargs.values(), *[b for a in args if isinstance(a, (list, tuple))
                                                    for b in a]) if isinstance(a, DeviceArray))
    if func not in _FETCHED:
        raise TypeError(f"np.{func.__name__} is not available on {x.device.name}; move the tensor "
                        "with .cpu()")
    values = func(*[a.numpy() if isinstance(a, DeviceArray) else a for a in args], **kwargs)
    if isinstance(values, tuple):
        return tuple([x.device.array(v) for v in values])
    return x.device.array(values)
