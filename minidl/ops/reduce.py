"""Reductions over any dims: sums, means, extremes, norms.

Kernels take a tuple of dims counted from the front; empty means all of them.
"""

import numpy as np

from minidl import dtypes, errors
from minidl._core import Tensor, op
from minidl._methods import TensorMethods
from minidl.ops.dims import axes, axis
from minidl.ops.promotion import backend_for, raw

__all__ = ["count_nonzero", "cumsum", "logsumexp", "mean", "norm", "prod", "std", "std_mean", "sum",
           "var", "var_mean"]


# ----------------------------------------------------------------------------------------- doors

def reduced(name, x, dim):
    """The dims to reduce, counted from the front; None and () stand for all."""
    found = axes(name, None if dim == () or dim == [] else dim, x.ndim)
    return found if x.ndim else ()


def spread(g, dims, ndim, keepdim):
    """The gradient of a reduction with its reduced dims back, of size 1."""
    if keepdim or len(dims) == ndim:
        return g                        # of all dims: one number, which broadcasts as it is
    shape = list(g.shape)
    for d in sorted(dims):
        shape.insert(d, 1)
    return g.reshape(shape)


def converted(name, be, x, dtype):
    """x as the dtype= of a reduction, and the backend that computes it."""
    wanted = dtypes.as_dtype(dtype, name).numpy
    if wanted == x.dtype:
        return be, x
    return backend_for(wanted, x), be.cast(x, wanted)


def summable(name, be, x, dtype):
    """As `converted`; without a dtype= integers and bools add up in int64."""
    if dtype is None and x.dtype.kind in "iub":
        dtype = dtypes.int64
    return (be, x) if dtype is None else converted(name, be, x, dtype)


def as_dtype(be, y, dtype):
    """A result in the dtype asked for: kernels add up narrow integers and bools in int64."""
    return y if y.dtype == dtype else be.cast(y, dtype)


def floating(name, be, x, dtype=None):
    """As `converted`; without a dtype= the tensor must be a floating-point one."""
    if dtype is not None:
        be, x = converted(name, be, x, dtype)
    if x.dtype.kind != "f":
        raise errors.DTypeError(f"{name}: expected a floating-point tensor, got {x.dtype}; "
                                "convert with .float()")
    return be, x


def nonempty(name, x, dims):
    """Refuse to look for the extreme of nothing."""
    for d in dims or range(x.ndim):
        if x.shape[d] == 0:
            raise errors.DimensionError(f"{name}: dim {d} of shape {x.shape} is empty, it has no "
                                        "largest or smallest element")


# ------------------------------------------------------------------------------------------ sums

@op
def sum(be, input, dim=None, keepdim=False, dtype=None):
    """The sum over dims; of integers and bools in int64.

    >>> md.ones(2, 3).sum(dim=1)
    tensor([3., 3.])
    """
    shape, before, x = input.shape, input.dtype, input
    dims = tuple(range(len(shape))) if dim is None else reduced("sum", input, dim)
    if dtype is not None or before.kind != "f":
        be, x = summable("sum", be, input, dtype)
    ndim = len(shape)

    def vjp(g, need):
        dx = be.broadcast_to(spread(g, dims, ndim, keepdim), shape)
        return dx if dx.dtype == before else be.cast(dx, before)

    y = be.sum(x, dims, keepdim)
    return y if y.dtype is x.dtype else as_dtype(be, y, x.dtype), vjp


@op
def mean(be, input, dim=None, keepdim=False, dtype=None):
    """The mean over dims.

    >>> md.tensor([[1.0, 2.0], [3.0, 4.0]]).mean(0)
    tensor([2., 3.])
    """
    dims, shape, before = reduced("mean", input, dim), input.shape, input.dtype
    be, x = floating("mean", be, input, dtype)
    ndim, y = x.ndim, be.mean(x, dims, keepdim)
    n = x.size // y.size if y.size else 1

    def vjp(g, need):
        each = be.mul(spread(g, dims, ndim, keepdim), g.dtype.type(1 / n if n else 0))
        dx = be.broadcast_to(each, shape)
        return dx if dx.dtype == before else be.cast(dx, before)

    return y, vjp


@op
def logsumexp(be, input, dim, keepdim=False):
    """log(sum(exp(x))) over dims, without overflow.

    >>> md.zeros(2).logsumexp(0)
    tensor(0.6931)
    """
    dims, ndim = reduced("logsumexp", input, dim), input.ndim
    if input.dtype.kind != "f":
        be, input = converted("logsumexp", be, input, dtypes.get_default_dtype())
    y = be.logsumexp(input, dims, keepdim)

    def vjp(g, need):
        with np.errstate(invalid="ignore"):         # an infinite result has no gradient: inf - inf
            weight = np.exp(input - spread(y, dims, ndim, keepdim))
        return be.mul(spread(g, dims, ndim, keepdim), weight)

    return y, vjp


