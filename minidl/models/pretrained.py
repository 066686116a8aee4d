"""Models out of folders that Hugging Face's libraries read and write, and out of GGUF files."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from typing import Any

from minidl.checkpoint import atomic, files, jsonfile, shards
from minidl.checkpoint.hub import local_path
from minidl.checkpoint.llama import load_gguf
from minidl.errors import CheckpointError, MinidlError
from minidl.nn.utils import skip_init
from minidl.text.simple import write_text

from .base import Model
from .configs import read_config, write_config
from .hf import read_hf

Path = str | os.PathLike[str]
SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"


def from_pretrained(path: Path) -> Any:
    """A GPT, Llama or BERT with published weights, as float32 and in evaluation mode.

    ``path`` is a folder as Hugging Face's libraries write it (config.json, and safetensors in one
    file or several), a GGUF file of the Llama family, or, with the extra ``hub``, a name at the
    Hugging Face hub. GPT-2, Llama, Mistral, SmolLM2, Qwen2 and BERT (MiniLM) are understood.
    ``md.text.PretrainedTokenizer.load(path)`` is the tokenizer of the same place.

    Weights of a folder that are float32 already are mapped, not read.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> md.models.GPT.from_preset("tiny").save_pretrained(folder)
    >>> md.models.from_pretrained(folder).config.layers
    2
    """
    place = local_path(path)
    if place.endswith(".gguf"):
        found = load_gguf(place)
        config, state = found.config, found.state
    else:
        config, state = _read_config(place), _read_weights(place)
    try:
        cls, ours = read_config(config)
        return _built(cls, ours, state)
    except MinidlError as error:
        raise type(error)(f"{place}: {error}") from None


def _built(cls: type[Model], config: Any, state: Mapping[str, Any]) -> Model:
    model = skip_init(cls, config)
    model.load_state_dict(read_hf(model, state, cls.layout), assign=True)
    return model.eval()


def _read_config(folder: str) -> dict[str, Any]:
    place = os.path.join(folder, "config.json")
    if not os.path.exists(place):
        raise FileNotFoundError(f"{place} is not there: it should say which model this is")
    content, _ = jsonfile.read_json(place)
    if not isinstance(content, dict):
        raise CheckpointError(f"{place}: this is not a table of settings")
    return content


def _read_weights(folder: str) -> dict[str, Any]:
    names = sorted(os.listdir(folder))
    single = [name for name in names if name.endswith(".safetensors")]
    found = SINGLE if SINGLE in names else INDEX if INDEX in names else None
    if found is None and len(single) == 1:
        found = single[0]
    if found is None:
        pickled = [name for name in names if name.endswith((".bin", ".pt", ".pth"))]
        why = f"neither {SINGLE} nor {INDEX} is there"
        if pickled:
            why = f"{pickled[0]} is pickled and could execute code; save it again with transformers"
        raise FileNotFoundError(f"{folder} has no weights that minidl reads: {why}")
    state = files.load(os.path.join(folder, found), mmap=True)
    if not isinstance(state, dict):
        raise CheckpointError(f"{os.path.join(folder, found)}: this is not a dict of weights")
    return state


def save_pretrained(model: Model, path: Path, tokenizer: Any, max_shard_size: int) -> None:
    """Write a folder that ``from_pretrained`` here and in transformers opens."""
    folder = os.path.abspath(files.place_of("save_pretrained", path))
    config = write_config(model)
    state = model.to_hf()
    atomic.make_folder(folder)
    size = sum(p.numel() * p.dtype.itemsize for p in model.parameters())
    new, old = (SINGLE, INDEX) if size <= max_shard_size else (INDEX, SINGLE)
    files.save(state, os.path.join(folder, new), max_shard_size=max_shard_size)
    for name in (old, *(shards.listed(os.path.join(folder, INDEX)) if old == INDEX else ())):
        with contextlib.suppress(FileNotFoundError):        # weights that were here before
            os.unlink(os.path.join(folder, name))
    write_text(os.path.join(folder, "config.json"), json.dumps(config, indent=2) + "\n")
    if tokenizer is not None:
        tokenizer.save(os.path.join(folder, "tokenizer.json"))
        about = {"tokenizer_class": "PreTrainedTokenizerFast"}
        write_text(os.path.join(folder, "tokenizer_config.json"), json.dumps(about) + "\n")
