"""The elements of a tensor in other places: reversed, shifted, repeated, cut to a triangle."""

import numpy as np

from minidl import errors
from minidl._core import op
from minidl._methods import TensorMethods
from minidl.ops.dims import axes, axis, integer, sizes
from minidl_kernels import DeviceArray

__all__ = ["flip", "fliplr", "flipud", "repeat_interleave", "roll", "tile", "tril", "triu"]


@op(storage=True)
def flip(be, input, dims, *rest):
    """Reverse the order of elements along dims.

    >>> md.arange(4).flip(0)
    tensor([3, 2, 1, 0])
    """
    d = axes("flip", dims if isinstance(dims, (tuple, list)) else (dims, *rest), input.ndim)
    if input.ndim == 0:
        return be.copy(input), lambda g, need: g
    return be.copy(np.flip(input, d)), lambda g, need: be.copy(np.flip(g, d))


def flipud(input):
    """Reverse the first dim."""
    if input.ndim < 1:
        raise errors.ShapeError("flipud: expected at least 1 dimension")
    return flip(input, (0,))


def fliplr(input):
    """Reverse the second dim."""
    if input.ndim < 2:
        raise errors.ShapeError(f"fliplr: expected at least 2 dimensions, got {input.shape}")
    return flip(input, (1,))


@op(storage=True)
def roll(be, input, shifts, dims=None):
    """Shift elements along dims, those that fall off the end come in at the start.

    >>> md.arange(4).roll(1)
    tensor([3, 0, 1, 2])
    """
    by = sizes("roll", shifts, ())
    if dims is None or dims == ():
        if len(by) != 1:
            raise errors.ArgumentError(f"roll: shifts {by} need as many dims")
        by, d = by[0], None
    else:
        # a dim may be named twice: the shifts add up
        dims = dims if isinstance(dims, (tuple, list)) else (dims,)
        if input.ndim == 0:
            raise errors.DimensionError("roll: a 0-d tensor has no dim to roll along")
        d = tuple([axis("roll", i, input.ndim) for i in dims])
        if len(d) != len(by):
            raise errors.ArgumentError(f"roll: {len(by)} shifts for {len(d)} dims")
    back = -by if d is None else tuple([-n for n in by])
    return be.copy(np.roll(input, by, d)), lambda g, need: be.copy(np.roll(g, back, d))


@op(storage=True)
def repeat(be, input, repeats, *rest):
    """The tensor laid side by side, repeats[i] times along dim i.

    >>> md.tensor([1, 2]).repeat(2, 2).shape
    (2, 4)
    """
    return tiled(be, input, sizes("repeat", repeats, rest), "repeat")


def tiled(be, input, counts, name):
    """np.tile and its gradient: the sum over the copies."""
    lead = len(counts) - input.ndim
    if lead < 0 or min(counts, default=0) < 0:
        raise errors.ShapeError(f"{name}: expected a non-negative count for each of the "
                                f"{input.ndim} dims, got {counts}")
    before = input.shape
    inner = [m for pair in zip(counts, (1,) * lead + before, strict=True) for m in pair]

    def vjp(g, need):
        copies = tuple(range(0, len(inner), 2))
        return be.sum(g.reshape(inner), copies, False).reshape(before) if copies else g

    return be.contiguous(np.tile(input, counts)), vjp


@op(storage=True)
def tile(be, input, dims, *rest):
    """repeat() where missing leading counts are 1."""
    counts = sizes("tile", dims, rest)
    return tiled(be, input, (1,) * (input.ndim - len(counts)) + counts, "tile")


@op(storage=True)
def repeat_interleave(be, input, repeats, dim=None, output_size=None):
    """Repeat each element (or slice of a dim) in place, a number or one count each.

    >>> md.tensor([1, 2]).repeat_interleave(2)
    tensor([1, 1, 2, 2])
    """
    before = input.shape
    x, d = (input.reshape(-1), 0) if dim is None else (input, axis("repeat_interleave", dim,
                                                                   input.ndim))
    if x.ndim == 0:
        x = x.reshape(1)
    if isinstance(repeats, DeviceArray):
        repeats = repeats.numpy()  # the shape of the result depends on it
    if isinstance(repeats, np.ndarray):
        if repeats.dtype.kind not in "iu" or repeats.ndim > 1 \
                or repeats.size not in (1, x.shape[d]):
            raise errors.ArgumentError("repeat_interleave: repeats must be an integer or a vector "
                                       f"of {x.shape[d]} integers, got shape {repeats.shape}")
    else:
        repeats = np.asarray(integer("repeat_interleave", repeats, "repeats"))
    counts = np.broadcast_to(repeats.reshape(-1), (x.shape[d],))
    if counts.size and counts.min() < 0:
        raise errors.ArgumentError("repeat_interleave: repeats must not be negative")
    if output_size is not None and output_size != counts.sum():
        raise errors.ShapeError(f"repeat_interleave: output_size is {output_size}, the repeats "
                                f"add up to {counts.sum()}")
    shape = x.shape

    def vjp(g, need):
        g = np.moveaxis(g, d, 0)
        dx = be.zeros((shape[d], *g.shape[1:]), g.dtype)
        if g.size:
            be.index_add_rows(dx.reshape(shape[d], -1), np.repeat(np.arange(shape[d]), counts),
                              be.contiguous(g).reshape(g.shape[0], -1))
        return np.moveaxis(dx, 0, d).reshape(before)

    return be.contiguous(np.repeat(x, counts, d)), vjp


def triangle(name, cut):
    """The op that keeps one triangle of the last two dims."""
    def fn(be, input, diagonal=0):
        if input.ndim < 2:
            raise errors.ShapeError(f"{name}: expected at least 2 dimensions, got shape "
                                    f"{input.shape}")
        k = integer(name, diagonal, "diagonal")
        return be.contiguous(cut(input, k)), lambda g, need: cut(g, k)

    fn.__name__ = name
    fn.__doc__ = (f"The {'lower' if name == 'tril' else 'upper'} triangle of the last two dims, "
                  "from the given diagonal; the rest is zero.\n\n"
                  f"    >>> md.ones(2, 2).{name}()\n    "
                  + ("tensor([[1., 0.],\n            [1., 1.]])" if name == "tril"
                     else "tensor([[1., 1.],\n            [0., 1.]])"))
    return op(fn, storage=True)


tril = triangle("tril", np.tril)
triu = triangle("triu", np.triu)

for _fn in (flipud, fliplr):
    setattr(TensorMethods, _fn.__name__, _fn)
