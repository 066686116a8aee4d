"""What a run is made of: every option of `minidl train`, from presets, a file and flags."""

from __future__ import annotations

import difflib
import json
import os
from dataclasses import dataclass, field, fields
from typing import Any

from minidl.errors import ArgumentError


class UsageError(ArgumentError):
    """An option or a config file that makes no sense: exit code 2."""


def option(default: Any, help: str, **how: Any) -> Any:
    """A field that is an option of the command line and a key of a config file."""
    return field(default=default, metadata={"help": help, "how": how})


@dataclass
class Settings:
    """All of a run. None: the preset, or nothing at all."""

    text: list[str] = field(default_factory=list, metadata={
        "help": "files and folders to learn; default: the sources of Python's standard library",
        "how": {"nargs": "+", "metavar": "PATH", "type": str}})
    model: str = option("gpt", "architecture", choices=("gpt", "llama"))
    preset: str = option("tiny", "size of the model and how it is trained",
                         choices=("tiny", "nano", "base", "nanogpt-cpu"))
    tokenizer: str = option("char", "char, byte, bpe:N (trains N tokens on the text), or the path "
                            "of a tokenizer.json", metavar="KIND")
    byte_fallback: bool = option(True, "let the char tokenizer write characters it has not seen as "
                                 "bytes, for 256 more tokens")
    layers: int | None = option(None, "number of blocks", type=int, metavar="N")
    heads: int | None = option(None, "attention heads of a block", type=int, metavar="N")
    width: int | None = option(None, "width of the model", type=int, metavar="N")
    context: int | None = option(None, "tokens the model sees at once", type=int, metavar="N")
    dropout: float = option(0.0, "share of activations that training drops", type=float,
                            metavar="P")
    optimizer: str = option("adamw", "how weights are updated",
                            choices=("adamw", "adam", "sgd", "lion", "muon"))
    steps: int = option(2000, "steps in all", type=int, metavar="N")
    batch_size: int = option(12, "sequences of a batch", type=int, metavar="N")
    accumulate: int = option(1, "batches of a step, whose gradients are added", type=int,
                             metavar="N")
    lr: float = option(1e-3, "learning rate after the warm-up", type=float, metavar="X")
    min_lr: float | None = option(None, "learning rate at the end of the cosine, default lr / 10",
                                  type=float, metavar="X")
    warmup: int = option(100, "steps in which the learning rate grows", type=int, metavar="N")
    beta2: float = option(0.99, "second beta of Adam and AdamW", type=float, metavar="X")
    weight_decay: float = option(0.1, "decay of matrices and embeddings", type=float, metavar="X")
    clip: float = option(1.0, "limit of the gradient's norm; 0: none", type=float, metavar="X")
    eval_every: int = option(250, "steps between evaluations", type=int, metavar="N")
    eval_batches: int = option(20, "batches of an evaluation, spread over the validation text",
                               type=int, metavar="N")
    val_share: float = option(0.1, "share of the text, at its end, that is kept for validation",
                              type=float, metavar="P")
    save_every: int | None = option(None, "steps between checkpoints; default: one after each "
                                    "evaluation", type=int, metavar="N")
    keep_last: int = option(2, "how many of the last checkpoints stay; the best stays too",
                            type=int, metavar="N")
    patience: int | None = option(None, "stop after so many evaluations without a better one",
                                  type=int, metavar="N")
    seed: int = option(1337, "where all random numbers start", type=int, metavar="N")
    device: str = option("cpu", "where to compute: cpu, cuda, metal or opencl", metavar="NAME")
    threads: int | None = option(None, "threads to compute with; default: all usable cores",
                                 type=int, metavar="N")
    tensorboard: bool = option(False, "also write TensorBoard's event files")

    def check(self) -> None:
        """Refuse numbers that make no sense."""
        for name, least in LEAST.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise UsageError(f"{flag(name)} must be at least {least}, got {value}")
        for name in ("dropout", "val_share", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise UsageError(f"{flag(name)} must be at least 0 and below 1, got "
                                 f"{getattr(self, name)}")
        if not 0 <= self.warmup < self.steps:
            self.warmup = max(0, self.steps // 10)  # a look of a few steps needs no --warmup
        if self.lr <= 0:
            raise UsageError(f"--lr must be above 0, got {self.lr}")


LEAST = {
    "layers": 1, "heads": 1, "width": 1, "context": 1, "steps": 1, "batch_size": 1, "accumulate": 1,
    "weight_decay": 0, "clip": 0, "eval_every": 1, "eval_batches": 1, "save_every": 1,
    "keep_last": 1, "patience": 1, "threads": 1, "seed": 0, "warmup": 0,
}
# How each preset is trained; its size is that of the model's preset of this name.
RECIPES: dict[str, dict[str, Any]] = {
    # A minute on two cores: Muon gets further in so few steps than AdamW.
    "tiny": {"context": 128, "batch_size": 16, "steps": 1500, "optimizer": "muon", "lr": 3e-3,
             "eval_every": 300},
    "nano": {"steps": 3000, "batch_size": 16, "eval_every": 300},
    "base": {"steps": 5000, "batch_size": 32, "dropout": 0.1, "eval_every": 250},
    "nanogpt-cpu": {"byte_fallback": False, "min_lr": 1e-4},
}
# What may change when a run is resumed: nothing that the weights or their order depend on.
RESUMABLE = ("steps", "threads", "eval_every", "save_every", "keep_last", "patience", "tensorboard")


def flag(name: str) -> str:
    """The option of a field: --batch-size."""
    return "--" + name.replace("_", "-")


def merge(*layers: dict[str, Any]) -> Settings:
    """Settings from dicts, later ones first in rank: the preset that they name lies below all."""
    given: dict[str, Any] = {}
    for layer in layers:
        given.update(layer)
    preset = given.get("preset", Settings.preset)
    settings = Settings(**{**RECIPES.get(preset, {}), **given})
    settings.check()
    return settings


def read_config(path: str) -> dict[str, Any]:
    """The settings of a TOML file; an unknown key or a wrong type gets a sentence."""
    if os.path.isdir(path):
        path = os.path.join(path, "config.toml")
    try:
        import tomllib
    except ImportError:  # Python 3.10
        try:
            import tomli as tomllib  # type: ignore[no-redef]
        except ImportError:
            raise ImportError(
                "reading a config file needs Python 3.11 or the package `tomli`: pip install tomli"
            ) from None
    with open(path, "rb") as file:
        try:
            content = tomllib.load(file)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"{path} is not TOML: {error}") from None
    known = {f.name: f for f in fields(Settings)}
    result = {}
    for key, value in content.items():
        name = key.replace("-", "_")
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(known)}"
            raise UsageError(f"{path}: there is no setting {key!r}{hint}")
        result[name] = _typed(path, known[name], value)
    return result


def _typed(path: str, setting: Any, value: Any) -> Any:
    how = setting.metadata["how"]
    kind = how.get("type", bool if isinstance(setting.default, bool) else str)
    if setting.name == "text" and isinstance(value, str):
        value = [value]
    if kind is float and type(value) is int:
        value = float(value)
    values = value if setting.name == "text" and isinstance(value, list) else [value]
    if any(type(one) is not kind for one in values):
        raise UsageError(f"{path}: {setting.name} must be a {kind.__name__}, got {value!r}")
    if value not in how.get("choices", [value]):
        raise UsageError(
            f"{path}: {setting.name} must be one of {', '.join(how['choices'])}, got {value!r}")
    return value


def write_config(settings: Settings) -> str:
    """The settings as TOML, for `--config`."""
    lines = ["# What this run was started with; `minidl train --config` takes it.\n"]
    for one in fields(settings):
        value = getattr(settings, one.name)
        if value is not None:
            # A JSON string, number, list or truth value is TOML as well.
            lines.append(f"{one.name} = {json.dumps(value, ensure_ascii=False)}\n")
    return "".join(lines)
