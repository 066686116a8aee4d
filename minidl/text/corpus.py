"""Text to train on: files, folders, or the sources of Python's standard library."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Iterable
from pathlib import Path

from minidl.errors import ArgumentError

STDLIB_BYTES = 2_000_000
SKIPPED = {"site-packages", "dist-packages", "__pycache__", "test", "tests", "idlelib"}


def load_corpus(
    paths: Iterable[str | os.PathLike[str]] | str | os.PathLike[str] | None = None,
    max_bytes: int | None = None,
) -> str:
    """The text of files and of all files in folders, in the order given and of their names,
    until ``max_bytes`` are full. Files that are not UTF-8 are left out of folders.

    Without paths: the sources of the Python standard library, which are on every machine, up to
    2 MB.

    >>> text = md.text.load_corpus(max_bytes=100_000)
    >>> 50_000 < len(text) <= 100_000
    True
    """
    if paths is None:
        files = _sources(Path(sysconfig.get_paths()["stdlib"]))
        max_bytes = STDLIB_BYTES if max_bytes is None else max_bytes
    else:
        given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
        files = [file for path in given for file in _files(Path(path))]
    pieces, left = [], max_bytes
    for file, named in files:
        if left is not None and left <= 0:
            break
        data = file.read_bytes()
        try:
            data.decode()
        except UnicodeDecodeError:
            if named:
                raise ArgumentError(f"load_corpus: {file} is not UTF-8 text") from None
            continue
        pieces.append(data[:left].decode("utf-8", "ignore"))  # may cut a character in two
        left = None if left is None else left - len(data)
    if not any(pieces):
        raise ArgumentError("load_corpus: there is no text in " + (
            "the standard library of this Python; pass paths" if paths is None
            else ", ".join(str(path) for path in given)))
    return "".join(pieces)


def _files(path: Path) -> list[tuple[Path, bool]]:
    """The files of a path, each with whether it was named itself."""
    if path.is_dir():
        return [(file, False) for file in sorted(path.rglob("*")) if file.is_file()]
    if not path.exists():
        raise FileNotFoundError(f"load_corpus: {path} is not there")
    return [(path, True)]


def _sources(root: Path) -> list[tuple[Path, bool]]:
    """The modules of the standard library: those at the top first, then the packages."""
    found = []
    for folder, inner, names in os.walk(root):
        inner[:] = [name for name in inner if name not in SKIPPED]  # installed packages are many
        found += [Path(folder, name) for name in names if name.endswith(".py")]
    found.sort(key=lambda file: (len(file.relative_to(root).parts), file.as_posix()))
    return [(file, False) for file in found]
