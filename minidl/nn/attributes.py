"""What a module does with its attributes: parameters, buffers and child modules are registered."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from minidl._core import Tensor

from .parameter import Parameter

if TYPE_CHECKING:
    from .module import Module


class Attributes:
    """The part of ``Module`` that keeps track of its parameters, buffers and child modules.

    They live in the instance's ``__dict__`` as any attribute does, so that reading one in
    ``forward`` costs nothing extra; beside them are their names, in the order they were set.

    >>> layer = nn.Linear(2, 3)
    >>> list(layer._parameters)
    ['weight', 'bias']
    """

    training: bool
    _parameter_names: dict[str, bool]
    _buffer_names: dict[str, bool]  # name -> is it saved in the state dict?
    _module_names: dict[str, bool]

    def __init__(self) -> None:
        self.__dict__.update(
            training=True, _parameter_names={}, _buffer_names={}, _module_names={}
        )

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Parameter):
            self._need_init("parameters")
            self._forget(name, self._buffer_names, self._module_names)
            self.__dict__.pop(name, None)
            self.register_parameter(name, value)
        elif isinstance(value, Attributes):
            self._need_init("module")
            self._forget(name, self._parameter_names, self._buffer_names)
            self._module_names[name] = True
            self.__dict__[name] = value
        else:
            self._check_value(name, value)
            object.__setattr__(self, name, value)

    def _check_value(self, name: str, value: Any) -> None:
        """A registered name takes its own kind of value, or None."""
        own = self.__dict__
        if value is None:
            return
        if name in own.get("_parameter_names", ()):
            raise TypeError(_cannot_assign(value, name, "parameter", "Parameter"))
        if name in own.get("_module_names", ()):
            raise TypeError(_cannot_assign(value, name, "child module", "Module"))
        if name in own.get("_buffer_names", ()) and not isinstance(value, Tensor):
            raise TypeError(_cannot_assign(value, name, "buffer", "Tensor"))

    def __delattr__(self, name: str) -> None:
        self._forget(name, self._parameter_names, self._buffer_names, self._module_names)
        object.__delattr__(self, name)

    def _need_init(self, what: str) -> None:
        if "_module_names" not in self.__dict__:
            raise AttributeError(f"cannot assign {what} before Module.__init__() call")

    @staticmethod
    def _forget(name: str, *tables: dict[str, bool]) -> None:
        for names in tables:
            names.pop(name, None)

    def _check_name(self, name: str, known: Mapping[str, bool], what: str) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{what} name should be a string, got {type(name).__name__}")
        if name == "" or "." in name:
            raise KeyError(f'{what} name cannot be empty or contain ".", got {name!r}')
        if name not in known and hasattr(self, name):
            raise KeyError(f"attribute {name!r} already exists in {type(self).__name__}")

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter under ``name``; ``None`` reserves the name (``bias=False``)."""
        self._need_init("parameters")
        self._check_name(name, self._parameter_names, "parameter")
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(_cannot_assign(param, name, "parameter", "Parameter"))
        if param is not None and not param.is_leaf:
            raise ValueError(
                f"cannot assign a tensor that was computed to parameter {name!r}: a parameter is "
                "a leaf; to train a function of another tensor, compute it in forward()"
            )
        self._parameter_names[name] = True
        self.__dict__[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that belongs to the module's state but is not trained (a mask, a running
        mean). It follows ``to()``; it is in the state dict if ``persistent``.

        >>> layer = nn.Linear(2, 3)
        >>> layer.register_buffer("mask", md.ones(3, 3).tril())
        >>> list(layer.state_dict())
        ['weight', 'bias', 'mask']
        """
        self._need_init("buffers")
        self._check_name(name, self._buffer_names, "buffer")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(_cannot_assign(tensor, name, "buffer", "Tensor"))
        self._buffer_names[name] = persistent
        self.__dict__[name] = tensor

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a child module under ``name``."""
        self._need_init("module")
        if module is not None and not isinstance(module, Attributes):
            raise TypeError(f"{type(module).__name__} is not a Module subclass")
        self._check_name(name, self._module_names, "module")
        self._module_names[name] = True
        self.__dict__[name] = module

    register_module = add_module

    def _table(self, names: Mapping[str, bool]) -> Mapping[str, Any]:
        own = self.__dict__
        return MappingProxyType({name: own[name] for name in names})

    @property
    def _parameters(self) -> Mapping[str, Parameter | None]:
        return self._table(self._parameter_names)

    @property
    def _buffers(self) -> Mapping[str, Tensor | None]:
        return self._table(self._buffer_names)

    @property
    def _modules(self) -> Mapping[str, Module | None]:
        return self._table(self._module_names)


def _cannot_assign(value: object, name: str, kind: str, expected: str) -> str:
    return (
        f"cannot assign {type(value).__name__!r} object to {kind} {name!r} "
        f"({expected} or None expected)"
    )
