"""Containers: modules that hold modules or parameters in order or by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from minidl._core import Tensor

from . import describe
from .module import Module
from .parameter import Parameter


def _position(index: int, length: int) -> int:
    """A list index as 0 <= position < length."""
    if not -length <= index < length:
        raise IndexError(f"index {index} is out of range for a container of length {length}")
    return index % length


class _Numbered(Module):
    """Children under the names "0", "1", ...: what Sequential and ModuleList share."""

    def __len__(self) -> int:
        return len(self._module_names)

    def __iter__(self) -> Iterator[Module]:
        own = self.__dict__
        return iter([own[name] for name in self._module_names])

    def _name(self, index: int) -> str:
        position = _position(index.__index__(), len(self))
        return next(islice(self._module_names, position, None))

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return self._from_children(list(self._modules.items())[index])
        return self.__dict__[self._name(index)]

    def _from_children(self, children: list[tuple[str, Any]]) -> Any:
        """A new container with some of the children (each with the name it has here)."""
        new = type(self)()
        for child in children:
            new.append(child[1])
        return new

    def __setitem__(self, index: int, module: Module) -> None:
        if not isinstance(module, Module):
            raise TypeError(f"{type(module).__name__} is not a Module subclass")
        setattr(self, self._name(index), module)

    def __delitem__(self, index: int | slice) -> None:
        names = list(self._module_names)
        numbered = all(name.isdigit() for name in names)
        for name in names[index] if isinstance(index, slice) else [self._name(index)]:
            delattr(self, name)
        if numbered:
            self._replace(list(self))

    def _replace(self, modules: list[Module]) -> None:
        """Hold exactly these children, numbered from 0."""
        for name in list(self._module_names):
            delattr(self, name)
        for i, module in enumerate(modules):
            self.add_module(str(i), module)

    def append(self, module: Module) -> Any:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Any:
        """Add modules at the end."""
        if isinstance(modules, (str, bytes)) or not isinstance(modules, Iterable):
            raise TypeError(f"extend takes modules, got {type(modules).__name__}")
        for module in list(modules):
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Any:
        """Put a module before position ``index``."""
        if not isinstance(module, Module):
            raise TypeError(f"{type(module).__name__} is not a Module subclass")
        modules = list(self)
        modules.insert(index, module)
        self._replace(modules)
        return self

    def pop(self, index: int = -1) -> Module:
        """Take the module at ``index`` out and return it."""
        module = self[index]
        del self[index]
        return module

    def __iadd__(self, other: Iterable[Module]) -> Any:
        return self.extend(other)


class Sequential(_Numbered):
    """Modules one after the other: ``y = f_n(... f_1(f_0(x)))``.

    Takes modules, or one ``dict`` of name -> module. Indexes, slices and iterates as a list.

    >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> net(md.randn(3, 4)).shape
    (3, 2)
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        named = len(args) == 1 and isinstance(args[0], Mapping)
        for name, module in args[0].items() if named else enumerate(args):
            self.add_module(str(name), module)

    def _from_children(self, children: list[tuple[str, Any]]) -> Sequential:
        return type(self)(dict(children))

    def forward(self, input: Any) -> Any:
        """``input`` through every module in turn."""
        for module in self:
            input = module(input)
        return input

    def __add__(self, other: Sequential) -> Sequential:
        return Sequential(*self, *other)


