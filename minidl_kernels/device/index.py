"""x[key] and x[key] = value with integer arrays and masks among the indices, by NumPy's rules.

The indexed axes come first and become one, whose rows are picked or written; masks are fetched, as
the shape of the result depends on them.
"""

import math

import numpy as np

from minidl_kernels.device.array import DeviceArray
from minidl_kernels.device.interface import FAULTS
from minidl_kernels.device.layout import kernel_type
from minidl_kernels.device.move import assign, broadcast_to, contiguous, take_rows

__all__ = ["get_items", "is_basic", "multi_index", "set_items"]


def is_basic(key):
    """Whether a key makes a view: integers, slices, None and ... only."""
    items = key if isinstance(key, tuple) else (key,)
    return not [i for i in items if isinstance(i, (np.ndarray, DeviceArray, list, range))]


def _arrays(x, key):
    """(axes, their index arrays) of a key, one array for each indexed axis; masks are resolved."""
    items: list = []
    for item in key if isinstance(key, tuple) else (key,):
        if item is None or (isinstance(item, slice) and item != slice(None)):
            raise TypeError("a device array takes whole axes (:) beside index arrays; index by the "
                            "slices first")
        if isinstance(item, (list, range)):
            item = np.asarray(item)
        if isinstance(item, (np.ndarray, DeviceArray)) and item.dtype == np.bool_:
            items += np.nonzero(item.numpy() if isinstance(item, DeviceArray) else item)
        else:
            items.append(item)
    where = [i for i, item in enumerate(items) if item is Ellipsis]
    if where:
        rest = [slice(None)] * (x.ndim - len(items) + 1)
        items[where[0]:where[0] + 1] = rest
    axes = [a for a, item in enumerate(items) if not isinstance(item, slice)]
    if len(items) > x.ndim:
        raise IndexError(f"{len(items)} indices for an array of {x.ndim} dimensions")
    return axes, [items[a] for a in axes]


def multi_index(device, arrays, sizes):
    """One flat index from an index array for each of several axes, negative ones counted back."""
    if not [a for a in arrays if isinstance(a, DeviceArray)]:
        wide = np.broadcast_arrays(*[np.asarray(a, np.int64) for a in arrays])
        for a, n in zip(wide, sizes, strict=True):
            wrong = a[(a < -n) | (a >= n)]
            if wrong.size:
                raise IndexError(f"index {wrong[0]} is out of bounds for an axis of size {n}")
        counted = [np.where(a < 0, a + n, a) for a, n in zip(wide, sizes, strict=True)]
        flat = counted[0]
        for a, n in zip(counted[1:], sizes[1:], strict=True):
            flat = flat * n + a
        return device.array(flat)
    flat = None
    for a, n in zip(arrays, sizes, strict=True):
        a = a if isinstance(a, DeviceArray) else device.array(np.asarray(a, np.int64))
        a = a.astype(np.int64, copy=False)
        a = np.where(a < 0, a + n, a)
        if a.size:
            device.launch("typed", "check_index", device.spread(a.size),
                          (a, device.fault, n, FAULTS.index("index"), a.size), T="int64_t")
        flat = a if flat is None else flat * n + a
    return flat


def _rows(x, key):
    """(x with its indexed axes first, the index of its rows, where their dims belong)."""
    axes, arrays = _arrays(x, key)
    rest = [d for d in range(x.ndim) if d not in axes]
    moved = x.transpose([*axes, *rest])
    rows = multi_index(x.device, arrays, [x.shape[a] for a in axes])
    together = axes == list(range(axes[0], axes[0] + len(axes)))
    return moved, len(axes), rows, axes[0] if together else 0


def _flat(moved, count):
    """The first `count` axes as one."""
    return moved.reshape((math.prod(moved.shape[:count]), *moved.shape[count:]))


def get_items(x, key):
    """x[key], a copy."""
    moved, count, rows, place = _rows(x, key)
    y = take_rows(_flat(moved, count), rows, "index")
    order = list(range(rows.ndim, rows.ndim + place))
    return y.transpose([*order, *range(rows.ndim), *range(rows.ndim + place, y.ndim)])


def set_items(x, key, value):
    """x[key] = value; what is written twice ends as one of the values."""
    moved, count, rows, place = _rows(x, key)
    flat = contiguous(_flat(moved, count))
    rest = moved.shape[count:]
    shape = (*rest[:place], *rows.shape, *rest[place:])
    if not isinstance(value, DeviceArray):
        value = x.device.array(np.asarray(value, x.dtype))
    extra = max(0, value.ndim - len(shape))
    if extra and set(value.shape[:extra]) == {1}:  # leading axes of size 1 are dropped
        value = value.reshape(value.shape[extra:])
    wide = broadcast_to(value.astype(x.dtype, copy=False), shape)
    order = [*range(place, place + rows.ndim), *range(place),
             *range(place + rows.ndim, len(shape))]
    src = contiguous(wide.transpose(order))
    if src.size:
        width = src.size // rows.size
        x.device.launch("typed", "put_rows", x.device.spread(src.size),
                        (flat, contiguous(rows), src, x.device.fault, src.size, width,
                         flat.shape[0], FAULTS.index("index")), T=kernel_type(x.dtype))
        if flat.block is not x.block:  # the indexed axes lay apart: what was written is a copy
            assign(moved, flat.reshape(moved.shape))
