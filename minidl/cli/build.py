"""From settings to tokens, a model and a trainer; from a checkpoint back to a model."""

from __future__ import annotations

import os
import random
import tempfile
import zlib
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

import minidl as md
from minidl.errors import ArgumentError, CheckpointError
from minidl.models import GPT, GPTConfig, Llama, LlamaConfig

from .settings import Settings, UsageError

MODELS: dict[str, Any] = {"gpt": (GPT, GPTConfig), "llama": (Llama, LlamaConfig)}


@dataclass
class Data:
    """The tokens of a run, and what made them."""

    tokenizer: Any
    tokens: np.ndarray
    characters: int
    crc32: int

    def split(self, val_share: float) -> tuple[np.ndarray, np.ndarray]:
        """The tokens to train on and, from the end, those to validate with."""
        cut = len(self.tokens) - round(len(self.tokens) * val_share)
        return self.tokens[:cut], self.tokens[cut:]


def read_data(settings: Settings, tokenizer: Any = None) -> Data:
    """The text of the settings as tokens; without a tokenizer, by one made from it."""
    text = md.text.load_corpus(settings.text or None)
    if tokenizer is None:
        tokenizer = make_tokenizer(settings, text)
    kind = np.uint16 if tokenizer.vocab_size <= 1 << 16 else np.uint32
    # A list takes eight bytes a token: characters and bytes can be encoded a piece at a time.
    size = len(text) if isinstance(tokenizer, md.text.BPETokenizer) else 1 << 20
    tokens = np.concatenate([np.array(tokenizer.encode(text[i : i + size]), kind)
                             for i in range(0, len(text), size)])
    return Data(tokenizer, tokens, len(text), zlib.crc32(tokens.tobytes()))


def make_tokenizer(settings: Settings, text: str) -> Any:
    """The tokenizer that a setting names: char, byte, bpe:4096, or a file."""
    kind, _, size = settings.tokenizer.partition(":")
    if settings.tokenizer == "char":
        return md.text.CharTokenizer(text, settings.byte_fallback)
    if settings.tokenizer == "byte":
        return md.text.ByteTokenizer()
    if kind == "bpe":
        if not size.isdigit():
            raise UsageError(f"--tokenizer bpe:N needs a number of tokens, as bpe:4096, got "
                             f"{settings.tokenizer!r}")
        return md.text.BPETokenizer.train(text.splitlines(keepends=True), int(size))
    if os.path.exists(settings.tokenizer):
        return md.text.BPETokenizer.load(settings.tokenizer)
    raise UsageError(f"--tokenizer must be char, byte, bpe:N or the path of a tokenizer.json, got "
                     f"{settings.tokenizer!r}")


def make_model(settings: Settings, vocab_size: int) -> Any:
    """A new model: the preset's size, changed by what is given."""
    kind, _ = MODELS[settings.model]
    given = {name: getattr(settings, name) for name in ("layers", "heads", "width", "context")}
    changes = {name: value for name, value in given.items() if value is not None}
    if settings.preset not in kind.presets:
        raise UsageError(f"{kind.__name__} has no preset {settings.preset}; use --model gpt")
    config = replace(kind.presets[settings.preset], vocab_size=vocab_size, dropout=settings.dropout,
                     **changes)
    if settings.model == "llama" and config.heads % config.kv_heads:
        config.kv_heads = config.heads
    try:
        return kind(config)
    except ValueError as error:
        raise UsageError(str(error)) from None


def make_optimizer(settings: Settings, model: Any) -> Any:
    """The optimizer, with weight decay on matrices and embeddings alone."""
    betas = (0.9, settings.beta2)
    groups = md.optim.decay_groups(model, settings.weight_decay)
    if settings.optimizer == "muon":
        muon = md.optim.muon_groups(model, settings.weight_decay, settings.lr)
        return md.optim.Muon(muon, lr=10 * settings.lr)
    if settings.optimizer == "sgd":
        return md.optim.SGD(groups, lr=settings.lr, momentum=0.9, nesterov=True)
    if settings.optimizer == "lion":
        return md.optim.Lion(groups, lr=settings.lr)
    kind = md.optim.AdamW if settings.optimizer == "adamw" else md.optim.Adam
    return kind(groups, lr=settings.lr, betas=betas)


