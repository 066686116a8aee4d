"""The Python half of Tensor: ops attach themselves here (minidl/_core.pyx: @op)."""


class TensorMethods:
    """Base of Tensor that, unlike a compiled class, takes new attributes at run time."""

    __slots__ = ()
