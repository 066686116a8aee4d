"""Random tensors: new ones, draws from distributions, and tensors filled in place."""

import numpy as np

from minidl import dtypes, errors
from minidl._core import Tensor, grad_enabled, inplace, op, overwrite
from minidl._methods import TensorMethods
from minidl.ops.create import named, placed, shape_of, where_of
from minidl.ops.device import backend_at, backend_on, on_host
from minidl.ops.dims import check_memory_format, integer
from minidl.ops.generator import (
    Generator,
    chosen,
    default_generator,
    integer_array,
    normal_array,
    uniform_array,
)
from minidl_kernels import EXACT, HOST

__all__ = ["Generator", "bernoulli", "default_generator", "get_rng_state", "initial_seed",
           "manual_seed", "multinomial", "normal", "rand", "rand_like", "randint", "randint_like",
           "randn", "randn_like", "randperm", "seed", "set_rng_state"]

def manual_seed(seed):
    """Seed the default generator and return it."""
    return default_generator.manual_seed(seed)


def seed():
    """Seed the default generator from the operating system, and return the seed."""
    return default_generator.seed()


def initial_seed():
    """The seed of the default generator."""
    return default_generator.initial_seed()


def get_rng_state():
    """The state of the default generator."""
    return default_generator.get_state()


def set_rng_state(new_state):
    """Set the state of the default generator."""
    default_generator.set_state(new_state)


# --------------------------------------------------------------------------------- new tensors

def floating(name, dtype):
    """The NumPy dtype of random floating-point numbers."""
    d = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype, name)
    if not d.is_floating_point:
        raise errors.DTypeError(f"{name}: expected a floating-point dtype, got {d.name}")
    return d.numpy


def rand(*size, generator=None, dtype=None, device=None, requires_grad=False, **given):
    """Uniform numbers in [0, 1).

    >>> md.rand(2, 3).shape
    (2, 3)
    """
    be, shape = backend_on("rand", device), shape_of("rand", named(size, given))
    return Tensor(uniform_array(shape, floating("rand", dtype), generator, be),
                  requires_grad=requires_grad)


def randn(*size, generator=None, dtype=None, device=None, requires_grad=False, **given):
    """Normal numbers with mean 0 and variance 1.

    >>> md.randn(2, 3).shape
    (2, 3)
    """
    be, shape = backend_on("randn", device), shape_of("randn", named(size, given))
    return Tensor(normal_array(shape, floating("randn", dtype), generator, be),
                  requires_grad=requires_grad)


def randint(low, high=None, size=None, *, generator=None, dtype=dtypes.int64, device=None,
            requires_grad=False):
    """Integers in [low, high); randint(high, size) starts at 0.

    >>> md.randint(10, (2, 3)).shape, md.randint(5, 6, (2,))
    ((2, 3), tensor([5, 5]))
    """
    be = backend_on("randint", device)
    if size is None and not isinstance(high, (int, np.integer, Tensor)):
        low, high, size = 0, low, high
    elif high is None:
        low, high = 0, low
    if size is None:
        raise TypeError("randint: misses the size, as in randint(10, (2, 3))")
    values = integer_array("randint", low, high, shape_of("randint", (size,)), generator, be)
    wanted = dtypes.as_dtype(dtype, "randint").numpy
    return Tensor(values if wanted == np.int64 else be.cast(values, wanted),
                  requires_grad=requires_grad)


def randperm(n, *, generator=None, dtype=dtypes.int64, device=None, requires_grad=False):
    """A random order of 0 to n - 1.

    >>> sorted(md.randperm(4).tolist())
    [0, 1, 2, 3]
    """
    be = backend_on("randperm", device)
    n = integer("randperm", n, "n")
    if n < 0:
        raise errors.ArgumentError(f"randperm: n must not be negative, got {n}")
    keys = HOST.bits64(n, *chosen(generator).reserve(n, 2))
    order = np.argsort(keys, kind="stable")
    return Tensor(placed(be, EXACT.cast(order, dtypes.as_dtype(dtype, "randperm").numpy)),
                  requires_grad=requires_grad)


def _checked_like(input, name, memory_format=None):
    check_memory_format(name, memory_format)
    if not isinstance(input, Tensor):
        raise TypeError(f"{name}: expected a tensor, got {type(input).__name__}")
    return input


def rand_like(input, *, dtype=None, device=None, requires_grad=False, generator=None,
              memory_format=None):
    """rand() in the tensor's shape and dtype."""
    x = _checked_like(input, "rand_like", memory_format)
    return rand(x.shape, dtype=dtype or x.dtype, device=where_of(x, device),
                requires_grad=requires_grad, generator=generator)


