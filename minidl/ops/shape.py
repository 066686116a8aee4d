"""Views: the same memory under another shape or order of axes. Nothing is copied, and gradients
travel back by the inverse view; `reshape` and `contiguous` copy where PyTorch must.
"""

import math

import numpy as np

from minidl import dtypes, errors
from minidl._core import Tensor, op
from minidl._methods import TensorMethods
from minidl.ops.dims import axes, axis, check_memory_format, sizes

__all__ = ["adjoint", "broadcast_tensors", "broadcast_to", "clone", "flatten", "moveaxis",
           "movedim", "permute", "reshape", "squeeze", "swapaxes", "swapdims", "t", "transpose",
           "unflatten", "unsqueeze"]


# ----------------------------------------------------------------------------------------- shape

if np.lib.NumpyVersion(np.__version__) >= "2.1.0":
    def as_view(x, shape):
        """x seen as `shape`, or None when only a copy can have it."""
        try:
            if x.flags.c_contiguous:
                return x.reshape(shape)
            return x.reshape(shape, copy=False)
        except (TypeError, ValueError):
            return None
else:
    def as_view(x, shape):
        """x seen as `shape`, or None when only a copy can have it."""
        y = x[...]
        try:
            y.shape = shape
        except (AttributeError, TypeError, ValueError):
            return None
        return y


def reshaped(be, x, shape):
    """x as another shape of as many elements, copied only when its strides leave no other way."""
    if x.flags.c_contiguous:
        return x.reshape(shape)
    y = as_view(x, shape)
    return be.copy(x).reshape(shape) if y is None else y


