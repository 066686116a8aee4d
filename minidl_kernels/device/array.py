"""An array on a device: a block of its memory seen with a shape and strides, as an ndarray is.

Only what ops need: views cost nothing, assignment and conversion launch a kernel, values come to
the host by .numpy() alone. NumPy's functions and Python's operators run on the device where
protocol.py lists them, and refuse it elsewhere, since they would fetch it silently.
"""

import math
from functools import lru_cache
from types import EllipsisType
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

__all__ = ["DeviceArray", "as_view", "contiguous_steps", "kernel_type"]


class _Flags(NamedTuple):
    c_contiguous: bool
    carray: bool
    writeable: bool = True


# The element types of devices and what kernels call them; float16 and bfloat16 are storage.
DTYPES = {"float32": "float", "int64": "int64_t", "int32": "int32_t", "uint8": "uint8_t",
          "bool": "uint8_t", "float16": "uint16_t", "bfloat16": "uint16_t"}


@lru_cache
def kernel_type(dtype):
    """What kernels call a NumPy dtype, None for those that devices do not have."""
    return DTYPES.get(dtype.name)


@lru_cache(4096)
def contiguous_steps(shape):
    """Strides in elements of an array whose elements lie in order.

    >>> contiguous_steps((2, 3, 4))
    (12, 4, 1)
    """
    steps, step = [], 1
    for n in reversed(shape):
        steps.append(step)
        step *= max(n, 1)
    return tuple(reversed(steps))


