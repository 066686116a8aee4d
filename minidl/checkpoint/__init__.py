"""Saving and loading: files that survive a crash, in formats that anybody reads."""

from .files import load, save

__all__ = ["load", "save"]
