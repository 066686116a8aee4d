"""Exceptions that speak to the user. Each is also the builtin class a script would catch."""


class MinidlError(Exception):
    """Base of all errors raised on purpose; nn.Module prefixes the module's path to its message."""


class ShapeError(MinidlError, ValueError, RuntimeError):
    """Shapes that do not fit together, or a dimension out of place."""


class DTypeError(MinidlError, TypeError, RuntimeError):
    """A dtype that an operation does not take."""


class ArgumentError(MinidlError, ValueError, RuntimeError):
    """An argument whose value makes no sense."""


class DimensionError(MinidlError, IndexError):
    """A dimension or an index outside its range."""


class GradientError(MinidlError, RuntimeError):
    """A misuse of the tape: no graph, a freed graph, or a saved value overwritten."""


class DeviceError(MinidlError, RuntimeError):
    """Tensors on different devices, or a device that is not there."""


class NonFiniteError(MinidlError, ArithmeticError):
    """The first operation that produced NaN or inf while md.autograd.detect_nonfinite() was on."""


class UnsupportedError(MinidlError, NotImplementedError):
    """Something PyTorch takes and minidl does not."""


class CheckpointError(MinidlError, ValueError, RuntimeError):
    """A saved file that is damaged, cut off, or not what its name says; nothing was loaded."""


class CheckpointWarning(UserWarning):
    """A damaged checkpoint was passed over for the one before it."""
