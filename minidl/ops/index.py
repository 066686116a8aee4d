"""x[...] and x[...] = v with PyTorch's rules, and their gradients.

An index is read in two steps. Integers, slices, None and ... make a view. What is left (masks,
integer tensors, lists) gathers from that view; the gathered dims stay in place when they are
neighbours and come first otherwise.
"""

import numpy as np

from minidl import errors
from minidl._core import Tensor, check_writable, grad_enabled, op, rebase, written
from minidl._methods import TensorMethods
from minidl.ops.promotion import element, raw
from minidl.ops.slices import placed
from minidl_kernels import ARRAYS

__all__ = []

_BASIC = (int, slice, type(None), type(Ellipsis))
_ALL = slice(None)


# ---------------------------------------------------------------------------- reading the index

def parse(x, index):
    """(view key, gather key or None) of an index into the array x."""
    items = index if type(index) is tuple else (index,)
    basic = True
    for i in items:
        kind = type(i)
        if kind is slice:
            if i.step is not None and i.step < 1:
                raise errors.ArgumentError(f"index: the step of a slice must be positive, got "
                                           f"{i.step}; use .flip(dim) to reverse")
        elif kind not in _BASIC:
            basic = False
    if basic:
        return items, None
    return two_steps(x, [i if type(i) in _BASIC else as_index(i) for i in items])


def as_index(item):
    """One item of an index as an int, slice, bool or array of integers or bools."""
    if isinstance(item, Tensor):
        item = item.array
    elif isinstance(item, (list, tuple, range)):
        if any(isinstance(i, (list, tuple, slice, Tensor, np.ndarray)) or i is None for i in item):
            raise errors.UnsupportedError("index: a list inside a list is ambiguous; index with a "
                                          "tuple x[i, j] or with a tensor")
        item = np.asarray(item, None if len(item) else np.int64)
    elif isinstance(item, (bool, np.bool_)):
        return bool(item)
    elif isinstance(item, slice):
        return item
    elif not isinstance(item, ARRAYS):
        try:
            return item.__index__()
        except (AttributeError, TypeError):
            raise errors.DimensionError(
                "index: expected integers, slices, None, ..., bool masks or integer tensors, got "
                f"{type(item).__name__}") from None
    if item.dtype == np.uint8:
        raise errors.UnsupportedError("index: uint8 masks are not supported; use .bool() for a "
                                      "mask or .long() for positions")
    if item.dtype.kind not in "bi":
        raise errors.DimensionError("index: tensors used as indices must be int64, int32 or bool, "
                                    f"got {item.dtype}")
    if item.ndim == 0:
        return bool(item) if item.dtype.kind == "b" else int(item)
    return item


def two_steps(x, items):
    """The view key and the gather key of an index that holds arrays."""
    used = sum([(i.ndim if i.dtype.kind == "b" else 1) if isinstance(i, ARRAYS)
                else type(i) in (int, slice) for i in items])
    view, gather = [], []
    for item in items:
        if item is Ellipsis:
            rest = [_ALL] * (x.ndim - used)
            view += rest
            gather += rest
        elif isinstance(item, ARRAYS):
            at = len(view) - view.count(None)
            n = item.ndim if item.dtype.kind == "b" else 1
            if item.dtype.kind == "b" and item.shape != x.shape[at:at + n]:
                raise errors.DimensionError(f"index: a mask of shape {item.shape} does not fit "
                                            f"dims {at} to {at + n - 1} of {x.shape}")
            view += [_ALL] * n
            gather.append(item)
        elif type(item) is bool:
            view.append(None)
            gather.append(np.array([item]))
        else:
            view.append(item)
            if type(item) is not int:
                gather.append(_ALL)
    return tuple(view), tuple(gather) if any(i is not _ALL for i in gather) else None


def index_error(shape, key, error):
    """NumPy's complaint about an index as a sentence with the tensor's shape."""
    dims = sum([i is not None and i is not Ellipsis for i in key])
    if dims > len(shape):
        return errors.DimensionError(f"index: {dims} indices for a tensor of {len(shape)} "
                                     f"dimensions (shape {shape})")
    if sum([i is Ellipsis for i in key]) > 1:
        return errors.DimensionError("index: only one ... can appear in an index")
    return errors.DimensionError(f"index: {error} (shape {shape})")


# --------------------------------------------------------------------------------------- reading

