"""Dims and sizes as users give them: counted from the front, checked, with sentences."""

import numpy as np

from minidl import errors


def axis(name, dim, ndim):
    """`dim` counted from the front; a 0-d tensor takes 0 and -1."""
    n = ndim or 1
    if type(dim) is not int:
        dim = integer(name, dim, "dim")
    if -n <= dim < n:
        return dim + n if dim < 0 else dim
    raise errors.DimensionError(f"{name}: dim {dim} is out of range for a tensor of {ndim} "
                                f"dimensions (expected {-n} to {n - 1})")


def axes(name, dim, ndim):
    """An int, a sequence of ints or None (all) as a tuple of dims counted from the front."""
    if dim is None:
        return tuple(range(ndim))
    if type(dim) is int or not isinstance(dim, (tuple, list)):
        return (axis(name, dim, ndim),)
    found = tuple([axis(name, d, ndim) for d in dim])
    if len(set(found)) != len(found):
        raise errors.ShapeError(f"{name}: a dim appears twice in {tuple(dim)}")
    return found


def integer(name, value, what):
    """A Python int from anything that is one (NumPy integers, 0-d integer tensors)."""
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        return value.__index__()
    except (AttributeError, TypeError):
        raise TypeError(f"{name}: {what} must be an integer, got {value!r}") from None


def sizes(name, first, rest):
    """The sizes of f(2, 3), f((2, 3)) and f([2, 3]) as a tuple of ints."""
    rest = first if not rest and isinstance(first, (tuple, list)) else (first, *rest)
    return tuple([n if type(n) is int else integer(name, n, "a size") for n in rest])


def check_memory_format(name, memory_format):
    """Tensors are laid out in order of their dims; refuse PyTorch's other formats."""
    if memory_format is not None and not str(memory_format).endswith(("preserve_format",
                                                                      "contiguous_format")):
        raise errors.UnsupportedError(f"{name}: memory_format {memory_format} is not supported")
