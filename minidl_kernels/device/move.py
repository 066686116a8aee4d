"""Moving elements: copies, conversions, broadcasting, picking and putting by index."""

import numpy as np

from minidl_kernels.device.array import DeviceArray, contiguous_steps
from minidl_kernels.device.interface import FAULTS
from minidl_kernels.device.layout import broadcast_shape, kernel_type, layout, operands, steps_in

__all__ = ["add_at", "arange_like", "assign", "broadcast_to", "cast", "concatenate", "consecutive",
           "contiguous", "copy", "embedding", "embedding_grad", "fill_", "flip", "gather",
           "index_add_rows", "one_hot", "roll", "scatter", "stack", "take_rows", "tril", "triu",
           "where", "where_grad"]


def _copy_into(dst, src):
    """dst[...] = src for arrays of one dtype, src broadcast."""
    if dst.size:
        at = layout(dst.shape, (steps_in(src, dst.shape), dst.steps))
        dst.device.launch("typed", "copy", dst.device.spread(dst.size), (src, dst, at),
                          T=kernel_type(dst.dtype))


def copy(x):
    """A contiguous copy of x."""
    y = x.device.empty(x.shape, x.dtype)
    _copy_into(y, x)
    return y


def contiguous(x):
    """x itself when its elements lie in order, else a copy."""
    return x if x.contiguous else copy(x)


def cast(x, dtype):
    """x as another dtype, always a copy."""
    dtype = np.dtype(dtype)
    if dtype == x.dtype:
        return copy(x)
    y = x.device.empty(x.shape, dtype)
    if y.size:
        x.device.launch("cast", "cast", x.device.spread(y.size),
                        (x, y, layout(x.shape, (x.steps,))), T=kernel_type(x.dtype),
                        U=kernel_type(dtype), FROM="_" + x.dtype.name, TO="_" + dtype.name)
    return y


def broadcast_to(x, shape):
    """x seen in a larger shape, without a copy."""
    shape = tuple(shape)
    if broadcast_shape("broadcast_to", x.shape, shape) != shape:
        raise ValueError(f"broadcast_to: shape {x.shape} does not expand to {shape}")
    return x._view(shape, steps_in(x, shape))


def assign(dst, value):
    """dst[...] = value: a number, or an array that is broadcast and converted."""
    if isinstance(value, DeviceArray):
        extra = max(0, value.ndim - dst.ndim)  # leading axes of size 1 are dropped
        shape = value.shape[extra:] if set(value.shape[:extra]) <= {1} else value.shape
        if len(shape) > dst.ndim or [n for n, m in zip(reversed(shape), reversed(dst.shape),
                                                       strict=False) if n not in (1, m)]:
            raise ValueError(f"a value of shape {value.shape} does not fit into {dst.shape}")
        value = value.reshape(shape) if extra else value
        _copy_into(dst, value if value.dtype == dst.dtype else cast(value, dst.dtype))
    elif np.ndim(value):
        assign(dst, dst.device.array(np.asarray(value, dst.dtype)))
    elif dst.size:
        if dst.dtype.name in ("float16", "bfloat16"):
            number = int(np.asarray(value, dst.dtype).view(np.uint16))
        else:
            number = dst.dtype.type(value).item()
        dst.device.launch("typed", "fill", dst.device.spread(dst.size),
                          (dst, number, layout(dst.shape, ((0,) * dst.ndim, dst.steps))),
                          T=kernel_type(dst.dtype))
    return dst


def fill_(dst, value):
    """Every element of dst set to value, in place; returns dst."""
    return assign(dst, value)


def where(cond, a, b):
    """a where cond is true, else b; all three broadcast."""
    dtype = next((v.dtype for v in (a, b) if isinstance(v, DeviceArray)), np.dtype(np.float32))
    mask = cond if cond.dtype.kind == "b" or cond.dtype == np.uint8 else cast(cond, np.bool_)
    arrays = [v for v in (a, b) if isinstance(v, DeviceArray)]
    shape = broadcast_shape("where", mask.shape, *[v.shape for v in arrays])
    _, (a_, b_), numbers, _ = operands("where", dtype, a, b) if arrays else (
        shape, (None, None), [float(a), float(b)], None)
    none = (0,) * len(shape)
    steps = [none if v is None else steps_in(v, shape) for v in (a_, b_, mask)]
    flags = (a_ is None) + 2 * (b_ is None)
    y = cond.device.empty(shape, dtype)
    if y.size:
        cond.device.launch("typed", "where", cond.device.spread(y.size),
                           (mask, a_, b_, y, *numbers, layout(shape, tuple(steps), flags)),
                           T=kernel_type(dtype))
    return y


