"""JSON files that any language reads, with the bits of every number kept.

{"format": "minidl", "version": 1, "checksum": "crc32:...", "tree": ..., "tensors":
{name: {"dtype": ..., "shape": [...], "values": nested lists}}}; a large tensor has "base64" of its
little-endian bytes instead of "values". NaN and inf are the strings "nan", "inf" and "-inf". The
checksum is that of the whole file with zeros in its place; a file written by hand needs none.
"""

from __future__ import annotations

import base64
import json
import math
import os
import re
import zlib
from typing import Any

import numpy as np

from minidl.errors import CheckpointError
from minidl_kernels import EXACT

from . import atomic, blocks
from .header import CODES, checked_dtype, checked_shape, numpy_dtype, parse_json
from .tensors import named, readable, versions
from .tree import PLAIN, Packed

SMALL = 64  # elements that are still readable as a list
ZEROS = "crc32:00000000"


def write(path: str, packed: Packed, lists: bool) -> None:
    """Save arrays and their tree; ``lists`` writes the large ones as nested lists too."""
    content: dict[str, Any] = {"format": "minidl", "version": 1, "checksum": ZEROS}
    content["versions"] = versions()
    if packed.tree is not PLAIN:
        content["tree"] = packed.tree
    content["tensors"] = {
        name: _encode(name, array, lists) for name, array in packed.arrays.items()
    }
    write_signed(path, json.dumps(content, separators=(",", ":"), allow_nan=False))


def write_signed(path: str, text: str) -> None:
    """Save a text whose first ZEROS become its checksum."""
    data = text.encode() + b"\n"
    signed = data.replace(ZEROS.encode(), f"crc32:{zlib.crc32(data):08x}".encode(), 1)
    atomic.replace(path, lambda fd: blocks.write_at(fd, signed, 0))


def read_json(path: str) -> tuple[Any, bytes]:
    """The content of a JSON file, and its bytes for check_sum."""
    with readable(path) as (fd, _), os.fdopen(os.dup(fd), "rb") as file:
        data = file.read()
        try:
            return parse_json(data.decode(), "the file"), data
        except UnicodeDecodeError as error:
            raise CheckpointError(f"the file is not UTF-8 text: {error}"[:300]) from None


def check_sum(found: Any, data: bytes) -> None:
    """Compare the checksum that a file has in it with the file."""
    if not isinstance(found, str) or not re.fullmatch("crc32:[0-9a-f]{8}", found):
        raise CheckpointError("its checksum is not one")
    if f"crc32:{zlib.crc32(data.replace(found.encode(), ZEROS.encode(), 1)):08x}" != found:
        raise CheckpointError("it does not have the checksum it was saved with: it is damaged")


def read(path: str) -> Packed:
    """The arrays and the tree of a file."""
    content, data = read_json(path)
    with named(path):
        _check_envelope(content, data)
        tensors = content["tensors"]
        if not isinstance(tensors, dict):
            raise CheckpointError('its "tensors" are not a table')
        arrays = {name: _decode(f"tensor {name!r:.80}", node) for name, node in tensors.items()}
        return Packed(content.get("tree", PLAIN), arrays)


def _check_envelope(content: Any, data: bytes) -> None:
    known = {"format", "version", "versions", "checksum", "tree", "tensors"}
    if not isinstance(content, dict) or content.get("format") != "minidl":
        raise CheckpointError('this is not a JSON file that minidl wrote: no "format": "minidl"')
    if content.get("version") != 1:
        raise CheckpointError(
            f"it has version {content.get('version')!r:.80} of minidl's format, and this minidl "
            "reads 1: a newer minidl may read it"
        )
    if "tensors" not in content or set(content) - known:
        raise CheckpointError(f"it should have {', '.join(sorted(known))}, and nothing else")
    if "checksum" in content:
        check_sum(content["checksum"], data)


