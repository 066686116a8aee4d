"""Common dtypes, backends and shapes of operands: what ops do before they compute."""

from itertools import zip_longest

import numpy as np

from minidl import dtypes, errors
from minidl_kernels import EXACT, HOST


def backend_for(dtype):
    """The host backend that computes a NumPy dtype."""
    return HOST if dtype == np.float32 else EXACT


def floating(x):
    """An integer or bool array as the default floating dtype (exp of integers and the like)."""
    return x if x.dtype.kind == "f" else EXACT.cast(x, dtypes.get_default_dtype().numpy)


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
    if not isinstance(x, np.ndarray):
        x = np.asarray(x)
    return x if x.dtype == dtype else x.astype(dtype)


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