def checked_shape(name, x, shape):
    """The target of a reshape with its -1 replaced, or a sentence about why it cannot be."""
    shape = sizes(name, shape, ())
    known = math.prod([n for n in shape if n != -1])
    holes = shape.count(-1)
    if any(n < -1 for n in shape) or holes > 1:
        raise errors.ShapeError(f"{name}: sizes must be non-negative with at most one -1, got "
                                f"{shape}")
    if holes:
        if known == 0 or x.size % known:
            raise errors.ShapeError(f"{name}: {x.size} elements (shape {x.shape}) do not divide "
                                    f"into shape {shape}")
        shape = tuple([x.size // known if n == -1 else n for n in shape])
    elif known != x.size:
        raise errors.ShapeError(f"{name}: shape {shape} has {known} elements, the tensor of shape "
                                f"{x.shape} has {x.size}")
    return shape


@op(view=True, look="reshape")
def reshape(be, input, shape=(), *rest):
    """The same elements in another shape; one size may be -1.

    >>> md.arange(6).reshape(2, -1).shape
    (2, 3)
    """
    before = input.shape
    if rest or type(shape) is int:
        shape = (shape, *rest)
    try:
        y = reshaped(be, input, shape)
    except (TypeError, ValueError):
        y = None
    if y is None or (y.shape != shape and min(shape, default=0) < -1):
        y = reshaped(be, input, checked_shape("reshape", input, shape))
    return y, lambda g, need: reshaped(be, g, before)


@op(view=True, look="reshape")
def view(be, input, shape=(), *rest):
    """reshape() that never copies: an error when the strides do not allow it.

    >>> md.arange(6).view(3, 2).shape
    (3, 2)
    """
    before = input.shape
    if rest or type(shape) is int:
        shape = (shape, *rest)
    y = as_view(input, shape)
    if y is None or (y.shape != shape and min(shape, default=0) < -1):
        if isinstance(shape, dtypes.dtype):
            raise errors.UnsupportedError("view: seeing the bytes as another dtype is not "
                                          "supported; convert with .to(dtype)")
        shape = checked_shape("view", input, shape)
        raise errors.ShapeError(f"view: shape {before} with strides {input.strides} bytes cannot "
                                f"be seen as {shape} without a copy; use .reshape(...)")
    return y, lambda g, need: reshaped(be, g, before)


@op(view=True)
def flatten(be, input, start_dim=0, end_dim=-1):
    """Merge the dims from start_dim to end_dim into one.

    >>> md.zeros(2, 3, 4).flatten(1).shape
    (2, 12)
    """
    before = input.shape
    first, last = axis("flatten", start_dim, len(before)), axis("flatten", end_dim, len(before))
    if first > last:
        raise errors.ShapeError(f"flatten: start_dim {start_dim} comes after end_dim {end_dim}")
    shape = (*before[:first], math.prod(before[first:last + 1]), *before[last + 1:])
    return reshaped(be, input, shape), lambda g, need: reshaped(be, g, before)


@op(view=True)
def unflatten(be, input, dim, sizes):
    """Split one dim into several; one size may be -1.

    >>> md.zeros(2, 12).unflatten(1, (3, -1)).shape
    (2, 3, 4)
    """
    before = input.shape
    d = axis("unflatten", dim, len(before))
    if not isinstance(sizes, (tuple, list)) or not sizes or not before:
        raise errors.ArgumentError(f"unflatten: cannot split dim {dim} of a tensor of shape "
                                   f"{before} into {sizes!r}")
    one = np.broadcast_to(np.int8(0), (before[d],))
    shape = before[:d] + checked_shape("unflatten", one, sizes) + before[d + 1:]
    return reshaped(be, input, shape), lambda g, need: reshaped(be, g, before)


@op(view=True)
def squeeze(be, input, dim=None):
    """Drop dims of size 1: all of them, or those given.

    >>> md.zeros(2, 1, 3).squeeze(1).shape
    (2, 3)
    """
    before = input.shape
    drop = tuple([d for d in axes("squeeze", dim, len(before)) if before and before[d] == 1])
    return input.squeeze(drop), lambda g, need: g.reshape(before)


@op(view=True)
def unsqueeze(be, input, dim):
    """Put in a dim of size 1.

    >>> md.zeros(2, 3).unsqueeze(-1).shape
    (2, 3, 1)
    """
    before = input.shape
    d = axis("unsqueeze", dim, len(before) + 1)
    return input.reshape((*before[:d], 1, *before[d:])), lambda g, need: g.reshape(before)


@op(view=True)
def expand(be, input, size=(), *rest):
    """Repeat dims of size 1 without copying; -1 keeps a size.

    >>> md.ones(3, 1).expand(2, 3, 4).shape
    (2, 3, 4)
    """
    before = input.shape
    size = sizes("expand", size, rest)
    lead = len(size) - len(before)
    full = tuple([before[i - lead] if n == -1 and i >= lead else n for i, n in enumerate(size)])
    return broadcast("expand", input, full), lambda g, need: be.sum_to(g, before)


def broadcast(name, x, shape):
    """np.broadcast_to with a sentence when the shapes do not fit."""
    try:
        return np.broadcast_to(x, shape)
    except ValueError:
        raise errors.ShapeError(f"{name}: shape {x.shape} does not expand to {shape}; only dims "
                                "of size 1 can grow, and new dims come first") from None


@op(view=True)
def broadcast_to(be, input, size):
    """expand() as a function: the tensor repeated along dims of size 1, without a copy."""
    before = input.shape
    size = sizes("broadcast_to", size, ())
    return broadcast("broadcast_to", input, size), lambda g, need: be.sum_to(g, before)


def broadcast_tensors(*tensors):
    """The tensors expanded to their common shape.

    >>> a, b = md.broadcast_tensors(md.zeros(2, 1), md.zeros(3))
    >>> a.shape, b.shape
    ((2, 3), (2, 3))
    """
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tensors[0]
    for x in tensors:
        if not isinstance(x, Tensor):
            raise TypeError(f"broadcast_tensors: expected tensors, got {type(x).__name__}")
    try:
        shape = np.broadcast_shapes(*[x.shape for x in tensors])
    except ValueError:
        raise errors.ShapeError("broadcast_tensors: the shapes "
                                + ", ".join(str(x.shape) for x in tensors)
                                + " do not broadcast") from None
    return tuple([broadcast_to(x, shape) for x in tensors])


def expand_as(self, other):
    """expand() to the shape of another tensor."""
    return expand(self, other.shape)


def view_as(self, other):
    """view() in the shape of another tensor."""
    return view(self, other.shape)


def reshape_as(self, other):
    """reshape() to the shape of another tensor."""
    return reshape(self, other.shape)


# --------------------------------------------------------------------------------- order of axes

@op(view=True, look="transpose")
def transpose(be, input, dim0, dim1):
    """Swap two dims.

    >>> md.zeros(2, 3, 4).transpose(1, 2).shape
    (2, 4, 3)
    """
    a, b = axis("transpose", dim0, input.ndim), axis("transpose", dim1, input.ndim)
    if input.ndim == 0:
        return input[...], lambda g, need: g
    return input.swapaxes(a, b), lambda g, need: g.swapaxes(a, b)


def swapaxes(input, axis0, axis1):
    """Swap two dims: transpose() under NumPy's name."""
    return transpose(input, axis0, axis1)


def swapdims(input, dim0, dim1):
    """Swap two dims: transpose()."""
    return transpose(input, dim0, dim1)


@op(view=True)
def permute(be, input, dims=(), *rest):
    """Put the dims in another order: result.shape[i] = input.shape[dims[i]].

    >>> md.zeros(2, 3, 4).permute(2, 0, 1).shape
    (4, 2, 3)
    """
    ndim = input.ndim
    order = axes("permute", dims if isinstance(dims, (tuple, list)) else (dims, *rest), ndim)
    if len(order) != ndim:
        raise errors.ShapeError(f"permute: {len(order)} dims for a tensor of {ndim} dimensions")
    return input.transpose(order), lambda g, need: g.transpose(inverse(order))


def inverse(order):
    """The permutation that undoes `order`."""
    back = [0] * len(order)
    for i, d in enumerate(order):
        back[d] = i
    return back


@op(view=True)
def movedim(be, input, source, destination):
    """Move dims to new places; the others keep their order.

    >>> md.zeros(2, 3, 4).movedim(0, -1).shape
    (3, 4, 2)
    """
    ndim = input.ndim
    source, destination = axes("movedim", source, ndim), axes("movedim", destination, ndim)
    if len(source) != len(destination):
        raise errors.ShapeError(f"movedim: {len(source)} source dims for {len(destination)} "
                                "destinations")
    if ndim == 0:
        return input[...], lambda g, need: g
    order = [d for d in range(ndim) if d not in source]
    for to, d in sorted(zip(destination, source, strict=True)):
        order.insert(to, d)
    return input.transpose(order), lambda g, need: g.transpose(inverse(order))


def moveaxis(input, source, destination):
    """movedim() under NumPy's name."""
    return movedim(input, source, destination)


@op(view=True)
def t(be, input):
    """The transpose of a matrix; vectors and 0-d tensors stay as they are."""
    if input.ndim > 2:
        raise errors.ShapeError(f"t: expected at most 2 dimensions, got shape {input.shape}; use "
                                ".mT or .transpose(dim0, dim1)")
    return input.T, lambda g, need: g.T


def adjoint(input):
    """The last two dims swapped: .mH of real tensors."""
    return _matrix_transpose(input, "adjoint")


def _reversed(self):
    """All dims in reverse order."""
    return permute(self, tuple(range(self.ndim))[::-1])


def _matrix_transpose(self, name=".mT"):
    """The last two dims swapped."""
    if self.ndim < 2:
        raise errors.ShapeError(f"{name}: expected at least 2 dimensions, got shape {self.shape}")
    return transpose(self, -2, -1)


# ---------------------------------------------------------------------------------------- copies

@op(storage=True)
def clone(be, input, memory_format=None):
    """A copy, with gradients flowing back to the original."""
    check_memory_format("clone", memory_format)
    return be.copy(input), lambda g, need: g


def contiguous(self, memory_format=None):
    """The tensor itself when its elements lie in order in memory, else a copy that does."""
    check_memory_format("contiguous", memory_format)
    return self if self.array.flags.c_contiguous else clone(self)


for _fn in (expand_as, view_as, reshape_as, swapaxes, swapdims, moveaxis, adjoint, contiguous):
    setattr(TensorMethods, _fn.__name__, _fn)
TensorMethods.T = property(_reversed)
TensorMethods.mT = property(_matrix_transpose)
TensorMethods.H = property(lambda self: t(self))
TensorMethods.mH = property(adjoint)
