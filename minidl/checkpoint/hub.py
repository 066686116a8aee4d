"""Where a published model lies: a path here, or a name at the Hugging Face hub."""

from __future__ import annotations

import os
import re

from .files import Path, place_of

FILES = ["config.json", "*.safetensors", "*.safetensors.index.json", "tokenizer*.json", "vocab.*",
         "merges.txt"]  # fmt: skip


def local_path(path: Path) -> str:
    """``path`` if it is there; else the folder to which a model of that name is downloaded."""
    place = place_of("from_pretrained", path)
    if os.path.exists(place):
        return place
    if not re.fullmatch(r"[\w-][\w.-]*(/[\w-][\w.-]*)?", place) or place.endswith(".gguf"):
        raise FileNotFoundError(f"{place} is not there")
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise ImportError(
            f"{place} is no folder here; to fetch a model of that name from the Hugging Face hub, "
            "pip install 'minidl[hub]'"
        ) from error
    try:
        return str(snapshot_download(place, allow_patterns=FILES))
    except Exception as error:  # a family of classes that changes from version to version
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise OSError(
            f"{place} is no folder here, and it could not be fetched from the Hugging Face hub "
            f"(is there a network?): {reason:.300}"
        ) from error
