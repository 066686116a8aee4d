"""Many arrays as one run of bytes, in blocks of 1 MiB: each read or written once, and its checksum
taken while it is in the cache, on as many threads as minidl uses."""

from __future__ import annotations

import os
import threading
import zlib
from bisect import bisect_right
from collections.abc import Callable
from typing import Any

import numpy as np

from minidl.errors import CheckpointError
from minidl_kernels import EXACT
from minidl_kernels.cpu.pages import page_sums, read_pages
from minidl_kernels.cpu.threads import get_num_threads

BLOCK = 1 << 20
Pieces = list[Any]  # buffers that follow each other in the file


def checksum(data: Any) -> int:
    """The block as a table of 64-bit words with a row for each 4 KiB: the CRC-32 of its column
    sums, its row sums and what is left behind the last row.

    Damage within any 4 KiB changes column sums, each by one word; pages that changed places change
    row sums. Many times as fast as the CRC-32 of the data, which a save would wait for.
    """
    return _crc(*page_sums(data))


def _crc(columns: np.ndarray, rows: np.ndarray, rest: bytes) -> int:
    return zlib.crc32(rest, zlib.crc32(rows.data, zlib.crc32(columns.data)))


def each(work: Callable[[int], None], count: int) -> None:
    """work(0) to work(count - 1), on several threads; the first exception stops all of them."""
    numbers = iter(range(count))
    lock = threading.Lock()
    failures: list[BaseException] = []

    def run() -> None:
        while not failures:
            with lock:
                i = next(numbers, None)
            if i is None:
                return
            try:
                work(i)
            except BaseException as error:
                failures.append(error)

    helpers = []
    for _ in range(min(get_num_threads(), count // 4) - 1):
        helper = threading.Thread(target=run, daemon=True)
        try:
            helper.start()
        except RuntimeError:  # none can be had: the interpreter is shutting down
            break
        helpers.append(helper)
    run()
    for helper in helpers:
        helper.join()
    if failures:
        raise failures[0]


class Run:
    """Arrays one after the other: ``pieces(i)`` are the buffers that make up block i."""

    def __init__(self, arrays: list[np.ndarray]) -> None:
        self.arrays = [array for array in arrays if array.nbytes]
        self.begins = [0]
        for array in self.arrays:
            self.begins.append(self.begins[-1] + array.nbytes)
        self.nbytes = self.begins.pop()
        self.blocks = -(-self.nbytes // BLOCK)

    def pieces(self, i: int) -> Pieces:
        low, high = i * BLOCK, min((i + 1) * BLOCK, self.nbytes)
        found = []
        k = bisect_right(self.begins, low) - 1
        while low < high:
            array, begin = self.arrays[k], self.begins[k]
            end = min(begin + array.nbytes, high)
            found.append(_bytes_of(array, low - begin, end - begin))
            low, k = end, k + 1
        return found


def _bytes_of(array: np.ndarray, low: int, high: int) -> Any:
    """Bytes of an array in the order of its elements, whatever its strides: a view of contiguous
    memory, a copy of just this part of any other."""
    if array.flags.c_contiguous:
        return array.reshape(-1).view(np.uint8)[low:high].data
    return array.flat[low // array.itemsize : high // array.itemsize].view(np.uint8).data


def write(fd: int, offset: int, run: Run) -> list[int]:
    """Write a run at an offset of a file and return the checksums of its blocks."""
    sums = [0] * run.blocks

    def block(i: int) -> None:
        pieces = run.pieces(i)
        whole = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        sums[i] = checksum(whole)
        write_at(fd, whole, offset + i * BLOCK)

    each(block, run.blocks)
    return sums


def read(fd: int, offset: int, run: Run, sums: list[int] | None) -> None:
    """Fill a run's (contiguous) arrays from an offset of a file; compare the checksums of its
    blocks with ``sums`` where they are given."""

    def block(i: int) -> None:
        _compare(i, _read_block(fd, offset, i, run.pieces(i)), offset, sums)

    each(block, run.blocks)


def verify(fd: int, offset: int, size: int, sums: list[int]) -> None:
    """Compare the checksums of the blocks of a file with ``sums``."""

    def block(i: int) -> None:
        # memory that was used before: fresh pages take as long as reading a file into them
        data = EXACT.empty((min(BLOCK, size - i * BLOCK),), np.uint8)
        _compare(i, _read_block(fd, offset, i, [data]), offset, sums)

    each(block, len(sums))


def _read_block(fd: int, offset: int, i: int, pieces: Pieces) -> int:
    """Fill the pieces of block i and return its checksum, taken while they are in the cache."""
    try:
        return _crc(*read_pages(fd, offset + i * BLOCK, pieces))
    except EOFError as error:
        raise CheckpointError(f"{error}, in the middle of its data") from None


def _compare(i: int, found: int, offset: int, sums: list[int] | None) -> None:
    if sums is not None and found != sums[i]:
        raise CheckpointError(
            f"block {i + 1} of {len(sums)} (1 MiB at byte {offset + i * BLOCK}) does not have the "
            "checksum it was saved with: the file is damaged"
        )


def write_at(fd: int, data: Any, offset: int) -> None:
    """Write all of ``data`` at a place in a file, from any thread."""
    view = memoryview(data)
    while len(view):
        n = _pwrite(fd, view, offset)
        view, offset = view[n:], offset + n


if hasattr(os, "pwrite"):
    _pwrite = os.pwrite
else:  # Windows has no call that takes an offset
    _seeking = threading.Lock()

    def _pwrite(fd: int, data: Any, offset: int, /) -> int:
        with _seeking:
            os.lseek(fd, offset, os.SEEK_SET)
            return os.write(fd, data)
