"""New tensors: from data, from arrays that already exist, and filled ones."""

import math

import numpy as np

from minidl import dtypes, errors
from minidl._core import Tensor
from minidl._methods import TensorMethods
from minidl.ops.device import backend_on
from minidl.ops.dims import check_memory_format, integer, sizes
from minidl.ops.promotion import backend_for, element
from minidl_kernels import EXACT

__all__ = ["arange", "as_tensor", "asarray", "empty", "empty_like", "eye", "from_numpy", "full",
           "full_like", "linspace", "ones", "ones_like", "scalar_tensor", "tensor",
           "tril_indices", "triu_indices", "zeros", "zeros_like"]


# ------------------------------------------------------------------------------------- from data

def tensor(data, *, dtype=None, device=None, requires_grad=False):
    """A tensor with a copy of the data: numbers, nested lists, NumPy arrays, tensors.

    Python floats become the default dtype (float32), integers int64, arrays keep theirs.

    >>> md.tensor([[1, 2], [3, 4]]).dtype
    minidl.int64
    >>> md.tensor(1.5)
    tensor(1.5000)
    """
    be = backend_on("tensor", where_of(data, device))
    array = as_array("tensor", data, dtype)
    shared = (isinstance(data, Tensor) and array is data.array) or array is data
    if be is not EXACT or type(array) is not np.ndarray:
        return Tensor(placed(be, array, shared), requires_grad=requires_grad)
    return Tensor(EXACT.copy(array) if shared or array.base is not None else aligned(array),
                  requires_grad=requires_grad)


def placed(be, array, copied=False):
    """An array where a backend makes its own: itself when it is there, unless `copied`."""
    if isinstance(array, np.ndarray):
        return be.array(array) if be is not EXACT else EXACT.copy(array) if copied else array
    if be is array.backend:
        return be.copy(array) if copied else array
    return array.numpy() if be is EXACT else be.array(array.numpy())


def where_of(data, device):
    """The device= of a function that keeps the place of a tensor unless told."""
    return data.device if device is None and isinstance(data, Tensor) else device


def aligned(array):
    """An array of our own as 64-byte aligned memory, which other libraries can take over."""
    return array if array.ctypes.data % 64 == 0 and array.flags.c_contiguous else EXACT.copy(array)


def as_array(name, data, dtype):
    """Data as an array of a minidl dtype; the caller decides whether it must be a copy."""
    wanted = None if dtype is None else dtypes.as_dtype(dtype, name).numpy
    if isinstance(data, Tensor):
        array = data.array
    elif isinstance(data, (np.ndarray, np.generic)) or hasattr(data, "__array__"):
        array = np.asarray(data)
    else:
        array = from_python(name, data, wanted)
        if wanted is not None and wanted.kind in "iu" and array.size and array.dtype.kind != "b":
            for extreme in (array.min(), array.max()):
                element(name, extreme.item(), wanted)
    if wanted is None:
        dtypes.from_numpy_dtype(array.dtype, name)
        return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    if array.dtype.kind == "c":
        raise errors.DTypeError(f"{name}: minidl has no complex numbers")
    return array if array.dtype == wanted else backend_for(wanted, array).cast(array, wanted)


def from_python(name, data, wanted):
    """Numbers and nested lists (of numbers or 0-d tensors) as an array."""
    if isinstance(data, (list, tuple)):
        data = plain(data)
    elif not isinstance(data, (bool, int, float)):
        if isinstance(data, complex):
            raise errors.DTypeError(f"{name}: minidl has no complex numbers")
        raise TypeError(f"{name}: cannot make a tensor of {type(data).__name__}; pass numbers, "
                        "nested lists, arrays or tensors")
    try:
        array = np.array(data)
    except ValueError:
        raise errors.ShapeError(f"{name}: the nested lists are ragged: every list of a level must "
                                "have the same length") from None
    except OverflowError as error:
        raise errors.ArgumentError(f"{name}: {error}") from None
    if array.dtype.kind == "f" or (array.size == 0 and array.dtype.kind != "b"):
        return array if wanted is not None else EXACT.cast(array, dtypes.get_default_dtype().numpy)
    if array.dtype.kind not in "bi":
        raise errors.DTypeError(f"{name}: cannot make a tensor of elements of NumPy's "
                                f"{array.dtype.name}; minidl has "
                                + ", ".join(d.name for d in dtypes.ALL))
    return array


