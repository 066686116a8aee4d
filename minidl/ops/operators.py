"""Python's operators and the in-place methods of Tensor, all made from the ops."""

import numpy as np

from minidl import errors
from minidl._core import Tensor, inplace, op, set_operators
from minidl._methods import TensorMethods
from minidl.ops import elementwise as e
from minidl.ops.linalg import addmm, bmm, dot, matmul, mm, mv, outer
from minidl.ops.logic import bitwise_not, logical_and, logical_not, logical_or, logical_xor
from minidl.ops.neural import log_softmax, softmax
from minidl.ops.promotion import check_broadcast, element
from minidl_kernels import ARRAYS


def _inplace(fn):
    """The method fn_: the op written over its first argument."""
    def method(self, *args, **kwargs):
        return inplace(fn, self, *args, **kwargs)

    method.__name__ = fn.__name__ + "_"
    method.__doc__ = f"In-place {fn.__name__}; returns the tensor."
    return method


@op(method=False)
def fill(be, input, value):
    """Every element `value`, a number or a 0-d tensor."""
    if np.ndim(value):
        raise errors.ShapeError(f"fill_: expected a number or a 0-d tensor, got {value.shape}")
    if not isinstance(value, ARRAYS):
        value = element("fill_", value, input.dtype)
    y = be.full(input.shape, value, input.dtype)
    return y, lambda g, need: (be.zeros(g.shape, g.dtype), be.sum_to(g, ()))


@op(method=False)
def copy(be, input, src):
    """src broadcast to input's shape and converted to its dtype."""
    check_broadcast("copy_", input.shape, src.shape)
    y = be.cast(np.broadcast_to(src, np.broadcast_shapes(input.shape, src.shape)), input.dtype)
    shape, dtype = src.shape, src.dtype
    return y, lambda g, need: (be.zeros(g.shape, g.dtype), be.cast(be.sum_to(g, shape), dtype))


def copy_(self, src, non_blocking=False):
    """Overwrite with src, broadcast, converted, and moved where it is on another device."""
    if isinstance(src, Tensor) and type(src.array) is not type(self.array):
        src = src.to(self.device, self.dtype)
    return inplace(copy, self, src)


def zero_(self):
    """Every element becomes 0."""
    return self.fill_(0)


set_operators(e._add, e._sub, e.mul, e._div, matmul, e.eq, e.ne, e.lt, e.le, e.gt, e.ge)

_METHODS = {
    "add": e.add, "sub": e.sub, "subtract": e.sub, "div": e.div, "divide": e.div, "clip": e.clamp,
    "true_divide": e._div, "multiply": e.mul, "negative": e.neg, "absolute": e.abs, "lerp": e.lerp,
    "softmax": softmax, "log_softmax": log_softmax,
    "softplus": e.softplus, "addmm": addmm, "bmm": bmm, "dot": dot, "mm": mm, "mv": mv,
    "outer": outer, "zero_": zero_, "copy_": copy_, "greater": e.gt, "greater_equal": e.ge,
    "less": e.lt, "less_equal": e.le, "not_equal": e.ne,
    "where": lambda self, condition, other: e.where(condition, self, other),
}
_OPERATORS = {
    "__neg__": e.neg, "__pos__": lambda self: self, "__abs__": e.abs, "__invert__": bitwise_not,
    "__pow__": e.pow, "__floordiv__": e.floor_divide, "__mod__": e.remainder,
    "__and__": e.bitwise_and, "__or__": e.bitwise_or, "__xor__": e.bitwise_xor,
}
_INPLACE = (
    fill, e.add, e.sub, e.mul, e.div, e.pow, e.remainder, e.floor_divide, e.clamp, e.lerp,
    e.exp, e.log, e.sqrt, e.rsqrt, e.sin, e.cos, e.tanh, e.sigmoid, e.relu, e.erf, e.square,
    e.reciprocal, e.neg, e.abs, e.sign, e.floor, e.ceil, e.round, e.trunc, e.expm1, e.log1p,
    e.exp2, e.log2, e.log10, e.fmod, e.bitwise_and, e.bitwise_or, e.bitwise_xor, bitwise_not,
    logical_and, logical_or, logical_xor, logical_not, e.eq, e.ne, e.lt, e.le, e.gt, e.ge,
)
_AUGMENTED = {"add": e._add, "sub": e._sub, "mul": e.mul, "truediv": e._div, "pow": e.pow,
              "mod": e.remainder, "floordiv": e.floor_divide, "and": e.bitwise_and,
              "or": e.bitwise_or, "xor": e.bitwise_xor}


def _reflected(fn):
    return lambda self, other: fn(other, self)


def _commuted(fn):
    """The reflected form of an operator whose operands can change places."""
    def method(self, other):
        if not isinstance(self, Tensor):
            raise TypeError(f"{fn.__name__}: expected a tensor, got {type(self).__name__}")
        return fn(self, other)

    return method


for _name, _fn in (_METHODS | _OPERATORS).items():
    setattr(TensorMethods, _name, _fn)
for _name in ("pow", "floordiv", "mod"):
    setattr(TensorMethods, f"__r{_name}__", _reflected(_OPERATORS[f"__{_name}__"]))
for _name in ("and", "or", "xor"):
    setattr(TensorMethods, f"__r{_name}__", _commuted(_OPERATORS[f"__{_name}__"]))
for _fn in _INPLACE:
    setattr(TensorMethods, _fn.__name__ + "_", _inplace(_fn))
for _name, _fn in _AUGMENTED.items():
    setattr(TensorMethods, f"__i{_name}__", _inplace(_fn))
