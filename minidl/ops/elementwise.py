"""Elementwise ops: arithmetic, functions of one tensor, comparisons and logic.

The formulas live in minidl_kernels/scalar.h and reference/elementwise.py. A kernel `exp` comes with
`exp_grad(g, saved)`, where saved is the input x or the result y; a kernel `mul` of two operands
with `mul_grad(g, a, b, need)`, whose results have the operands' shapes.
"""

import numpy as np

from minidl import dtypes, errors
from minidl._core import Tensor, inplace, op
from minidl._methods import TensorMethods
from minidl_kernels import EXACT, HOST

_F32 = np.dtype(np.float32)
_Array = np.ndarray


def backend_for(dtype):
    """The host backend that computes a NumPy dtype."""
    return HOST if dtype == _F32 else EXACT


def floating(x, name):
    """An integer or bool array as the default floating dtype (exp of integers and the like)."""
    return x if x.dtype.kind == "f" else EXACT.cast(x, dtypes.get_default_dtype().numpy)


def _register(fn, name, doc, **options):
    fn.__name__ = fn.__qualname__ = name
    fn.__doc__ = doc
    return op(fn, **options)


# ----------------------------------------------------------------------------- one operand

def unary(name, saved, doc):
    """The op of a kernel of one operand whose gradient needs the saved "x" or "y"."""
    name_grad = name + "_grad"
    saves_y = saved == "y"

    def fn(be, input):
        if input.dtype.kind != "f":
            input = floating(input, name)
            be = backend_for(input.dtype)
        y = getattr(be, name)(input)
        s = y if saves_y else input
        return y, lambda g, need: getattr(be, name_grad)(g, s)

    return _register(fn, name, doc)


def rounding(name, doc):
    """The op of a step function: its gradient is zero and integers pass unchanged."""
    def fn(be, input):
        if input.dtype.kind == "b":
            raise errors.UnsupportedError(f"{name}: not defined for bool tensors")
        if input.dtype.kind != "f":
            return EXACT.copy(input), None
        y = getattr(be, name)(input)
        return y, lambda g, need: be.zeros(g.shape, g.dtype)

    return _register(fn, name, doc)


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
logsigmoid = unary("logsigmoid", "x", "log(sigmoid(x)).")
erf = unary("erf", "x", "The error function.")
silu = unary("silu", "x", "x * sigmoid(x).")
gelu_erf = unary("gelu", "x", "x * Phi(x), exact.")
gelu_tanh = unary("gelu_tanh", "x", "x * Phi(x) by the tanh approximation.")
softplus_unit = unary("softplus", "x", "log(1 + exp(x)).")
reciprocal = unary("reciprocal", "y", "1 / x.")
floor = rounding("floor", "The largest integer not above x.")
ceil = rounding("ceil", "The smallest integer not below x.")
trunc = rounding("trunc", "x without its fraction.")
sign = rounding("sign", "-1, 0 or 1.")


def _same_kind(name, saved, doc):
    """A unary op that keeps integers as they are (neg, abs, square, relu)."""
    name_grad = name + "_grad"
    saves_y = saved == "y"

    def fn(be, input):
        if input.dtype.kind == "b":
            raise errors.UnsupportedError(f"{name}: not defined for bool tensors; convert with "
                                          ".int() or use logical_not")
        y = getattr(be, name)(input)
        s = y if saves_y else input
        return y, lambda g, need: getattr(be, name_grad)(g, s)

    return _register(fn, name, doc)


neg = _same_kind("neg", "y", "-x.")
abs = _same_kind("abs", "x", "The absolute value.")
square = _same_kind("square", "x", "x * x.")
relu = _same_kind("relu", "y", "max(x, 0).")


@op
def round(be, input, decimals=0):
    """Rounds half to even, to `decimals` places."""
    if input.dtype.kind != "f":
        return EXACT.copy(input), None
    if decimals == 0:
        y = be.round(input)
    else:
        y = EXACT.cast(np.round(input, decimals), input.dtype)
    return y, lambda g, need: be.zeros(g.shape, g.dtype)


