"""Reductions in NumPy. `axes` is a tuple of non-negative ints, empty for all axes."""

import numpy as np


def _axes(x, axes):
    return tuple(axes) if len(axes) else tuple(range(x.ndim))


def _sum_type(x):
    """PyTorch adds and multiplies bools and integers as int64."""
    return x.dtype if x.dtype.kind not in "biu" else np.dtype("int64")


def sum(x, axes, keepdim):
    """Sum over `axes`; bools and integers give int64."""
    return np.asarray(np.sum(x, _axes(x, axes), dtype=_sum_type(x), keepdims=keepdim))


def mean(x, axes, keepdim):
    """Mean over `axes`; NaN over no elements."""
    axes = _axes(x, axes)
    n = np.prod([x.shape[a] for a in axes])
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.sum(x, axes, keepdims=keepdim) / x.dtype.type(n))


def prod(x, axes, keepdim):
    """Product over `axes`; bools and integers give int64."""
    return np.asarray(np.prod(x, _axes(x, axes), dtype=_sum_type(x), keepdims=keepdim))


def amax(x, axes, keepdim):
    """Largest element over `axes`, NaN where there is one."""
    return _extreme(np.max, x, axes, keepdim, "amax")


def amin(x, axes, keepdim):
    """Smallest element over `axes`, NaN where there is one."""
    return _extreme(np.min, x, axes, keepdim, "amin")


def _extreme(reduce, x, axes, keepdim, name):
    axes = _axes(x, axes)
    if any(x.shape[a] == 0 for a in axes):
        if 0 not in [n for a, n in enumerate(x.shape) if a not in axes]:
            raise IndexError(f"{name}: an axis of size 0 has no extreme value, "
                             f"input shape {x.shape}")
        return np.sum(x, axes, dtype=x.dtype, keepdims=keepdim)
    return np.asarray(reduce(x, axes, keepdims=keepdim))


def argmax(x, axis):
    """Index of the first largest element (the first NaN where there is one) as int64."""
    return np.asarray(np.argmax(x, axis), "int64")


def argmin(x, axis):
    """Index of the first smallest element (the first NaN where there is one) as int64."""
    return np.asarray(np.argmin(x, axis), "int64")


def var(x, axes, keepdim, correction):
    """sum((x - mean)^2) / (n - correction) over `axes`."""
    axes = _axes(x, axes)
    left = max(0.0, np.prod([x.shape[a] for a in axes]) - correction)
    squares = (x - mean(x, axes, True)) ** 2
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.sum(squares, axes, keepdims=keepdim) / x.dtype.type(left))


def logsumexp(x, axes, keepdim):
    """log(sum(exp(x))) over `axes`, around the largest finite element."""
    axes = _axes(x, axes)
    top = np.max(x, axes, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0).astype(x.dtype)
    with np.errstate(divide="ignore", over="ignore"):
        y = np.log(np.sum(np.exp(x - top), axes, keepdims=True)) + top
    return y if keepdim else np.asarray(np.squeeze(y, axes))


def sqsum(x):
    """Sum of the squares of all elements."""
    return np.asarray(np.sum(x * x, dtype=_sum_type(x)))


def cumsum(x, axis):
    """Running sum along axis; bools and integers give int64."""
    return np.cumsum(x, axis, dtype=_sum_type(x)).reshape(x.shape)
