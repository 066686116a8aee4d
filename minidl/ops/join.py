"""Joining, cutting up and rearranging tensors along a dim."""

import itertools
import math

import numpy as np

from minidl import dtypes, errors
from minidl._core import Tensor, op
from minidl.ops.dims import axis, integer, sizes
from minidl_kernels import DeviceArray

__all__ = ["cat", "chunk", "concat", "concatenate", "hstack", "split", "stack", "tensor_split",
           "unbind", "vstack"]


# -------------------------------------------------------------------------------------- cut up

def parts(be, input, lengths, d):
    """Views of consecutive pieces of dim d, and the gradient that puts theirs back together."""
    shape = input.shape
    lead = (slice(None),) * d
    start, out = 0, []
    for n in lengths:
        out.append(input[(*lead, slice(start, start + n))])
        start += n
    return tuple(out), lambda gs, need: joined(be, gs, lengths, d, shape)


def in_pieces(total, n):
    """How long the pieces of n elements are, of which the last may be shorter."""
    if not total:
        return []
    whole, rest = divmod(total, n)
    return [n] * whole + [rest] * (rest > 0)


def joined(be, gs, lengths, d, shape):
    """The gradients of consecutive pieces as one array; None stands for zeros."""
    out = common_base(gs, lengths, d, shape)
    if out is not None:
        return out
    dtype = next(g.dtype for g in gs if g is not None)
    out = be.empty(shape, dtype)
    lead = (slice(None),) * d
    start = 0
    for g, n in zip(gs, lengths, strict=True):
        out[(*lead, slice(start, start + n))] = 0 if g is None else g
        start += n
    return out


def common_base(gs, lengths, d, shape):
    """The array whose consecutive pieces the gradients already are, or None.

    Attention writes the gradients of q, k and v into one buffer laid out as the packed projection,
    so that putting them together costs nothing.
    """
    if isinstance(gs[0], DeviceArray):
        return gs[0].backend.consecutive(gs, d, shape)
    base = None if gs[0] is None else gs[0].base
    if type(base) is not np.ndarray or not base.flags.c_contiguous:
        return None
    strides = gs[0].strides
    whole = base.reshape(shape) if base.size == math.prod(shape) else None
    if whole is None or whole.strides != strides or whole.dtype != gs[0].dtype:
        return None
    address = base.__array_interface__["data"][0]
    for g, n in zip(gs, lengths, strict=True):
        if g is None or g.base is not base or g.strides != strides \
                or g.__array_interface__["data"][0] != address:
            return None
        address += n * strides[d]
    return whole


@op(view=True)
def split(be, tensor, split_size_or_sections, dim=0):
    """Views of pieces of the given size (the last may be shorter) or sizes along a dim.

    >>> [part.shape for part in md.zeros(2, 7).split(3, dim=1)]
    [(2, 3), (2, 3), (2, 1)]
    """
    d = axis("split", dim, tensor.ndim)
    if tensor.ndim == 0:
        raise errors.ShapeError("split: a 0-d tensor cannot be split")
    total = tensor.shape[d]
    if isinstance(split_size_or_sections, (tuple, list)):
        lengths = sizes("split", split_size_or_sections, ())
        if sum(lengths) != total or min(lengths, default=0) < 0:
            raise errors.ShapeError(f"split: the sizes {lengths} do not add up to {total}, the "
                                    f"size of dim {dim} of shape {tensor.shape}")
    else:
        n = split_size_or_sections
        if type(n) is not int:
            n = integer("split", n, "split_size")
        if n < 0 or (n == 0 and total):
            raise errors.ArgumentError(f"split: split_size must be positive, got {n}")
        lengths = in_pieces(total, n) or [0]
    return parts(be, tensor, lengths, d)


