"""``state_dict`` and ``load_state_dict``: a module's tensors by name, out and in again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from minidl._core import Tensor, overwrite
from minidl.grad_mode import no_grad

from .parameter import Parameter

if TYPE_CHECKING:
    from .module import Module


class IncompatibleKeys(NamedTuple):
    """What ``load_state_dict`` returns: the names it missed and those it did not know."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return (
            f"IncompatibleKeys(missing_keys={self.missing_keys}, "
            f"unexpected_keys={self.unexpected_keys})"
        )


class _Entry(NamedTuple):
    """One saved tensor and where it lives: ``getattr(owner, attribute) is tensor``."""

    owner: Module
    attribute: str
    tensor: Tensor


def _entries(module: Module, prefix: str = "") -> Iterator[tuple[str, _Entry]]:
    """Every parameter and persistent buffer by full name, shared ones under each of their names."""
    for name, tensor in module._parameters.items():
        if tensor is not None:
            yield prefix + name, _Entry(module, name, tensor)
    for name, buffer in module._buffers.items():
        if buffer is not None and module._buffer_names[name]:
            yield prefix + name, _Entry(module, name, buffer)
    for name, child in module._modules.items():
        if child is not None:
            yield from _entries(child, f"{prefix}{name}.")


def state_dict(
    module: Module, destination: Any = None, prefix: str = "", keep_vars: bool = False
) -> Any:
    """The tensors of ``module`` by name; tied ones are one object under several names."""
    result = OrderedDict() if destination is None else destination
    detached: dict[int, Tensor] = {}
    for name, entry in _entries(module, prefix):
        tensor = entry.tensor
        if not keep_vars:
            tensor = detached.setdefault(id(tensor), tensor.detach())
        result[name] = tensor
    return result


def load_state_dict(
    module: Module, state: Mapping[str, Any], strict: bool, assign: bool
) -> IncompatibleKeys:
    """Copy (or ``assign``) ``state`` into ``module``: all of it, or nothing and one error."""
    if not isinstance(state, Mapping):
        raise TypeError(f"load_state_dict: expected a dict, got {type(state).__name__}")
    entries = dict(_entries(module))
    values = {name: _as_tensor(name, state[name]) for name in entries if name in state}
    # A tied tensor may be saved under one of its names only.
    tied = {id(entries[name].tensor): name for name in values}
    missing = [n for n in entries if n not in values and id(entries[n].tensor) not in tied]
    unexpected = [name for name in state if name not in entries]
    problems = [
        f"{name}: has shape {tuple(value.shape)} in the state dict, "
        f"{tuple(entries[name].tensor.shape)} in the model"
        for name, value in values.items()
        if tuple(value.shape) != tuple(entries[name].tensor.shape)
    ]
    if problems or (strict and (missing or unexpected)):
        raise RuntimeError(_complaint(module, missing, unexpected, problems, strict))
    if assign:
        _assign(entries, values, tied)
    else:
        with no_grad():
            for name, value in values.items():
                target = entries[name].tensor
                placed = value.to(target.device, target.dtype)
                overwrite(target, "load_state_dict", placed.array)
    return IncompatibleKeys(missing, unexpected)


def _as_tensor(name: str, value: Any) -> Tensor:
    """A tensor as it is; NumPy arrays and PyTorch's tensors through ``__array__``."""
    if isinstance(value, Tensor):
        return value
    if not hasattr(value, "__array__"):
        raise TypeError(
            f"load_state_dict: {name} must be a tensor or an array, got {type(value).__name__}"
        )
    if hasattr(value, "detach"):
        value = value.detach()
    return Tensor(np.asarray(value))


def _assign(
    entries: dict[str, _Entry], values: dict[str, Tensor], tied: dict[int, str]
) -> None:
    """Put the given tensors in the place of the module's own; tied ones stay tied."""
    fresh: dict[int, Tensor] = {}
    for entry in entries.values():
        old = entry.tensor
        if id(old) not in tied:
            continue
        if id(old) not in fresh:
            value = values[tied[id(old)]]
            if isinstance(old, Parameter) and not isinstance(value, Parameter):
                value = Parameter(value, old.requires_grad)
            fresh[id(old)] = value
        setattr(entry.owner, entry.attribute, fresh[id(old)])


def _complaint(
    module: Module, missing: list[str], unexpected: list[str], problems: list[str], strict: bool
) -> str:
    lines = [f"the state dict does not fit {module._get_name()}; nothing was loaded:"]
    if strict and missing:
        lines.append(f"  missing ({len(missing)}): " + ", ".join(missing))
    if strict and unexpected:
        lines.append(f"  unexpected ({len(unexpected)}): " + ", ".join(unexpected))
    lines += [f"  {problem}" for problem in problems]
    prefix = _common_prefix(missing, unexpected)
    if prefix:
        lines.append(f'  the names match when "{prefix}" is taken off those of the state dict')
    return "\n".join(lines)


def _common_prefix(missing: list[str], unexpected: list[str]) -> str:
    """The prefix that a wrapper (``module.``, ``_orig_mod.``) put before every name, or ""."""
    if not missing or not unexpected or not unexpected[0].endswith(missing[0]):
        return ""
    prefix = unexpected[0][: len(unexpected[0]) - len(missing[0])]
    return prefix if {prefix + name for name in missing} <= set(unexpected) else ""
