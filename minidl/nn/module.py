"""Module: the base class of every layer and model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from minidl import dtypes
from minidl._core import Tensor
from minidl.errors import MinidlError
from minidl.grad_mode import no_grad

from . import describe, state
from .attributes import Attributes
from .convert import conversion, convert
from .hooks import ForwardHooks, RemovableHandle
from .parameter import Parameter

M = TypeVar("M", bound="Module")


class Module(Attributes):
    """A function with parameters: subclass it, set parameters and modules as attributes in
    ``__init__``, and write ``forward``.

    >>> class MLP(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.up = nn.Linear(4, 16)
    ...         self.down = nn.Linear(16, 2)
    ...     def forward(self, x):
    ...         return self.down(self.up(x).relu())
    >>> MLP()(md.randn(3, 4)).shape
    (3, 2)
    """

    _hooks: ForwardHooks | None = None

    # ---- calling

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            if self._hooks is None:
                return self.forward(*args, **kwargs)
            return self._hooks.call(self, args, kwargs)
        except MinidlError as error:
            describe.add_path(error, self)
            raise

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The computation; every subclass writes its own."""
        raise NotImplementedError(
            f"{self._get_name()} has no forward method: write one, it is what calling a module runs"
        )

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call ``hook(module, args, output)`` after each forward; what it returns, unless None,
        replaces the output.

        >>> layer = nn.ReLU()
        >>> handle = layer.register_forward_hook(lambda module, args, output: output * 2)
        >>> layer(md.tensor([-1.0, 2.0]))
        tensor([0., 4.])
        """
        table = self._hook_tables().after
        return ForwardHooks.add(table, hook, prepend, with_kwargs, always_call)

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args)`` before each forward; what it returns, unless None, replaces
        the arguments.

        >>> layer = nn.ReLU()
        >>> handle = layer.register_forward_pre_hook(lambda module, args: (-args[0],))
        >>> layer(md.tensor([-1.0, 2.0]))
        tensor([1., 0.])
        """
        return ForwardHooks.add(self._hook_tables().before, hook, prepend, with_kwargs)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> Any:
        """Not supported: modules have forward hooks only, tensors have ``register_hook``."""
        raise NotImplementedError(
            "module backward hooks are not supported; use register_hook on the tensors that the "
            "module takes or returns"
        )

    def _hook_tables(self) -> ForwardHooks:
        if self._hooks is None:
            self._hooks = ForwardHooks()
        return self._hooks

    # ---- walking

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module and every one below it with their dotted names, each module once."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, child in self._modules.items():
            if child is not None:
                path = f"{prefix}.{name}" if prefix else name
                yield from child.named_modules(memo, path, remove_duplicate)

    def modules(self) -> Iterator[Module]:
        """This module and every one below it, each once."""
        found: dict[int, Module] = {}
        below: list[Module] = [self]
        while below:
            module = below.pop()
            if id(module) not in found:
                found[id(module)] = module
                own = module.__dict__
                for name in reversed(module._module_names):
                    if own[name] is not None:
                        below.append(own[name])
        return iter(found.values())

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules directly below this one, with their names, each once."""
        seen: set[Module] = set()
        for name, child in self._modules.items():
            if child is not None and child not in seen:
                seen.add(child)
                yield name, child

    def children(self) -> Iterator[Module]:
        """The modules directly below this one."""
        return (child for _, child in self.named_children())

    def _named_tensors(
        self, kind: str, prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        for path, module in modules if recurse else [(prefix, self)]:
            for name, tensor in getattr(module, kind).items():
                if tensor is None or id(tensor) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(tensor))
                yield (f"{path}.{name}" if path else name), tensor

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """The parameters with their dotted names; a tied one once, under its first name.

        >>> [name for name, _ in nn.Linear(2, 3).named_parameters()]
        ['weight', 'bias']
        """
        return self._named_tensors("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters, a tied one once: what an optimizer takes."""
        found: dict[int, Parameter] = {}  # no table of each module's: this runs every step
        for module in self.modules() if recurse else (self,):
            own = module.__dict__
            for name in module._parameter_names:
                param = own[name]
                if param is not None:
                    found.setdefault(id(param), param)
        return iter(found.values())

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """The buffers with their dotted names."""
        return self._named_tensors("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers, each once."""
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    def get_submodule(self, target: str) -> Module:
        """The module with the dotted name ``target``; ``""`` is this one."""
        module = self
        for step in target.split(".") if target else []:
            found = module.__dict__.get(step)
            if not isinstance(found, Module):
                raise AttributeError(
                    f"{module._get_name()} has no module {step!r} (on the way to {target!r})"
                )
            module = found
        return module

    def _get_tensor(self, target: str, names: str, what: str) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if name not in getattr(module, names):
            raise AttributeError(f"{module._get_name()} has no {what} {name!r}")
        return getattr(module, name)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter with the dotted name ``target``."""
        return self._get_tensor(target, "_parameter_names", "parameter")

    def get_buffer(self, target: str) -> Tensor:
        """The buffer with the dotted name ``target``."""
        return self._get_tensor(target, "_buffer_names", "buffer")

    def apply(self: M, fn: Callable[[Module], Any]) -> M:
        """Call ``fn`` on every module below this one, then on this one.

        >>> net = nn.Sequential(nn.ReLU()).apply(lambda module: print(type(module).__name__))
        ReLU
        Sequential
        """
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    # ---- modes

    def train(self: M, mode: bool = True) -> M:
        """Training mode for this module and all below it: dropout drops."""
        if not isinstance(mode, bool):
            raise ValueError(f"training mode is expected to be a bool, got {mode!r}")
        for module in self.modules():
            module.training = mode
        return self

    def eval(self: M) -> M:
        """Evaluation mode: ``train(False)``."""
        return self.train(False)

    def requires_grad_(self: M, requires_grad: bool = True) -> M:
        """Switch gradients of every parameter on or off (off: frozen)."""
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of every parameter (or fill them with zeros)."""
        with no_grad():
            for param in self.parameters():
                if set_to_none:
                    param.grad = None
                elif param.grad is not None:
                    param.grad.zero_()

    def to(self: M, *args: Any, **kwargs: Any) -> M:
        """Move or convert in place: ``to(device)``, ``to(dtype)``, ``to(device, dtype)`` or
        ``to(tensor)``. Only floating-point tensors change their dtype. The parameters stay the
        same objects, so an optimizer keeps them.

        >>> nn.Linear(2, 3).to(md.float64).weight.dtype
        minidl.float64
        """
        return convert(self, conversion(*args, **kwargs))

    def float(self: M) -> M:
        """Floating-point parameters and buffers as float32."""
        return self.to(dtypes.float32)

    def double(self: M) -> M:
        """Floating-point parameters and buffers as float64."""
        return self.to(dtypes.float64)

    def half(self: M) -> M:
        """Floating-point parameters and buffers as float16."""
        return self.to(dtypes.float16)

    def bfloat16(self: M) -> M:
        """Floating-point parameters and buffers as bfloat16."""
        return self.to(dtypes.bfloat16)

    def cpu(self: M) -> M:
        """Everything to the CPU."""
        return self.to("cpu")

    # ---- state

    def state_dict(
        self, *, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Tensor]:
        """Parameters and persistent buffers by dotted name, detached and sharing memory. A tied
        parameter stands under each of its names as one and the same tensor.

        >>> list(nn.Linear(2, 3).state_dict())
        ['weight', 'bias']
        """
        return state.state_dict(self, destination, prefix, keep_vars)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> state.IncompatibleKeys:
        """Copy the tensors (or NumPy arrays, or PyTorch's tensors) of ``state_dict`` into this
        module, or with ``assign`` put them in the place of its own.

        Missing and unexpected names (unless ``strict=False``) and wrong shapes are listed in one
        error, and then nothing is loaded. A tied parameter may be given under any of its names.

        >>> layer, other = nn.Linear(2, 3), nn.Linear(2, 3)
        >>> layer.load_state_dict(other.state_dict())
        <All keys matched successfully>
        """
        return state.load_state_dict(self, state_dict, strict, assign)

    def __copy__(self: M) -> M:
        # The tables of names are the copy's own, or a new attribute would appear in both.
        new = self.__class__.__new__(self.__class__)
        new.__dict__.update(self.__dict__)
        for table in ("_parameter_names", "_buffer_names", "_module_names"):
            new.__dict__[table] = dict(self.__dict__[table])
        return new

    # ---- showing

    def extra_repr(self) -> str:
        """The arguments between the parentheses of ``repr``; a layer writes its own."""
        return ""

    def summary(self) -> str:
        """The module in two words for error messages (``Linear 128→384``)."""
        return self._get_name()

    def _get_name(self) -> str:
        return type(self).__name__

    def _child_lines(self) -> list[str]:
        return describe.child_lines(self)

    def __repr__(self) -> str:
        return describe.tree(self)

