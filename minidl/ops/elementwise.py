"""Elementwise ops: arithmetic, functions of one tensor, comparisons, choices.

The formulas live in minidl_kernels/scalar.h and reference/elementwise.py. A kernel `exp` comes with
`exp_grad(g, saved)`, where saved is the input x or the result y; a kernel `mul` of two operands
with `mul_grad(g, a, b, need)`, whose results have the operands' shapes.
"""

import numpy as np

from minidl import dtypes, errors
from minidl._core import Tensor, op
from minidl.ops.promotion import (
    as_array,
    backend_for,
    cast_back,
    check_broadcast,
    check_integers,
    check_tensors,
    element,
    floating,
    promote,
)
from minidl_kernels import ARRAYS, HOST

__all__ = [
    "abs", "absolute", "add", "bitwise_and", "bitwise_or", "bitwise_xor", "ceil", "clamp", "clip",
    "cos", "div", "divide", "eq", "erf", "exp", "exp2", "expm1", "floor", "floor_divide", "fmod",
    "ge", "gelu", "greater", "greater_equal", "gt", "le", "lerp", "less", "less_equal", "log",
    "log10", "log1p", "log2", "logsigmoid", "lt", "maximum", "minimum", "mul", "multiply", "ne",
    "neg", "negative", "not_equal", "pow", "reciprocal", "relu", "remainder", "round", "rsqrt",
    "sigmoid", "sign", "silu", "sin", "softplus", "sqrt", "square", "sub", "subtract", "tanh",
    "true_divide", "trunc", "where",
]

_F32 = np.dtype(np.float32)
_Array, _Device = ARRAYS


def register(fn, name, doc, **options):
    fn.__name__ = fn.__qualname__ = name
    fn.__doc__ = doc
    return op(fn, **options)


# ----------------------------------------------------------------------------- one operand

def unary(name, saved, doc, integers=True):
    """The op of a kernel of one operand whose gradient needs the saved "x" or "y"."""
    name_grad = name + "_grad"
    saves_y = saved == "y"

    def fn(be, input):
        if input.dtype.kind != "f":
            if not integers:
                raise errors.DTypeError(f"{name}: expected a floating-point tensor, got "
                                        f"{input.dtype.name}; convert with .float()")
            input = floating(input)
            be = backend_for(input.dtype, input)
        y = getattr(be, name)(input)
        s = y if saves_y else input
        return y, lambda g, need: getattr(be, name_grad)(g, s)

    return register(fn, name, doc)


def rounding(name, doc):
    """The op of a step function: its gradient is zero and integers pass unchanged."""
    def fn(be, input):
        if input.dtype.kind == "b" and name != "sign":
            raise errors.UnsupportedError(f"{name}: not defined for bool tensors")
        if input.dtype.kind != "f":
            whole = name != "sign" or input.dtype.kind == "b"
            return be.copy(input) if whole else be.copy(np.sign(input)), None
        y = getattr(be, name)(input)
        return y, lambda g, need: be.zeros(g.shape, g.dtype)

    return register(fn, name, doc)


exp = unary("exp", "y", "e to the power of each element.")
exp2 = unary("exp2", "y", "2 to the power of each element.")
expm1 = unary("expm1", "y", "exp(x) - 1, accurate near zero.")
log = unary("log", "x", "Natural logarithm.")
log2 = unary("log2", "x", "Logarithm to base 2.")
log10 = unary("log10", "x", "Logarithm to base 10.")
log1p = unary("log1p", "x", "log(1 + x), accurate near zero.")
sqrt = unary("sqrt", "y", "Square root.")
rsqrt = unary("rsqrt", "y", "1 / sqrt(x).")
sin = unary("sin", "x", "Sine.")
cos = unary("cos", "x", "Cosine.")
tanh = unary("tanh", "y", "Hyperbolic tangent.")
sigmoid = unary("sigmoid", "y", "1 / (1 + exp(-x)).")
logsigmoid = unary("logsigmoid", "x", "log(sigmoid(x)).", integers=False)
erf = unary("erf", "x", "The error function.")
silu = unary("silu", "x", "x * sigmoid(x).", integers=False)
gelu_erf = unary("gelu", "x", "x * Phi(x), exact.", integers=False)
gelu_tanh = unary("gelu_tanh", "x", "x * Phi(x) by the tanh approximation.", integers=False)
softplus_unit = unary("softplus", "x", "log(1 + exp(x)).", integers=False)
reciprocal = unary("reciprocal", "y", "1 / x.")
floor = rounding("floor", "The largest integer not above x.")
ceil = rounding("ceil", "The smallest integer not below x.")
trunc = rounding("trunc", "x without its fraction.")
sign = rounding("sign", "-1, 0 or 1.")


