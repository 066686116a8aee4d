"""Saving and loading: files that survive a crash, in formats that anybody reads."""

from minidl.errors import CheckpointError, CheckpointWarning

from .files import info, load, save, verify
from .manager import CheckpointManager
from .randomness import random_state, set_random_state

__all__ = ["CheckpointError", "CheckpointManager", "CheckpointWarning", "info", "load",
           "random_state", "save", "set_random_state", "verify"]
