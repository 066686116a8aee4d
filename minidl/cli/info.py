"""`minidl info`."""

from __future__ import annotations

import argparse
import importlib.metadata
import json

import minidl as md
from minidl.config import config

from .build import find_checkpoint

EXTRAS = {"half": "ml_dtypes", "progress": "tqdm", "plot": "matplotlib", "text": "tokenizers",
          "tensorboard": "tensorboard"}


def run(options: argparse.Namespace) -> int:
    """What is installed here, or what is in a checkpoint."""
    if options.checkpoint is None:
        installation()
    else:
        checkpoint(find_checkpoint(options.checkpoint))
    return 0


def installation() -> None:
    """Versions, CPU, instruction set, BLAS, threads, devices, extras."""
    for name, value in config().items():
        print(f"{name:>18}: {value}")
    for device in md.devices():
        print(f"{'device ' + device.name:>18}: {device.description}")
    for extra, package in EXTRAS.items():
        try:
            found = f"{package} {importlib.metadata.version(package)}"
        except importlib.metadata.PackageNotFoundError:
            found = f"{package} is not installed: pip install 'minidl[{extra}]'"
        print(f"{'extra ' + extra:>18}: {found}")


def checkpoint(path: str) -> None:
    """Its header: nothing else of the file is read."""
    about = md.checkpoint.info(path)
    print(f"{'file':>18}: {path}")
    for name, version in about["versions"].items():
        print(f"{name:>18}: {version}")
    state = md.load(path, mmap=True)
    if isinstance(state, dict) and isinstance(state.get("extra"), dict):
        progress, extra = state["progress"], state["extra"]
        print(f"{'step':>18}: {state['step']:,} ({progress['tokens']:,} tokens, "
              f"{progress['seconds']:.0f} s)")
        print(f"{'validation loss':>18}: {progress['val_loss']:.4f}, best "
              f"{progress['best']:.4f} at step {progress['best_step']}")
        for name in ("model", "settings"):
            if name in extra:
                print(f"{name:>18}: {json.dumps(extra[name], ensure_ascii=False)}")
    weights = {name.removeprefix("model."): shape for name, (_, shape) in about["tensors"].items()
               if name.startswith("model.") or "format" not in state}
    numbers = sum(_size(shape) for shape in weights.values())
    print(f"{'weights':>18}: {numbers:,} numbers in {len(weights)} tensors")
    for name, shape in weights.items():
        print(f"{'':>20}{name} {tuple(shape)}")


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for n in shape:
        size *= n
    return size