def _same_kind(name, saved, doc):
    """A unary op that keeps integers as they are (neg, abs, square, relu); it may save nothing."""
    name_grad = name + "_grad"
    saves_y = saved == "y"

    def fn(be, input):
        if input.dtype.kind == "b":
            if name != "square":
                raise errors.UnsupportedError(f"{name}: not defined for bool tensors; convert with "
                                              ".int() or use logical_not")
            input = input.astype(np.int64)
        y = getattr(be, name)(input)
        if not saved:
            return y, lambda g, need: getattr(be, name)(g)
        s = y if saves_y else input
        return y, lambda g, need: getattr(be, name_grad)(g, s)

    return register(fn, name, doc)


neg = _same_kind("neg", "", "-x.")
abs = _same_kind("abs", "x", "The absolute value.")
square = _same_kind("square", "x", "x * x.")
relu = _same_kind("relu", "y", "max(x, 0).")


@op
def round(be, input, decimals=0):
    """Rounds half to even, to `decimals` places."""
    if input.dtype.kind != "f":
        return be.copy(input), None
    y = be.round(input) if decimals == 0 else be.copy(np.round(input, decimals))
    return y, lambda g, need: be.zeros(g.shape, g.dtype)


# ---------------------------------------------------------------------------- two operands

def binary(name, doc, saves=True, float_result=False, differentiable=True, numbers="any"):
    """The op of a kernel of two operands; `saves` when the gradient needs their values.

    `numbers` says which operands may be Python numbers: "any", "one", "second" or "none".
    """
    name_grad = name + "_grad"
    scales = name in ("mul", "div")

    def fn(be, input, other):
        a, b = input, other
        dtype_a = a.dtype if type(a) is _Array or type(a) is _Device else None
        dtype_b = b.dtype if type(b) is _Array or type(b) is _Device else None
        if dtype_a is None or dtype_b is None:
            check_tensors(name, dtype_a is None, dtype_b is None, numbers)
        if not ((dtype_a is _F32 and (dtype_b is _F32 or type(b) is float))
                or (dtype_b is _F32 and type(a) is float)):
            be, a, b = promote(name, a, b, float_result)
            if a.dtype.kind != "f" or name == "sub":
                check_integers(name, input, other, a.dtype)
        try:
            y = getattr(be, name)(a, b)
        except ValueError:
            check_broadcast(name, np.shape(a), np.shape(b))
            raise
        if not differentiable or y.dtype.kind != "f":
            return y, None
        if dtype_b is None and scales:  # by a number: the gradient needs no tensor
            scale = getattr(be, name)
            return y, lambda g, need: scale(g, b)
        if dtype_a is None and name == "mul":
            return y, lambda g, need: (None, be.mul(g, a))
        if saves:
            grad = getattr(be, name_grad)
            if dtype_a == dtype_b or dtype_a is None or dtype_b is None:
                return y, lambda g, need: grad(g, a, b, need)
            return y, lambda g, need: cast_back(be, grad(g, a, b, need), (dtype_a, dtype_b))
        return y, linear_vjp(be, np.shape(a), np.shape(b), dtype_a, dtype_b, name == "sub")

    if not differentiable:
        return register(fn, name, doc)
    return register(fn, name, doc, kernel=name,
                    kernel_vjp=None if saves else _sub_vjp if name == "sub" else _add_vjp)


def _add_vjp(g, need):
    """Of a + b for operands of one shape."""
    return g, g


def _sub_vjp(g, need):
    return g, HOST.neg(g) if need[1] else None


def linear_vjp(be, shape_a, shape_b, dtype_a, dtype_b, negative):
    """The gradient of a + b or a - b, which needs no values: g summed back to each shape."""
    def vjp(g, need):
        da = db = None
        if need[0]:
            da = be.sum_to(g, shape_a)
        if need[1]:
            db = be.sum_to(g, shape_b)
            if negative:
                db = be.neg(db)
        if dtype_a != dtype_b:
            da, db = cast_back(be, (da, db), (dtype_a, dtype_b))
        return da, db

    return vjp


