"""Questions about elements and logic between them: bool results, no gradients."""

import numpy as np

from minidl import errors
from minidl._core import op
from minidl.ops.elementwise import register
from minidl.ops.promotion import check_tensors
from minidl_kernels import EXACT

__all__ = [
    "bitwise_not", "isfinite", "isinf", "isnan", "logical_and", "logical_not", "logical_or",
    "logical_xor",
]


def test(name, doc):
    """The op of a kernel that answers with bool."""
    def fn(be, input):
        return getattr(EXACT, name)(input), None

    return register(fn, name, doc)


isnan = test("isnan", "Whether each element is NaN.")
isinf = test("isinf", "Whether each element is infinite.")
isfinite = test("isfinite", "Whether each element is neither NaN nor infinite.")
logical_not = test("logical_not", "Whether each element is zero.")


def logical(name, doc):
    def fn(be, input, other):
        if type(input) is not np.ndarray or type(other) is not np.ndarray:
            check_tensors(name, type(input) is not np.ndarray, True, "none")
        return getattr(EXACT, name)(input, other), None

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
    return EXACT.bitwise_not(input), None