@op(method=False, view=True, look="item")
def getitem(be, input, key):
    """The view x[key] of integers, slices, None and ... ."""
    try:
        y = input[key]
        if type(y) not in ARRAYS:
            y = input[(*key, ...)]
    except (IndexError, TypeError) as error:
        raise index_error(input.shape, key, error) from None
    shape = input.shape
    return y, lambda g, need: placed(be, shape, key, g)


@op(method=False, storage=True)
def index(be, input, key):
    """The copy x[key] for a key with masks or integer arrays."""
    try:
        y = input.take(key[0], 0) if len(key) == 1 and key[0].dtype.kind == "i" else input[key]
    except IndexError as error:
        raise index_error(input.shape, (), error) from None
    shape = input.shape
    return be.contiguous(y), lambda g, need: index_grad(be, g, shape, key)


def index_grad(be, g, shape, key):
    """Zeros of `shape` plus g at key; what is indexed twice adds up."""
    arrays = [i for i in key if i is not _ALL]
    if len(arrays) == 1 and arrays[0].dtype.kind == "b":
        return placed(be, shape, key, g)
    if len(key) == 1 and g.ndim > key[0].ndim:
        rows = np.where(key[0] < 0, key[0] + shape[0], key[0]).reshape(-1)
        return add_rows(be, g.reshape((rows.size, *shape[1:])), rows, shape)
    places = np.arange(np.prod(shape, dtype=np.int64)).reshape(shape)[key]
    return be.add_at(g, places, shape)


def add_rows(be, g, rows, shape):
    """Zeros of `shape` with g[i] added to row rows[i]."""
    out = be.zeros(shape, g.dtype)
    if g.size:
        be.index_add_rows(out.reshape(shape[0], -1), rows.astype(np.int64, copy=False),
                          be.contiguous(g).reshape(len(rows), -1))
    return out


def __getitem__(self, index_):
    """x[index]: a view for integers, slices, None and ...; a copy for masks and tensors."""
    key, gather = parse(self.array, index_)
    if gather is None:
        return getitem(self, key)
    if any(i is not _ALL for i in key):
        self = getitem(self, key)
    return index(self, gather)


# --------------------------------------------------------------------------------------- writing

def place(x, key, gather):
    """The array and key such that `array[key] = value` writes x[key][gather]."""
    return (x, key) if gather is None else (x[(*key, ...) if ... not in key else key], gather)


@op(method=False)
def index_put(be, input, value, key, gather):
    """Write value at x[key][gather], in place; the old values there get no gradient."""
    write(input, value, key, gather)
    shape, dtype = np.shape(value), getattr(value, "dtype", None)

    def vjp(g, need):
        dx = dv = None
        if need[0]:
            dx = be.copy(g)
            where, at = place(dx, key, gather)
            where[at] = 0
        if need[1]:
            where, at = place(g, key, gather)
            dv = raw(where[at])
            # leading dims of size 1 in the value are dropped by the assignment
            extra = max(len(shape) - dv.ndim, 0)
            dv = be.sum_to(dv, shape[extra:]).reshape(shape)
            dv = dv if dv.dtype == dtype else be.cast(dv, dtype)
        return dx, dv

    return input, vjp


def write(x, value, key, gather):
    """x[key][gather] = value, converted to x's dtype."""
    if not isinstance(value, ARRAYS):
        value = np.asarray(element("index", value, x.dtype))
    if value.dtype != x.dtype:
        with np.errstate(invalid="ignore"):
            value = value.astype(x.dtype)
    try:
        where, at = place(x, key, gather)
        where[at] = value
    except IndexError as error:
        raise index_error(x.shape, key if gather is None else (), error) from None
    except ValueError:
        part = np.shape(where[at])
        raise errors.ShapeError(f"index: a value of shape {value.shape} does not fit into "
                                f"x[...] of shape {part}") from None


def __setitem__(self, index_, value):
    """x[index] = value, in place, with gradients to the value and to the part that stays."""
    if not isinstance(value, (Tensor, np.ndarray, int, float, np.number, np.bool_)):
        raise TypeError("index: only a tensor or a number can be assigned, got "
                        f"{type(value).__name__}; use md.tensor(...)")
    record = grad_enabled() and (self.requires_grad or getattr(value, "requires_grad", False))
    check_writable(self, "x[...] = value", record)
    key, gather = parse(self.array, index_)
    if record:
        rebase(self, index_put(self, value, key, gather), "x[...] = value")
    else:
        write(self.array, value.array if isinstance(value, Tensor) else value, key, gather)
        written([self], "x[...] = value")


TensorMethods.__getitem__ = __getitem__
TensorMethods.__setitem__ = __setitem__