# ---------------------------------------------------------------------------- two operands

def promote(name, a, b, float_result=False):
    """Two operands (arrays or numbers) as arrays of their common dtype, and its backend."""
    try:
        dtype = dtypes.result_type(a, b)
    except errors.DTypeError as error:
        raise errors.DTypeError(f"{name}: {error}") from None
    if float_result and not dtype.is_floating_point:
        dtype = dtypes.get_default_dtype()
    if dtype in (dtypes.float16, dtypes.bfloat16):
        raise errors.DTypeError(f"{name}: {dtype.name} is a storage dtype; convert with .float()")
    return backend_for(dtype.numpy), as_array(a, dtype.numpy), as_array(b, dtype.numpy)


def as_array(x, dtype):
    """x, an array or a number, as an array of `dtype` (integers wrap around as in C)."""
    if not isinstance(x, _Array):
        x = np.asarray(x)
    return x if x.dtype == dtype else x.astype(dtype)


def check_broadcast(name, a, b):
    """Raise a sentence when two shapes do not broadcast."""
    for m, n in zip(reversed(np.shape(a)), reversed(np.shape(b)), strict=False):
        if m != n and m != 1 and n != 1:
            raise errors.ShapeError(f"{name}: shapes {np.shape(a)} and {np.shape(b)} do not "
                                    f"broadcast ({m} against {n})")


def binary(name, doc, saves=True, float_result=False, differentiable=True):
    """The op of a kernel of two operands; `saves` when the gradient needs their values."""
    name_grad = name + "_grad"

    def fn(be, input, other):
        a, b = input, other
        dtype_a = a.dtype if type(a) is _Array else None
        dtype_b = b.dtype if type(b) is _Array else None
        if not (dtype_a is _F32 and (dtype_b is _F32 or type(b) is float)
                or dtype_b is _F32 and type(a) is float):
            be, a, b = promote(name, a, b, float_result)
        try:
            y = getattr(be, name)(a, b)
        except ValueError:
            check_broadcast(name, a, b)
            raise
        if not differentiable or y.dtype.kind != "f":
            return y, None
        if saves:
            grad = getattr(be, name_grad)
            if dtype_a == dtype_b or dtype_a is None or dtype_b is None:
                return y, lambda g, need: grad(g, a, b, need)
            return y, lambda g, need: cast_back(be, grad(g, a, b, need), (dtype_a, dtype_b))
        return y, linear_vjp(be, np.shape(a), np.shape(b), dtype_a, dtype_b, name == "sub")

    return _register(fn, name, doc)


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


def cast_back(be, grads, dtypes_):
    """Gradients in the dtypes of operands that promotion had converted."""
    return tuple(g if g is None or d is None or g.dtype == d else be.cast(g, d)
                 for g, d in zip(grads, dtypes_, strict=True))


add_op = binary("add", "input + other.", saves=False)
sub_op = binary("sub", "input - other.", saves=False)
mul = binary("mul", "input * other.")
true_divide = binary("div", "input / other.", float_result=True)
pow = binary("pow", "input to the power of other.")
maximum = binary("maximum", "The larger of two, elementwise; NaN wins.")
minimum = binary("minimum", "The smaller of two, elementwise; NaN wins.")
remainder = binary("remainder", "input % other, with the sign of other.")
fmod = binary("fmod", "The remainder with the sign of input.")
floor_divide = binary("floor_divide", "floor(input / other).", differentiable=False)
eq = binary("eq", "input == other, as bool.", differentiable=False)
ne = binary("ne", "input != other, as bool.", differentiable=False)
lt = binary("lt", "input < other, as bool.", differentiable=False)
le = binary("le", "input <= other, as bool.", differentiable=False)
gt = binary("gt", "input > other, as bool.", differentiable=False)
ge = binary("ge", "input >= other, as bool.", differentiable=False)