def where_grad(g, cond, a, b, need):
    """(da, db) of where(cond, a, b): g where cond chose the operand, summed to its shape."""
    from minidl_kernels.device.reduce import sum_to

    da = sum_to(where(cond, g, 0), a.shape) if need[0] and isinstance(a, DeviceArray) else None
    db = sum_to(where(cond, 0, g), b.shape) if need[1] and isinstance(b, DeviceArray) else None
    return da, db


# -------------------------------------------------------------------------------- rearranged

def concatenate(arrays, axis):
    """Arrays of one dtype one after the other along an axis."""
    first = arrays[0]
    total = sum([x.shape[axis] for x in arrays])
    y = first.device.empty((*first.shape[:axis], total, *first.shape[axis + 1:]), first.dtype)
    at = 0
    for x in arrays:
        n = x.shape[axis]
        assign(y[(*[slice(None)] * axis, slice(at, at + n))], x)
        at += n
    return y


def consecutive(arrays, axis, shape):
    """The array of `shape` whose pieces along an axis the arrays already are, or None.

    Attention writes dq, dk and dv into one packed array: putting them together costs nothing.
    """
    first, steps = arrays[0], contiguous_steps(shape)
    if first is None:
        return None
    offset = first.offset
    for x in arrays:
        if x is None or x.block is not first.block or x.offset != offset or [
                n for n, s, step in zip(x.shape, x.steps, steps, strict=True)
                if n != 1 and s != step]:
            return None
        offset += x.shape[axis] * steps[axis]
    total = sum([x.shape[axis] for x in arrays])
    return first._view(tuple(shape), steps) if total == shape[axis] else None


def stack(arrays, axis):
    """Arrays of one shape and dtype side by side along a new axis."""
    return concatenate([x[(*[slice(None)] * axis, None)] for x in arrays], axis)


def flip(x, axes):
    """x with the order along some axes reversed, as a copy."""
    axes = (axes,) if isinstance(axes, int) else axes
    key = [slice(None, None, -1 if d in axes else 1) for d in range(x.ndim)]
    return copy(x[tuple(key)])


def roll(x, shifts, axes):
    """x shifted along axes; what falls off one end comes in at the other. axes None: flat."""
    if axes is None:
        return roll(contiguous(x).reshape((-1,)), (shifts,), (0,)).reshape(x.shape)
    for by, axis in zip(shifts, axes, strict=True):
        n = x.shape[axis]
        if n and by % n:
            lead = (slice(None),) * axis
            x = concatenate([x[(*lead, slice(n - by % n, n))], x[(*lead, slice(0, n - by % n))]],
                            axis)
    return contiguous(x)


def _band(x, low, high):
    x = contiguous(x)
    y = x.device.empty(x.shape, x.dtype)
    if y.size:
        x.device.launch("typed", "band", x.device.spread(y.size),
                        (x, y, *x.shape[-2:], low, high, y.size), T=kernel_type(x.dtype))
    return y


def tril(x, k=0):
    """The last two axes from diagonal k down; the rest is zero."""
    return _band(x, -2**31, max(min(k, 2**31 - 1), -2**31))


def triu(x, k=0):
    """The last two axes from diagonal k up; the rest is zero."""
    return _band(x, max(min(k, 2**31 - 1), -2**31), 2**31 - 1)


def arange_like(x, first, step, n):
    """first, first + step, ... as n elements of x's dtype on its device."""
    y = x.device.empty((n,), x.dtype)
    if n:
        x.device.launch("typed", "arange", x.device.spread(n), (y, first, step, n),
                        T=kernel_type(x.dtype))
    return y


# ---------------------------------------------------------------------------------- by index

def one_hot(x, n):
    """Class ids as rows of n zeros with a one, int64; ids out of range give zeros."""
    from minidl_kernels.device.elementwise import eq

    return cast(eq(x[..., None], arange_like(x, 0, 1, n)), np.int64)


