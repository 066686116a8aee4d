"""Elements picked out by a bool mask, or by not being zero."""

import numpy as np

from minidl import errors
from minidl._core import inplace, op
from minidl._methods import TensorMethods
from minidl.ops.gather import scalar
from minidl.ops.shape import broadcast
from minidl_kernels import ARRAYS

__all__ = ["argwhere", "masked_fill", "masked_select", "nonzero"]


def checked_mask(name, mask):
    if not isinstance(mask, ARRAYS) or mask.dtype != np.bool_:
        raise errors.DTypeError(f"{name}: mask must be a bool tensor, got "
                                + str(getattr(mask, "dtype", type(mask).__name__)))
    return mask


@op
def masked_fill(be, input, mask, value):
    """value where mask is True, input elsewhere; mask broadcasts.

    >>> md.zeros(3).masked_fill(md.tensor([True, False, True]), 1.0)
    tensor([1., 0., 1.])
    """
    checked_mask("masked_fill", mask)
    fill = scalar("masked_fill", value, input.dtype)
    try:
        y = be.where(mask, fill, input)
    except ValueError:
        raise errors.ShapeError(f"masked_fill: mask of shape {mask.shape} does not broadcast with "
                                f"{input.shape}") from None
    before = input.shape

    def vjp(g, need):
        zero = np.zeros((), g.dtype)
        dx = be.sum_to(be.where(mask, zero, g), before) if need[0] else None
        dv = be.sum_to(be.where(mask, g, zero), ()) if len(need) > 2 and need[2] else None
        return dx, None, dv

    return y, vjp


@op(storage=True)
def masked_select(be, input, mask):
    """The elements where mask is True, as a vector.

    >>> md.arange(4).masked_select(md.tensor([True, False, False, True]))
    tensor([0, 3])
    """
    checked_mask("masked_select", mask)
    before = input.shape
    try:
        shape = np.broadcast_shapes(before, mask.shape)
    except ValueError:
        raise errors.ShapeError(f"masked_select: mask of shape {mask.shape} does not broadcast "
                                f"with {before}") from None
    mask = np.broadcast_to(mask, shape)

    def vjp(g, need):
        dx = be.zeros(shape, g.dtype)
        dx[mask] = g
        return be.sum_to(dx, before)

    return be.contiguous(broadcast("masked_select", input, shape)[mask]), vjp


@op(method=False, storage=True, name="nonzero")
def nonzero_places(be, input):
    """The positions of elements that are not zero, one row each."""
    return be.contiguous(np.argwhere(input).astype(np.int64, copy=False)), None


def nonzero(input, as_tuple=False):
    """Positions of the non-zero elements: a row each, or with as_tuple one vector per dim.

    >>> md.tensor([0, 1, 2]).nonzero()
    tensor([[1],
            [2]])
    """
    if as_tuple:
        return nonzero_places(input if input.ndim else input.reshape(1)).unbind(1)
    return nonzero_places(input)


def argwhere(input):
    """Positions of the non-zero elements, a row each."""
    return nonzero_places(input)


def masked_fill_(self, mask, value):
    """masked_fill() that overwrites the tensor."""
    return inplace(masked_fill, self, mask, value)


for _fn in (nonzero, argwhere, masked_fill_):
    setattr(TensorMethods, _fn.__name__, _fn)
