"""`minidl verify-resume`: is a run that was killed and resumed the run that was not?

Three processes: one trains all the steps; one trains past the middle, where it has a checkpoint,
and kills itself; one resumes it. Then the last checkpoints are compared, bit by bit.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

import minidl as md
from minidl._core import Tensor
from minidl.errors import ArgumentError

from .settings import UsageError, merge, read_config, write_config

KILLER = """
import os, signal, sys
from minidl.cli import main
from minidl.train import Callback, Trainer

class Kill(Callback):
    def on_step(self, trainer, record):
        if trainer.step == {step}:
            os.kill(os.getpid(), {signal})

make = Trainer.__init__
def killed(self, *args, **kwargs):
    make(self, *args, **kwargs)
    self.callbacks.append(Kill())

Trainer.__init__ = killed
sys.exit(main())
"""
CLOCKS = ("seconds", "busy")  # no two runs take the same time


def run(options: argparse.Namespace) -> int:
    """0 when all bits are equal, 1 and the first difference otherwise."""
    if options.steps < 4:
        raise UsageError(f"--steps must be at least 4, got {options.steps}")
    config = read_config(options.config)
    half = options.steps // 2
    changes = {"steps": options.steps, "save_every": half, "eval_every": max(1, half // 2),
               "patience": None, "keep_last": 2}
    settings = merge(config, changes)
    if options.keep is not None:
        os.makedirs(options.keep, exist_ok=True)
        return _verify(options.keep, settings, half)
    with tempfile.TemporaryDirectory() as folder:
        return _verify(folder, settings, half)


def _verify(folder: str, settings: Any, half: int) -> int:
    place = os.path.join(folder, "config.toml")
    with open(place, "w", encoding="utf-8") as file:
        file.write(write_config(settings))
    straight, other = (os.path.join(folder, name) for name in ("straight", "resumed"))
    steps, kill = settings.steps, half + max(1, half // 4)
    print(f"training {steps} steps", flush=True)
    _train(["--config", place, "--out", straight])
    print(f"training {half} steps and a few more, until it is killed", flush=True)
    _train(["--config", place, "--out", other], kill=kill)
    print("resuming", flush=True)
    _train(["--resume", other])
    found = compare(_last(straight), _last(other))
    if found is None:
        print(f"equal: {steps} steps in one go, and {kill} steps killed and resumed from step "
              f"{half}, give the same weights, optimizer, random streams and log, bit for bit")
        return 0
    print(f"different: {found}")
    return 1


def _train(arguments: list[str], kill: int | None = None) -> None:
    """`minidl train` in a process of its own, quietly; with ``kill`` it must die at that step."""
    command = [sys.executable, "-m", "minidl"]
    code = 0
    if kill is not None:
        number = getattr(signal, "SIGKILL", signal.SIGTERM)
        code = -number if os.name == "posix" else number
        command = [sys.executable, "-c", KILLER.format(step=kill, signal=int(number))]
    path = os.pathsep.join([os.path.dirname(os.path.dirname(md.__file__)),
                            *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run([*command, "train", *arguments, "--quiet", "--no-plot"], text=True,
                          capture_output=True, env={**os.environ, "PYTHONPATH": path})
    if done.returncode != code:
        said = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise ArgumentError(f"training did not end as it should: {said[0]}")


def _last(folder: str) -> dict[str, Any]:
    state = md.checkpoint.CheckpointManager(os.path.join(folder, "checkpoints")).load()
    assert isinstance(state, dict)
    return state


def compare(a: dict[str, Any], b: dict[str, Any]) -> str | None:
    """The first difference between two states of a Trainer: of their logs, which are in the order
    of time, then of everything else; None when all bits are equal but the clocks."""
    logs = [[json.loads(line) for line in s["log"].tobytes().splitlines()] for s in (a, b)]
    for one, other in zip(*logs, strict=False):
        for name in one:
            if name not in CLOCKS and one[name] != other.get(name):
                return (f"at step {one['step']} the {name} was {one[name]!r} in the one and "
                        f"{other.get(name)!r} in the other")
    if len(logs[0]) != len(logs[1]):
        return f"the logs have {len(logs[0])} and {len(logs[1])} lines"
    flat = [dict(_leaves("", {k: v for k, v in s.items() if k != "log"})) for s in (a, b)]
    for name in flat[0].keys() | flat[1].keys():
        if name not in flat[0] or name not in flat[1]:
            return f"{name} is in one of them only"
    for name, one in flat[0].items():
        if name.rpartition(".")[2] not in CLOCKS and not _same(one, flat[1][name]):
            return f"{name} differs{_by(one, flat[1][name])}"
    return None


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(f"{path}.{key}" if path else str(key), inner)
    elif isinstance(value, (list, tuple)):
        for number, inner in enumerate(value):
            yield from _leaves(f"{path}.{number}", inner)
    else:
        yield path, value.cpu().numpy() if isinstance(value, Tensor) else value


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    return bool(a == b or (a != a and b != b))


def _by(a: Any, b: Any) -> str:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.shape == b.shape:
        far = np.abs(a.astype(float) - b.astype(float)).max()
        return f": {int((a != b).sum())} of {a.size} numbers, by up to {far:.3g}"
    return f": {a!r:.60} and {b!r:.60}"
