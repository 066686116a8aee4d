"""Elementwise kernels: every formula of scalar.h for float32, and what integers and bools can do.

NAME and NAME_grad have the signatures of cpu/elementwise.pyx; operands may be numbers.
"""

import numpy as np

from minidl_kernels.device.array import DeviceArray
from minidl_kernels.device.layout import kernel_type, layout, operands, same_device, steps_in
from minidl_kernels.device.move import contiguous
from minidl_kernels.device.reduce import sum_to
from minidl_kernels.reference.elementwise import BINARY, UNARY

_F32, _BOOL = np.dtype(np.float32), np.dtype(np.bool_)
_COMPARE = ("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor")
_INTEGER = ("add", "sub", "mul", "maximum", "minimum", "fmod", "remainder", "floor_divide",
            "bitwise_and", "bitwise_or", "bitwise_xor")
_INTEGER_UNARY = ("neg", "abs", "sign", "square", "relu", "bitwise_not")
_TESTS = ("isnan", "isinf", "isfinite", "logical_not")


def _flat(name, x, *others):
    """Contiguous arrays of one shape and their device."""
    for y in others:
        if y.shape != x.shape:
            raise ValueError(f"{name}: got arrays of shapes {x.shape} and {y.shape}, expected the "
                             "same")
    return same_device(name, x, *others), *[contiguous(y) for y in (x, *others)]


def _need_float(name, *arrays):
    for x in arrays:
        if isinstance(x, DeviceArray) and x.dtype != _F32:
            raise TypeError(f"{name}: devices compute it in float32, got {x.dtype}; convert with "
                            ".float()")


# ------------------------------------------------------------------------------- one operand

def _unary(name):
    def kernel(x, /):
        if x.dtype != _F32 and name in _INTEGER_UNARY:
            return _typed_unary(name, x, x.dtype)
        _need_float(name, x)
        device, x = _flat(name, x)
        y = device.empty(x.shape, _F32)
        if y.size:
            device.launch("elementwise", "unary", device.spread(y.size), (x, y, y.size),
                          OP=f"f_{name}", OP_UNARY=1)
        return y

    def kernel_grad(g, saved, /):
        _need_float(name, g, saved)
        device, g, saved = _flat(f"{name}_grad", g, saved)
        d = device.empty(g.shape, _F32)
        if d.size:
            device.launch("elementwise", "unary_grad", device.spread(d.size),
                          (g, saved, d, d.size), OP=f"f_{name}", OP_UNARY=1)
        return d

    return kernel, kernel_grad


def _typed_unary(name, x, dtype):
    device, x = _flat(name, x)
    y = device.empty(x.shape, dtype)
    if y.size:
        device.launch("typed", "typed_unary", device.spread(y.size), (x, y, y.size),
                      T=kernel_type(x.dtype), U=kernel_type(dtype), OP1=f"F1_{name}")
    return y


def bias_activation(name, x, bias):
    """y = NAME(x + bias) in one pass: x [..., C], bias [C], NAME as gelu or relu."""
    device, x = _flat(name, x)
    y = device.empty(x.shape, _F32)
    if y.size:
        device.launch("elementwise", "bias_unary", device.spread(y.size),
                      (x, contiguous(bias), y, y.size, bias.size), OP=f"f_{name}", OP_UNARY=1)
    return y


def bias_activation_grad(name, g, x, bias):
    """g NAME'(x + bias); of formulas whose gradient needs x."""
    if UNARY[name] != "x":
        raise ValueError(f"bias_activation_grad: the gradient of {name} needs its result")
    device, g, x = _flat(name, g, x)
    d = device.empty(x.shape, _F32)
    if d.size:
        device.launch("elementwise", "bias_unary_grad", device.spread(d.size),
                      (g, x, contiguous(bias), d, d.size, bias.size), OP=f"f_{name}", OP_UNARY=1)
    return d


# ------------------------------------------------------------------------------ two operands

def _dtype_of(*values):
    return next(v.dtype for v in values if isinstance(v, DeviceArray))


def _typed_binary(name, a, b, result=None):
    dtype = _dtype_of(a, b)
    shape, arrays, numbers, at = operands(name, dtype, a, b)
    result = result or dtype
    y = same_device(name, *arrays).empty(shape, result)
    if y.size:
        y.device.launch("typed", "typed_binary", y.device.spread(y.size),
                        (*arrays, y, *numbers, at), T=kernel_type(dtype), U=kernel_type(result),
                        OP=f"F_{name}")
    return y


