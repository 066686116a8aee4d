"""Saving and loading: files that survive a crash, in formats that anybody reads."""

from minidl.errors import CheckpointError

from .files import info, load, save, verify

__all__ = ["CheckpointError", "info", "load", "save", "verify"]
