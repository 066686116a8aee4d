"""The header of a safetensors file: which tensor lies where. Nothing in it is believed.

A file is the header's length (8 bytes, little-endian), the header (a JSON object), and the data:
the tensors one after the other without holes.
"""

from __future__ import annotations

import json
import math
from typing import Any, NamedTuple

import numpy as np

from minidl.dtypes import _ml_dtypes
from minidl.errors import CheckpointError, DTypeError

MAX_HEADER = 100_000_000  # as in the safetensors library
MAX_LISTS = 1_000_000  # two for each tensor; more would only serve to fill the memory
DTYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu",
    "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8",
    "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip
CODES = {name: code for code, name in DTYPES.items()}
_ITEMSIZE = {"BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1}


class Entry(NamedTuple):
    """A tensor's place in the data."""

    code: str
    shape: tuple[int, ...]
    begin: int
    end: int


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype of a name; bfloat16 and float8 from ml_dtypes."""
    if name.startswith(("bfloat", "float8")):
        return np.dtype(getattr(_ml_dtypes(name), name))
    return np.dtype(name)


def checked_dtype(name: str, array: np.ndarray) -> str:
    """The name of an array's dtype, or a sentence when no file can hold it."""
    dtype = array.dtype
    if dtype.name not in CODES or not dtype.isnative:
        raise DTypeError(
            f"save: {name} is an array of {dtype}, which the format does not have; convert it to "
            f"one of {', '.join(CODES)}"
        )
    return dtype.name


def checked_shape(what: str, shape: Any, itemsize: int) -> int:
    """The bytes of a shape that somebody wrote into a file; refuses what no array can have."""
    if not isinstance(shape, list) or any(type(n) is not int or n < 0 for n in shape):
        raise CheckpointError(f"{what} has the shape {shape!r:.80}, which is not a list of sizes")
    if len(shape) > 64:
        raise CheckpointError(f"{what} has {len(shape)} dimensions; an array has at most 64")
    if any(n >= 1 << 63 for n in shape) or math.prod(filter(None, shape)) * itemsize >= 1 << 63:
        raise CheckpointError(f"{what} has the shape {shape!r:.80}, more than any memory")
    return math.prod(shape) * itemsize


def parse_json(text: str, what: str) -> Any:
    """JSON without the things that Python lets through: duplicate names, NaN, endless nesting."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) != len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise CheckpointError(f"{what} has the name {twice!r:.80} twice")
        return result

    def constant(name: str) -> Any:
        raise CheckpointError(f"{what} has {name}, which is not JSON")

    try:
        return json.loads(text, object_pairs_hook=unique, parse_constant=constant)
    except CheckpointError:
        raise
    except RecursionError:
        raise CheckpointError(f"{what} is nested too deeply") from None
    except ValueError as error:
        raise CheckpointError(f"{what} is not JSON: {error}"[:300]) from None


def build(
    arrays: dict[str, np.ndarray], metadata: dict[str, str]
) -> tuple[bytes, list[np.ndarray]]:
    """The header, and the arrays in the order of their data: wide dtypes first, so that every
    tensor is aligned in a mapped file. The header keeps the order of ``arrays``."""
    order = sorted(arrays, key=lambda name: -arrays[name].itemsize)
    place, offset = {}, 0
    for name in order:
        place[name] = [offset, offset + arrays[name].nbytes]
        offset += arrays[name].nbytes
    header: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    for name, array in arrays.items():
        code = CODES[checked_dtype(name, array)]
        header[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": place[name]}
    try:
        text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"save: a name is not Unicode text: {error}") from None
    text += b" " * (-(8 + len(text)) % 64)  # mapped tensors begin on a cache line
    if len(text) > MAX_HEADER or text.count(b"[") > MAX_LISTS:
        raise ValueError(
            f"save: the names, numbers and strings of this state take {len(text):,} bytes and "
            f"{text.count(b'['):,} lists, and a header has at most {MAX_HEADER:,} and "
            f"{MAX_LISTS:,}; put long lists into tensors"
        )
    return text, [arrays[name] for name in order]


def parse(text: bytes, data_size: int) -> tuple[dict[str, Entry], dict[str, str]]:
    """The entries and the metadata of a header in front of ``data_size`` bytes, all checked."""
    if not text.startswith(b"{") or text.count(b"[") > MAX_LISTS:
        raise CheckpointError("this is not the header of a safetensors file")
    try:
        header = parse_json(text.decode(), "the header")
    except UnicodeDecodeError as error:
        raise CheckpointError(f"the header is not UTF-8 text: {error}"[:300]) from None
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise CheckpointError("the metadata is not a table of strings")
    entries = {name: _entry(f"tensor {name!r:.80}", value) for name, value in header.items()}
    end = 0
    for name, entry in sorted(entries.items(), key=lambda item: item[1][2:]):
        if entry.begin != end:
            raise CheckpointError(
                f"tensor {name!r:.80} begins at byte {entry.begin} of the data, and the one before "
                f"ends at {end}: tensors overlap or leave a hole"
            )
        end = entry.end
    if end != data_size:
        raise CheckpointError(
            f"the header describes {end:,} bytes of data, and the file has {data_size:,}"
        )
    return entries, metadata


def _entry(what: str, value: Any) -> Entry:
    if not isinstance(value, dict) or set(value) != {"dtype", "shape", "data_offsets"}:
        raise CheckpointError(f"{what} is not described by a dtype, a shape and data_offsets")
    code, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(code, str) or code not in DTYPES:
        raise CheckpointError(f"{what} has the dtype {code!r:.80}, which minidl does not read")
    nbytes = checked_shape(what, shape, _ITEMSIZE.get(code) or np.dtype(DTYPES[code]).itemsize)
    if (
        not isinstance(offsets, list) or len(offsets) != 2
        or any(type(n) is not int for n in offsets) or not 0 <= offsets[0] <= offsets[1]
    ):
        raise CheckpointError(f"{what} has the offsets {offsets!r:.80}, which are not a range")
    if offsets[1] - offsets[0] != nbytes:
        raise CheckpointError(
            f"{what} needs {nbytes:,} bytes for its shape {shape} and dtype {code}, and its "
            f"offsets give it {offsets[1] - offsets[0]:,}"
        )
    return Entry(code, tuple(shape), offsets[0], offsets[1])
