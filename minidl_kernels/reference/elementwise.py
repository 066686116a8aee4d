"""Elementwise kernels in NumPy, for any dtype: each op's formula and gradient on one line.

UNARY maps a name to (what the gradient needs: "x" or "y", forward, gradient); BINARY to (forward,
gradient of a, gradient of b). NAME and NAME_grad are made from them with the signatures of the
compiled kernels in cpu/elementwise.pyx.

>>> relu(np.array([-1.0, 2.0]))
array([0., 2.])
"""

import math

import numpy as np


def _sigmoid(x):
    z = np.exp(-np.abs(x))
    return np.where(x < 0, z, 1) / (1 + z)


def _softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _silu_grad(x):
    s = _sigmoid(x)
    return s * (1 + x * (1 - s))


def _erf(x):
    from scipy.special import erf  # a slow import that only these formulas need

    return erf(x)


def _cdf(x):
    """The normal distribution's share below x."""
    from scipy.special import ndtr

    return ndtr(x)


def _gelu_grad(x):
    return _cdf(x) + x * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


def _slope(x):
    """2u of gelu_tanh(x) = x sigmoid(2u), and its derivative."""
    c = math.sqrt(8 / math.pi)
    return c * x * (1 + 0.044715 * x * x), c * (1 + 0.134145 * x * x)


def _gelu_tanh_grad(x):
    w, dw = _slope(x)
    s = _sigmoid(w)
    return s + x * s * (1 - s) * dw


def _step(g, x):
    return np.zeros_like(g)


_UNARY = {
    "exp": ("y", np.exp, lambda g, y: g * y),
    "exp2": ("y", np.exp2, lambda g, y: g * y * math.log(2)),
    "expm1": ("y", np.expm1, lambda g, y: g * (y + 1)),
    "log": ("x", np.log, lambda g, x: g / x),
    "log2": ("x", np.log2, lambda g, x: g / (x * math.log(2))),
    "log10": ("x", np.log10, lambda g, x: g / (x * math.log(10))),
    "log1p": ("x", np.log1p, lambda g, x: g / (x + 1)),
    "sqrt": ("y", np.sqrt, lambda g, y: g / (2 * y)),
    "rsqrt": ("y", lambda x: 1 / np.sqrt(x), lambda g, y: -0.5 * g * y**3),
    "square": ("x", np.square, lambda g, x: g * (2 * x)),
    "cube": ("x", lambda x: x * x * x, lambda g, x: g * (3 * x * x)),
    "reciprocal": ("y", lambda x: 1 / x, lambda g, y: -g * y * y),
    "tanh": ("y", np.tanh, lambda g, y: g * (1 - y * y)),
    "sigmoid": ("y", _sigmoid, lambda g, y: g * ((1 - y) * y)),
    "logsigmoid": ("x", lambda x: np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x))),
                   lambda g, x: g * _sigmoid(-x)),
    "softplus": ("x", _softplus, lambda g, x: g * _sigmoid(x)),
    "silu": ("x", lambda x: x * _sigmoid(x), lambda g, x: g * _silu_grad(x)),
    "relu": ("y", lambda x: np.where(x < 0, 0, x), lambda g, y: np.where(y <= 0, 0, g)),
    "erf": ("x", _erf, lambda g, x: g * (2 / math.sqrt(math.pi) * np.exp(-x * x))),
    "gelu": ("x", lambda x: x * _cdf(x), lambda g, x: g * _gelu_grad(x)),
    "gelu_tanh": ("x", lambda x: x * _sigmoid(_slope(x)[0]), lambda g, x: g * _gelu_tanh_grad(x)),
    "neg": ("x", np.negative, lambda g, x: -g),
    "abs": ("x", np.abs, lambda g, x: g * np.nan_to_num(np.sign(x))),
    "sign": ("x", lambda x: np.nan_to_num(np.sign(x)), _step),
    "floor": ("x", np.floor, _step),
    "ceil": ("x", np.ceil, _step),
    "round": ("x", np.rint, _step),
    "trunc": ("x", np.trunc, _step),
    "sin": ("x", np.sin, lambda g, x: g * np.cos(x)),
    "cos": ("x", np.cos, lambda g, x: -g * np.sin(x)),
}