def plain(data):
    """Nested lists with tensors inside replaced by lists."""
    return [plain(x) if isinstance(x, (list, tuple)) else
            x.array.tolist() if isinstance(x, Tensor) else x for x in data]


def as_tensor(data, dtype=None, device=None):
    """A tensor over the data, copied only when it must be (lists, or another dtype).

    >>> x = md.zeros(2)
    >>> md.as_tensor(x) is x
    True
    """
    be = backend_on("as_tensor", device)
    if isinstance(data, Tensor):
        return data if dtype is device is None else data.to(dtype=dtype, device=device)
    return Tensor(placed(be, as_array("as_tensor", data, dtype)))


def asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=False):
    """as_tensor() with the array API's copy=: True always copies, False never does."""
    be = backend_on("asarray", where_of(obj, device))
    array = placed(be, as_array("asarray", obj, dtype))
    given = obj.array if isinstance(obj, Tensor) else obj
    shares = array is given or (isinstance(given, np.ndarray) and isinstance(array, np.ndarray)
                                and np.may_share_memory(array, given))
    if copy is False and not shares:
        raise errors.ArgumentError("asarray: copy=False, but the data can only be copied")
    return Tensor(be.copy(array) if copy and shares else array, requires_grad=requires_grad)


def from_numpy(ndarray):
    """A tensor that shares the memory of a NumPy array: writes to one show in the other.

    >>> a = np.zeros(2)
    >>> md.from_numpy(a)[0] = 5
    >>> a
    array([5., 0.])
    """
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"from_numpy: expected a NumPy array, got {type(ndarray).__name__}")
    if not ndarray.dtype.isnative or any(s < 0 for s in ndarray.strides):
        raise errors.ArgumentError("from_numpy: negative strides and foreign byte orders are not "
                                   "supported; pass a .copy()")
    return Tensor(ndarray.view(np.ndarray))


def scalar_tensor(s, *, dtype=None, device=None, requires_grad=False):
    """A 0-d tensor of a number, in the default dtype unless told."""
    return full((), s, dtype=dtype or dtypes.get_default_dtype(), device=device,
                requires_grad=requires_grad)


# ---------------------------------------------------------------------------------------- filled

def shape_of(name, size):
    """The shape given as f(2, 3), f((2, 3)) or f([2, 3])."""
    shape = sizes(name, size[0], size[1:]) if size else ()
    if any(n < 0 for n in shape):
        raise errors.ShapeError(f"{name}: sizes must not be negative, got {shape}")
    return shape


def new(name, shape, value, dtype, device, requires_grad):
    """A tensor with every element `value`; None leaves them as they come."""
    be = backend_on(name, device)
    dtype = (dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype, name)).numpy
    array = be.empty(shape, dtype) if value is None else be.full(shape, value, dtype)
    return Tensor(array, requires_grad=requires_grad)


def zeros(*size, dtype=None, device=None, requires_grad=False, **given):
    """A tensor of zeros.

    >>> md.zeros(2, 3).shape, md.zeros((2,), dtype=md.int64)
    ((2, 3), tensor([0, 0]))
    """
    return new("zeros", shape_of("zeros", named(size, given)), 0, dtype, device, requires_grad)


def ones(*size, dtype=None, device=None, requires_grad=False, **given):
    """A tensor of ones."""
    return new("ones", shape_of("ones", named(size, given)), 1, dtype, device, requires_grad)


def empty(*size, dtype=None, device=None, requires_grad=False, **given):
    """A tensor whose elements are whatever the memory holds."""
    return new("empty", shape_of("empty", named(size, given)), None, dtype, device, requires_grad)