def make_trainer(settings: Settings, data: Data, folder: str, callbacks: Any = ()) -> Any:
    """Everything that `minidl train` needs, from one seed."""
    md.manual_seed(settings.seed)
    random.seed(settings.seed)
    np.random.seed(settings.seed % (1 << 32))
    model = make_model(settings, data.tokenizer.vocab_size)
    where = None if settings.device == "cpu" else md.device(settings.device)
    if where is not None:
        model.to(where)
    optimizer = make_optimizer(settings, model)
    least = settings.lr / 10 if settings.min_lr is None else settings.min_lr
    scheduler = md.optim.lr_scheduler.WarmupCosineLR(
        optimizer, settings.warmup, settings.steps, eta_min=least)
    train, val = data.split(settings.val_share)
    context = model.config.context
    try:
        loader = md.data.DataLoader(md.data.TokenDataset(train, context, stride=1),
                                    settings.batch_size, shuffle=True)
        val_loader = spread(val, context, settings) if len(val) else None
    except ArgumentError:
        raise ArgumentError(
            f"the text is too short: {len(train):,} tokens to train on and {len(val):,} to "
            f"validate with, but one sequence takes {context + 1}; give more text, or a smaller "
            "--context" + (", or --val-share 0" if len(val) else "")) from None
    extra = {
        "settings": asdict(settings), "model": asdict(model.config), "characters": data.characters,
        "tokenizer": {"kind": type(data.tokenizer).__name__,
                      "json": tokenizer_json(data.tokenizer)},
        "crc32": data.crc32,
    }
    if settings.tensorboard:
        callbacks = [*callbacks, md.train.TensorBoard()]
    return md.train.Trainer(
        model, optimizer, loader, scheduler=scheduler, val_loader=val_loader, folder=folder,
        accumulate=settings.accumulate, clip=settings.clip or None, device=where, extra=extra,
        eval_every=settings.eval_every, save_every=settings.save_every, callbacks=callbacks,
        keep_last=settings.keep_last, patience=settings.patience)


def spread(tokens: np.ndarray, context: int, settings: Settings) -> Any:
    """A loader of ``eval_batches`` batches, their windows spread evenly over the tokens."""
    wanted = settings.eval_batches * settings.batch_size
    stride = max(context, (len(tokens) - context - 1) // max(wanted - 1, 1))
    return md.data.DataLoader(md.data.TokenDataset(tokens, context, stride), settings.batch_size)


def tokenizer_json(tokenizer: Any) -> str:
    """What the tokenizer's ``save`` writes."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tokenizer.json")
        tokenizer.save(path)
        with open(path, encoding="utf-8") as file:
            return file.read()


@dataclass
class Trained:
    """A model from a checkpoint, with its tokenizer and the state it was in."""

    path: str
    model: Any
    tokenizer: Any
    settings: Settings
    state: dict[str, Any]


def find_checkpoint(path: str) -> str:
    """The file that a folder of a run, or its folder of checkpoints, stands for: the best one,
    else the newest."""
    if not os.path.isdir(path):
        if not os.path.exists(path):
            raise FileNotFoundError(f"{path} is not there; give the folder of a run or one of its "
                                    "checkpoints")
        return path
    inner = os.path.join(path, "checkpoints")
    manager = md.checkpoint.CheckpointManager(inner if os.path.isdir(inner) else path)
    found = manager.best() or manager.latest()
    if found is None:
        raise FileNotFoundError(f"there is no checkpoint in {path}")
    return found


def load_trained(path: str, device: str = "cpu") -> Trained:
    """Build the model of a checkpoint that `minidl train` wrote, on a device."""
    path = find_checkpoint(path)
    state = md.load(path)
    settings, extra = saved_settings(path, state)
    kind, config = MODELS[settings.model]
    model = kind(config(**extra["model"]))
    model.load_state_dict(state["model"])
    model.to(device)
    return Trained(path, model, load_tokenizer(extra["tokenizer"]), settings, state)


def saved_settings(path: str, state: Any) -> tuple[Settings, dict[str, Any]]:
    """The settings of the run that a state belongs to, and all that was saved with them."""
    extra = state.get("extra") if isinstance(state, dict) else None
    if not isinstance(extra, dict) or not {"settings", "model", "tokenizer"} <= set(extra):
        raise CheckpointError(f"{path} was not written by `minidl train`")
    try:
        return Settings(**extra["settings"]), extra
    except TypeError as error:
        raise CheckpointError(f"{path} was written by another version of minidl: {error}") from None


def load_tokenizer(saved: dict[str, str]) -> Any:
    """The tokenizer that a checkpoint holds."""
    kind = getattr(md.text, saved["kind"])
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tokenizer.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write(saved["json"])
        return kind.load(path)
