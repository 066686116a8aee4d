"""The command line: `minidl train`, `minidl generate` and the rest; `minidl --help` lists them."""

from .main import main

__all__ = ["main"]