def _remainder(a, b):
    r = np.fmod(a, b)  # np.remainder would give zeros the sign of b
    return np.where((r != 0) & ((r < 0) != (b < 0)), r + b, r)


def _pow(a, b):
    if np.result_type(a, b).kind != "i" or not np.any(np.less(b, 0)):
        return np.power(a, b)
    y = np.power(a, np.maximum(b, 0))  # 1 / a**-b rounded to an integer: 0 but for 1 and -1
    return np.where((b >= 0) | (a == 1), y, np.where(a == -1, 1 - 2 * (b & 1), 0))


def _pow_da(g, a, b):
    return np.where(b == 0, 0, g * (b * np.power(a, b - 1)))


def _pow_db(g, a, b):
    return np.where((a == 0) & (b >= 0), 0, g * (np.power(a, b) * np.log(a)))


_BINARY = {
    "add": (np.add, lambda g, a, b: g, lambda g, a, b: g),
    "sub": (np.subtract, lambda g, a, b: g, lambda g, a, b: -g),
    "mul": (np.multiply, lambda g, a, b: g * b, lambda g, a, b: g * a),
    "div": (np.true_divide, lambda g, a, b: g / b, lambda g, a, b: -g * ((a / b) / b)),
    "pow": (_pow, _pow_da, _pow_db),
    "maximum": (np.maximum, lambda g, a, b: np.where(a < b, 0, np.where(a == b, g / 2, g)),
                lambda g, a, b: np.where(a > b, 0, np.where(a == b, g / 2, g))),
    "minimum": (np.minimum, lambda g, a, b: np.where(a > b, 0, np.where(a == b, g / 2, g)),
                lambda g, a, b: np.where(a < b, 0, np.where(a == b, g / 2, g))),
    "fmod": (np.fmod, lambda g, a, b: g, lambda g, a, b: -g * np.trunc(a / b)),
    "remainder": (_remainder, lambda g, a, b: g, lambda g, a, b: -g * np.floor_divide(a, b)),
    "floor_divide": (np.floor_divide, lambda g, a, b: _step(g, a), lambda g, a, b: _step(g, b)),
}


def sum_to(g, shape):
    """g summed back to `shape`, which must broadcast to g's shape; g itself when it is the same."""
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    lead = g.ndim - len(shape)
    if lead < 0 or any(n not in (1, m) for n, m in zip(shape, g.shape[lead:], strict=True)):
        raise ValueError(f"sum_to: shape {shape} does not broadcast to g's shape {g.shape}")
    if g.shape == shape:
        return g
    axes = tuple(i for i in range(g.ndim) if i < lead or shape[i - lead] != g.shape[i])
    wide = np.float32 if g.itemsize == 2 else g.dtype  # a bfloat16 sum of ones ends at 256
    total = np.asarray(g.sum(axes, keepdims=True, dtype=wide)).reshape(shape)
    return total.astype(g.dtype, copy=False)


def _like(y, x):
    """y as an array, in the dtype of x when that is a floating one."""
    y = np.asarray(y)
    return y.astype(x.dtype, copy=False) if x.dtype.kind == "f" else y


def _unary(name, saves, forward, gradient):
    def kernel(x, /):
        with np.errstate(all="ignore"):
            return _like(forward(x), x)

    def kernel_grad(g, saved, /):
        if g.shape != saved.shape:
            raise ValueError(f"{name}_grad: g has shape {g.shape} and {saves} {saved.shape}, "
                             "expected the same")
        with np.errstate(all="ignore"):
            return _like(gradient(g, saved), g)

    kernel.__doc__ = f"{name} of x, element by element."
    kernel_grad.__doc__ = f"The gradient of y = {name}(x), from g and {saves}."
    return kernel, kernel_grad