def named(size, given):
    """The sizes of f(size=(2, 3)) as those of f((2, 3))."""
    if given:
        if set(given) != {"size"} or size:
            raise TypeError(f"unexpected argument '{next(iter(set(given) - {'size'}), 'size')}'")
        return (given["size"],)
    return size


def full(size, fill_value, *, dtype=None, device=None, requires_grad=False):
    """A tensor with every element fill_value, whose type decides the dtype unless it is given.

    >>> md.full((2,), 7)
    tensor([7, 7])
    """
    value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    if dtype is None:
        dtype = dtypes.number_dtype(value)
    return new("full", shape_of("full", (size,)), number("full", value, dtype), dtype, device,
               requires_grad)


def number(name, value, dtype):
    """A number that an element of dtype can hold."""
    if isinstance(value, Tensor):
        value = value.item()
    if not isinstance(value, (bool, int, float, np.number, np.bool_)):
        raise TypeError(f"{name}: expected a number, got {type(value).__name__}")
    return element(name, value, dtypes.as_dtype(dtype, name).numpy)


def _like(input, value, name, dtype, device, requires_grad, memory_format):
    check_memory_format(name, memory_format)
    if not isinstance(input, Tensor):
        raise TypeError(f"{name}: expected a tensor, got {type(input).__name__}")
    return new(name, input.shape, value, input.dtype if dtype is None else dtype,
               where_of(input, device), requires_grad)


def zeros_like(input, *, dtype=None, device=None, requires_grad=False, memory_format=None):
    """Zeros of the tensor's shape and dtype."""
    return _like(input, 0, "zeros_like", dtype, device, requires_grad, memory_format)


def ones_like(input, *, dtype=None, device=None, requires_grad=False, memory_format=None):
    """Ones of the tensor's shape and dtype."""
    return _like(input, 1, "ones_like", dtype, device, requires_grad, memory_format)


def empty_like(input, *, dtype=None, device=None, requires_grad=False, memory_format=None):
    """Uninitialised memory of the tensor's shape and dtype."""
    return _like(input, None, "empty_like", dtype, device, requires_grad, memory_format)


def full_like(input, fill_value, *, dtype=None, device=None, requires_grad=False,
              memory_format=None):
    """fill_value in the tensor's shape and dtype."""
    value = number("full_like", fill_value, input.dtype if dtype is None else dtype)
    return _like(input, value, "full_like", dtype, device, requires_grad, memory_format)


def new_zeros(self, *size, dtype=None, device=None, requires_grad=False, **given):
    """Zeros of a new shape in the tensor's dtype."""
    return new("new_zeros", shape_of("new_zeros", named(size, given)), 0,
               self.dtype if dtype is None else dtype, where_of(self, device), requires_grad)


def new_ones(self, *size, dtype=None, device=None, requires_grad=False, **given):
    """Ones of a new shape in the tensor's dtype."""
    return new("new_ones", shape_of("new_ones", named(size, given)), 1,
               self.dtype if dtype is None else dtype, where_of(self, device), requires_grad)


def new_empty(self, *size, dtype=None, device=None, requires_grad=False, **given):
    """Uninitialised memory of a new shape in the tensor's dtype."""
    return new("new_empty", shape_of("new_empty", named(size, given)), None,
               self.dtype if dtype is None else dtype, where_of(self, device), requires_grad)


def new_full(self, size, fill_value, *, dtype=None, device=None, requires_grad=False):
    """fill_value in a new shape and the tensor's dtype."""
    return full(size, fill_value, dtype=self.dtype if dtype is None else dtype,
                device=where_of(self, device), requires_grad=requires_grad)


def new_tensor(self, data, *, dtype=None, device=None, requires_grad=False):
    """A tensor with a copy of the data in this tensor's dtype."""
    return tensor(data, dtype=self.dtype if dtype is None else dtype,
                  device=where_of(self, device), requires_grad=requires_grad)


# ------------------------------------------------------------------------------------- sequences

