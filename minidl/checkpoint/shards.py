"""Checkpoints of several files, as Hugging Face lays them out: model.safetensors.index.json says
which of model-00001-of-00002.safetensors and its like holds which tensor."""

from __future__ import annotations

import contextlib
import json
import os
import re
from typing import Any

import numpy as np

from minidl.errors import ArgumentError, CheckpointError, MinidlError

from . import jsonfile, tensors
from .header import parse_json
from .tree import PLAIN, Packed

SUFFIX = ".safetensors.index.json"


def write(path: str, packed: Packed, metadata: dict[str, str], max_shard_size: int) -> None:
    """Save a dict of tensors in files of at most ``max_shard_size`` bytes of data each (one
    tensor may be larger). The index comes last, and names files that were not there before, so
    that at any moment the old checkpoint or the new one is whole."""
    if max_shard_size < 1:
        raise ArgumentError(f"save: max_shard_size must be positive, got {max_shard_size}")
    if packed.tree is not PLAIN and not _is_flat(packed.tree):
        raise ArgumentError(
            f"save: a sharded checkpoint ({SUFFIX}) holds a dict of tensors and nothing else; save "
            "a training state as one .safetensors file"
        )
    folder, base = os.path.split(os.path.realpath(path))
    parts = _split(packed.arrays, max_shard_size)
    names = _new_names(folder, base[: -len(SUFFIX)], len(parts))
    old = listed(path)
    for name, part in zip(names, parts, strict=True):
        tensors.write(os.path.join(folder, name), Packed(PLAIN, part), metadata)
    about: dict[str, Any] = {"total_size": sum(a.nbytes for a in packed.arrays.values())}
    about["minidl.checksum"] = jsonfile.ZEROS
    if packed.tree is not PLAIN:
        about["minidl.tree"] = json.dumps(packed.tree)
    where = {key: name for name, part in zip(names, parts, strict=True) for key in part}
    index = {"metadata": about, "weight_map": where}
    jsonfile.write_signed(path, json.dumps(index, indent=2, ensure_ascii=False))
    for name in old - set(names):
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(folder, name))


def _is_flat(tree: Any) -> bool:
    return isinstance(tree, dict) and all(
        isinstance(node, dict) and list(node) in (["$tensor"], ["$array"]) for node in tree.values()
    )


def _split(arrays: dict[str, np.ndarray], limit: int) -> list[dict[str, np.ndarray]]:
    parts: list[dict[str, np.ndarray]] = [{}]
    size = 0
    for name, array in arrays.items():
        if parts[-1] and size + array.nbytes > limit:
            parts.append({})
            size = 0
        parts[-1][name] = array
        size += array.nbytes
    return parts


def _new_names(folder: str, stem: str, count: int) -> list[str]:
    """model-00001-of-00002.safetensors, ...; with a random part where these are taken."""
    names = [f"{stem}-{i + 1:05d}-of-{count:05d}.safetensors" for i in range(count)]
    if any(os.path.lexists(os.path.join(folder, name)) for name in names):
        return _new_names(folder, f"{stem}-{os.urandom(4).hex()}", count)
    return names


def listed(path: str) -> set[str]:
    """The shards of the index that is about to be replaced."""
    try:
        return set(_read_index(path)[1].values())
    except (OSError, MinidlError):
        return set()


def _read_index(path: str) -> tuple[dict[str, Any], dict[str, str]]:
    """(metadata, file of each tensor); files lie beside the index, wherever it says."""
    content, data = jsonfile.read_json(path)
    with tensors.named(path):
        if not isinstance(content, dict) or not isinstance(content.get("weight_map"), dict):
            raise CheckpointError('this is not an index of a sharded checkpoint: no "weight_map"')
        about = content.get("metadata", {})
        if not isinstance(about, dict):
            raise CheckpointError("its metadata is not a table")
        if "minidl.checksum" in about:
            jsonfile.check_sum(about["minidl.checksum"], data)
        where = content["weight_map"]
        for name in where.values():
            if not isinstance(name, str) or not re.fullmatch(r"[^/\\:\0]+\.safetensors", name):
                raise CheckpointError(f"{name!r:.80} is not the name of a safetensors file")
        return about, where


def read(path: str, mmap: bool) -> Packed:
    """The arrays and the tree of all the files of an index."""
    about, where = _read_index(path)
    folder = os.path.dirname(path)
    files = {name: tensors.read(os.path.join(folder, name), mmap).arrays
             for name in sorted(set(where.values()))}
    with tensors.named(path):
        for key, name in where.items():
            if key not in files[name]:
                raise CheckpointError(f"tensor {key!r:.80} is not in {name}, where it should be")
        tree = about.get("minidl.tree")
        if tree is not None and not isinstance(tree, str):
            raise CheckpointError("its tree is not a string")
        parsed = PLAIN if tree is None else parse_json(tree, "the tree")
        return Packed(parsed, {key: files[name][key] for key, name in where.items()})
