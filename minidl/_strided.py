"""Gradients of a view by where it lies in the memory of the tensor it shows.

In-place writes change the history of a tensor whose views were made by any op, or by several. What
the tape then needs is not those ops again but which elements the view shows; shapes, strides and
offsets say that for all of them.
"""

import numpy as np


def address(x):
    """Where the first element of an array lies, in bytes; on a device within a segment."""
    return x.ctypes.data if isinstance(x, np.ndarray) else x.offset * x.itemsize


def bounds(x):
    """The first byte of an array's elements, and the one behind the last."""
    first = address(x)
    reach = [(n - 1) * step for n, step in zip(x.shape, x.strides, strict=True)]
    low, high = sum([r for r in reach if r < 0]), sum([r for r in reach if r > 0])
    return first + low, first + high + x.itemsize if x.size else first


def layout(base, view):
    """(items, base's place, view's place) of an array and a view of its memory.

    A place is (shape, strides, offset) in bytes from the first byte of the base.
    """
    low, high = bounds(base)
    places = [(x.shape, x.strides, address(x) - low if x.size else 0) for x in (base, view)]
    return -(-(high - low) // base.itemsize), *places


def shared(be, where, dtype):
    """Zeros that lie in new memory as base and view lie in theirs: (base, view)."""
    items, *places = where
    memory = be.zeros((items,), dtype)
    if not isinstance(memory, np.ndarray):
        return [memory.seen(*place) for place in places]
    return [np.ndarray(shape, dtype, memory, offset, strides) for shape, strides, offset in places]


def read_vjp(be, where):
    """The gradient of reading the view: g at its elements, zero elsewhere."""
    def vjp(g, need):
        base, view = shared(be, where, g.dtype)
        # an expanded dim shows one element many times: its gradients add up
        once = tuple([1 if step == 0 else n for n, step in zip(view.shape, view.strides,
                                                               strict=True)])
        view[tuple([slice(n) for n in once])] = be.sum_to(g, once)
        return base

    return vjp


def write_vjp(be, where):
    """The gradients of writing the view: of the base, which lost those elements, and of them."""
    def vjp(g, need):
        base, view = shared(be, where, g.dtype)
        base[...] = g
        written = be.copy(view)
        view[...] = 0
        return base, written

    return vjp
