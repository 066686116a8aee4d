"""The largest and smallest elements and where they are; whether any or all are not zero."""

from collections import namedtuple

import numpy as np

from minidl import errors
from minidl._core import Tensor, op
from minidl._methods import TensorMethods
from minidl.ops.dims import axes, axis
from minidl.ops.elementwise import maximum, minimum
from minidl.ops.promotion import raw
from minidl.ops.reduce import nonempty, reduced, shared

__all__ = ["all", "amax", "amin", "aminmax", "any", "argmax", "argmin", "max", "min"]


def extreme(name, doc):
    """The op amax or amin."""
    def fn(be, input, dim=(), keepdim=False):
        dims = reduced(name, input, dim)
        nonempty(name, input, dims)
        y = getattr(be, name)(input, dims, keepdim)
        return y, lambda g, need: shared(be, g, input, y, dims, keepdim)

    fn.__name__, fn.__doc__ = name, doc
    return op(fn)


@op(method=False, name="extreme")
def whole(be, input, name):
    """The largest or smallest of all elements; NaNs share the gradient when there are any."""
    y = getattr(be, name)(input, (), False)
    return y, lambda g, need: shared(be, g, input, y, tuple(range(input.ndim)), False, nans=True)


amax = extreme("amax", "The largest element over dims; ties share the gradient.\n\n    "
               ">>> md.tensor([[1, 2], [4, 3]]).amax(1)\n    tensor([2, 4])")
amin = extreme("amin", "The smallest element over dims; ties share the gradient.")


@op(method=False, name="max_min")
def picked(be, input, dim, keepdim, name):
    """(the extremes along a dim, their positions); the gradient goes to those positions."""
    d, shape = axis(name, dim, input.ndim), input.shape
    nonempty(name, input, (d,) if shape else ())
    x = input if shape else input.reshape(1)
    at = np.expand_dims(getattr(be, "arg" + name)(x, d), d)
    values = np.take_along_axis(x, at, d)
    full = x.shape

    def vjp(gs, need):
        dx = be.zeros(full, gs[0].dtype)
        np.put_along_axis(dx, at, gs[0].reshape(at.shape), d)
        return dx.reshape(shape)

    out = () if not shape else at.shape if keepdim else shape[:d] + shape[d + 1:]
    return (be.contiguous(values.reshape(out)), at.reshape(out).astype(np.int64, copy=False)), vjp


def overloaded(name, elementwise):
    """max or min: of all elements, along a dim, or of two tensors."""
    result = namedtuple(name, ("values", "indices"))

    def fn(input, dim=None, keepdim=False, *, other=None):
        if not isinstance(input, Tensor):
            raise TypeError(f"{name}: expected a tensor, got {type(input).__name__}")
        if isinstance(dim, Tensor):
            dim, other = None, dim
        if other is not None:
            return elementwise(input, other)
        if dim is None:
            if input.array.size == 0:
                raise errors.ShapeError(f"{name}: a tensor without elements (shape {input.shape}) "
                                        f"has no {name}imum")
            return whole(input, "a" + name)
        return result(*picked(input, dim, keepdim, name))

    fn.__name__ = fn.__qualname__ = name
    return fn, result


max, _Max = overloaded("max", maximum)
max.__doc__ = """The largest element; along a dim (values, indices); of two tensors, elementwise.

    >>> values, indices = md.tensor([[1, 5], [7, 2]]).max(dim=1)
    >>> values, indices
    (tensor([5, 7]), tensor([1, 0]))
    """
min, _Min = overloaded("min", minimum)
min.__doc__ = "The smallest element; along a dim (values, indices); of two tensors, elementwise."
# pickling looks a named tuple up by its module and name
_Max.__name__ = _Max.__qualname__ = "_Max"
_Min.__name__ = _Min.__qualname__ = "_Min"

_AMinMax = namedtuple("_AMinMax", ("min", "max"))


def aminmax(input, *, dim=None, keepdim=False):
    """(min, max) of all elements or along a dim."""
    if dim is not None:
        dim = axis("aminmax", dim, input.ndim)
    return _AMinMax(amin(input, () if dim is None else dim, keepdim),
                    amax(input, () if dim is None else dim, keepdim))


def position(name, doc):
    """The op argmax or argmin."""
    def fn(be, input, dim=None, keepdim=False):
        if input.dtype.kind == "b":
            raise errors.UnsupportedError(f"{name}: not defined for bool tensors")
        if dim is None:
            nonempty(name, input, ())
            at = getattr(be, name)(input.reshape(-1), 0)
            return raw(at).reshape((1,) * input.ndim if keepdim else ()), None
        d = axis(name, dim, input.ndim)
        nonempty(name, input, (d,) if input.ndim else ())
        if input.ndim == 0:
            return be.zeros((), np.int64), None
        at = raw(getattr(be, name)(input, d))
        if keepdim:
            at = at.reshape((*at.shape[:d], 1, *at.shape[d:]))
        return at, None

    fn.__name__, fn.__doc__ = name, doc
    return op(fn)


argmax = position("argmax", "The position of the largest element along a dim, or flat.\n\n    "
                  ">>> md.tensor([1, 5, 2]).argmax()\n    tensor(1)")
argmin = position("argmin", "The position of the smallest element along a dim, or flat.")


def quantifier(name, doc, reduce):
    """The op any or all: bool, or uint8 for uint8."""
    def fn(be, input, dim=None, keepdim=False):
        dims = tuple(range(input.ndim)) if dim is None else axes(name, dim, input.ndim)
        y = reduce(input, dims if input.ndim else (), keepdims=bool(keepdim))
        kind = np.uint8 if input.dtype == np.uint8 else np.bool_
        return raw(y).astype(kind, copy=False), None

    fn.__name__, fn.__doc__ = name, doc
    return op(fn)


any = quantifier("any", "Whether some element is not zero, over dims.", np.any)
all = quantifier("all", "Whether every element is not zero, over dims.", np.all)


for _fn in (max, min, aminmax):
    setattr(TensorMethods, _fn.__name__, _fn)
