"""Saving and loading: files that survive a crash, in formats that anybody reads."""

from typing import TYPE_CHECKING, Any

from minidl.errors import CheckpointError, CheckpointWarning

from .files import info, load, save, verify

if TYPE_CHECKING:
    from .manager import CheckpointManager
    from .randomness import random_state, set_random_state

__all__ = ["CheckpointError", "CheckpointManager", "CheckpointWarning", "info", "load",
           "random_state", "save", "set_random_state", "verify"]


def __getattr__(name: str) -> Any:
    """Import the rest when it is first used: `import minidl` stays fast."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import manager, randomness

    return getattr(manager, name, None) or getattr(randomness, name)
