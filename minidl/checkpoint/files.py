"""``md.save`` and ``md.load``: the format is the extension.

What reads and writes the formats is imported when it is first used: `import minidl` stays fast.
"""

from __future__ import annotations

import os
from typing import Any

from minidl.errors import ArgumentError

Path = str | os.PathLike[str]


def save(
    obj: Any,
    path: Path,
    *,
    json_lists: bool = False,
    metadata: dict[str, str] | None = None,
    max_shard_size: int = 5_000_000_000,
) -> None:
    """Write a state dict, a module or a whole training state to ``path``, safely.

    ``obj`` is a tensor, number, string or None, or dicts, lists and tuples of them to any depth;
    modules, optimizers and whatever else has a ``state_dict()`` stand for it, and a Generator for
    its state. Weights that share memory are stored once and come back shared. The extension
    decides the format: ``.safetensors``, ``.json`` (``json_lists``: all tensors as nested lists),
    or ``.safetensors.index.json`` for files of at most ``max_shard_size`` bytes each, as Hugging
    Face lays them out. ``metadata`` are strings for a safetensors header.

    When ``save`` returns, the file is on the disk and survives a power cut; when it raises or is
    killed, the file that was there before is as it was.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "run.safetensors")
    >>> model = md.nn.Linear(2, 3)
    >>> md.save({"model": model, "step": 100}, path)
    >>> state = md.load(path)
    >>> model.load_state_dict(state["model"]), state["step"]
    (<All keys matched successfully>, 100)
    """
    from . import jsonfile, shards, tensors, tree

    kind, place = _format("save", path)
    if json_lists and kind != ".json":
        raise ArgumentError(f"save: json_lists is for .json files, this one is {place}")
    if metadata and kind == ".json":
        raise ArgumentError(f"save: metadata is for .safetensors files, this one is {place}")
    packed = tree.pack(obj)
    if kind == ".json":
        jsonfile.write(place, packed, json_lists)
    elif kind == ".safetensors":
        tensors.write(place, packed, tensors.checked_metadata(metadata))
    else:
        shards.write(place, packed, tensors.checked_metadata(metadata), max_shard_size)


def load(path: Path, *, mmap: bool = False, map_location: Any = None) -> Any:
    """Read what ``save`` wrote, or any safetensors file or index of a sharded checkpoint.

    The checksums that ``save`` left are compared: a damaged file raises CheckpointError, and so
    does any file that is not what it should be. Nothing in a file is ever executed.

    ``mmap`` maps a safetensors file instead of reading it: opening takes no time and no memory,
    tensors read their pages when they are used and copy them when they are written to (the file
    never changes). Only the header's checksum is compared then. Arrays of dtypes that minidl has
    no tensors of (int16, float8) come as NumPy arrays.

    Tensors come to the CPU, wherever they were when they were saved, or to the device that
    ``map_location`` names.
    """
    from . import jsonfile, shards, tensors, tree

    kind, place = _format("load", path)
    if kind == ".json":
        if mmap:
            raise ArgumentError(f"load: only .safetensors files can be mapped, this one is {place}")
        packed = jsonfile.read(place)
    else:
        packed = (tensors if kind == ".safetensors" else shards).read(place, mmap)
    with tensors.named(place):
        return tree.unpack(packed, map_location)


def verify(path: Path) -> None:
    """Read a safetensors file that ``save`` wrote and raise CheckpointError if it is damaged.

    It takes the memory of a few MiB, whatever the size of the file.
    """
    from . import tensors

    tensors.verify(place_of("verify", path, ".safetensors"))


def info(path: Path) -> dict[str, Any]:
    """What the header of a safetensors file says, without reading its data: ``tensors`` (name to
    dtype and shape), ``metadata``, and ``versions`` of what ``save`` wrote it with.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "a.safetensors")
    >>> md.save({"w": md.ones(2, 3)}, path, metadata={"author": "me"})
    >>> found = info(path)
    >>> found["tensors"], found["metadata"]["author"], found["versions"]["minidl"] != ""
    ({'w': ('float32', (2, 3))}, 'me', True)
    """
    from . import tensors
    from .header import DTYPES, parse_json

    with tensors.opened(place_of("info", path, ".safetensors")) as file:
        return {
            "tensors": {n: (DTYPES[e.code], e.shape) for n, e in file.entries.items()},
            "versions": parse_json(file.metadata.get("minidl.versions", "{}"), "the versions"),
            "metadata": {k: v for k, v in file.metadata.items() if not k.startswith("minidl.")},
        }


def place_of(what: str, path: Path, kind: str = "") -> str:
    """A path as a string, of a file of a kind."""
    place = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None
    if not isinstance(place, str):
        raise TypeError(f"{what}: expected a path, got {type(path).__name__}")
    if not place.endswith(kind):
        raise ArgumentError(f"{what}: expected a {kind} file, got {place}")
    return place


def _format(what: str, path: Path) -> tuple[str, str]:
    place = place_of(what, path)
    for kind in (".safetensors", ".safetensors.index.json", ".json"):
        if place.endswith(kind):
            return kind, place
    hint = ""
    if place.endswith((".pt", ".pth", ".bin", ".pkl", ".ckpt")):
        hint = "; pickled files can execute code when they are loaded, convert them with PyTorch"
    if place.endswith(".gguf"):
        hint = "; md.checkpoint.load_gguf and save_gguf are for .gguf files"
    raise ArgumentError(f"{what}: {place} should end in .safetensors or .json{hint}")
