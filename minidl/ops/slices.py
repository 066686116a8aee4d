"""Views of a part: one index of a dim, a range of it, a diagonal."""

import numpy as np

from minidl import errors
from minidl._core import op
from minidl.ops.dims import axis, integer

__all__ = ["diagonal", "narrow", "select"]


def placed(be, shape, key, g):
    """Zeros of `shape` with g at `key`: the gradient of taking that part."""
    out = be.zeros(shape, g.dtype)
    out[key] = g
    return out


@op(view=True)
def select(be, input, dim, index):
    """The slice at one index of a dim, without that dim."""
    shape = input.shape
    d = axis("select", dim, len(shape))
    i = integer("select", index, "index")
    if not shape or not -shape[d] <= i < shape[d]:
        raise errors.DimensionError(f"select: index {i} is out of range for dim {dim} of shape "
                                    f"{shape}")
    key = (slice(None),) * d + (i, ...)
    return input[key], lambda g, need: placed(be, shape, key, g)


@op(view=True)
def narrow(be, input, dim, start, length):
    """The `length` elements from `start` on along a dim.

    >>> md.arange(6).narrow(0, 2, 3)
    tensor([2, 3, 4])
    """
    shape = input.shape
    d = axis("narrow", dim, len(shape))
    start, length = integer("narrow", start, "start"), integer("narrow", length, "length")
    n = shape[d] if shape else 0
    first = start + n if start < 0 else start
    if not shape or not 0 <= first <= n or not 0 <= length <= n - first:
        raise errors.DimensionError(f"narrow: start {start} and length {length} do not fit into "
                                    f"dim {dim} of shape {shape}")
    key = (slice(None),) * d + (slice(first, first + length),)
    return input[key], lambda g, need: placed(be, shape, key, g)


@op(view=True)
def diagonal(be, input, offset=0, dim1=0, dim2=1):
    """The diagonal of two dims, as a new last dim.

    >>> md.tensor([[1, 2], [3, 4]]).diagonal()
    tensor([1, 4])
    """
    a, b = axis("diagonal", dim1, input.ndim), axis("diagonal", dim2, input.ndim)
    if a == b or input.ndim < 2:
        raise errors.ShapeError(f"diagonal: dims {dim1} and {dim2} of a tensor of {input.ndim} "
                                "dimensions are not two different dims")
    shape = input.shape

    def part(x):
        d = x.diagonal(offset, a, b)
        if isinstance(d, np.ndarray):
            d.flags.writeable = x.flags.writeable  # NumPy hands out read-only diagonals
        return d

    def vjp(g, need):
        out = be.zeros(shape, g.dtype)
        part(out)[...] = g
        return out

    return part(input), vjp
