"""safetensors files: written in one pass with checksums, read by copying or by mapping.

The file is what any safetensors reader opens. minidl keeps in its metadata the tree (tree.py) and
``minidl.checksum``: in hexadecimal the CRC-32 of the length and the header, taken with zeros in
this place, then the checksum (blocks.py) of each MiB of the data.
"""

from __future__ import annotations

import json
import mmap as mapping
import os
import platform
import re
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from minidl.config import __version__
from minidl.errors import ArgumentError, CheckpointError
from minidl_kernels import EXACT

from . import atomic, blocks
from .header import DTYPES, MAX_HEADER, Entry, build, numpy_dtype, parse, parse_json
from .tree import PLAIN, Packed

VERSION = "1"


def write(path: str, packed: Packed, metadata: dict[str, str]) -> None:
    """Save arrays and their tree; the data is written first, then the header with its sums."""
    nbytes = sum(array.nbytes for array in packed.arrays.values())
    zeros = "0" * 8 * (1 + -(-nbytes // blocks.BLOCK))
    own = {"format": "pt", "minidl.version": VERSION, "minidl.checksum": zeros}
    own["minidl.versions"] = json.dumps(versions())
    if packed.tree is not PLAIN:
        own["minidl.tree"] = json.dumps(packed.tree, separators=(",", ":"))
    text, ordered = build(packed.arrays, own | metadata)
    length = len(text).to_bytes(8, "little")
    run = blocks.Run(ordered)

    def write_all(fd: int) -> None:
        sums = blocks.write(fd, 8 + len(text), run)
        found = "".join(f"{n:08x}" for n in [zlib.crc32(length + text), *sums])
        blocks.write_at(fd, length + text.replace(_entry(zeros), _entry(found), 1), 0)

    atomic.replace(path, write_all)


def _entry(value: str) -> bytes:
    """The place of the checksum in the header; elsewhere its quotes would be escaped."""
    return f'"minidl.checksum":"{value}"'.encode()


def versions() -> dict[str, str]:
    """What a file was written with, for whoever has to find out why a run differs."""
    return {
        "minidl": __version__, "numpy": np.__version__, "python": platform.python_version(),
        "machine": platform.machine(),
    }  # fmt: skip


def checked_metadata(metadata: dict[str, str] | None) -> dict[str, str]:
    """The user's strings for the header."""
    for name, value in (metadata or {}).items():
        if not isinstance(name, str) or not isinstance(value, str) or name.startswith("minidl."):
            raise ArgumentError(
                f"save: metadata holds strings by name, and names that begin with minidl. are "
                f"taken; got {name!r}: {value!r:.80}"
            )
    return dict(metadata or {})


class Opened(NamedTuple):
    """A file whose header has been read, checked and compared with its checksum."""

    fd: int
    offset: int
    size: int
    entries: dict[str, Entry]
    metadata: dict[str, str]
    sums: list[int] | None


@contextmanager
def opened(path: str) -> Iterator[Opened]:
    """Open a safetensors file; errors on the way, and in the block, name the file."""
    with readable(path) as (fd, size):
        if size < 8:
            raise CheckpointError(f"the file has {size} bytes, too few for a safetensors file")
        prefix = os.read(fd, 8)
        length = int.from_bytes(prefix, "little")
        if length > MAX_HEADER or 8 + length > size:
            raise CheckpointError(
                f"the header claims {length:,} bytes, and the file has {size:,} (the most is "
                f"{MAX_HEADER:,}): it is cut off, or no safetensors file"
            )
        text = os.read(fd, length)
        entries, metadata = parse(text, size - 8 - length)
        sums = _checked_sums(prefix + text, metadata, size - 8 - length)
        yield Opened(fd, 8 + length, size, entries, metadata, sums)


@contextmanager
def readable(path: str) -> Iterator[tuple[int, int]]:
    """(descriptor, size) of a regular file; every CheckpointError in the block names the file."""
    fd = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0))
    try:
        with named(path):
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise CheckpointError("this is not a file")
            yield fd, status.st_size
    finally:
        os.close(fd)


@contextmanager
def named(path: str) -> Iterator[None]:
    """Put the name of the file before what is wrong with it."""
    try:
        yield
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}") from None


def _checked_sums(start: bytes, metadata: dict[str, str], data_size: int) -> list[int] | None:
    """The checksums of the blocks, after comparing the header with its own; None in a file that
    another program wrote."""
    if not any(name.startswith("minidl.") for name in metadata):
        return None
    if metadata.get("minidl.version") != VERSION:
        raise CheckpointError(
            f"it has version {metadata.get('minidl.version')!r:.80} of minidl's format, and this "
            f"minidl reads {VERSION}: a newer minidl may read it"
        )
    value = metadata.get("minidl.checksum", "")
    count = 1 + -(-data_size // blocks.BLOCK)
    written = _entry(value)
    if not re.fullmatch(f"[0-9a-f]{{{8 * count}}}", value) or start.count(written) != 1:
        raise CheckpointError("its checksum is missing or has the wrong length: it is damaged")
    head, *sums = [int(value[i : i + 8], 16) for i in range(0, 8 * count, 8)]
    if zlib.crc32(start.replace(written, _entry("0" * len(value)))) != head:
        raise CheckpointError("its header does not have the checksum it was saved with")
    return sums


def read(path: str, mmap: bool) -> Packed:
    """The arrays and the tree of a file: copied and compared with the checksum, or mapped."""
    with opened(path) as file:
        tree = file.metadata.get("minidl.tree")
        parsed = PLAIN if tree is None else parse_json(tree, "the tree")
        arrays = _mapped(file) if mmap else _copied(file)
        for name, array in arrays.items():
            # NumPy counts and indexes on the promise that a bool is 0 or 1
            if array.dtype == bool and array.size and array.view(np.uint8).max() > 1:
                raise CheckpointError(f"tensor {name!r:.80} has bools other than 0 and 1")
        return Packed(parsed, arrays)


def verify(path: str) -> None:
    """Compare a whole file with its checksums, in the memory of a few blocks."""
    with opened(path) as file:
        if file.sums is None:
            raise CheckpointError("it has no checksum: minidl did not write it")
        blocks.verify(file.fd, file.offset, file.size - file.offset, file.sums)


def _copied(file: Opened) -> dict[str, np.ndarray]:
    arrays = {name: EXACT.empty(entry.shape, _dtype(entry)) for name, entry in file.entries.items()}
    order = sorted(arrays, key=lambda name: file.entries[name].begin)
    blocks.read(file.fd, file.offset, blocks.Run([arrays[name] for name in order]), file.sums)
    return arrays


def _mapped(file: Opened) -> dict[str, np.ndarray]:
    """Views of the file. Writing to one copies the page that is written to; the file stays."""
    view: Any = mapping.mmap(file.fd, file.size, access=mapping.ACCESS_COPY)
    arrays = {}
    for name, entry in file.entries.items():
        dtype = _dtype(entry)
        count = (entry.end - entry.begin) // dtype.itemsize
        # one memory of its own for each tensor: the tape tells writes apart by it
        flat = np.frombuffer(view, dtype, count, file.offset + entry.begin) if count else (
            EXACT.empty((0,), dtype))
        arrays[name] = (flat if flat.flags.aligned else flat.copy()).reshape(entry.shape)
    return arrays


def _dtype(entry: Entry) -> np.dtype[Any]:
    return numpy_dtype(DTYPES[entry.code])