def _encode(name: str, array: np.ndarray, lists: bool) -> dict[str, Any]:
    node = {"dtype": checked_dtype(name, array), "shape": list(array.shape)}
    if array.size > 0 and (lists or array.size <= SMALL):
        values = _as_list(array)
        # a NaN may carry bits of its own, which only its bytes can tell
        if lists or _from_list(values, array.shape, array.dtype).tobytes() == array.tobytes():
            return {**node, "values": values}
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return {**node, "base64": base64.b64encode(little.reshape(-1).view(np.uint8).data).decode()}


def _as_list(array: np.ndarray) -> Any:
    if array.dtype.kind in "iub":
        return array.tolist()
    with np.errstate(invalid="ignore"):  # a signalling NaN
        wide = array.astype(np.float64)
    return wide.tolist() if np.isfinite(wide).all() else _named(wide.tolist())


def _named(values: Any) -> Any:
    if isinstance(values, list):
        return [_named(value) for value in values]
    return values if math.isfinite(values) else str(values)


def _from_list(values: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """An array from nested lists of exactly ``shape``; ValueError or TypeError when they differ."""
    allowed = dtype.kind if dtype.kind == "b" else "iu" if dtype.kind in "iu" else "fiu"
    try:
        found = np.array(values)
    except ValueError:
        raise ValueError("lists of other lengths than the shape says") from None
    if found.shape != shape or found.dtype.kind not in allowed:
        found = _from_named(values, shape, dtype)
    out = EXACT.empty(shape, dtype)
    with np.errstate(over="ignore"):
        out[...] = found.astype(dtype)
    if dtype.kind in "iu" and (out != found).any():
        raise ValueError(f"a value that is not of {dtype.name}")
    return out


def _from_named(values: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """The same, one by one: "nan" among the numbers, or something that should not be there."""
    flat = [values]
    for size in shape:
        if any(not isinstance(part, list) or len(part) != size for part in flat):
            raise ValueError("lists of other lengths than the shape says")
        flat = [value for part in flat for value in part]
    if dtype.kind in "iub":
        allowed: Any = bool if dtype.kind == "b" else int
        kind: Any = dtype
    else:
        flat = [_FLOATS.get(value, value) if isinstance(value, str) else value for value in flat]
        allowed, kind = (float, int), np.float64
    if any(not isinstance(value, allowed) for value in flat):
        raise TypeError(f"a value that is not of {dtype.name}")
    return np.array(flat, kind).reshape(shape)


_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def _decode(what: str, node: Any) -> np.ndarray:
    if not isinstance(node, dict) or set(node) not in (
        {"dtype", "shape", "values"}, {"dtype", "shape", "base64"}
    ):
        raise CheckpointError(f"{what} is not a dtype, a shape and values or base64")
    name = node["dtype"]
    if not isinstance(name, str) or name not in CODES:
        raise CheckpointError(f"{what} has the dtype {name!r:.80}, which minidl does not read")
    dtype = numpy_dtype(name)
    nbytes = checked_shape(what, node["shape"], dtype.itemsize)
    shape = tuple(node["shape"])
    if "values" in node:
        try:
            return _from_list(node["values"], shape, dtype)
        except (ValueError, TypeError, OverflowError) as error:
            raise CheckpointError(f"{what} of shape {shape} has {error}"[:300]) from None
    data = _decode_base64(what, node["base64"])
    if len(data) != nbytes:
        raise CheckpointError(f"{what} needs {nbytes:,} bytes, and base64 has {len(data):,}")
    if name == "bool" and data.strip(b"\0\1"):
        raise CheckpointError(f"{what} has bools other than 0 and 1")
    out = EXACT.empty(shape, dtype)
    out[...] = np.frombuffer(data, dtype.newbyteorder("<")).reshape(shape)
    return out


def _decode_base64(what: str, text: Any) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (ValueError, TypeError) as error:
        raise CheckpointError(f"{what} is not base64: {error}"[:300]) from None
