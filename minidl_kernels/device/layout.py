"""Shapes and strides for kernels: broadcasting, merged axes, the packed Layout of common.h."""

import struct
from functools import lru_cache

import numpy as np

from minidl_kernels.device.array import DeviceArray, kernel_type

__all__ = ["broadcast_shape", "kernel_type", "layout", "operands", "same_device", "steps_in"]

_RANK = 6


def broadcast_shape(name, *shapes):
    """The common shape, or a ValueError that names the operation."""
    if len(set(shapes)) == 1:
        return shapes[0]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise ValueError(f"{name}: shapes {' and '.join(map(str, shapes))} do not broadcast"
                         ) from None


def steps_in(x, shape):
    """The strides of x, in elements, when it is broadcast to a shape."""
    lead = len(shape) - x.ndim
    return (0,) * lead + tuple([0 if n == 1 and m != 1 else s for n, m, s in
                                zip(x.shape, shape[lead:], x.steps, strict=True)])


def merge(axes):
    """[(size, stride in each array)], neighbours that lie evenly in every array made one."""
    merged: list[tuple] = []
    for n, *s in axes:
        if merged and all(before == n * step for before, step in zip(merged[-1][1:], s,
                                                                     strict=True)):
            merged[-1] = (merged[-1][0] * n, *s)
        else:
            merged.append((n, *s))
    return merged


@lru_cache(4096)
def layout(shape, steps, numbers=0):
    """The bytes of a Layout: element i of `shape` in up to four arrays with these strides.

    Axes of size 1 are dropped and neighbours that lie evenly in every array become one. Bit k of
    `numbers` is set where operand k is no array.
    """
    merged = merge((n, *s) for n, *s in zip(shape, *steps, strict=True) if n != 1)
    if len(merged) > _RANK:
        raise ValueError(f"an array of shape {shape} has more than {_RANK} axes that cannot be "
                         "merged; make it contiguous first")
    merged = merged or [(1, *[0] * len(steps))]
    rank, columns = len(merged), list(zip(*merged, strict=True))
    columns += [(0,) * rank] * (5 - len(columns))
    padded = [v for column in columns for v in (*column, *[0] * (_RANK - rank))]
    size = int(np.prod(shape, dtype=np.int64))
    return struct.pack("33i", size, rank, numbers, *padded)


def operands(name, dtype, *values):
    """Operands of an elementwise kernel: (shape, arrays, numbers, layout bytes).

    A value is an array of `dtype`, or a number (also a NumPy scalar or 0-d array).
    """
    arrays = [v if isinstance(v, DeviceArray) else None for v in values]
    device = same_device(name, *arrays)
    for v in values:
        if isinstance(v, np.ndarray) and v.ndim:
            raise ValueError(f"{name}: one array is on {device.name}, the other on the CPU; move "
                             "them to one place")
    for a in arrays:
        if a is not None and a.dtype != dtype:
            raise TypeError(f"{name}: expected arrays of {dtype}, got {a.dtype}")
    shape = broadcast_shape(name, *[a.shape for a in arrays if a is not None])
    none = (0,) * len(shape)
    steps = tuple([none if a is None else steps_in(a, shape) for a in arrays])
    flags = sum([1 << k for k, a in enumerate(arrays) if a is None])
    convert = float if dtype.kind == "f" else int
    numbers = [0 if isinstance(v, DeviceArray) else convert(v) for v in values]
    return shape, arrays, numbers, layout(shape, steps, flags)


def same_device(name, *arrays):
    """The device of the arrays that are there, or a sentence when they are on several."""
    device = None
    for a in arrays:
        if a is not None:
            if not isinstance(a, DeviceArray):
                raise TypeError(f"{name}: expected an array on a device, got {type(a).__name__}")
            if device is not None and a.device is not device:
                raise ValueError(f"{name}: the arrays are on different devices ({device.name} and "
                                 f"{a.device.name})")
            device = a.device
    return device