def arange(start=0, end=None, step=1, *, dtype=None, device=None, requires_grad=False):
    """start, start + step, ... up to but not including end.

    >>> md.arange(3), md.arange(1.0, 2.0, 0.5)
    (tensor([0, 1, 2]), tensor([1.0000, 1.5000]))
    """
    be = backend_on("arange", device)
    if end is None:
        start, end = 0, start
    start, end, step = [x.item() if isinstance(x, Tensor) else x for x in (start, end, step)]
    whole = True
    for x in (start, end, step):
        if type(x) is int:
            continue
        if isinstance(x, (bool, complex)) or not isinstance(x, (int, float, np.number)):
            raise TypeError(f"arange: start, end and step must be numbers, got {x!r}")
        if not math.isfinite(x):
            raise errors.ArgumentError(f"arange: the range from {start} to {end} by {step} has no "
                                       "end")
        whole = whole and isinstance(x, (int, np.integer))
    if step == 0 or (end - start) * step < 0:
        raise errors.ArgumentError(f"arange: a step of {step} does not lead from {start} to {end}")
    if dtype is None:
        dtype = dtypes.int64 if whole else dtypes.get_default_dtype()
    if dtype is dtypes.int64:
        start, end, step, whole = int(start), int(end), int(step), True
        if step == 0:
            raise errors.ArgumentError("arange: a step below 1 never moves in int64")
    n = -((start - end) // step) if whole else math.ceil((end - start) / step)
    d = dtypes.as_dtype(dtype, "arange")
    if d.category == 1 and not whole:  # as many as in floating point, in whole steps
        start, step, whole = int(start), int(step), True
    values = np.arange(n, dtype=np.int64 if whole else np.float64)
    if step != 1:
        values *= step
    if start != 0:
        values += start
    values = EXACT.copy(values) if values.dtype == d.numpy else EXACT.cast(values, d.numpy)
    return Tensor(placed(be, values), requires_grad=requires_grad)


def linspace(start, end, steps, *, dtype=None, device=None, requires_grad=False):
    """`steps` numbers from start to end, both included.

    >>> md.linspace(0, 1, 3)
    tensor([0.0000, 0.5000, 1.0000])
    """
    be = backend_on("linspace", device)
    start, end = [x.item() if isinstance(x, Tensor) else x for x in (start, end)]
    n = integer("linspace", steps, "steps")
    if n < 0:
        raise errors.ArgumentError(f"linspace: steps must not be negative, got {n}")
    d = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype, "linspace")
    if d.category == 1:
        start, end = int(start), int(end)
    at = np.arange(n)
    step = (end - start) / (n - 1) if n > 1 else 0.0
    # from both ends towards the middle, so that the last element is `end` exactly
    values = np.where(at < n / 2, start + step * at, end - step * (n - 1 - at))
    if n == 1:
        values = np.full(1, start, np.float64)
    return Tensor(placed(be, EXACT.cast(values, d.numpy)), requires_grad=requires_grad)


def eye(n, m=None, *, dtype=None, device=None, requires_grad=False):
    """Ones on the diagonal of an [n, m] matrix (m = n unless given), zeros elsewhere.

    >>> md.eye(2)
    tensor([[1., 0.],
            [0., 1.]])
    """
    be = backend_on("eye", device)
    out = zeros((n, n if m is None else m), dtype=dtype)
    np.fill_diagonal(out.array, 1)
    return Tensor(placed(be, out.array), requires_grad=requires_grad)


def tril_indices(row, col, offset=0, *, dtype=dtypes.int64, device=None):
    """Rows and columns of the lower triangle of a [row, col] matrix, as [2, N]."""
    return tensor(np.stack(np.tril_indices(row, offset, col)), dtype=dtype, device=device)


def triu_indices(row, col, offset=0, *, dtype=dtypes.int64, device=None):
    """Rows and columns of the upper triangle of a [row, col] matrix, as [2, N]."""
    return tensor(np.stack(np.triu_indices(row, offset, col)), dtype=dtype, device=device)


for _fn in (new_zeros, new_ones, new_empty, new_full, new_tensor):
    setattr(TensorMethods, _fn.__name__, _fn)
