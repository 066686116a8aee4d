"""Any training state as a tree of plain JSON values, and the arrays it names.

What JSON cannot say is an object with one key that starts with "$": {"$tensor": "model.weight"},
{"$array": name}, {"$float": "nan"}, {"$tuple": [...]}, and {"$dict": [[key, value], ...]} for a
dict whose keys are not all plain strings.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from minidl import dtypes
from minidl._core import Tensor
from minidl.errors import ArgumentError, CheckpointError, DTypeError
from minidl.ops.generator import Generator

MAX_DEPTH = 100
PLAIN = object()
_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


class Packed(NamedTuple):
    """A state taken apart; a dict of tensors is its own tree, and ``tree`` is PLAIN."""

    tree: Any
    arrays: dict[str, np.ndarray]


def pack(obj: Any) -> Packed:
    """Take ``obj`` apart; memory that appears twice (tied weights) becomes one array."""
    packer = _Packer()
    tree = packer.encode(obj, (), 0)
    plain = isinstance(tree, dict) and list(tree) == list(packer.arrays) and all(
        tree[name] == {_kind(array): name} for name, array in packer.arrays.items()
    )
    return Packed(PLAIN if plain else tree, packer.arrays)


def unpack(packed: Packed, device: Any = None) -> Any:
    """The state again, its tensors on a device; what was one memory is one tensor.

    >>> unpack(pack({"step": 3, "loss": [float("inf"), None], (0, 1): md.zeros(2)}))
    {'step': 3, 'loss': [inf, None], (0, 1): tensor([0., 0.])}
    """
    leaves: dict[tuple[str, str], Any] = {}

    def leaf(kind: str, name: Any) -> Any:
        if not isinstance(name, str) or name not in packed.arrays:
            raise CheckpointError(f"the tree names an array {name!r:.80} that is not in the file")
        if (kind, name) not in leaves:
            array = packed.arrays[name]
            leaves[kind, name] = Tensor(array).to(device) if kind == "$tensor" else array
        return leaves[kind, name]

    if packed.tree is PLAIN:
        return {name: leaf(_kind(array), name) for name, array in packed.arrays.items()}
    try:
        return _decode(packed.tree, leaf, 0)
    except DTypeError as error:
        raise CheckpointError(f"the tree takes an array for a tensor: {error}") from None


def _kind(array: np.ndarray) -> str:
    """What an array without a tree is: a tensor, where minidl has tensors of its dtype."""
    try:
        dtypes.from_numpy_dtype(array.dtype)
    except DTypeError:
        return "$array"
    return "$tensor"


class _Packer:
    """Walks a state once; collects its arrays under unique names."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self.names: dict[tuple[Any, ...], str] = {}
        self.kept: list[Any] = []

    def encode(self, x: Any, path: tuple[str, ...], depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise ArgumentError(
                f"save: {'.'.join(path[:4])}... is nested deeper than {MAX_DEPTH} levels; does it "
                "contain itself?"
            )
        if isinstance(x, np.generic):
            x = x.item()
        if x is None or isinstance(x, (bool, str, int)):
            return x
        if isinstance(x, float):
            return float(x) if math.isfinite(x) else {"$float": str(float(x))}
        if isinstance(x, Generator):
            x = x.get_state()
        if isinstance(x, Tensor):
            return {"$tensor": self.name(x.array, path)}
        if isinstance(x, np.ndarray):
            return {"$array": self.name(x, path)}
        if isinstance(x, Mapping):
            return self.mapping(x, path, depth)
        if isinstance(x, (list, tuple)):
            items = [self.encode(v, (*path, str(i)), depth + 1) for i, v in enumerate(x)]
            return items if isinstance(x, list) else {"$tuple": items}
        if hasattr(x, "state_dict"):
            return self.encode(x.state_dict(), path, depth + 1)
        raise TypeError(
            f"save: {'.'.join(path) or 'the object'} is a {type(x).__name__}; a checkpoint holds "
            "tensors, arrays, numbers, strings, None, dicts and lists of them, and what has a "
            "state_dict()"
        )

    def mapping(self, x: Mapping[Any, Any], path: tuple[str, ...], depth: int) -> Any:
        if all(isinstance(key, str) and not key.startswith("$") for key in x):
            return {key: self.encode(v, (*path, key), depth + 1) for key, v in x.items()}
        return {"$dict": [
            [self.encode(key, path, depth + 1), self.encode(v, (*path, str(key)), depth + 1)]
            for key, v in x.items()
        ]}

    def name(self, array: Any, path: tuple[str, ...]) -> str:
        """The name under which an array is kept: its path, or that of the one it is tied to."""
        on_device = not isinstance(array, np.ndarray)
        first = (id(array.block), array.offset) if on_device else array.ctypes.data
        memory = (first, array.shape, array.strides, array.dtype)
        if array.size and memory in self.names:
            return self.names[memory]
        wanted = name = ".".join(path) or "value"
        tries = 1
        while name in self.arrays or name == "__metadata__":
            tries += 1
            name = f"{wanted}#{tries}"
        self.names[memory] = name
        self.kept.append(array)  # its memory must not be another's before the end
        self.arrays[name] = array.numpy() if on_device else array
        return name


def _decode(node: Any, leaf: Any, depth: int) -> Any:
    if depth > 3 * MAX_DEPTH:
        raise CheckpointError(f"the tree is nested deeper than {MAX_DEPTH} levels")
    if isinstance(node, list):
        return [_decode(child, leaf, depth + 1) for child in node]
    if not isinstance(node, dict):
        return node
    kind = next(iter(node), "")
    if not kind.startswith("$"):
        return {key: _decode(child, leaf, depth + 1) for key, child in node.items()}
    value = node[kind]
    if len(node) == 1 and kind in ("$tensor", "$array"):
        return leaf(kind, value)
    if len(node) == 1 and kind == "$float" and isinstance(value, str) and value in _FLOATS:
        return _FLOATS[value]
    if len(node) == 1 and kind == "$tuple" and isinstance(value, list):
        return tuple(_decode(child, leaf, depth + 1) for child in value)
    if len(node) == 1 and kind == "$dict" and isinstance(value, list):
        return _decode_dict(value, leaf, depth)
    raise CheckpointError(f"the tree has a node of an unknown kind {kind!r:.80}")


def _decode_dict(pairs: list[Any], leaf: Any, depth: int) -> dict[Any, Any]:
    result = {}
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2:
            raise CheckpointError("the tree has a $dict that is not made of pairs")
        key = _decode(pair[0], leaf, depth + 1)
        try:
            new = key not in result
        except TypeError:
            raise CheckpointError(
                f"the tree has a {type(key).__name__} for the key of a dict"
            ) from None
        if not new:
            raise CheckpointError(f"the tree has the key {key!r:.80} twice")
        result[key] = _decode(pair[1], leaf, depth + 1)
    return result
