"""Functions that make arrays from nothing, bound to one device."""

import numpy as np

from minidl_kernels.device import random
from minidl_kernels.device.move import assign

__all__ = ["creators"]


def creators(device):
    """empty, full, ones, zeros, array, uniform, normal, bits64, integers, arange of a device."""
    def empty(shape, dtype=np.float32):
        """An array whose elements are whatever the memory holds."""
        return device.empty((shape,) if isinstance(shape, int) else tuple(shape), dtype)

    def full(shape, value, dtype):
        """An array of `shape` with every element `value`."""
        return assign(empty(shape, dtype), value)

    def ones(shape, dtype):
        return full(shape, 1, dtype)

    def zeros(shape, dtype):
        return full(shape, 0, dtype)

    def array(values):
        """A copy of values of the host."""
        return device.array(values)

    made = {f.__name__: f for f in (empty, full, ones, zeros, array)}
    for fn in (random.uniform, random.normal, random.bits64, random.integers):
        made[fn.__name__] = _bound(fn, device)
    return made


def _bound(fn, device):
    def call(*args):
        return fn(device, *args)

    call.__name__, call.__doc__ = fn.__name__, fn.__doc__
    return call
