"""``Module.to``: other dtypes and devices for a module's tensors, in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from minidl._core import Tensor
from minidl.dtypes import dtype

if TYPE_CHECKING:
    from .module import Module

M = TypeVar("M", bound="Module")
Conversion = Callable[[Tensor], Tensor]


def conversion(*args: Any, **kwargs: Any) -> Conversion:
    """The function that ``to(*args, **kwargs)`` means for one tensor.

    ``to(device)``, ``to(dtype)``, ``to(device, dtype)``, ``to(tensor)``, or by keyword; integer
    and bool tensors keep their dtype.
    """
    wanted = kwargs.pop("dtype", None)
    device = kwargs.pop("device", None)
    kwargs.pop("non_blocking", None)
    if kwargs:
        raise TypeError(f"Module.to got an unexpected argument {next(iter(kwargs))!r}")
    for arg in args:
        if isinstance(arg, dtype):
            wanted = arg
        elif isinstance(arg, Tensor):
            wanted, device = arg.dtype, arg.device
        elif not isinstance(arg, bool) and arg is not None:
            device = arg
    if wanted is not None and not wanted.is_floating_point:
        raise TypeError(f"Module.to takes floating-point dtypes only, got {wanted}")

    def convert_tensor(tensor: Tensor) -> Tensor:
        kind = wanted if tensor.is_floating_point() else None
        return tensor.to(device=device, dtype=kind)

    return convert_tensor


def convert(module: M, fn: Conversion) -> M:
    """Replace the data of every parameter, gradient and buffer ``t`` of ``module`` by ``fn(t)``.

    The parameters stay the same objects; a shared buffer stays shared.
    """
    for param in module.parameters():
        grad = param.grad
        param.data = fn(param.data)
        if grad is not None:
            param.grad = fn(grad)
    buffers: dict[int, Tensor] = {}
    for owner in module.modules():
        for name, buffer in owner._buffers.items():
            if buffer is not None:
                if id(buffer) not in buffers:
                    buffers[id(buffer)] = fn(buffer)
                setattr(owner, name, buffers[id(buffer)])
    return module
