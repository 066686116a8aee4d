"""Reductions over any axes. `axes` is a tuple of non-negative ints, empty for all axes.

An array is seen as [outer, n, inner] with n reduced; other orders of axes are copied into it first.
Long reductions are cut into chunks whose number depends on the shape only.
"""

import math

import numpy as np

from minidl_kernels.device.layout import kernel_type
from minidl_kernels.device.move import assign, cast, contiguous, copy

__all__ = ["all", "amax", "amin", "any", "argmax", "argmin", "count_nonzero", "cumsum", "logsumexp",
           "mean", "prod", "sqsum", "sum", "sum_to", "var"]

_F32, _INT64, _BOOL = np.dtype(np.float32), np.dtype(np.int64), np.dtype(np.bool_)
_BLOCKS = 64  # below this many blocks a long reduction is cut into chunks
_EMPTY = {"_sum": 0, "_sqsum": 0, "_count": 0, "_prod": 1, "_any": 0, "_all": 1}


def _kept(x, axes, keepdim):
    """The axes to reduce, and the shape of the result."""
    axes = tuple(axes) if len(axes) else tuple(range(x.ndim))
    if keepdim:
        return axes, tuple([1 if d in axes else n for d, n in enumerate(x.shape)])
    return axes, tuple([n for d, n in enumerate(x.shape) if d not in axes])


def _arranged(x, axes, last=False):
    """(contiguous array, outer, n, inner) with the reduced axes together, or last."""
    axes = sorted(axes)
    n = math.prod([x.shape[d] for d in axes])
    if axes and axes[-1] - axes[0] == len(axes) - 1 and x.contiguous:
        inner = math.prod(x.shape[axes[-1] + 1:])
        if inner == 1 or not last:
            return x, math.prod(x.shape[:axes[0]]), n, inner
    rest = [d for d in range(x.ndim) if d not in axes]
    return contiguous(x.transpose([*rest, *axes])), math.prod([x.shape[d] for d in rest]), n, 1


