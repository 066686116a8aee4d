"""Tensors and the rest of Python: numbers, NumPy, DLPack, pickling, conversion of dtypes."""

import numpy as np

from minidl import dtypes, errors
from minidl._core import Tensor, op
from minidl._methods import TensorMethods
from minidl.ops.create import placed
from minidl.ops.device import CPU, backend_at, backend_on, device_of, on_host
from minidl.ops.dims import axis, check_memory_format
from minidl_kernels import EXACT

__all__ = ["from_dlpack", "is_floating_point", "is_tensor", "numel"]


# ---------------------------------------------------------------------------- numbers and lists

def item(self):
    """The one element as a Python number."""
    if self.array.size != 1:
        raise errors.ShapeError(f"item: expected one element, the tensor has shape {self.shape}")
    return self.array.item()


def tolist(self):
    """The elements as nested lists, a number for a 0-d tensor."""
    return self.array.tolist()


def __bool__(self):
    if self.array.size != 1:
        raise errors.ShapeError("the truth value of a tensor is defined for one element, this one "
                                f"has shape {self.shape}; use .any() or .all()")
    return bool(self.array.item())


def __float__(self):
    return float(item(self))


def __int__(self):
    return int(item(self))


def __index__(self):
    if self.array.size != 1 or self.array.dtype.kind not in "iub":
        raise TypeError(f"only an integer tensor of one element can be an index, got "
                        f"{self.dtype.name} of shape {self.shape}")
    return int(self.array.item())


def __iter__(self):
    if self.array.ndim == 0:
        raise TypeError("iteration over a 0-d tensor")
    return iter(self.unbind(0))


def __contains__(self, element):
    if not isinstance(element, (Tensor, int, float, np.number, np.bool_)):
        raise TypeError(f"in: expected a number or a tensor, got {type(element).__name__}")
    other = element.array if isinstance(element, Tensor) else element
    return bool((self.array == other).any())


def __format__(self, spec):
    return format(item(self), spec) if self.array.ndim == 0 and spec else str(self)


# --------------------------------------------------------------------------- NumPy and DLPack

def numpy(self, *, force=False):
    """The elements as a NumPy array over the same memory; force=True detaches and fetches first."""
    if self.requires_grad and not force:
        raise errors.GradientError("numpy: this tensor requires a gradient; use "
                                   ".detach().numpy()")
    if not isinstance(self.array, np.ndarray):
        if force:
            return self.array.numpy()
        raise errors.DeviceError(f"numpy: this tensor is on {self.device}; use .cpu().numpy()")
    return self.array


def __array__(self, dtype=None, copy=None):
    array = numpy(self)
    if dtype is not None and array.dtype != dtype:
        if copy is False:
            raise ValueError(f"a tensor of {array.dtype} cannot be seen as {dtype} without a copy")
        return array.astype(dtype)
    return array.copy() if copy else array


def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
    if self.requires_grad:
        raise BufferError("__dlpack__: this tensor requires a gradient; pass .detach()")
    if stream not in (None, -1, 0):
        raise BufferError(f"__dlpack__: a CPU tensor has no stream {stream!r}")
    array = self.array
    if not isinstance(array, np.ndarray):
        raise BufferError(f"__dlpack__: this tensor is on {self.device}; pass .cpu()")
    # before version 1.0 the protocol cannot say that memory is read-only
    if not array.flags.writeable and (max_version is None or max_version < (1, 0)):
        array = array.copy()
    return array.__dlpack__(max_version=max_version, dl_device=dl_device, copy=copy)


def __dlpack_device__(self):
    if not isinstance(self.array, np.ndarray):
        raise BufferError(f"__dlpack_device__: this tensor is on {self.device}; pass .cpu()")
    return self.array.__dlpack_device__()


def from_dlpack(ext_tensor):
    """A tensor over the memory of another library's array (NumPy, PyTorch, JAX, ...).

    >>> a = np.arange(3)
    >>> md.from_dlpack(a)
    tensor([0, 1, 2])
    """
    if not hasattr(ext_tensor, "__dlpack__"):
        raise TypeError("from_dlpack: expected an object with __dlpack__, got "
                        f"{type(ext_tensor).__name__}")
    return Tensor(np.from_dlpack(ext_tensor))


# -------------------------------------------------------------------------------- what it is

def size(self, dim=None):
    """The shape, or the size of one dim."""
    if dim is None:
        return self.shape
    d = axis("size", dim, self.ndim)
    if self.ndim == 0:
        raise errors.DimensionError("size: a 0-d tensor has no dims")
    return self.shape[d]


def dim(self):
    """The number of dimensions."""
    return self.array.ndim


def numel(input):
    """The number of elements."""
    return input.array.size