@op(view=True)
def chunk(be, input, chunks, dim=0):
    """At most `chunks` views of equal size (the last may be shorter) along a dim.

    >>> [part.shape for part in md.zeros(7).chunk(3)]
    [(3,), (3,), (1,)]
    """
    d = axis("chunk", dim, input.ndim)
    chunks = integer("chunk", chunks, "chunks")
    if input.ndim == 0 or chunks < 1:
        raise errors.ArgumentError("chunk: expected at least one dimension and one chunk, got "
                                   f"shape {input.shape} and {chunks} chunks")
    total = input.shape[d]
    n = -(-total // chunks)
    lengths = in_pieces(total, n) or [0] * chunks
    return parts(be, input, lengths, d)


@op(view=True)
def tensor_split(be, input, indices_or_sections, dim=0):
    """Views of pieces that end at the given indices, or of nearly equal sizes.

    >>> [part.shape for part in md.zeros(7).tensor_split(3)]
    [(3,), (2,), (2,)]
    """
    d = axis("tensor_split", dim, input.ndim)
    if input.ndim == 0:
        raise errors.ShapeError("tensor_split: a 0-d tensor cannot be split")
    total = input.shape[d]
    if isinstance(indices_or_sections, np.ndarray):
        indices_or_sections = indices_or_sections.tolist()
    if isinstance(indices_or_sections, (tuple, list)):
        ends = [slice(None, i).indices(total)[1] for i in sizes("tensor_split",
                                                                indices_or_sections, ())]
        pieces = [slice(a, b) for a, b in zip([0, *ends], [*ends, total], strict=True)]
    else:
        n = integer("tensor_split", indices_or_sections, "sections")
        if n < 1:
            raise errors.ArgumentError(f"tensor_split: sections must be positive, got {n}")
        cut = [i * (total // n) + min(i, total % n) for i in range(n + 1)]
        pieces = [slice(a, b) for a, b in itertools.pairwise(cut)]
    lead, shape, dtype = (slice(None),) * d, input.shape, input.dtype

    def vjp(gs, need):
        out = be.zeros(shape, dtype)
        for g, piece in zip(gs, pieces, strict=True):
            if g is not None:
                out[(*lead, piece)] += g
        return out

    return tuple([input[(*lead, piece)] for piece in pieces]), vjp


@op(view=True)
def unbind(be, input, dim=0):
    """The slices along a dim, without that dim.

    >>> a, b = md.tensor([[1, 2], [3, 4]]).unbind()
    >>> b
    tensor([3, 4])
    """
    d = axis("unbind", dim, input.ndim)
    if input.ndim == 0:
        raise errors.ShapeError("unbind: a 0-d tensor has no dim to take apart")
    shape = input.shape
    lead = (slice(None),) * d
    one = (*shape[:d], 1, *shape[d + 1:])

    def vjp(gs, need):
        rows = tuple([None if g is None else g.reshape(one) for g in gs])
        return joined(be, rows, (1,) * len(rows), d, shape)

    return tuple([input[(*lead, i, ...)] for i in range(shape[d])]), vjp


# ------------------------------------------------------------------------------------------ join

def tensor_list(name, tensors):
    """The tensors of a non-empty sequence, or a sentence."""
    if isinstance(tensors, Tensor) or not isinstance(tensors, (tuple, list)):
        raise TypeError(f"{name}: expected a list or tuple of tensors, got "
                        f"{type(tensors).__name__}")
    for x in tensors:
        if not isinstance(x, Tensor):
            raise TypeError(f"{name}: expected a list of tensors, found {type(x).__name__} in it")
    if not tensors:
        raise errors.ArgumentError(f"{name}: expected a non-empty list of tensors")
    return tensors


def common_dtype(arrays):
    """The dtype that holds all arrays, by promotion."""
    dtype = arrays[0].dtype
    for x in arrays:
        if x.dtype is not dtype and x.dtype != dtype:
            return dtypes.result_type(*arrays).numpy
    return dtype


@op(method=False, storage=True, name="cat")
def concatenated(be, dim, *arrays):
    """Arrays one after the other along `dim`."""
    used = [x for x in arrays if x.shape != (0,)] or list(arrays[:1])
    first = used[0].shape
    d = axis("cat", dim, len(first))
    before, behind, total = first[:d], first[d + 1:], 0
    for x in used:
        shape = x.shape
        if len(shape) != len(first) or not first or shape[:d] != before or shape[d + 1:] != behind:
            raise errors.ShapeError(f"cat: shapes {first} and {x.shape} differ in more than dim "
                                    f"{dim}" if x.ndim else "cat: 0-d tensors cannot be joined; "
                                    "use stack")
        total += shape[d]
    out = be.empty((*before, total, *behind), common_dtype(arrays))
    np.concatenate(used, d, out=out, casting="unsafe")
    lead = (slice(None),) * d
    kinds = [(None if x.shape == (0,) else x.shape[d], x.dtype) for x in arrays]

    def vjp(g, need):
        grads, at = [None], 0
        for (n, dtype), wanted in zip(kinds, need[1:], strict=True):
            part = be.zeros((0,), g.dtype) if n is None else g[(*lead, slice(at, at + n))]
            grads.append((part if part.dtype == dtype else be.cast(part, dtype)) if wanted
                         else None)
            at += n or 0
        return tuple(grads)

    return out, vjp


def cat(tensors, dim=0):
    """Tensors one after the other along a dim; the other dims must agree.

    >>> md.cat([md.zeros(2, 3), md.ones(1, 3)]).shape
    (3, 3)
    """
    return concatenated(dim, *tensor_list("cat", tensors))


concat = concatenate = cat


@op(method=False, storage=True, name="stack")
def stacked(be, dim, *arrays):
    """Arrays of one shape side by side along a new dim."""
    shape = arrays[0].shape
    d = axis("stack", dim, len(shape) + 1)
    for x in arrays:
        if x.shape != shape:
            raise errors.ShapeError(f"stack: expected tensors of one shape, got {shape} and "
                                    f"{x.shape}")
    out = be.empty((*shape[:d], len(arrays), *shape[d:]), common_dtype(arrays))
    np.stack(arrays, d, out=out, casting="unsafe")
    kinds = [x.dtype for x in arrays]
    lead = (slice(None),) * d

    def vjp(g, need):
        grads = [g[(*lead, i)] if wanted else None for i, wanted in enumerate(need[1:])]
        return (None, *[x if x is None or x.dtype == k else be.cast(x, k)
                        for x, k in zip(grads, kinds, strict=True)])

    return out, vjp


def stack(tensors, dim=0):
    """Tensors of one shape side by side along a new dim.

    >>> md.stack([md.zeros(3), md.ones(3)], dim=1).shape
    (3, 2)
    """
    return stacked(dim, *tensor_list("stack", tensors))


def hstack(tensors):
    """cat() along the second dim, or the first of vectors."""
    tensors = [x.unsqueeze(0) if x.ndim == 0 else x for x in tensor_list("hstack", tensors)]
    return concatenated(min(1, tensors[0].ndim - 1), *tensors)


def vstack(tensors):
    """cat() along the first dim; vectors become rows."""
    tensors = [x.reshape(1, -1) if x.ndim < 2 else x for x in tensor_list("vstack", tensors)]
    return concatenated(0, *tensors)
