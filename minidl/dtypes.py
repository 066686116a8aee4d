"""dtypes with PyTorch's names, and PyTorch's rules for mixing them."""

import builtins

import numpy as np

from minidl.errors import DTypeError


class dtype:
    """A tensor's element type, such as md.float32.

    >>> import minidl as md
    >>> md.float32.is_floating_point, md.int64.itemsize
    (True, 8)
    """

    __slots__ = ("_numpy", "category", "name")

    def __init__(self, name, category):
        self.name = name
        self.category = category  # 0 bool, 1 integer, 2 floating point: the order of promotion
        self._numpy = None

    @property
    def numpy(self):
        """The NumPy dtype; bfloat16 and float8 come from ml_dtypes (extra `half`)."""
        if self._numpy is None:
            self._numpy = np.dtype(getattr(_ml_dtypes(self.name), self.name))
            _BY_NUMPY[self._numpy] = self
        return self._numpy

    @property
    def is_floating_point(self):
        return self.category == 2

    @property
    def is_complex(self):
        return False

    @property
    def is_signed(self):
        return self.name not in ("bool", "uint8")

    @property
    def itemsize(self):
        return self.numpy.itemsize

    def __repr__(self):
        return f"minidl.{self.name}"

    def __reduce__(self):
        return (as_dtype, (self.name,))


def _ml_dtypes(name):
    try:
        import ml_dtypes
    except ImportError:
        raise ImportError(
            f"the dtype {name} needs the package ml_dtypes: pip install 'minidl[half]'"
        ) from None
    return ml_dtypes


float32 = dtype("float32", 2)
float64 = dtype("float64", 2)
float16 = dtype("float16", 2)
bfloat16 = dtype("bfloat16", 2)
int64 = dtype("int64", 1)
int32 = dtype("int32", 1)
uint8 = dtype("uint8", 1)
bool = dtype("bool", 0)

float = float32
double = float64
half = float16
long = int64
int = int32

ALL = (float32, float64, float16, bfloat16, int64, int32, uint8, bool)
_BY_NAME = {d.name: d for d in ALL} | {"float": float32, "double": float64, "half": float16,
                                       "long": int64, "int": int32}
for _d in ALL:
    if _d is not bfloat16:
        _d._numpy = np.dtype(_d.name)
_BY_NUMPY = {d._numpy: d for d in ALL if d._numpy is not None}
_RANK = {d: i for i, d in enumerate((bool, uint8, int32, int64, float16, bfloat16, float32,
                                     float64))}
_default = float32


def as_dtype(value, what="dtype"):
    """A dtype from a dtype, its name, a NumPy dtype or a Python type.

    >>> as_dtype("float32"), as_dtype(np.int64), as_dtype(complex)
    Traceback (most recent call last):
    minidl.errors.DTypeError: dtype: minidl has no complex128 ...
    """
    if isinstance(value, dtype):
        return value
    found = _BY_NAME.get(value) if isinstance(value, str) else None
    if found is None and value is _BUILTIN_FLOAT:
        return _default
    if found is None:
        try:
            found = from_numpy_dtype(np.dtype(value), what)
        except TypeError as error:
            if isinstance(error, DTypeError):
                raise
            raise DTypeError(f"{what}: {value!r} is not a dtype; use md.float32 and its like"
                             ) from None
    return found


_BUILTIN_FLOAT = builtins.float


def from_numpy_dtype(value, what="tensor"):
    """The minidl dtype of a NumPy dtype."""
    found = _BY_NUMPY.get(value)
    if found is None and value.name == "bfloat16":
        bfloat16.numpy  # noqa: B018  registers the ml_dtypes type
        found = _BY_NUMPY.get(value)
    if found is None:
        raise DTypeError(f"{what}: minidl has no {value.name} tensors; it has "
                         + ", ".join(d.name for d in ALL))
    return found


def get_default_dtype():
    """The dtype of new floating-point tensors, float32 unless set."""
    return _default


def set_default_dtype(d):
    """Make float32 or float64 the dtype of new floating-point tensors."""
    global _default
    d = as_dtype(d, "set_default_dtype")
    if d not in (float32, float64):
        raise DTypeError(f"set_default_dtype: expected float32 or float64, got {d.name}")
    _default = d


def promote_types(a, b):
    """The dtype that holds both, by PyTorch's rules.

    >>> promote_types(int64, float32), promote_types(uint8, int32)
    (minidl.float32, minidl.int32)
    """
    if {a, b} == {float16, bfloat16}:
        return float32
    return a if _RANK[a] >= _RANK[b] else b


def result_type(*operands):
    """PyTorch's result type of tensors (anything with .dtype and .ndim) and Python numbers.

    Tensors with dimensions decide; 0-d tensors count only when of a higher category (bool, integer,
    floating point), and Python numbers only when higher still.
    """
    ranks = [None, None, None]  # dimensioned, zero-dimensional, number
    for x in operands:
        if hasattr(x, "dtype"):
            d = x.dtype if isinstance(x.dtype, dtype) else from_numpy_dtype(x.dtype)
            place = 0 if x.ndim else 1
        else:
            d, place = number_dtype(x), 2
        ranks[place] = d if ranks[place] is None else promote_types(ranks[place], d)
    result = None
    for d in ranks:
        if d is not None and (result is None or d.category > result.category):
            result = d
    return result


def number_dtype(x):
    """The dtype a Python number counts as in promotion."""
    if isinstance(x, (_BUILTIN_BOOL, np.bool_)):
        return bool
    if isinstance(x, (_BUILTIN_INT, np.integer)):
        return int64
    if isinstance(x, (_BUILTIN_FLOAT, np.floating)):
        return _default
    if isinstance(x, (complex, np.complexfloating)):
        raise DTypeError("minidl has no complex numbers")
    raise DTypeError(f"expected a tensor or a number, got {type(x).__name__}")


_BUILTIN_BOOL = builtins.bool
_BUILTIN_INT = builtins.int