def stride(self, dim=None):
    """Elements to step over in memory per dim, or for one dim."""
    steps = tuple([s // self.array.itemsize for s in self.array.strides])
    return steps if dim is None else steps[axis("stride", dim, self.ndim)]


def is_contiguous(self):
    """Whether the elements lie in order in memory."""
    return self.array.flags.c_contiguous


def data_ptr(self):
    """The address of the first element."""
    if not isinstance(self.array, np.ndarray):
        raise errors.UnsupportedError(f"data_ptr: memory of {self.device} has no address here; use "
                                      ".cpu() first")
    return self.array.ctypes.data


def element_size(self):
    """Bytes per element."""
    return self.array.itemsize


def is_floating_point(input):
    """Whether the dtype is a floating-point one."""
    return input.dtype.is_floating_point


def is_complex(self):
    """False: minidl has no complex numbers."""
    return False


def is_tensor(obj):
    """Whether obj is a tensor."""
    return isinstance(obj, Tensor)


def _get_data(self):
    """The same memory without history; assigning a tensor replaces the memory."""
    return self.detach()


def _set_data(self, value):
    if not isinstance(value, Tensor):
        raise TypeError(f"data: expected a tensor, got {type(value).__name__}")
    if self.requires_grad and not value.dtype.is_floating_point:
        raise errors.DTypeError(f"data: a tensor that requires a gradient cannot be "
                                f"{value.dtype.name}")
    self.array = value.array


# ------------------------------------------------------------------------------- conversions

@op(method=False, storage=True)
def cast(be, input, dtype):
    """The elements as another dtype; gradients are converted back."""
    before = input.dtype
    y = be.cast(input, dtype)
    if dtype.kind in "iub":
        return y, None
    return y, lambda g, need: be.cast(g, before)


@op(method=False, storage=True)
def moved(be, input, where):
    """The elements on another device, `where` being what makes arrays there; gradients go back."""
    back = backend_at(input)
    return placed(where, input), lambda g, need: placed(back, g)


def to(self, *args, **kwargs):
    """The tensor as a dtype, on a device, or like another tensor; itself when nothing changes.

    >>> md.arange(2).to(md.float32)
    tensor([0., 1.])
    """
    dtype, copy, place = self.dtype, kwargs.pop("copy", False), None
    kwargs.pop("non_blocking", None)
    check_memory_format("to", kwargs.pop("memory_format", None))
    wanted = [*args, kwargs.pop("dtype", None), kwargs.pop("device", None)]
    other = kwargs.pop("other", None)
    if kwargs:
        raise TypeError(f"to: unknown argument '{next(iter(kwargs))}'; it takes dtype, device, "
                        "other, non_blocking and copy")
    for i, x in enumerate([other, *wanted]):
        if isinstance(x, Tensor):
            dtype, place = x.dtype, backend_at(x.array)
        elif isinstance(x, bool):
            copy = copy or i == len(args)  # to(target, non_blocking, copy)
        elif isinstance(x, (dtypes.dtype, type, np.dtype)):
            dtype = dtypes.as_dtype(x, "to")
        elif isinstance(x, str) and x in dtypes._BY_NAME:
            raise TypeError(f"to: '{x}' is a string; pass md.{x}")
        elif x is not None:
            place = backend_on("to", x)
    if place is not None and place is not backend_at(self.array):
        if place is not EXACT and dtype is not self.dtype:  # devices do not have every dtype
            self = cast(self, dtype.numpy)
        self, copy = moved(self, place), False
    if dtype is not self.dtype:
        return cast(self, dtype.numpy)
    return self.clone() if copy else self


def type_as(self, other):
    """The tensor as another tensor's dtype."""
    return to(self, other.dtype)


def _converter(name, dtype):
    def method(self, memory_format=None):
        return to(self, dtype, memory_format=memory_format)

    method.__name__ = name
    method.__doc__ = f"The tensor as {dtype.name}."
    return method


def cpu(self, memory_format=None):
    """The tensor on the CPU; itself when it is there."""
    return to(self, "cpu")


# ------------------------------------------------------------------------- copies and pickling

def rebuild(cls, array, requires_grad, grad, state, where=None):
    """A tensor of a class from what __reduce_ex__ kept."""
    self = cls.__new__(cls)
    self.array = array if where is None else placed(backend_on("a pickled tensor", where), array)
    if requires_grad:
        self.requires_grad_(True)
    if grad is not None:
        self.grad = grad
    if state:
        self.__dict__.update(state)
    return self


def __reduce_ex__(self, protocol):
    where = None if isinstance(self.array, np.ndarray) else str(self.device)
    return rebuild, (type(self), on_host(self.array), self.requires_grad, None,
                     getattr(self, "__dict__", None), where)


def __copy__(self):
    return rebuild(type(self), self.array, self.requires_grad, None,
                   getattr(self, "__dict__", None))


def __deepcopy__(self, memo):
    if not self.is_leaf:
        raise errors.GradientError("deepcopy: only leaf tensors can be copied with their history; "
                                   "use .clone() or .detach()")
    from copy import deepcopy

    grad = None if self.grad is None else deepcopy(self.grad, memo)
    state = deepcopy(getattr(self, "__dict__", None), memo)
    result = rebuild(type(self), self.array.copy(), self.requires_grad, grad, state)
    memo[id(self)] = result
    return result


_METHODS = (item, tolist, __bool__, __float__, __int__, __index__, __iter__, __contains__,
            __format__, numpy, __array__, __dlpack__, __dlpack_device__, size, dim, numel, stride,
            is_contiguous, data_ptr, element_size, is_floating_point, is_complex, to, type_as, cpu,
            __reduce_ex__, __copy__, __deepcopy__)
for _fn in _METHODS:
    setattr(TensorMethods, _fn.__name__, _fn)
for _name, _dtype in (("float", dtypes.float32), ("double", dtypes.float64),
                      ("half", dtypes.float16), ("bfloat16", dtypes.bfloat16),
                      ("long", dtypes.int64), ("int", dtypes.int32), ("bool", dtypes.bool),
                      ("byte", dtypes.uint8)):
    setattr(TensorMethods, _name, _converter(_name, _dtype))
TensorMethods.ndimension = dim
TensorMethods.nelement = numel
TensorMethods.data = property(_get_data, _set_data)
TensorMethods.device = property(lambda self: CPU if isinstance(self.array, np.ndarray)
                                else device_of(self.array))
TensorMethods.nbytes = property(lambda self: self.array.nbytes)
TensorMethods.itemsize = property(lambda self: self.array.itemsize)
TensorMethods.is_cuda = property(lambda self: self.device == "cuda")
TensorMethods.__array_priority__ = 1000
