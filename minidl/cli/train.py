"""`minidl train`."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import shlex
import sys
from dataclasses import fields, replace
from typing import Any

import minidl as md
from minidl.errors import ArgumentError

from .build import Data, load_tokenizer, make_trainer, read_data, saved_settings
from .settings import RESUMABLE, Settings, UsageError, flag, merge, read_config, write_config

STDLIB_PROMPTS = ("\ndef ", "\n    def __init__(self", "\nclass ")
NEWLINE = "\n"
LOST = " " * 40  # a small model that indents so far does not find its way back


def run(options: argparse.Namespace) -> int:
    """Train, draw, write samples; 130 after Ctrl-C."""
    given = {f.name: getattr(options, f.name) for f in fields(Settings) if hasattr(options, f.name)}
    progress = [] if options.quiet else [md.train.Progress()]
    if options.plot:
        _need_matplotlib()
    if options.resume is not None:
        trainer, settings, data = resumed(options, given, progress)
    else:
        trainer, settings, data = started(options, given, progress)
    if not options.quiet:
        _introduce(trainer, settings, data)
    evaluated = trainer.val_loader is None or trainer.evaluated == trainer.step
    if trainer.step >= settings.steps and evaluated:
        print(f"all {trainer.step} steps of this run are done; --steps N goes on to N")
        return 0
    why = trainer.fit(settings.steps)
    _conclude(trainer, why)
    if why == "interrupted":
        print(f"go on with: minidl train --resume {trainer.folder}")
        return 128 + trainer.signal
    if options.plot is not False:
        _draw(trainer)
    if not options.quiet:
        _write_samples(trainer, settings, data, options)
    return 0


def started(options: argparse.Namespace, given: dict[str, Any], callbacks: Any) -> Any:
    """A new run, in a folder of its own."""
    config = read_config(options.config) if options.config else {}
    settings = merge(config, given)
    _set_threads(settings)
    if options.out is not None and _is_run(options.out):
        raise UsageError(f"{options.out} already holds a run; --resume {options.out} goes on with "
                         "it, another --out starts a new one")
    data = read_data(settings)
    settings.text = [os.path.abspath(path) for path in settings.text]  # resume from anywhere
    folder = options.out or _new_folder(settings)
    try:
        trainer = make_trainer(settings, data, folder, callbacks)
    except BaseException:
        with contextlib.suppress(OSError):
            os.rmdir(folder)  # if it is there and empty, it was made for this run
        raise
    with open(os.path.join(folder, "config.toml"), "w", encoding="utf-8") as file:
        file.write(write_config(settings))
    return trainer, settings, data


def resumed(options: argparse.Namespace, given: dict[str, Any], callbacks: Any) -> Any:
    """The run of a folder, from its newest checkpoint."""
    if options.config or options.out:
        raise UsageError("--resume takes everything from the run itself: no --config, no --out")
    fixed = [flag(name) for name in given if name not in RESUMABLE]
    if fixed:
        raise UsageError(f"a resumed run keeps its {', '.join(fixed)}; what may change is "
                         + ", ".join(map(flag, RESUMABLE)))
    folder = options.resume or _newest()
    if not os.path.isdir(os.path.join(folder, "checkpoints")):
        raise FileNotFoundError(f"there is no run to resume in {folder}")
    manager = md.checkpoint.CheckpointManager(os.path.join(folder, "checkpoints"))
    state = manager.load()
    if state is None:
        raise FileNotFoundError(f"{folder} has no checkpoint yet: there is nothing to resume")
    settings, extra = saved_settings(folder, state)
    settings = replace(settings, **given)
    settings.check()
    _set_threads(settings)
    data = read_data(settings, load_tokenizer(extra["tokenizer"]))
    if data.crc32 != extra["crc32"]:
        raise ArgumentError("the text has changed since this run was started, so it cannot go on "
                            "as it was; start a new one")
    trainer = make_trainer(settings, data, folder, callbacks)
    trainer.load_state_dict(state)
    if settings.steps != trainer.scheduler.total_iters:
        trainer.scheduler.total_iters = settings.steps
        trainer.scheduler.set_lr(trainer.scheduler.get_lr())
    return trainer, settings, data


def _set_threads(settings: Settings) -> None:
    if settings.threads is not None:
        md.set_num_threads(settings.threads)


def _is_run(folder: str) -> bool:
    return any(os.path.exists(os.path.join(folder, name))
               for name in ("log.jsonl", "checkpoints", "config.toml"))


def _new_folder(settings: Settings) -> str:
    """runs/gpt-nano-1, or the next number that is free."""
    number = 1
    while True:
        folder = os.path.join("runs", f"{settings.model}-{settings.preset}-{number}")
        try:
            os.makedirs(folder)
            return folder
        except FileExistsError:
            number += 1


def _newest() -> str:
    """The folder in runs/ whose log was written last."""
    found = []
    if os.path.isdir("runs"):
        for name in os.listdir("runs"):
            folder = os.path.join("runs", name)
            if os.path.isdir(os.path.join(folder, "checkpoints")):
                found.append((os.path.getmtime(os.path.join(folder, "checkpoints")), folder))
    if not found:
        raise FileNotFoundError("there is no run in runs/; name its folder: --resume FOLDER")
    return max(found)[1]


def _introduce(trainer: Any, settings: Settings, data: Data) -> None:
    config = trainer.model.config
    paths = [min(path, os.path.relpath(path), key=len) for path in settings.text]
    source = ", ".join(paths) or "the sources of Python's standard library"
    print(f"text     {source}: {data.characters:,} characters, {len(data.tokens):,} tokens of "
          f"{data.tokenizer.vocab_size}")
    print(f"model    {settings.model}, {trainer.model.num_parameters():,} parameters: "
          f"{config.layers} layers, {config.heads} heads, width {config.width}, context "
          f"{config.context}")
    print(f"training {settings.steps:,} steps of {settings.batch_size * settings.accumulate} x "
          f"{config.context} tokens on {md.get_num_threads()} threads, seed {settings.seed}")
    after = f", going on after step {trainer.step}" if trainer.step else ""
    print(f"run      {trainer.folder}{after}", flush=True)


def _conclude(trainer: Any, why: str) -> None:
    if why == "interrupted":
        print(f"interrupted after step {trainer.step}; saved in {trainer.folder}")
        return
    ended = {"done": "done", "no improvement": "stopped early: no improvement"}.get(why, why)
    text = f"{ended} after {trainer.step} steps in {trainer.seconds:.0f} s"
    if trainer.best_step:
        text += f"; best validation loss {trainer.best:.4f} at step {trainer.best_step}"
    print(text)
    losses = [r["loss"] for r in md.train.read_log(trainer.log.path) if "loss" in r]
    if len(losses) > 1:
        print(f"loss {losses[0]:.2f} {md.plots.sparkline(losses)} {losses[-1]:.2f}")


def _need_matplotlib() -> None:
    if importlib.util.find_spec("matplotlib") is None:
        raise ImportError("--plot needs the package `matplotlib`: pip install 'minidl[plot]'")


def _draw(trainer: Any) -> None:
    if importlib.util.find_spec("matplotlib") is None:
        return
    path = os.path.join(trainer.folder, "loss.png")
    md.plots.loss_curve(trainer.log.path, path, os.path.basename(trainer.folder))
    print(f"loss curve: {path}")


def _write_samples(
    trainer: Any, settings: Settings, data: Data, options: argparse.Namespace
) -> None:
    if options.samples < 1:
        return
    prompts = [options.prompt] * options.samples
    if options.prompt is None:
        starts = ("\n",) if settings.text else STDLIB_PROMPTS
        prompts = [starts[i % len(starts)] for i in range(options.samples)]
    texts = md.generate.generate(
        trainer.model, prompts, 300, tokenizer=data.tokenizer, temperature=0.8, top_k=20,
        stop=() if settings.text else (LOST,), seed=settings.seed)
    bold, plain = ("\033[1m", "\033[0m") if sys.stdout.isatty() else ("", "")
    for prompt, text in zip(prompts, texts, strict=True):
        print(f"{'-' * 72}\n{bold}{prompt.lstrip(NEWLINE)}{plain}{text.rstrip()}")
    print("-" * 72)
    start = prompts[0].lstrip(NEWLINE)
    start = f" --prompt {shlex.quote(start)}" if start else ""
    print(f"more: minidl generate {trainer.folder}{start} --stream")