@op
def cumsum(be, input, dim, dtype=None):
    """The running sum along a dim.

    >>> md.tensor([1, 2, 3]).cumsum(0)
    tensor([1, 3, 6])
    """
    d, before = axis("cumsum", dim, input.ndim), input.dtype
    be, x = summable("cumsum", be, input, dtype)
    if x.ndim == 0:
        return be.copy(x), lambda g, need: g if g.dtype == before else be.cast(g, before)

    def vjp(g, need):
        dx = np.flip(be.cumsum(be.contiguous(np.flip(g, d)), d), d)
        return be.contiguous(dx) if dx.dtype == before else be.cast(dx, before)

    return as_dtype(be, be.cumsum(x, d), x.dtype), vjp


@op
def prod(be, input, dim=None, keepdim=False, dtype=None):
    """The product over a dim, or of all elements.

    >>> md.tensor([2, 3, 4]).prod()
    tensor(24)
    """
    dims, shape, before = reduced("prod", input, dim), input.shape, input.dtype
    if isinstance(dim, (tuple, list)):
        raise TypeError(f"prod: dim must be one integer, got {dim}")
    be, x = summable("prod", be, input, dtype)
    y = as_dtype(be, be.prod(x, dims, keepdim), x.dtype)

    def vjp(g, need):
        wide = spread(g, dims, len(shape), keepdim)
        with np.errstate(divide="ignore", invalid="ignore"):
            dx = wide * spread(y, dims, len(shape), keepdim) / x
        if not x.all():
            dx = wide * others(x, dims)
        dx = np.broadcast_to(dx, shape)
        return be.cast(dx, before)

    return y, vjp


def others(x, dims):
    """For each element the product of all others in its slice: right where some are zero."""
    rows = np.moveaxis(x, dims, range(-len(dims), 0)) if dims else x
    flat = rows.reshape((*rows.shape[:rows.ndim - len(dims)], -1))
    one = np.zeros_like(flat[..., :1]) + x.dtype.type(1)
    left = np.cumprod(np.concatenate([one, flat[..., :-1]], -1), -1)
    right = np.cumprod(np.concatenate([one, flat[..., :0:-1]], -1), -1)[..., ::-1]
    out = (left * right).reshape(rows.shape)
    return np.moveaxis(out, range(-len(dims), 0), dims) if dims else out


@op
def count_nonzero(be, input, dim=None):
    """How many elements are not zero, over dims.

    >>> md.tensor([0, 1, 2]).count_nonzero()
    tensor(2)
    """
    dims = reduced("count_nonzero", input, dim)
    return raw(np.count_nonzero(input, dims or None)).astype(np.int64), None


# -------------------------------------------------------------------------------------- variance

@op(method=False, name="var")
def variance(be, input, dims, correction, keepdim):
    """sum((x - mean)^2) / (n - correction), n - correction not below 0."""
    be, x = floating("var", be, input)
    y = be.var(x, dims, keepdim, correction)
    n = x.size // y.size if y.size else 1
    scale = 2 / (n - correction) if n > correction else np.nan

    def vjp(g, need):
        wide = spread(g, dims, x.ndim, keepdim)
        centred = be.sub(x, be.mean(x, dims, True))
        return be.mul(be.mul(centred, x.dtype.type(scale)), wide)

    return y, vjp


@op(method=False)
def deviation(be, input):
    """The square root of a variance, with gradient 0 where all elements were equal."""
    y = be.sqrt(input)

    def vjp(g, need):
        return be.where(raw(y == 0), np.zeros((), y.dtype), be.sqrt_grad(g, y))

    return y, vjp


def _var(input, degrees):
    """The variance; of what overflows when squared, by way of a power of two."""
    found = variance(input, *degrees)
    if _overflowed(found):
        found = variance(input * 2.0**-80, *degrees) * 2.0**80 * 2.0**80
    return found


def _std(input, degrees):
    found = variance(input, *degrees)
    if _overflowed(found):
        return deviation(variance(input * 2.0**-80, *degrees)) * 2.0**80
    return deviation(found)


def _overflowed(x):
    return x.dtype is dtypes.float32 and not np.isfinite(x.detach().numpy()).all()