def _check_integers(name, a, b):
    """What has no answer in integers."""
    if np.result_type(a, b).kind in "iub":
        if name in ("floor_divide", "remainder", "fmod") and not np.all(b):
            raise ZeroDivisionError(f"{name}: integer division by zero")
        if name == "pow" and not isinstance(b, np.ndarray) and b < 0:
            raise ValueError("pow: integers to a negative integer power are not allowed")


def _binary(name, forward, da, db):
    def kernel(a, b, /):
        _check_integers(name, a, b)
        try:
            with np.errstate(all="ignore"):
                return np.asarray(forward(a, b))
        except ValueError:
            raise ValueError(f"{name}: shapes {np.shape(a)} and {np.shape(b)} do not broadcast"
                             ) from None

    def kernel_grad(g, a, b, need, /):
        if g.shape != np.broadcast_shapes(np.shape(a), np.shape(b)):
            raise ValueError(f"{name}_grad: got an array of shape {g.shape} where the operands "
                             f"have {np.shape(a)} and {np.shape(b)}")
        with np.errstate(all="ignore"):
            return tuple(
                sum_to(_like(d(g, a, b), g), x.shape) if n and isinstance(x, np.ndarray) else None
                for d, x, n in zip((da, db), (a, b), need, strict=True))

    kernel.__doc__ = f"{name} of a and b with broadcasting."
    kernel_grad.__doc__ = f"(da, db) of {name}(a, b); None where need is False."
    return kernel, kernel_grad


UNARY = {name: saves for name, (saves, _, _) in _UNARY.items()}
BINARY = tuple(_BINARY)
for _name, _entry in [*_UNARY.items(), *_BINARY.items()]:
    _make = _unary if _name in UNARY else _binary
    for _fn, _full in zip(_make(_name, *_entry), (_name, _name + "_grad"), strict=True):
        _fn.__name__ = _fn.__qualname__ = _full
        globals()[_full] = _fn


def where(cond, a, b):
    """a where cond is true, else b; all three broadcast."""
    return np.asarray(np.where(cond, a, b))


def where_grad(g, cond, a, b, need):
    """(da, db) of where(cond, a, b): g where cond chose the operand, summed to its shape."""
    parts = (np.where(cond, g, 0), np.where(cond, 0, g))
    return tuple(sum_to(_like(d, g), x.shape) if n and isinstance(x, np.ndarray) else None
                 for d, x, n in zip(parts, (a, b), need, strict=True))


def lerp(a, b, weight):
    """a + weight (b - a), from the nearer end; all three broadcast."""
    near = np.abs(weight) < 0.5
    return np.asarray(np.where(near, a + weight * (b - a), b - (b - a) * (1 - weight)))


def lerp_grad(g, a, b, weight, need):
    """(da, db, dweight) of lerp(a, b, weight), each summed to its operand's shape."""
    parts = (g * (1 - weight), g * weight, g * (b - a))
    return tuple(sum_to(_like(d, g), x.shape) if n and isinstance(x, np.ndarray) else None
                 for d, x, n in zip(parts, (a, b, weight), need, strict=True))


def clamp(x, lo, hi):
    """min(max(x, lo), hi); None for a limit that is not there."""
    y = x if lo is None else np.maximum(x, lo)
    return _like(y if hi is None else np.minimum(y, hi), x) + 0


def clamp_grad(g, x, lo, hi):
    """g where lo <= x <= hi, else 0."""
    inside = (x >= (-math.inf if lo is None else lo)) & (x <= (math.inf if hi is None else hi))
    return np.where(inside, g, g.dtype.type(0))


def add_(dst, src):
    """dst += src in place, src broadcast to dst's shape; returns dst."""
    return np.add(dst, src, out=dst, casting="same_kind")


def fill_(dst, value):
    """Every element of dst set to value, in place; returns dst."""
    dst.fill(value)
    return dst


__all__ = [*UNARY, *(f"{n}_grad" for n in UNARY), *BINARY, *(f"{n}_grad" for n in BINARY), "BINARY",
           "UNARY", "add_", "clamp", "clamp_grad", "fill_", "lerp", "lerp_grad", "sum_to", "where",
           "where_grad"]
