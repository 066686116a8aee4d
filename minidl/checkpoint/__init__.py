"""Saving and loading: files that survive a crash, in formats that anybody reads."""

from typing import TYPE_CHECKING, Any

from minidl.errors import CheckpointError, CheckpointWarning

from .files import info, load, save, verify

if TYPE_CHECKING:
    from .llama import load_gguf, save_gguf
    from .manager import CheckpointManager
    from .randomness import random_state, set_random_state

__all__ = ["CheckpointError", "CheckpointManager", "CheckpointWarning", "info", "load",
           "load_gguf", "random_state", "save", "save_gguf", "set_random_state", "verify"]


def __getattr__(name: str) -> Any:
    """Import the rest when it is first used: `import minidl` stays fast."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import llama, manager, randomness

    return next(vars(module)[name] for module in (manager, randomness, llama)
                if name in vars(module))