_add = binary("add", "input + other.", saves=False)
_sub = binary("sub", "input - other.", saves=False)
_div = binary("div", "input / other, true division.", float_result=True)
mul = binary("mul", "input * other.")
pow = binary("pow", "input to the power of other.", numbers="one")
maximum = binary("maximum", "The larger of two, elementwise; NaN wins.", numbers="none")
minimum = binary("minimum", "The smaller of two, elementwise; NaN wins.", numbers="none")
remainder = binary("remainder", "input % other, with the sign of other.", numbers="one")
fmod = binary("fmod", "The remainder with the sign of input.", numbers="second")
floor_divide = binary("floor_divide", "floor(input / other).", differentiable=False)
eq = binary("eq", "input == other, as bool.", differentiable=False, numbers="second")
ne = binary("ne", "input != other, as bool.", differentiable=False, numbers="second")
lt = binary("lt", "input < other, as bool.", differentiable=False, numbers="second")
le = binary("le", "input <= other, as bool.", differentiable=False, numbers="second")
gt = binary("gt", "input > other, as bool.", differentiable=False, numbers="second")
ge = binary("ge", "input >= other, as bool.", differentiable=False, numbers="second")
bitwise_and = binary("bitwise_and", "input & other.", differentiable=False, numbers="one")
bitwise_or = binary("bitwise_or", "input | other.", differentiable=False, numbers="one")
bitwise_xor = binary("bitwise_xor", "input ^ other.", differentiable=False, numbers="one")


def add(input, other, *, alpha=1):
    """input + alpha * other.

    >>> import minidl as md
    >>> md.add(md.ones(2), 1.0)
    tensor([2., 2.])
    """
    return _add(input, other) if alpha == 1 else _add(input, _scaled("add", input, other, alpha))


def sub(input, other, *, alpha=1):
    """input - alpha * other."""
    return _sub(input, other) if alpha == 1 else _sub(input, _scaled("sub", input, other, alpha))


def _scaled(name, input, other, alpha):
    """alpha * other, where a fractional alpha is not for integers."""
    kinds = [x.dtype.category for x in (input, other) if isinstance(x, Tensor)]
    if isinstance(alpha, float) and max(kinds, default=2) < 2:
        raise errors.DTypeError(f"{name}: alpha={alpha} is fractional and the tensors are integers")
    return mul(other, alpha)


def div(input, other, *, rounding_mode=None):
    """input / other; rounding_mode None, "floor" or "trunc"."""
    if rounding_mode is None:
        return _div(input, other)
    if rounding_mode == "floor":
        return floor_rounded_divide(input, other)
    if rounding_mode != "trunc":
        raise errors.ArgumentError(f"div: rounding_mode must be None, 'floor' or 'trunc', got "
                                   f"{rounding_mode!r}")
    return trunc_divide(input, other)


@op(method=False)
def floor_rounded_divide(be, input, other):
    """floor(input / other), with a gradient of zero where floor_divide has none."""
    y, _ = floor_divide.fn(be, input, other)
    shapes = np.shape(input), np.shape(other)
    return y, lambda g, need: tuple(be.zeros(s, g.dtype) for s in shapes)


@op(method=False)
def trunc_divide(be, input, other):
    """input / other rounded towards zero; integers stay integers."""
    be, a, b = promote("div", input, other)
    if a.dtype.kind == "f":
        y = be.trunc(be.div(a, b))
        shapes = np.shape(input), np.shape(other)
        return y, lambda g, need: tuple(be.zeros(s, g.dtype) for s in shapes)
    quotient = be.floor_divide(a, b)
    inexact = (quotient * b != a) & (quotient < 0)
    return quotient + inexact.astype(a.dtype), None


# -------------------------------------------------------------------------------- three operands

