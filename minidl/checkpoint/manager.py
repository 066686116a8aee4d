"""The checkpoints of a run: the last few and the best, and the newest that is whole."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import warnings
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

from minidl.errors import ArgumentError, CheckpointError, CheckpointWarning
from minidl_kernels import EXACT

from . import atomic, tensors, tree
from .background import Background
from .files import load

T = TypeVar("T")


class Saved(NamedTuple):
    """A checkpoint in a folder: the how manieth save it was, its step and its metric."""

    number: int
    step: int
    metric: float | None
    path: str


class CheckpointManager:
    """Saves the states of a run to a folder, and finds the right one again.

    Of all saves the last ``keep_last`` stay, and the ``keep_best`` with the best finite metric
    (``mode`` is "min" or "max"); older ones go once the new one is on the disk. Each file is whole
    by itself: step, metric and checksums are inside, and there is no index that could disagree.

    >>> import tempfile
    >>> manager = CheckpointManager(tempfile.mkdtemp())
    >>> for step in (100, 200, 300, 400, 500):
    ...     path = manager.save({"step": step, "w": md.ones(3)}, step, metric=abs(step - 190))
    >>> [saved.step for saved in manager.checkpoints()]
    [200, 300, 400, 500]
    >>> manager.load()["step"], os.path.basename(manager.best())
    (500, 'step-00000200.safetensors')
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        keep_last: int = 3,
        keep_best: int = 1,
        *,
        mode: str = "min",
        background: bool = False,
    ) -> None:
        if keep_last < 1 or keep_best < 0:
            raise ArgumentError(
                "CheckpointManager: keep_last must be at least 1 and keep_best at least 0, got "
                f"{keep_last} and {keep_best}"
            )
        if mode not in ("min", "max"):
            raise ArgumentError(f'CheckpointManager: mode must be "min" or "max", got {mode!r}')
        self.directory = os.path.abspath(os.fspath(directory))
        self.keep_last = keep_last
        self.keep_best = keep_best
        self.mode = mode
        self._background = Background() if background else None
        atomic.make_folder(self.directory)
        atomic.remove_stale(self.directory)

    def save(self, state: Any, step: int, metric: float | None = None) -> str:
        """Save ``state`` (anything ``md.save`` takes) and return the file's path.

        In the background: the tensors are copied now, and written while training goes on. What
        went wrong there is raised by the next ``save``, ``check`` or ``close``.
        """
        if step < 0:
            raise ArgumentError(f"CheckpointManager: step must not be negative, got {step}")
        value = None if metric is None else float(metric)
        path = os.path.join(self.directory, f"step-{int(step):08d}.safetensors")
        packed = tree.pack(state)
        if self._background is None:
            self._write(path, packed, int(step), value)
            return path
        self._background.wait()
        copies = {name: EXACT.copy(array) for name, array in packed.arrays.items()}
        snapshot = tree.Packed(packed.tree, copies)
        self._background.start(lambda: self._write(path, snapshot, int(step), value))
        return path

    def check(self) -> None:
        """Raise what went wrong in the background; cheap enough for every step."""
        if self._background is not None:
            self._background.check()

    def close(self) -> None:
        """Wait for a save in the background, and raise what went wrong with it."""
        if self._background is not None:
            self._background.wait()

    def __enter__(self) -> CheckpointManager:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _write(self, path: str, packed: tree.Packed, step: int, metric: float | None) -> None:
        number = 1 + max((saved.number for saved in self.checkpoints()), default=0)
        finite = metric if metric is not None and math.isfinite(metric) else None
        about = json.dumps({"number": number, "step": step, "metric": finite})
        tensors.write(path, packed, {"minidl.save": about})
        saved = self.checkpoints()
        kept = {s.path for s in saved[-self.keep_last :]}
        kept.update(s.path for s in self._by_metric(saved)[: self.keep_best])
        for old in saved:
            if old.path not in kept:
                with contextlib.suppress(OSError):  # another process was faster; or next time
                    os.unlink(old.path)

    def checkpoints(self) -> list[Saved]:
        """The checkpoints with a readable header, in the order they were saved."""
        return self._scan()[0]

    def _scan(self) -> tuple[list[Saved], list[CheckpointError | OSError]]:
        found: list[Saved] = []
        unreadable: list[CheckpointError | OSError] = []
        for name in os.listdir(self.directory):
            if not re.fullmatch(r"step-\d+\.safetensors", name):
                continue
            path = os.path.join(self.directory, name)
            try:
                found.append(_read_saved(path))
            except FileNotFoundError:
                return self._scan()  # another process saves here and has just removed it
            except (CheckpointError, OSError) as error:
                unreadable.append(error)
        return sorted(found), unreadable

    def _by_metric(self, saved: Iterable[Saved]) -> list[Saved]:
        """Best first, the earlier of two equal ones; those without a finite metric do not count."""
        sign = 1 if self.mode == "min" else -1
        measured = [s for s in saved if s.metric is not None]
        return sorted(measured, key=lambda s: (sign * (s.metric or 0.0), s.number))

    def latest(self) -> str | None:
        """The path of the newest checkpoint that is whole, None in an empty folder.

        Damaged ones are passed over with a CheckpointWarning; CheckpointError when all are."""
        return self._first_whole(lambda saved: saved[::-1], _verified)

    def best(self) -> str | None:
        """The path of the whole checkpoint with the best metric, None when none has a metric."""
        return self._first_whole(self._by_metric, _verified)

    def load(self) -> Any:
        """The state of the newest checkpoint that is whole, None in an empty folder."""
        return self._first_whole(lambda saved: saved[::-1], lambda path: load(path))

    def _first_whole(
        self, order: Callable[[list[Saved]], list[Saved]], read: Callable[[str], T]
    ) -> T | None:
        self.close()
        while True:
            saved, problems = self._scan()
            gone = False
            for one in order(saved):
                try:
                    result = read(one.path)
                except FileNotFoundError:
                    gone = True  # another process saves here: look again
                    break
                except (CheckpointError, OSError) as error:
                    problems.append(error)
                    continue
                for problem in problems:
                    warnings.warn(
                        f"{problem}; passed over for {one.path}", CheckpointWarning, stacklevel=3
                    )
                return result
            if gone:
                continue
            if problems:
                raise CheckpointError(
                    f"{self.directory}: none of its checkpoints is whole: "
                    + "; ".join(str(problem) for problem in problems)
                )
            return None


def _read_saved(path: str) -> Saved:
    with tensors.opened(path) as file:
        about = file.metadata.get("minidl.save")
        if about is None:
            raise CheckpointError("no CheckpointManager has saved this file")
        try:
            content = json.loads(about)
            metric = content["metric"]
            finite = None if metric is None else float(metric)
            return Saved(int(content["number"]), int(content["step"]), finite, path)
        except (ValueError, KeyError, TypeError):
            raise CheckpointError("its number, step and metric cannot be read") from None


def _verified(path: str) -> str:
    tensors.verify(path)
    return path
