"""``md.save`` and ``md.load``: the format is the extension."""

from __future__ import annotations

import os
from typing import Any

from minidl.errors import ArgumentError, CheckpointError

Path = str | os.PathLike[str]


def save(
    obj: Any, path: Path, *, json_lists: bool = False, metadata: dict[str, str] | None = None
) -> None:
    """Write a state dict, a module or a whole training state to ``path``, safely.

    ``obj`` is a tensor, number, string or None, or dicts, lists and tuples of them to any depth;
    modules, optimizers and whatever else has a ``state_dict()`` stand for it, and a Generator for
    its state. Weights that share memory are stored once and come back shared. The extension
    decides the format: ``.safetensors``, or ``.json`` (``json_lists``: all tensors as nested
    lists). ``metadata`` are strings for a safetensors header.

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
    from . import jsonfile, tensors, tree

    kind, place = _format("save", path)
    if json_lists and kind != ".json":
        raise ArgumentError(f"save: json_lists is for .json files, this one is {place}")
    if metadata and kind != ".safetensors":
        raise ArgumentError(f"save: metadata is for .safetensors files, this one is {place}")
    packed = tree.pack(obj)
    if kind == ".json":
        jsonfile.write(place, packed, json_lists)
    else:
        tensors.write(place, packed, tensors.checked_metadata(metadata))


def load(path: Path, *, mmap: bool = False) -> Any:
    """Read what ``save`` wrote, or any safetensors file.

    The checksums that ``save`` left are compared: a damaged file raises CheckpointError, and so
    does any file that is not what it should be. Nothing in a file is ever executed.

    ``mmap`` maps a safetensors file instead of reading it: opening takes no time and no memory,
    tensors read their pages when they are used and copy them when they are written to (the file
    never changes). Only the header's checksum is compared then. Arrays of dtypes that minidl has
    no tensors of (int16, float8) come as NumPy arrays.
    """
    from . import jsonfile, tensors, tree

    kind, place = _format("load", path)
    if mmap and kind != ".safetensors":
        raise ArgumentError(f"load: only .safetensors files can be mapped, this one is {place}")
    packed = jsonfile.read(place) if kind == ".json" else tensors.read(place, mmap)
    try:
        return tree.unpack(packed)
    except CheckpointError as error:
        raise CheckpointError(f"{place}: {error}") from None


def _format(what: str, path: Path) -> tuple[str, str]:
    place = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None
    if not isinstance(place, str):
        raise TypeError(f"{what}: expected a path, got {type(path).__name__}")
    for kind in (".safetensors", ".json"):
        if place.endswith(kind):
            return kind, place
    hint = ""
    if place.endswith((".pt", ".pth", ".bin", ".pkl", ".ckpt")):
        hint = "; pickled files can execute code when they are loaded, convert them with PyTorch"
    raise ArgumentError(f"{what}: {place} should end in .safetensors or .json{hint}")