@op
def clamp(be, input, min=None, max=None):
    """input cut to [min, max]; each a number, a tensor or None.

    >>> import minidl as md
    >>> md.tensor([-2.0, 0.5, 3.0]).clamp(0, 1)
    tensor([0.0000, 0.5000, 1.0000])
    """
    if min is None and max is None:
        raise errors.ArgumentError("clamp: at least one of min and max must be given")
    arrays = [x for x in (input, min, max) if x is not None]
    dtype = dtypes.result_type(*arrays).numpy
    be = backend_for(dtype, *arrays)
    x = as_array(input, dtype)
    if any(isinstance(b, (_Array, _Device)) for b in (min, max)):
        return _clamp_tensors(be, x, *(None if b is None else as_array(b, dtype)
                                       for b in (min, max)))
    if dtype.kind != "f":
        limits = [None if b is None else element("clamp", b, dtype) for b in (min, max)]
        return be.copy(np.clip(x, *limits)), None
    lo = -np.inf if min is None else float(min)
    hi = np.inf if max is None else float(max)
    y = be.clamp(x, lo, hi)
    return y, lambda g, need: cast_back(be, (be.clamp_grad(g, x, lo, hi),), (input.dtype,))


def _clamp_tensors(be, x, lo, hi):
    """Clamp with tensor bounds: gradients go to whichever of the three was chosen."""
    check_broadcast("clamp", x.shape, *(b.shape for b in (lo, hi) if b is not None))
    y = x if lo is None else be.maximum(x, lo)
    y = y if hi is None else be.minimum(y, hi)

    def vjp(g, need):
        low = np.zeros((), bool) if lo is None else x < lo
        high = np.zeros((), bool) if hi is None else (np.maximum(x, lo) if lo is not None
                                                      else x) > hi
        zero = g.dtype.type(0)
        parts = (np.where(low | high, zero, g), np.where(low & ~high, zero + g, zero),
                 np.where(high, g, zero))
        return tuple(None if a is None or not n else be.sum_to(p, a.shape)
                     for p, a, n in zip(parts, (x, lo, hi), need, strict=False))

    return y, vjp


@op(method=False)
def _where(be, condition, input, other):
    """input where condition holds, other elsewhere."""
    if condition.dtype.kind != "b":
        raise errors.DTypeError(f"where: the condition must be a bool tensor, got "
                                f"{condition.dtype.name}")
    be, a, b = promote("where", input, other)
    for x in (input, other):
        if not isinstance(x, (_Array, _Device)):
            element("where", x, a.dtype)
    check_broadcast("where", condition.shape, a.shape, b.shape)
    y = be.where(condition, a, b)
    shape_a, shape_b = a.shape, b.shape
    kinds = tuple(getattr(x, "dtype", None) for x in (input, other))

    def vjp(g, need):
        zero = np.zeros((), g.dtype)
        da = be.sum_to(be.where(condition, g, zero), shape_a) if need[1] else None
        db = be.sum_to(be.where(condition, zero, g), shape_b) if need[2] else None
        return (None, *cast_back(be, (da, db), kinds))

    return y, vjp


def where(condition, input=None, other=None):
    """input where condition holds, other elsewhere; with one argument, the indices of True.

    >>> import minidl as md
    >>> md.where(md.tensor([True, False]), 1.0, 2.0)
    tensor([1., 2.])
    """
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)
    return _where(condition, input, other)


def lerp(input, end, weight):
    """input + weight * (end - input)."""
    if (isinstance(weight, Tensor) and weight.dtype != input.dtype) or end.dtype != input.dtype:
        raise errors.DTypeError("lerp: input, end and weight must have one dtype")
    return input + weight * (end - input)


def softplus(input, beta=1.0, threshold=20.0):
    """log(1 + exp(beta * x)) / beta, x itself where beta * x > threshold."""
    if beta == 1 and threshold == 20:
        return softplus_unit(input)
    scaled = input * beta
    return where(scaled > threshold, input, softplus_unit(scaled) / beta)


def gelu(input, approximate="none"):
    """x * Phi(x); approximate="tanh" is GPT-2's form."""
    if approximate == "none":
        return gelu_erf(input)
    if approximate == "tanh":
        return gelu_tanh(input)
    raise errors.ArgumentError(f"gelu: approximate must be 'none' or 'tanh', got {approximate!r}")


# PyTorch's second names.
absolute, negative, clip = abs, neg, clamp
subtract, multiply, divide, true_divide = sub, mul, div, _div
greater, greater_equal, less, less_equal, not_equal = gt, ge, lt, le, ne