def randn_like(input, *, dtype=None, device=None, requires_grad=False, generator=None,
               memory_format=None):
    """randn() in the tensor's shape and dtype."""
    x = _checked_like(input, "randn_like", memory_format)
    return randn(x.shape, dtype=dtype or x.dtype, device=where_of(x, device),
                 requires_grad=requires_grad, generator=generator)


def randint_like(input, low, high=None, *, dtype=None, device=None, requires_grad=False,
                 generator=None, memory_format=None):
    """randint() in the tensor's shape and dtype."""
    x = _checked_like(input, "randint_like", memory_format)
    low, high = (0, low) if high is None else (low, high)
    return randint(low, high, x.shape, dtype=dtype or x.dtype, device=where_of(x, device),
                   requires_grad=requires_grad, generator=generator)


# -------------------------------------------------------------------------------- distributions

def probabilities(name, p):
    """An array of probabilities, or a sentence."""
    if p.dtype.kind != "f":
        raise errors.DTypeError(f"{name}: probabilities must be floating-point, got {p.dtype}")
    if p.size and not (p.min() >= 0 and p.max() <= 1):
        raise errors.ArgumentError(f"{name}: probabilities must be between 0 and 1")
    return p


@op(method=False, name="bernoulli")
def drawn(be, input, p, generator):
    """0 or 1, 1 with probability p (or input's own elements when p is None)."""
    p = probabilities("bernoulli", on_host(input if p is None else p))
    wide = uniform_array(np.broadcast_shapes(input.shape, p.shape), np.float64, generator)
    y = placed(backend_at(input), EXACT.cast(wide < p, input.dtype))
    return y, lambda g, need: be.zeros(g.shape, g.dtype)


def bernoulli(input, p=None, *, generator=None):
    """1 with probability input[i] (or p), else 0.

    >>> md.bernoulli(md.tensor([0.0, 1.0]))
    tensor([0., 1.])
    """
    p = np.asarray(p, np.float64) if isinstance(p, (int, float)) else p
    return drawn(input, p, generator)


def multinomial(input, num_samples, replacement=False, *, generator=None):
    """Positions drawn with probability proportional to the weights in each row.

    >>> md.multinomial(md.tensor([0.0, 1.0, 0.0]), 2, replacement=True)
    tensor([1, 1])
    """
    w = on_host(_checked_like(input, "multinomial").array)
    w = w.astype(np.float32) if input.dtype.name == "bfloat16" else w  # NumPy calls it no float
    n = integer("multinomial", num_samples, "num_samples")
    if w.dtype.kind != "f" or not 1 <= w.ndim <= 2 or w.shape[-1] == 0:
        raise errors.ArgumentError("multinomial: expected floating-point weights of one or two "
                                   f"dimensions, got {w.dtype} of shape {w.shape}")
    if n < 1 or (not replacement and n > w.shape[-1]):
        raise errors.ArgumentError(f"multinomial: cannot draw {n} samples from {w.shape[-1]} "
                                   "categories" + ("" if replacement else " without replacement"))
    rows = w.reshape(-1, w.shape[-1]).astype(np.float64)
    if rows.size and not (np.isfinite(rows).all() and rows.min() >= 0):
        raise errors.ArgumentError("multinomial: weights must be finite and not negative")
    if rows.size and (rows.sum(1) <= 0).any():
        raise errors.ArgumentError("multinomial: a row of weights sums to 0")
    if replacement:
        edges = np.cumsum(rows, 1)
        u = uniform_array((len(rows), n), np.float64, generator) * edges[:, -1:]
        found = np.array([np.searchsorted(e, x, side="right") for e, x in zip(edges, u,
                                                                                 strict=True)])
        out = np.minimum(found, rows.shape[1] - 1)
    else:
        # the smallest of exponential variables with rates w: their order is the draw
        u = uniform_array(rows.shape, np.float64, generator)
        with np.errstate(divide="ignore"):
            times = np.where(rows > 0, -np.log1p(-u) / rows, np.inf)
        out = np.argsort(times, 1, kind="stable")[:, :n]
    drawn = EXACT.cast(out.reshape((*w.shape[:-1], n)), np.int64)
    return Tensor(placed(backend_at(input.array), drawn))


