"""Forward hooks: functions that a module calls around its ``forward``."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

_next_id = itertools.count()


class RemovableHandle:
    """What ``register_forward_hook`` returns; ``remove()`` takes the hook out again.

    It is a context manager too: the hook is gone when the block ends.

    >>> layer = nn.ReLU()
    >>> with layer.register_forward_hook(lambda module, args, output: print(output)):
    ...     y = layer(md.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def __init__(self, table: dict[int, Any]) -> None:
        self.id = next(_next_id)
        self._table: dict[int, Any] | None = table

    def remove(self) -> None:
        """Take the hook out; a second call does nothing."""
        if self._table is not None:
            self._table.pop(self.id, None)
            self._table = None

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


class ForwardHooks:
    """The hooks of one module: ``{id: (function, with_kwargs, always_call)}``, in call order."""

    def __init__(self) -> None:
        self.before: dict[int, tuple[Callable[..., Any], bool, bool]] = {}
        self.after: dict[int, tuple[Callable[..., Any], bool, bool]] = {}

    @staticmethod
    def add(
        table: dict[int, Any],
        hook: Callable[..., Any],
        prepend: bool,
        with_kwargs: bool,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Put ``hook`` at the end (or the front) of ``table``."""
        handle = RemovableHandle(table)
        later = dict(table) if prepend else {}
        if prepend:
            table.clear()
        table[handle.id] = (hook, with_kwargs, always_call)
        table.update(later)
        return handle

    def call(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """``forward`` with the hooks around it: before -> forward -> after."""
        result = None
        called: set[int] = set()
        try:
            for hook, with_kwargs, _ in list(self.before.values()):
                args, kwargs = _run_before(hook, with_kwargs, module, args, kwargs)
            result = module.forward(*args, **kwargs)
            for key, (hook, with_kwargs, _) in list(self.after.items()):
                called.add(key)
                changed = _run_after(hook, with_kwargs, module, args, kwargs, result)
                result = result if changed is None else changed
            return result
        except Exception:
            for key, (hook, with_kwargs, always_call) in list(self.after.items()):
                if always_call and key not in called:
                    _run_after(hook, with_kwargs, module, args, kwargs, result)
            raise


def _run_before(
    hook: Callable[..., Any],
    with_kwargs: bool,
    module: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if with_kwargs:
        changed = hook(module, args, kwargs)
        if changed is None:
            return args, kwargs
        if isinstance(changed, tuple) and len(changed) == 2:
            return changed
        raise RuntimeError(
            "a forward pre-hook with with_kwargs=True must return None or (args, kwargs), "
            f"got {type(changed).__name__}"
        )
    changed = hook(module, args)
    if changed is None:
        return args, kwargs
    return (changed if isinstance(changed, tuple) else (changed,)), kwargs


def _run_after(
    hook: Callable[..., Any],
    with_kwargs: bool,
    module: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    result: Any,
) -> Any:
    if with_kwargs:
        return hook(module, args, kwargs, result)
    return hook(module, args, result)
