"""Switches for recording: no_grad, enable_grad, inference_mode, set_grad_enabled."""

from minidl._core import grad_enabled


class _Mode:
    """A context, or a decorator, inside which recording is on or off."""

    enabled = False

    def __new__(cls, fn=None):
        self = object.__new__(cls)
        self._before = []
        return self if fn is None else self(fn)  # a bare decorator: @md.no_grad

    def __enter__(self):
        self._before.append(grad_enabled(self.enabled))
        return self

    def __exit__(self, *exc):
        grad_enabled(self._before.pop())

    def __call__(self, fn):
        from functools import wraps

        @wraps(fn)
        def wrapper(*args, **kwargs):
            with type(self)():
                return fn(*args, **kwargs)

        return wrapper


class no_grad(_Mode):
    """Record nothing inside.

    >>> import minidl as md
    >>> x = md.ones(2, requires_grad=True)
    >>> with md.no_grad():
    ...     (x * 2).requires_grad
    False
    """


class enable_grad(_Mode):
    """Record again inside a no_grad block."""

    enabled = True


class inference_mode(_Mode):
    """The same as no_grad: tensors carry no further bookkeeping that could be left out."""

    def __new__(cls, mode=True):
        self = super().__new__(cls, mode if callable(mode) else None)
        if mode is False:
            self.enabled = True
        return self


class set_grad_enabled:
    """Switch recording on or off at once; as a context, restore it at the end."""

    def __init__(self, mode):
        self._before = grad_enabled(bool(mode))

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        grad_enabled(self._before)


def is_grad_enabled():
    """Whether operations are being recorded."""
    return grad_enabled()