def normal(mean=0.0, std=1.0, size=None, *, generator=None, dtype=None, device=None,
           requires_grad=False):
    """Normal numbers of the given mean and standard deviation, each a number or a tensor.

    >>> md.normal(0.0, 1.0, (2, 3)).shape
    (2, 3)
    """
    std_given = isinstance(std, Tensor)
    be = backend_on("normal", where_of(std if std_given else mean, device))
    low = on_host(std.array).min(initial=0) if std_given else std
    if low < 0:
        raise errors.ArgumentError(f"normal: std must not be negative, got {low}")
    tensors = [x for x in (mean, std) if isinstance(x, Tensor)]
    if size is None and not tensors:
        raise TypeError("normal: misses the size, as in normal(0.0, 1.0, (2, 3))")
    if tensors:
        dtype = dtype or dtypes.result_type(*tensors)
    shape = np.broadcast_shapes(*[x.shape for x in tensors]) if size is None \
        else shape_of("normal", (size,))
    z = normal_array(shape, floating("normal", dtype), generator, be)
    mean, std = [x.array if isinstance(x, Tensor) else z.dtype.type(x) for x in (mean, std)]
    return Tensor(be.cast(z * std + mean, z.dtype), requires_grad=requires_grad)


# -------------------------------------------------------------------------------------- in place

@op(method=False)
def replaced(be, input, values):
    """New values that owe nothing to the old ones: the gradient is zero."""
    return values, lambda g, need: be.zeros(g.shape, g.dtype)


def refill(self, name, values):
    """Write random values over a tensor, in memory and graph."""
    if self.requires_grad and grad_enabled():
        be = backend_at(self.array)
        return inplace(replaced, self, Tensor(be.cast(placed(be, values), self.array.dtype)))
    return overwrite(self, name, values)


def _float_only(self, name):
    if not self.dtype.is_floating_point:
        raise errors.DTypeError(f"{name}: expected a floating-point tensor, got {self.dtype.name}")
    return self.array.dtype if self.array.dtype == np.float64 else np.dtype(np.float32)


def uniform_(self, from_=0.0, to=1.0, *, generator=None, **given):
    """Overwrite with uniform numbers in [from, to)."""
    low = given.pop("from", from_)
    if given:
        raise TypeError(f"uniform_: unknown argument '{next(iter(given))}'")
    if not low <= to:
        raise errors.ArgumentError(f"uniform_: expected from <= to, got {low} and {to}")
    u = uniform_array(self.shape, _float_only(self, "uniform_"), generator,
                      backend_at(self.array))
    return refill(self, "uniform_", u * u.dtype.type(to - low) + u.dtype.type(low))


def normal_(self, mean=0.0, std=1.0, *, generator=None):
    """Overwrite with normal numbers."""
    if std < 0:
        raise errors.ArgumentError(f"normal_: std must not be negative, got {std}")
    z = normal_array(self.shape, _float_only(self, "normal_"), generator, backend_at(self.array))
    return refill(self, "normal_", z * z.dtype.type(std) + z.dtype.type(mean))


def bernoulli_(self, p=0.5, *, generator=None):
    """Overwrite with 1 with probability p, else 0."""
    p = on_host(p.array) if isinstance(p, Tensor) else np.asarray(p, np.float64)
    u = uniform_array(self.shape, np.float64, generator)
    return refill(self, "bernoulli_", u < probabilities("bernoulli_", p))


def random_(self, from_=0, to=None, *, generator=None, **given):
    """Overwrite with integers in [from, to); without `to`, all that the dtype holds exactly."""
    low = given.pop("from", from_)
    if given:
        raise TypeError(f"random_: unknown argument '{next(iter(given))}'")
    if to is None and low:
        low, to = 0, low
    if to is None:
        exact = {"bool": 1, "uint8": 8, "int32": 31, "int64": 63, "float32": 24, "float64": 53,
                 "float16": 11, "bfloat16": 8}
        to = 2 ** exact[self.dtype.name]
    return refill(self, "random_", integer_array("random_", low, to, self.shape, generator))


def exponential_(self, lambd=1.0, *, generator=None):
    """Overwrite with exponential numbers of rate lambd."""
    if not lambd > 0:
        raise errors.ArgumentError(f"exponential_: lambd must be positive, got {lambd}")
    _float_only(self, "exponential_")
    u = uniform_array(self.shape, np.float64, generator)
    return refill(self, "exponential_", -np.log1p(-u) / lambd)


for _fn in (uniform_, normal_, bernoulli_, random_, exponential_, bernoulli, multinomial):
    setattr(TensorMethods, _fn.__name__, _fn)