class DeviceArray(NDArrayOperatorsMixin):
    """shape, steps (strides in elements) and offset (in elements) over a block of a device."""

    __slots__ = ("block", "device", "dtype", "offset", "shape", "size", "steps")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, device, block, shape, dtype, steps=None, offset=0):
        self.device, self.block, self.dtype = device, block, dtype
        self.shape, self.offset = shape, offset
        self.steps = contiguous_steps(shape) if steps is None else steps
        self.size = math.prod(shape)

    # ------------------------------------------------------------------------- what it is

    ndim = property(lambda self: len(self.shape))
    itemsize = property(lambda self: self.dtype.itemsize)
    nbytes = property(lambda self: self.size * self.dtype.itemsize)
    backend = property(lambda self: self.device.backend)
    base = property(lambda self: self.block)

    @property
    def strides(self):
        return tuple([s * self.dtype.itemsize for s in self.steps])

    @property
    def contiguous(self) -> bool:
        """Whether the elements lie in order in memory."""
        step = 1
        for n, s in zip(reversed(self.shape), reversed(self.steps), strict=True):
            if n != 1 and s != step:
                return self.size == 0
            step *= n
        return True

    @property
    def flags(self):
        return _Flags(self.contiguous, self.contiguous)

    def __len__(self):
        return self.shape[0]

    def __repr__(self):
        return f"DeviceArray({self.shape}, {self.dtype}, on {self.device.name})"

    # ------------------------------------------------------------------------------ views

    def _view(self, shape, steps, offset=None):
        return DeviceArray(self.device, self.block, shape, self.dtype, steps,
                           self.offset if offset is None else offset)

    def seen(self, shape, strides, offset):
        """Any part of the block: what np.ndarray(shape, dtype, self, offset, strides) is."""
        size = self.itemsize
        return self._view(shape, tuple([s // size for s in strides]), self.offset + offset // size)

    def reshape(self, *shape, copy=None):
        """The elements in another shape: a view where strides allow it, else a copy if it may."""
        shape = _shape(shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape,
                       self.size)
        view = as_view(self, shape)
        if view is None and copy is False:
            raise ValueError(f"shape {self.shape} with strides {self.strides} cannot be seen as "
                             f"{shape} without a copy")
        return self.copy().reshape(shape) if view is None else view

    def transpose(self, *axes):
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        order = tuple(order) if order else tuple(range(self.ndim))[::-1]
        return self._view(tuple([self.shape[i] for i in order]),
                          tuple([self.steps[i] for i in order]))

    T = property(transpose)

    def swapaxes(self, a, b):
        order = list(range(self.ndim))
        order[a], order[b] = order[b], order[a]
        return self.transpose(order)

    def squeeze(self, axis):
        drop = {a % self.ndim for a in ((axis,) if isinstance(axis, int) else axis)}
        kept = [i for i in range(self.ndim) if i not in drop]
        return self._view(tuple([self.shape[i] for i in kept]),
                          tuple([self.steps[i] for i in kept]))

    def diagonal(self, offset=0, axis1=0, axis2=1):
        """The diagonal of two axes, as a new last axis."""
        rows, columns = self.shape[axis1], self.shape[axis2]
        n = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
        start = (self.steps[axis2] * offset if offset >= 0 else -self.steps[axis1] * offset)
        kept = [i for i in range(self.ndim) if i not in (axis1, axis2)]
        return self._view((*[self.shape[i] for i in kept], n),
                          (*[self.steps[i] for i in kept], self.steps[axis1] + self.steps[axis2]),
                          self.offset + (start if n else 0))

    def __getitem__(self, key):
        """A view by integers, slices, None and ... ; a copy by integer arrays and masks."""
        from minidl_kernels.device.index import get_items, is_basic

        if not is_basic(key):
            return get_items(self, key)
        items = list(key) if isinstance(key, tuple) else [key]
        used = sum([i is not None and i is not Ellipsis for i in items])
        if used > self.ndim:
            raise IndexError(f"{used} indices for an array of {self.ndim} dimensions")
        if Ellipsis not in [i for i in items if isinstance(i, EllipsisType)]:
            items.append(Ellipsis)
        shape: list[int] = []
        steps: list[int] = []
        axis, offset = 0, self.offset
        for item in items:
            if item is None:
                shape.append(1)
                steps.append(0)
            elif item is Ellipsis:
                rest = self.ndim - used
                shape += self.shape[axis:axis + rest]
                steps += self.steps[axis:axis + rest]
                axis += rest
            elif isinstance(item, slice):
                first, last, stride = item.indices(self.shape[axis])
                n = len(range(first, last, stride))
                offset += first * self.steps[axis] if n else 0
                shape.append(n)
                steps.append(self.steps[axis] * stride)
                axis += 1
            elif isinstance(item, (int, np.integer)):
                n = self.shape[axis]
                if not -n <= item < n:
                    raise IndexError(f"index {item} is out of bounds for axis {axis} of size {n}")
                offset += int(item) % n * self.steps[axis]
                axis += 1
            else:
                raise TypeError("a device array takes integers, slices, None, ..., integer arrays "
                                f"and masks as indices, not {type(item).__name__}")
        return self._view(tuple(shape), tuple(steps), offset)

    # ------------------------------------------------------------------------- work on it

    def __setitem__(self, key, value):
        """Write a number or an array, broadcast and converted, into a part."""
        from minidl_kernels.device.index import is_basic, set_items

        if not is_basic(key):
            set_items(self, key, value)
            return
        self.backend.assign(self[key], value)

    def copy(self):
        return self.backend.copy(self)

    def astype(self, dtype, copy=True):
        return self if not copy and self.dtype == dtype else self.backend.cast(self, dtype)

    def fill(self, value):
        self.backend.assign(self, value)

    def numpy(self) -> np.ndarray:
        """The values on the host, after everything before them has been computed."""
        return self.device.fetch(self)

    def item(self):
        return self.numpy().item()

    def tolist(self):
        return self.numpy().tolist()

    def take(self, index, axis):
        return np.take(self, index, axis)

    def sum(self, axis=None, keepdims=False):
        return np.sum(self, axis, keepdims=keepdims)

    def max(self, axis=None):
        return np.max(self, axis)

    def min(self, axis=None):
        return np.min(self, axis)

    def all(self, axis=None):
        return np.all(self, axis)

    def any(self, axis=None):
        return np.any(self, axis)

    def __array_function__(self, func, types, args, kwargs):
        from minidl_kernels.device.protocol import array_function

        return array_function(func, args, kwargs)

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **kwargs):
        from minidl_kernels.device.protocol import array_ufunc

        return array_ufunc(ufunc, method, inputs, out, **kwargs)

    def __array__(self, dtype=None, copy=None):
        raise TypeError(f"this array is on {self.device.name}; NumPy needs it on the CPU: use "
                        ".numpy() of the array, or .cpu() of the tensor")

    def __bool__(self):
        return bool(self.item())

    def __float__(self):
        return float(self.item())

    def __int__(self):
        return int(self.item())


def _shape(shape, size):
    """A shape with its -1 replaced."""
    shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple([int(n) for n in shape])
    if shape.count(-1) == 1:
        known = math.prod([n for n in shape if n != -1])
        if known and size % known == 0:
            shape = tuple([size // known if n == -1 else n for n in shape])
    if math.prod(shape) != size or min(shape, default=0) < 0:
        raise ValueError(f"an array of {size} elements cannot have shape {shape}")
    return shape


def as_view(x: DeviceArray, shape) -> Any:
    """x seen as `shape`, or None when only a copy can have it."""
    shape = _shape(shape, x.size)
    if x.contiguous:
        return x._view(shape, contiguous_steps(shape))
    # both shapes in runs of equal size, each of which must be evenly spaced in memory
    old = [(n, s) for n, s in zip(x.shape, x.steps, strict=True) if n != 1]
    steps, i = [], 0
    for n in shape:
        if n == 1:
            steps.append(0)
            continue
        if i == len(old):
            return None
        m, s = old[i]
        if m % n:
            while m % n and i + 1 < len(old) and old[i + 1][0] * old[i + 1][1] == s:
                i += 1
                m, s = m * old[i][0], old[i][1]
            if m % n:
                return None
        steps.append(m // n * s)
        if m == n:
            i += 1
        else:
            old[i] = (m // n, s)
    return x._view(shape, tuple(steps))