class ModuleList(_Numbered):
    """A list of modules that the parent knows; it has no ``forward`` of its own.

    >>> blocks = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))
    >>> x = md.randn(2, 8)
    >>> for block in blocks:
    ...     x = block(x)
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def _child_lines(self) -> list[str]:
        return describe.collapsed_lines(self)


class ModuleDict(Module):
    """A dict of modules that the parent knows.

    >>> heads = nn.ModuleDict({"class": nn.Linear(8, 10), "score": nn.Linear(8, 1)})
    >>> heads["class"](md.randn(2, 8)).shape
    (2, 10)
    """

    def __init__(self, modules: Mapping[str, Module] | Iterable[Any] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        if key not in self._module_names:
            raise KeyError(key)
        return self.__dict__[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        self.pop(key)

    def __len__(self) -> int:
        return len(self._module_names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._module_names)

    def __contains__(self, key: object) -> bool:
        return key in self._module_names

    def clear(self) -> None:
        """Take every module out."""
        for key in list(self._module_names):
            delattr(self, key)

    def pop(self, key: str) -> Module:
        """Take the module under ``key`` out and return it."""
        module = self[key]
        delattr(self, key)
        return module

    def keys(self) -> Any:
        """The names."""
        return self._modules.keys()

    def values(self) -> Any:
        """The modules."""
        return self._modules.values()

    def items(self) -> Any:
        """The (name, module) pairs."""
        return self._modules.items()

    def update(self, modules: Mapping[str, Module] | Iterable[Any]) -> None:
        """Set modules from a mapping or from (name, module) pairs."""
        for key, module in dict(modules).items():
            self[key] = module


def _as_parameter(value: Any) -> Any:
    is_plain = isinstance(value, Tensor) and not isinstance(value, Parameter)
    return Parameter(value) if is_plain else value


class ParameterList(Module):
    """A list of parameters that the parent knows; tensors become parameters.

    >>> scales = nn.ParameterList([md.ones(8), md.ones(4)])
    >>> len(list(scales.parameters()))
    2
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter(self[i] for i in range(len(self)))

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return self.__dict__[str(_position(index, self._size))]

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, str(_position(index, self._size)), _as_parameter(value))

    def append(self, value: Any) -> ParameterList:
        """Add a parameter at the end."""
        self._size += 1
        self[-1] = value
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Add parameters at the end."""
        if isinstance(values, Tensor) or not isinstance(values, Iterable):
            raise TypeError(f"extend takes a list of parameters, got {type(values).__name__}")
        for value in list(values):
            self.append(value)
        return self

    def __iadd__(self, values: Iterable[Any]) -> ParameterList:
        return self.extend(values)

    def extra_repr(self) -> str:
        """One line per parameter."""
        return "\n".join(f"({i}): {_shape_line(value)}" for i, value in enumerate(self))


class ParameterDict(Module):
    """A dict of parameters that the parent knows; tensors become parameters.

    >>> params = nn.ParameterDict({"gain": md.ones(8), "shift": md.zeros(8)})
    >>> list(params)
    ['gain', 'shift']
    """

    def __init__(self, parameters: Mapping[str, Any] | Iterable[Any] | None = None) -> None:
        super().__init__()
        self._keys: dict[str, bool] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        if key not in self._keys:
            raise KeyError(key)
        return self.__dict__[key]

    def __setitem__(self, key: str, value: Any) -> None:
        if key not in self._keys and hasattr(self, key):
            raise KeyError(f"attribute {key!r} already exists in {type(self).__name__}")
        setattr(self, key, _as_parameter(value))
        self._keys[key] = True

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def keys(self) -> Any:
        """The names."""
        return self._keys.keys()

    def values(self) -> Any:
        """The parameters."""
        return [self[key] for key in self]

    def items(self) -> Any:
        """The (name, parameter) pairs."""
        return [(key, self[key]) for key in self]

    def get(self, key: str, default: Any = None) -> Any:
        """The parameter under ``key``, or ``default``."""
        return self.__dict__[key] if key in self._keys else default

    def pop(self, key: str) -> Any:
        """Take the parameter under ``key`` out and return it."""
        value = self[key]
        del self[key]
        return value

    def update(self, parameters: Mapping[str, Any] | Iterable[Any]) -> None:
        """Set parameters from a mapping or from (name, parameter) pairs."""
        for key, value in dict(parameters).items():
            self[key] = value

    def extra_repr(self) -> str:
        """One line per parameter."""
        return "\n".join(f"({key}): {_shape_line(value)}" for key, value in self.items())


def _shape_line(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{type(value).__name__} of shape {tuple(value.shape)}, {value.dtype}"
    return f"object of type {type(value).__name__}"