def take_rows(x, idx, name="take_rows"):
    """x[idx] for an integer array idx. x [V, ...], idx [...] -> [*idx.shape, *x.shape[1:]]"""
    x, idx = contiguous(x), contiguous(_int64(idx, x.device))
    y = x.device.empty((*idx.shape, *x.shape[1:]), x.dtype)
    if y.size:
        width = y.size // idx.size
        x.device.launch("typed", "take_rows", x.device.spread(y.size),
                        (x, idx, y, x.device.fault, y.size, width, x.shape[0],
                         FAULTS.index(name)), T=kernel_type(x.dtype))
    return y


def _int64(idx, device):
    """An index as int64 on a device; arrays of the host are copied to it."""
    if not isinstance(idx, DeviceArray):
        return device.array(np.asarray(idx, np.int64))
    return idx if idx.dtype == np.int64 else cast(idx, np.int64)


def embedding(weight, idx):
    """weight[idx]. weight [V, C], idx [...] -> [..., C]"""
    return take_rows(weight, idx, "embedding")


def embedding_grad(g, idx, V, padding_idx):
    """dweight[v] = sum of g where idx is v, 0 for padding_idx. g [..., C] -> dweight [V, C]"""
    dweight = assign(g.device.empty((V, g.shape[-1]), g.dtype), 0)
    return _add_rows(dweight, idx, g, -1 if padding_idx is None else padding_idx, "embedding_grad")


def index_add_rows(dst, idx, src):
    """dst[idx[r]] += src[r] for every r, in place; returns dst. dst [V, C], idx [N], src [N, C]"""
    return _add_rows(dst, idx, src, -1, "index_add_rows")


def _add_rows(dst, idx, src, skip, name):
    idx, src = contiguous(_int64(idx, dst.device)), contiguous(src)
    if not dst.contiguous:
        raise ValueError(f"{name}: the array that is added to must be contiguous")
    if src.size:
        dst.device.launch("typed", "add_rows", (idx.size, 1, 1),
                          (dst, idx, src, dst.device.fault, idx.size, src.size // idx.size,
                           dst.shape[0], skip, FAULTS.index(name)), T=kernel_type(dst.dtype))
    return dst


def add_at(values, places, shape):
    """Zeros of `shape` with values[i] added at the flat position places[i], in order of i."""
    out = assign(values.device.empty(tuple(shape), values.dtype), 0)
    _add_rows(out.reshape((-1, 1)), places.reshape((-1,)), values.reshape((-1, 1)), -1, "add_at")
    return out


def gather(x, axis, index):
    """y[i, j] = x[i, index[i, j]] for axis 1, and likewise for any axis."""
    index = _int64(index, x.device)
    y = x.device.empty(index.shape, x.dtype)
    if y.size:
        steps = (*x.steps[:axis], 0, *x.steps[axis + 1:])
        x.device.launch("typed", "gather", x.device.spread(y.size),
                        (index, x, y, x.device.fault, x.shape[axis], x.steps[axis],
                         FAULTS.index("gather"), layout(index.shape, (index.steps, steps))),
                        T=kernel_type(x.dtype))
    return y


def scatter(x, axis, index, src, add):
    """A copy of x with y[i, index[i, j]] = src[i, j] (+= when add) for axis 1; src may be a number.

    What is put twice in one place ends as the last, or added in order of j.
    """
    y, index = copy(x), _int64(index, x.device)
    if not index.size:
        return y
    device = x.device
    device.launch("typed", "check_index", device.spread(index.size),
                  (contiguous(index), device.fault, x.shape[axis], FAULTS.index("scatter"),
                   index.size), T=kernel_type(x.dtype))
    if not isinstance(src, DeviceArray):
        src = broadcast_to(assign(device.empty((1,) * x.ndim, x.dtype), src), index.shape)
    box = (*index.shape[:axis], x.shape[axis], *index.shape[axis + 1:])
    along = tuple([int(d == axis) for d in range(x.ndim)])
    without = [tuple([0 if d == axis else s for d, s in enumerate(a.steps)]) for a in (index, src)]
    at = layout(box, (contiguous_steps(y.shape), along, *without))
    device.launch("typed", "scatter", device.spread(int(np.prod(box))),
                  (y, index, src, index.shape[axis], index.steps[axis], src.steps[axis], int(add),
                   at), T=kernel_type(x.dtype))
    return y
