"""GGUF files: a table of named values, then named tensors. Nothing in a header is believed.

The layout: "GGUF", version, counts, the values, the tensors' names, sizes, types and offsets, and
their data, each aligned to 32 bytes (or ``general.alignment``). Everything is little-endian.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from minidl.errors import ArgumentError, CheckpointError

from . import atomic, blocks, quants, tensors
from .header import checked_shape

STRING, ARRAY = 8, 9
FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q",
           12: "d"}  # fmt: skip
ALIGNMENT = 32


class Array(NamedTuple):
    """Where a tensor lies in the file."""

    name: str
    shape: tuple[int, ...]
    kind: quants.Kind
    begin: int
    end: int


class _Cursor:
    """Reads forward through bytes, and never beyond them."""

    def __init__(self, data: Any, at: int = 0) -> None:
        self.data = data
        self.at = at

    def take(self, size: int) -> bytes:
        if size > len(self.data) - self.at:
            raise CheckpointError(f"the file ends in the middle of its header, at byte {self.at}")
        self.at += size
        return bytes(self.data[self.at - size : self.at])

    def number(self, code: str) -> Any:
        return struct.unpack("<" + code, self.take(struct.calcsize(code)))[0]

    def string(self) -> str:
        try:
            return self.take(self.number("Q")).decode()
        except UnicodeDecodeError:
            raise CheckpointError(f"the text before byte {self.at} is not UTF-8") from None

    def value(self, kind: int) -> Any:
        if kind == STRING:
            return self.string()
        if kind in FORMATS:
            return self.number(FORMATS[kind])
        if kind != ARRAY:
            raise CheckpointError(f"a value has the unknown type {kind}")
        item, count = self.number("I"), self.number("Q")
        if item == STRING:
            if count > (len(self.data) - self.at) // 8:
                raise CheckpointError(f"a list claims {count:,} strings, more than the file holds")
            return [self.string() for _ in range(count)]
        if item not in FORMATS:
            raise CheckpointError(f"a list has elements of the unknown type {item}")
        data = self.take(count * struct.calcsize(FORMATS[item]))
        return list(struct.unpack(f"<{count}{FORMATS[item]}", data))


@contextmanager
def _mapped(path: str) -> Iterator[tuple[Any, int]]:
    """(bytes, size) of a file that is large enough to be one."""
    with tensors.readable(path) as (fd, size):
        if size < 24:
            raise CheckpointError(f"the file has {size} bytes, too few for a GGUF file")
        with mmap.mmap(fd, size, access=mmap.ACCESS_READ) as view:
            yield view, size


def read(path: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """(values, float32 tensors) by name."""
    with _mapped(path) as (view, size):
        values, arrays = _parse(view, size)
        flat = np.frombuffer(view, np.uint8)
        try:
            return values, {
                a.name: quants.decode(flat[a.begin : a.end], a.kind.name).reshape(a.shape)
                for a in arrays
            }
        finally:
            del flat  # a map that is still seen cannot be closed


def read_values(path: str) -> dict[str, Any]:
    """The values alone, a tokenizer's among them."""
    with _mapped(path) as (view, size):
        return _parse(view, size)[0]


def _parse(view: Any, size: int) -> tuple[dict[str, Any], list[Array]]:
    cursor = _Cursor(view)
    if cursor.take(4) != b"GGUF":
        raise CheckpointError("this is not a GGUF file")
    version = cursor.number("I")
    if version not in (2, 3):
        raise CheckpointError(f"it has version {version} of the GGUF format; minidl reads 2 and 3")
    array_count, value_count = cursor.number("Q"), cursor.number("Q")
    values: dict[str, Any] = {}
    for _ in range(value_count):
        name = cursor.string()
        if name in values:
            raise CheckpointError(f"it has the value {name!r:.80} twice")
        values[name] = cursor.value(cursor.number("I"))
    arrays = [_array(cursor) for _ in range(array_count)]
    step = values.get("general.alignment", ALIGNMENT)
    if not isinstance(step, int) or step < 1 or step & (step - 1):
        raise CheckpointError(f"its alignment is {step!r:.80}, which is not a power of two")
    start = -(-cursor.at // step) * step
    placed = [a._replace(begin=start + a.begin, end=start + a.end) for a in arrays]
    end = start
    for array in sorted(placed, key=lambda a: a.begin):
        if array.begin < end or array.end > size:
            raise CheckpointError(f"tensor {array.name!r:.80} overlaps another or leaves the file")
        end = array.end
    if len({array.name for array in arrays}) != len(arrays):
        raise CheckpointError("it has two tensors of the same name")
    return values, placed


def _array(cursor: _Cursor) -> Array:
    name = cursor.string()
    dims = cursor.number("I")
    if dims > 4:
        raise CheckpointError(f"tensor {name!r:.80} has {dims} dimensions; ggml has at most 4")
    shape = [cursor.number("Q") for _ in range(dims)][::-1]
    number, begin = cursor.number("I"), cursor.number("Q")
    if number not in quants.KINDS:
        raise CheckpointError(
            f"tensor {name!r:.80} has ggml's type {number}; minidl reads "
            + ", ".join(kind.name for kind in quants.KINDS.values())
        )
    kind = quants.KINDS[number]
    count = checked_shape(f"tensor {name!r:.80}", shape, 1)
    if (shape[-1] if shape else 1) % kind.numbers:
        raise CheckpointError(f"tensor {name!r:.80} has rows of no multiple of {kind.numbers}")
    return Array(name, tuple(shape), kind, begin, begin + count // kind.numbers * kind.nbytes)


def write(
    path: str, values: dict[str, tuple[int, Any]], arrays: dict[str, tuple[str, np.ndarray]]
) -> None:
    """Save values (type and value) and tensors (element type and array) under their names."""
    header = bytearray(b"GGUF" + struct.pack("<IQQ", 3, len(arrays), len(values)))
    for name, (kind, value) in values.items():
        header += _string(name) + struct.pack("<I", kind) + _value(kind, value)
    offset = 0
    for name, (kind_name, array) in arrays.items():
        sizes = struct.pack(f"<I{array.ndim}Q", array.ndim, *array.shape[::-1])
        number = quants.NUMBERS[kind_name]
        header += _string(name) + sizes + struct.pack("<IQ", number, offset)
        kind_ = quants.KINDS[number]
        offset += _aligned(array.size // kind_.numbers * kind_.nbytes)
    start = _aligned(len(header))

    def write_all(fd: int) -> None:
        blocks.write_at(fd, bytes(header).ljust(start, b"\0"), 0)
        at = start
        for kind_name, array in arrays.values():
            data = quants.encode(array, kind_name)
            blocks.write_at(fd, data.tobytes().ljust(_aligned(len(data)), b"\0"), at)
            at += _aligned(len(data))

    atomic.replace(path, write_all)


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(kind: int, value: Any) -> bytes:
    if kind == STRING:
        return _string(value)
    if kind != ARRAY:
        return struct.pack("<" + FORMATS[kind], value)
    item = kind_of(value[0]) if value else 4
    packed = b"".join(_value(item, element) for element in value)
    return struct.pack("<IQ", item, len(value)) + packed


def kind_of(value: Any) -> int:
    """The type of a value that has none yet."""
    kinds: list[tuple[Any, int]] = [(bool, 7), (int, 5), (float, 6), (str, STRING), (list, ARRAY)]
    for kind, number in kinds:
        if isinstance(value, kind):
            return number
    raise ArgumentError(f"save_gguf: {value!r:.80} is no number, string or list of them")
