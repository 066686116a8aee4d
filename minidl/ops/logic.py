"""Questions about elements and logic between them: bool results, no gradients."""

import numpy as np

from minidl import errors
from minidl._core import Tensor, op
from minidl._methods import TensorMethods
from minidl.ops.elementwise import register
from minidl.ops.promotion import check_broadcast, check_tensors
from minidl_kernels import ARRAYS

__all__ = [
    "allclose", "bitwise_not", "equal", "isclose", "isfinite", "isinf", "isnan", "logical_and",
    "logical_not", "logical_or", "logical_xor",
]


def test(name, doc):
    """The op of a kernel that answers with bool."""
    def fn(be, input):
        return getattr(be, name)(input), None

    return register(fn, name, doc)


isnan = test("isnan", "Whether each element is NaN.")
isinf = test("isinf", "Whether each element is infinite.")
isfinite = test("isfinite", "Whether each element is neither NaN nor infinite.")
logical_not = test("logical_not", "Whether each element is zero.")


def logical(name, doc):
    def fn(be, input, other):
        if type(input) not in ARRAYS or type(other) not in ARRAYS:
            check_tensors(name, type(input) not in ARRAYS, True, "none")
        return getattr(be, name)(input, other), None

    return register(fn, name, doc)


logical_and = logical("logical_and", "Whether both are nonzero.")
logical_or = logical("logical_or", "Whether either is nonzero.")
logical_xor = logical("logical_xor", "Whether exactly one is nonzero.")


@op
def bitwise_not(be, input):
    """~input for integers, not for bool."""
    if input.dtype.kind == "f":
        raise errors.DTypeError("bitwise_not: expected an integer or bool tensor, got "
                                f"{input.dtype.name}")
    return be.bitwise_not(input), None


@op
def isclose(be, input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether |input - other| <= atol + rtol * |other|, for each element; infinities must be equal.

    >>> md.isclose(md.tensor([1.0, 2.0]), md.tensor([1.0, 2.1]))
    tensor([ True, False])
    """
    if type(input) not in ARRAYS or type(other) not in ARRAYS:
        check_tensors("isclose", type(input) not in ARRAYS, True, "none")
    if input.dtype != other.dtype:
        raise errors.DTypeError(f"isclose: the tensors are {input.dtype} and {other.dtype}; "
                                "convert one with .to(dtype)")
    if rtol < 0 or atol < 0:
        raise errors.ArgumentError(f"isclose: rtol and atol must not be negative, got {rtol} and "
                                   f"{atol}")
    check_broadcast("isclose", input.shape, other.shape)
    with np.errstate(invalid="ignore", over="ignore"):
        if input.dtype.kind == "f":
            off = np.abs(input - other)
            near = np.isfinite(off) & (off <= atol + np.abs(input.dtype.type(rtol) * other))
        else:
            a, b = input.astype(np.float64), other.astype(np.float64)
            near = np.abs(a - b) <= atol + np.abs(rtol * b)
        near |= input == other
        return near | (np.isnan(input) & np.isnan(other)) if equal_nan else near, None


def allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether isclose() holds everywhere, as a Python bool."""
    return bool(isclose(input, other, rtol, atol, equal_nan).array.all())


def equal(input, other):
    """Whether two tensors have the same shape and elements, as a Python bool.

    >>> md.equal(md.ones(2), md.ones(3))
    False
    """
    for x in (input, other):
        if not isinstance(x, Tensor):
            raise TypeError(f"equal: expected two tensors, got {type(x).__name__}")
    return input.shape == other.shape and bool((input.array == other.array).all())


for _fn in (allclose, equal):
    setattr(TensorMethods, _fn.__name__, _fn)