def _degrees(name, input, dim, unbiased, correction, keepdim):
    """The dims and the correction of torch.var's overloads."""
    if isinstance(dim, bool):  # var(unbiased)
        dim, unbiased = None, dim
    if isinstance(unbiased, bool):
        if correction is not None:
            raise TypeError(f"{name}: give unbiased or correction, not both")
        correction = int(unbiased)
    elif unbiased is not None:
        raise TypeError(f"{name}: unbiased must be a bool, got {unbiased!r}")
    if not isinstance(input, Tensor):
        raise TypeError(f"{name}: expected a tensor, got {type(input).__name__}")
    if not input.dtype.is_floating_point:
        raise errors.DTypeError(f"{name}: expected a floating-point tensor, got "
                                f"{input.dtype.name}; convert with .float()")
    return reduced(name, input, dim), 1 if correction is None else correction, bool(keepdim)


def var(input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    """The variance over dims, divided by n - correction (1 unless given).

    >>> md.tensor([1.0, 3.0]).var()
    tensor(2.)
    """
    return _var(input, _degrees("var", input, dim, unbiased, correction, keepdim))


def std(input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    """The square root of the variance."""
    return _std(input, _degrees("std", input, dim, unbiased, correction, keepdim))


def var_mean(input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    """(variance, mean) over dims."""
    found = _degrees("var_mean", input, dim, unbiased, correction, keepdim)
    return _var(input, found), mean(input, found[0], found[2])


def std_mean(input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    """(standard deviation, mean) over dims."""
    found = _degrees("std_mean", input, dim, unbiased, correction, keepdim)
    return _std(input, found), mean(input, found[0], found[2])


# ----------------------------------------------------------------------------------------- norms

def shared(be, g, x, y, dims, keepdim, nans=False):
    """The gradient of an extreme, shared evenly over the elements that reach it."""
    ndim = x.ndim
    hit = raw(x == spread(y, dims, ndim, keepdim))
    if nans:
        hit = hit | np.isnan(x)
    count = hit.sum(dims or None, keepdims=True).astype(x.dtype)
    with np.errstate(divide="ignore", invalid="ignore"):
        each = raw(spread(g, dims, ndim, keepdim) / count)
    return be.mul(be.cast(hit, x.dtype), each)


@op(method=False, name="norm")
def vector_norm(be, input, p, dims, keepdim):
    """(sum |x|^p)^(1/p); p = inf, -inf are the extremes of |x|, p = 0 counts the nonzero."""
    x, ndim = input, input.ndim
    if p in (np.inf, -np.inf):
        nonempty("norm", x, dims)
        size = be.abs(x)
        y = (be.amax if p > 0 else be.amin)(size, dims, keepdim)
        return y, lambda g, need: be.mul(shared(be, g, size, y, dims, keepdim), be.sign(x))
    if p == 0:
        y = be.sum(be.cast(x != 0, x.dtype), dims, keepdim)
        return y, lambda g, need: be.zeros(x.shape, x.dtype)
    if p == 1:
        y = be.sum(be.abs(x), dims, keepdim)
        return y, lambda g, need: be.mul(be.sign(x), spread(g, dims, ndim, keepdim))
    if p == 2:
        y = np.sqrt(be.sum(be.square(x), dims, keepdim))
    else:
        y = be.sum(be.pow(be.abs(x), p), dims, keepdim) ** x.dtype.type(1 / p)
    y = raw(y)

    def vjp(g, need):
        wide = spread(y, dims, ndim, keepdim)
        with np.errstate(divide="ignore", invalid="ignore"):
            dx = x / wide if p == 2 else np.sign(x) * (np.abs(x) / wide) ** x.dtype.type(p - 1)
        dx = np.where((wide == 0) | ((x == 0) & (p < 2)), x.dtype.type(0), dx)
        return be.mul(dx, spread(g, dims, ndim, keepdim))

    return y, vjp


def norm(input, p="fro", dim=None, keepdim=False, dtype=None):
    """The vector norm over dims: (sum |x|^p)^(1/p), p = 2 unless given.

    >>> md.tensor([3.0, 4.0]).norm()
    tensor(5.)
    """
    if dtype is not None:
        input = input.to(dtype)
    if p == "nuc" or (isinstance(p, str) and p != "fro"):
        raise errors.UnsupportedError(f"norm: p={p!r} is not supported; use a number or 'fro'")
    if not input.dtype.is_floating_point:
        raise errors.DTypeError(f"norm: expected a floating-point tensor, got {input.dtype.name}; "
                                "convert with .float()")
    return vector_norm(input, 2.0 if p is None or p == "fro" else float(p),
                       reduced("norm", input, dim), bool(keepdim))


for _fn in (var, std, norm):
    setattr(TensorMethods, _fn.__name__, _fn)