def _binary(name):
    def kernel(a, b, /):
        if _dtype_of(a, b) != _F32 and name in _INTEGER:
            return _typed_binary(name, a, b)
        _need_float(name, a, b)
        shape, arrays, numbers, at = operands(name, _F32, a, b)
        y = same_device(name, *arrays).empty(shape, _F32)
        if y.size:
            y.device.launch("elementwise", "binary", y.device.spread(y.size),
                            (*arrays, y, *numbers, at), OP=f"f_{name}", OP_BINARY=1)
        return y

    def gradient(side, g, a, b):
        shape, arrays, numbers, _ = operands(name, _F32, a, b, g)
        if shape != g.shape:
            raise ValueError(f"{name}_grad: got an array of shape {g.shape} where the operands "
                             f"broadcast to {shape}")
        none = (0,) * len(shape)
        steps = tuple([none if x is None else steps_in(x, shape) for x in arrays])
        flags = (arrays[0] is None) + 2 * (arrays[1] is None)
        d = g.device.empty(shape, _F32)
        if d.size:
            g.device.launch("elementwise", f"binary_{side}", g.device.spread(d.size),
                            (g, *arrays[:2], d, *numbers[:2], layout(shape, steps, flags)),
                            OP=f"f_{name}", OP_BINARY=1)
        return sum_to(d, (a if side == "da" else b).shape)

    def kernel_grad(g, a, b, need, /):
        _need_float(name, g, a, b)
        return tuple([gradient(side, g, a, b) if n and isinstance(x, DeviceArray) else None
                      for side, x, n in zip(("da", "db"), (a, b), need, strict=True)])

    return kernel, kernel_grad


def add_(dst, src):
    """dst += src in place, src broadcast to dst's shape; returns dst."""
    if dst.dtype != _F32 or not dst.contiguous:
        dst[...] = _CREATED["add"](dst, src)
        return dst
    shape, arrays, numbers, at = operands("add_", _F32, dst, src)
    if shape != dst.shape:
        raise ValueError(f"add_: an array of shape {src.shape} does not fit into {dst.shape}")
    if dst.size:
        dst.device.launch("elementwise", "binary_", dst.device.spread(dst.size),
                          (dst, arrays[1], numbers[1], at), OP="f_add", OP_BINARY=1)
    return dst


def lerp(a, b, weight):
    """a + weight (b - a), from the nearer end; all three broadcast."""
    shape, arrays, numbers, at = operands("lerp", _F32, a, b, weight)
    y = same_device("lerp", *arrays).empty(shape, _F32)
    if y.size:
        y.device.launch("elementwise", "lerp", y.device.spread(y.size),
                        (*arrays, y, *numbers, at))
    return y


def lerp_grad(g, a, b, weight, need):
    """(da, db, dweight) of lerp(a, b, weight), each summed to its operand's shape."""
    sub, mul = _CREATED["sub"], _CREATED["mul"]
    parts = (lambda: mul(g, sub(1.0, weight) if isinstance(weight, DeviceArray) else 1 - weight),
             lambda: mul(g, weight), lambda: mul(g, sub(b, a)))
    return tuple([sum_to(part(), x.shape) if n and isinstance(x, DeviceArray) else None
                  for part, x, n in zip(parts, (a, b, weight), need, strict=True)])


def clamp(x, lo, hi):
    """min(max(x, lo), hi); None for a limit that is not there."""
    device, x = _flat("clamp", x)
    y = device.empty(x.shape, _F32)
    if y.size:
        device.launch("elementwise", "clamp", device.spread(y.size),
                      (x, y, *_limits(lo, hi), y.size))
    return y


def clamp_grad(g, x, lo, hi):
    """g where lo <= x <= hi, else 0."""
    device, g, x = _flat("clamp_grad", g, x)
    d = device.empty(x.shape, _F32)
    if d.size:
        device.launch("elementwise", "clamp_grad", device.spread(d.size),
                      (g, x, d, *_limits(lo, hi), d.size))
    return d


def _limits(lo, hi):
    return -np.inf if lo is None else float(lo), np.inf if hi is None else float(hi)


# ----------------------------------------------------------------------- everything by name

def _named(fn, name, doc):
    fn.__name__ = fn.__qualname__ = name
    fn.__doc__ = doc
    return fn


_CREATED = {}
for _name in UNARY:
    _CREATED[_name], _CREATED[f"{_name}_grad"] = _unary(_name)
for _name in BINARY:
    _CREATED[_name], _CREATED[f"{_name}_grad"] = _binary(_name)
for _name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
    _CREATED[_name] = lambda a, b, /, _name=_name: _typed_binary(_name, a, b)
_CREATED["bitwise_not"] = lambda x, /: _typed_unary(
    "logical_not" if x.dtype == _BOOL else "bitwise_not", x, x.dtype)
for _name in _COMPARE:
    _CREATED[_name] = lambda a, b, /, _name=_name: _typed_binary(_name, a, b, _BOOL)
for _name in _TESTS:
    _CREATED[_name] = lambda x, /, _name=_name: _typed_unary(_name, x, _BOOL)
for _name, _fn in _CREATED.items():
    globals()[_name] = _named(_fn, _name, f"{_name}, as in the reference, on a device.")

__all__ = [*_CREATED, "add_", "bias_activation", "bias_activation_grad", "clamp", "clamp_grad",
           "lerp", "lerp_grad"]
