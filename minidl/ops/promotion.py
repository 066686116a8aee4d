"""Common dtypes, backends and shapes of operands: what ops do before they compute."""

import math
from itertools import zip_longest

import numpy as np

from minidl import dtypes, errors
from minidl_kernels import ARRAYS, EXACT, HOST, DeviceArray


def backend_for(dtype, *arrays):
    """The backend that computes a NumPy dtype: that of arrays on a device, else a host one."""
    for x in arrays:
        if isinstance(x, DeviceArray):
            return x.backend
    return HOST if dtype == np.float32 else EXACT


def raw(x):
    """x, an array or one of NumPy's scalars, as an array."""
    return x if isinstance(x, ARRAYS) else np.asarray(x)


def floating(x):
    """An integer or bool array as the default floating dtype (exp of integers and the like)."""
    dtype = dtypes.get_default_dtype().numpy
    return x if x.dtype.kind == "f" else backend_for(None, x).cast(x, dtype)


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
    return backend_for(dtype.numpy, a, b), as_array(a, dtype.numpy), as_array(b, dtype.numpy)


_LARGEST = {np.dtype(t): float(np.finfo(t).max) for t in (np.float16, np.float32)}


def element(name, value, dtype):
    """A Python number as one that an element of a NumPy dtype can hold, or a sentence."""
    kind = dtype.kind
    if kind == "b":
        return bool(value)
    if kind in "iu":
        limits = np.iinfo(dtype)
        low = limits.min or -limits.max  # negative numbers wrap around in uint8
        if math.isfinite(value) and low <= int(value) <= limits.max:
            return int(value) if limits.min else int(value) % (limits.max + 1)
    elif math.isinf(value) or not abs(value) > _LARGEST.get(dtype, np.inf):
        return value
    raise errors.ArgumentError(f"{name}: {value} does not fit {dtype.name}")


def as_array(x, dtype):
    """x, an array or a number, as an array of `dtype` (integers wrap around as in C)."""
    if not isinstance(x, ARRAYS):
        x = np.asarray(x)
    if x.dtype == dtype:
        return x
    with np.errstate(over="ignore", invalid="ignore"):
        return x.astype(dtype)


def check_broadcast(name, *shapes):
    """Raise a sentence when shapes do not broadcast."""
    for sizes in zip_longest(*(reversed(shape) for shape in shapes), fillvalue=1):
        different = set(sizes) - {1}
        if len(different) > 1:
            raise errors.ShapeError(f"{name}: shapes {' and '.join(map(str, shapes))} do not "
                                    f"broadcast ({' against '.join(map(str, sorted(different)))})")


def cast_back(be, grads, dtypes_):
    """Gradients in the dtypes of operands that promotion had converted."""
    return tuple(g if g is None or d is None or g.dtype == d else be.cast(g, d)
                 for g, d in zip(grads, dtypes_, strict=True))


def check_tensors(name, first, second, numbers):
    """Refuse numbers in the places where PyTorch wants tensors."""
    if numbers == "none" or (first and (second or numbers == "second") and numbers != "any"):
        raise TypeError(f"{name}: the {'first' if first else 'second'} argument must be a tensor, "
                        "not a number")


def check_integers(name, a, b, dtype):
    """Refuse operands, before promotion to `dtype`, that have no answer in integers or bools."""
    bools = [type(x) is bool or getattr(x, "dtype", None) == np.bool_ for x in (a, b)]
    if (name == "sub" and any(bools)) or (dtype.kind == "b" and name in (
            "pow", "fmod", "remainder", "floor_divide")):
        raise errors.UnsupportedError(f"{name}: not defined for bool tensors; convert with .int() "
                                      "or use logical ops")
    if name == "pow" and dtype.kind in "iu" and not isinstance(b, ARRAYS):
        if b < 0:
            raise errors.UnsupportedError("pow: integers to a negative power are not supported; "
                                          "convert with .float()")
        element("pow", b, dtype)