def _chunks(blocks, n, least):
    """(length, number) of the chunks of a reduction of n elements."""
    if blocks >= _BLOCKS or n < 2 * least:
        return n, 1
    number = min(-(-n // least), -(-2 * _BLOCKS // blocks), 128)
    length = -(-n // number)
    return length, -(-n // length)


def _reduce(op, x, axes, keepdim, result=None, divisor=1):
    """x reduced by one of the operations of reduce.c."""
    axes, shape = _kept(x, axes, keepdim)
    result = result or x.dtype
    if math.prod(shape) == 0:
        return x.device.empty(shape, result)
    x, outer, n, inner = _arranged(x, axes)
    if n == 0:
        y = assign(x.device.empty(shape, result), _EMPTY[op])
        return assign(y, np.nan) if divisor != 1 else y
    return _passes(op, x, outer, n, inner, result, divisor).reshape(shape)


def _passes(op, x, outer, n, inner, result, divisor):
    """One launch, or two where chunks are reduced again."""
    device = x.device
    types = {"T": kernel_type(x.dtype), "A": kernel_type(result), "OP": op}
    lines = outer * inner
    if inner == 1:
        length, number = _chunks(outer, n, 4096)
        grid = (outer, number, 1)
    else:
        length, number = _chunks(-(-lines // 256), n, 512)
        grid = (-(-lines // 256), number, 1)
    y = device.empty((outer, number, inner), result)
    last = divisor if number == 1 else 1
    if inner == 1:
        device.launch("reduce", "reduce_rows", grid, (x, y, n, length, number, last), **types)
    else:
        device.launch("reduce", "reduce_columns", grid,
                      (x, y, lines, n, inner, length, number, last), **types)
    if number == 1:
        return y
    again = {"_sqsum": "_sum", "_count": "_sum"}.get(op, op)
    return _passes(again, y, outer, number, inner, result, divisor)


def _sum_type(x):
    return _INT64 if x.dtype.kind in "biu" else x.dtype


def sum(x, axes, keepdim):
    """Sum over `axes`; bools and integers give int64."""
    return _reduce("_sum", x, axes, keepdim, _sum_type(x))


def mean(x, axes, keepdim):
    """Mean over `axes`; NaN over no elements."""
    n = math.prod([x.shape[a] for a in axes]) if len(axes) else x.size
    return _reduce("_sum", x, axes, keepdim, divisor=n)


def prod(x, axes, keepdim):
    """Product over `axes`; bools and integers give int64."""
    return _reduce("_prod", x, axes, keepdim, _sum_type(x))


def _extreme(op, name, x, axes, keepdim):
    axes_, shape = _kept(x, axes, keepdim)
    if 0 in [x.shape[a] for a in axes_] and math.prod(shape):
        raise IndexError(f"{name}: an axis of size 0 has no extreme value, input shape {x.shape}")
    return _reduce(op, x, axes, keepdim)


def amax(x, axes, keepdim):
    """Largest element over `axes`, NaN where there is one."""
    return _extreme("_amax", "amax", x, axes, keepdim)


def amin(x, axes, keepdim):
    """Smallest element over `axes`, NaN where there is one."""
    return _extreme("_amin", "amin", x, axes, keepdim)


def any(x, axes, keepdim):
    """Whether some element over `axes` is not zero."""
    return _reduce("_any", x, axes, keepdim, _BOOL)


def all(x, axes, keepdim):
    """Whether every element over `axes` is not zero."""
    return _reduce("_all", x, axes, keepdim, _BOOL)


def count_nonzero(x, axes):
    """How many elements over `axes` are not zero, as int64."""
    return _reduce("_count", x, axes, False, _INT64)


def sqsum(x):
    """Sum of the squares of all elements."""
    return _reduce("_sqsum", x, (), False, _sum_type(x))


def sum_to(g, shape):
    """g summed back to `shape`, which must broadcast to g's shape; g itself when it is the same."""
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if g.shape == shape:
        return g
    lead = g.ndim - len(shape)
    if lead < 0 or [n for n, m in zip(shape, g.shape[lead:], strict=True) if n not in (1, m)]:
        raise ValueError(f"sum_to: shape {shape} does not broadcast to g's shape {g.shape}")
    axes = tuple([d for d, n in enumerate(g.shape)
                  if d < lead or (shape[d - lead] == 1 and n != 1)])
    return (_reduce("_sum", g, axes, False) if axes else g).reshape(shape)


# ----------------------------------------------------------------- rows: one block of a row

def _rows(file_kernel, x, axes, keepdim, result, *args, **macros):
    axes, shape = _kept(x, axes, keepdim)
    y = x.device.empty(shape, result)
    if y.size:
        x, outer, n, _ = _arranged(x, axes, last=True)
        x.device.launch("reduce", file_kernel, (outer, 1, 1), (x, y, n, *args), **macros)
    return y


def _argument(name, x, axis, smallest):
    if axis is None:
        x, axis = contiguous(x).reshape((-1,)), 0
    if x.shape[axis] == 0:
        raise ValueError(f"{name}: axis {axis} of shape {x.shape} is empty")
    kind = kernel_type(x.dtype)
    return _rows("arg_rows", x, (axis,), False, _INT64, smallest, T=kind, A=kind)


def argmax(x, axis):
    """Index of the first largest element (the first NaN where there is one) as int64."""
    return _argument("argmax", x, axis, 0)


def argmin(x, axis):
    """Index of the first smallest element (the first NaN where there is one) as int64."""
    return _argument("argmin", x, axis, 1)


def var(x, axes, keepdim, correction):
    """sum((x - mean)^2) / (n - correction) over `axes`."""
    n = math.prod([x.shape[a] for a in axes]) if len(axes) else x.size
    if n == 0:
        return mean(x, axes, keepdim)
    return _rows("var_rows", x, axes, keepdim, _F32, max(0.0, n - correction), T="float",
                 A="float", FLOATING=1)


def logsumexp(x, axes, keepdim):
    """log(sum(exp(x))) over `axes`, around the largest finite element."""
    if 0 in [x.shape[a] for a in _kept(x, axes, keepdim)[0]]:
        return assign(_reduce("_sum", x, axes, keepdim), -np.inf)
    return _rows("logsumexp_rows", x, axes, keepdim, _F32, T="float", A="float", FLOATING=1)


def cumsum(x, axis):
    """Running sum along axis; bools and integers give int64."""
    result = _sum_type(x)
    if x.size == 0 or x.ndim == 0:
        return copy(x) if result == x.dtype else cast(x, result)
    rows = contiguous(x.swapaxes(axis, -1))
    y = x.device.empty(rows.shape, result)
    n = rows.shape[-1]
    x.device.launch("reduce", "cumsum_rows", (rows.size // n, 1, 1), (rows, y, n),
                    T=kernel_type(x.dtype), A=kernel_type(result))
    return contiguous(y.swapaxes(axis, -1))
