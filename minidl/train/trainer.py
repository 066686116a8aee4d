"""Trainer: the loop around a model, an optimizer and a loader."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from minidl.checkpoint import random_state, set_random_state
from minidl.checkpoint.manager import CheckpointManager
from minidl.errors import ArgumentError, CheckpointError, NonFiniteError
from minidl.grad_mode import no_grad
from minidl.nn.utils import clip_grad_norm_
from minidl.ops.generator import default_generator

from .callbacks import Callback
from .log import Log
from .nonfinite import explain

FORMAT = "minidl.train/1"
ONE_WISH = 0.5      # seconds in which signals say the same thing


class Trainer:
    """Train ``model`` with ``optimizer`` on the batches of ``loader``: ``fit(steps)``.

    A step takes ``accumulate`` batches, each weighted by its number of target tokens, so that its
    gradient is that of all of them as one batch; then clips the norm of the gradient at ``clip``,
    steps the optimizer and the ``scheduler``. Every ``eval_every`` steps the loss on ``val_loader``
    is measured; ``patience`` evaluations without a better one end the run. With a ``folder``, the
    log is ``log.jsonl`` in it, and ``checkpoints`` are kept there: the last ``keep_last`` and the
    best, one every ``save_every`` steps and one after each evaluation. ``resume()`` goes on from
    the newest, bit for bit. ``extra`` is saved along: what a user needs to build the same model.

    Batches are (inputs, targets) and ``model(inputs, targets)`` returns (logits, mean loss), with
    targets equal to ``ignore_index`` left out; for anything else override ``loss`` and ``count``.

    >>> model = md.models.GPT.from_preset("tiny", vocab_size=8)
    >>> loader = md.data.DataLoader(md.data.TokenDataset(np.arange(500) % 8, 16), 4, shuffle=True)
    >>> trainer = md.train.Trainer(model, md.optim.AdamW(model.parameters(), lr=3e-3), loader)
    >>> trainer.fit(20), trainer.step
    ('done', 20)
    """

    def __init__(
        self,
        model: Any,
        optimizer: Any,
        loader: Any,
        *,
        scheduler: Any = None,
        val_loader: Any = None,
        folder: str | os.PathLike[str] | None = None,
        accumulate: int = 1,
        clip: float | None = 1.0,
        eval_every: int = 250,
        save_every: int | None = None,
        keep_last: int = 2,
        patience: int | None = None,
        ignore_index: int = -100,
        device: Any = None,
        callbacks: Iterable[Callback] = (),
        extra: dict[str, Any] | None = None,
    ) -> None:
        for name, value in (("accumulate", accumulate), ("eval_every", eval_every),
                            ("save_every", save_every), ("patience", patience)):
            if value is not None and value < 1:
                raise ArgumentError(f"Trainer: {name} must be at least 1, got {value}")
        self.model, self.optimizer, self.loader = model, optimizer, loader
        self.scheduler, self.val_loader = scheduler, val_loader
        self.accumulate, self.clip, self.ignore_index = accumulate, clip, ignore_index
        self.eval_every, self.save_every, self.patience = eval_every, save_every, patience
        self.device, self.callbacks = device, list(callbacks)
        self.extra = {} if extra is None else extra
        self.folder = None if folder is None else os.fspath(folder)
        self.checkpoints: CheckpointManager | None = None
        if self.folder is not None:
            places = os.path.join(self.folder, "checkpoints")
            self.checkpoints = CheckpointManager(places, keep_last, 1)
        self.log = Log(None if self.folder is None else os.path.join(self.folder, "log.jsonl"))
        self.step = self.steps = self.tokens = 0
        self.seconds = 0.0      # since the run began, evaluations and all
        self.busy = 0.0         # of these, in steps
        self.val_loss = self.best = math.nan
        self.best_step = 0
        self.evaluated = self._saved = -1   # the last steps at which that was done
        self._bad_evals = 0     # since the best
        self._stream: Iterator[Any] | None = None
        self._params = [p for p in model.parameters() if p.requires_grad]
        self._stop = ""
        self.signal = 0         # that interrupted it

    # ---- what a batch is: override for other models

    def loss(self, batch: Any) -> Any:
        """The mean loss over the targets of a batch, a tensor."""
        return self.model(*batch)[1]

    def count(self, batch: Any) -> int:
        """How many targets of a batch count: what its mean loss is weighted with."""
        return int(np.count_nonzero(batch[1].numpy() != self.ignore_index))

    # ---- the loop

    def fit(self, steps: int) -> str:
        """Train until ``steps`` steps are done in all, and say why it ended: "done",
        "interrupted" (Ctrl-C or SIGTERM, after the step and a checkpoint), "no improvement", or
        what a callback gave to ``stop``."""
        self.steps, self._stop, self.signal = steps, "", 0
        began = time.perf_counter() - self.seconds
        flushed = 0.0
        self.model.train()
        with self._watch_signals():
            try:
                self._call("on_start")
                while True:
                    if self.step and self.evaluated < self.step and self._due(self.eval_every):
                        self._evaluate(began)
                    if self._saved < self.step and self._due(self.save_every):
                        self.save()
                    if self._stop or self.step >= steps:
                        break
                    start = time.perf_counter()
                    record = self._one_step()
                    end = time.perf_counter()
                    self.busy += end - start
                    self.seconds = end - began
                    record["seconds"] = round(self.seconds, 3)
                    self._call("on_step", record)
                    self.log.write(record)
                    if end - flushed > 1:
                        flushed = end
                        self.log.flush()
                if self.step and self._saved < self.step:
                    self.save()
            finally:
                self.log.flush()
                self._call("on_end")
        return self._stop or "done"

    def stop(self, reason: str) -> None:
        """End ``fit`` after this step."""
        self._stop = self._stop or reason

    def _due(self, every: int | None) -> bool:
        last = self.step == self.steps or bool(self._stop and self._stop != "interrupted")
        return every is not None and (self.step % every == 0 or last)

    def _call(self, name: str, *args: Any) -> None:
        for callback in self.callbacks:
            getattr(callback, name)(self, *args)

    def _batches(self) -> Iterator[Any]:
        while True:
            empty = True
            for batch in self.loader:
                empty = False
                yield batch
            if empty:
                raise ArgumentError("Trainer: the loader has no batches")

    def _placed(self, batch: Any) -> Any:
        if self.device is None:
            return batch
        return tuple(part.to(self.device) for part in batch)

    def _one_step(self) -> dict[str, Any]:
        if self._stream is None:
            self._stream = self._batches()
        batches = [next(self._stream) for _ in range(self.accumulate)]
        counts = [self.count(batch) for batch in batches]
        stream = default_generator.get_state()
        loss, norm = self._gradients(batches, counts)
        if not (math.isfinite(loss) and math.isfinite(norm)):
            self._fail(batches, counts, stream, loss)
        lr = self.optimizer.param_groups[0]["lr"]
        self.optimizer.step()
        if self.scheduler is not None:
            self.scheduler.step()
        self.step += 1
        self.tokens += sum(counts)
        record = {"step": self.step, "loss": loss, "lr": lr, "tokens": self.tokens}
        if self.clip is not None:
            record["grad_norm"] = norm
        return record

    def _gradients(self, batches: list[Any], counts: list[int]) -> tuple[float, float]:
        """The mean loss over all targets, its gradient in the parameters, and the gradient's norm
        before it was clipped."""
        total = sum(counts)
        if not total:
            raise ArgumentError(
                f"Trainer: step {self.step + 1} has no target: all are {self.ignore_index}"
            )
        self.optimizer.zero_grad()
        mean = 0.0
        for batch, count in zip(batches, counts, strict=True):
            if count:  # the mean over nothing is NaN
                loss = self.loss(self._placed(batch))
                share = count / total
                (loss if share == 1 else loss * share).backward()
                mean += loss.item() * share
        return mean, 0.0 if self.clip is None else clip_grad_norm_(self._params, self.clip).item()

    def _fail(self, batches: list[Any], counts: list[int], stream: Any, loss: float) -> None:
        default_generator.set_state(stream)
        why = explain(self.model, lambda: self._gradients(batches, counts))
        what = f"the loss is {loss}" if not math.isfinite(loss) else "the gradient is not finite"
        kept = None if self.checkpoints is None else self.checkpoints.latest()
        raise NonFiniteError(
            f"step {self.step + 1}: {what}; {why}. Nothing was updated"
            + (f"; the last good checkpoint is {kept}" if kept else "")
            + ". A lower learning rate, a longer warm-up or clipping usually helps."
        )

    # ---- evaluation

    @no_grad()
    def evaluate(self, loader: Any = None) -> float:
        """The mean loss over all targets of ``loader`` (default: ``val_loader``), dropout off; NaN
        when Ctrl-C ended it."""
        total, counted = 0.0, 0
        training = self.model.training
        self.model.eval()
        try:
            for batch in self.val_loader if loader is None else loader:
                if self.signal:
                    return math.nan
                count = self.count(batch)
                if count:
                    total += self.loss(self._placed(batch)).item() * count
                    counted += count
        finally:
            self.model.train(training)
        if not counted:
            raise ArgumentError("Trainer: the loader for evaluation has no targets")
        return total / counted

    def _evaluate(self, began: float) -> None:
        if self.val_loader is None:
            return
        value = self.evaluate()
        if self.signal:
            return  # not finished: a resumed run does it again
        self.val_loss, self.evaluated = value, self.step
        self._bad_evals += 1
        if not value >= self.best and math.isfinite(value):
            self.best, self.best_step, self._bad_evals = value, self.step, 0
        self.seconds = time.perf_counter() - began
        record = {"step": self.step, "val_loss": value, "seconds": round(self.seconds, 3)}
        self._call("on_eval", record)
        self.log.write(record)
        self.save(value)
        if self.patience is not None and self._bad_evals >= self.patience:
            self.stop("no improvement")

    # ---- saving and resuming

    def save(self, metric: float | None = None) -> None:
        """A checkpoint with everything to go on from; nothing without a folder."""
        if self.checkpoints is None:
            return
        self.log.flush()
        path = self.checkpoints.save(self.state_dict(), self.step, metric)
        self._saved = self.step
        self._call("on_save", path)

    def state_dict(self) -> dict[str, Any]:
        """All that a run consists of, as one tree for ``md.save``."""
        return {
            "format": FORMAT, "step": self.step, "extra": self.extra,
            "model": self.model, "optimizer": self.optimizer, "scheduler": self.scheduler,
            "random": random_state(), "loader": self.loader.state_dict(),
            "log": self.log.content(),
            "progress": {name: getattr(self, name) for name in PROGRESS},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what ``state_dict`` returned."""
        if not isinstance(state, dict) or state.get("format") != FORMAT:
            raise CheckpointError(f"this is no checkpoint of a Trainer ({FORMAT})")
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.scheduler is not None:
            self.scheduler.load_state_dict(state["scheduler"])
        self.loader.load_state_dict(state["loader"])
        self._stream = None
        self.step, self._saved = state["step"], state["step"]
        for name, value in state["progress"].items():
            setattr(self, name, value)
        self.log.restore(state["log"])
        set_random_state(state["random"])

    def resume(self) -> bool:
        """Go on from the newest whole checkpoint of the folder; False when there is none."""
        state = None if self.checkpoints is None else self.checkpoints.load()
        if state is not None:
            self.load_state_dict(state)
        return state is not None

    # ---- Ctrl-C

    @contextlib.contextmanager
    def _watch_signals(self) -> Iterator[None]:
        """The first SIGINT or SIGTERM ends the run after its step, a later one at once: a step that
        is torn in the middle is no state to save. What comes right after the first is the same
        wish: timeout(1) and some shells send a signal to the process and to its group."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        first = 0.0

        def handle(number: int, frame: Any) -> None:
            nonlocal first
            if self.signal:
                if time.monotonic() - first < ONE_WISH:
                    return
                raise KeyboardInterrupt
            self.signal, first = number, time.monotonic()
            self.stop("interrupted")
            print("\nstopping after this step; once more to stop at once", file=sys.stderr)

        before = {n: signal.signal(n, handle) for n in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


PROGRESS = ("tokens", "seconds", "busy", "val_loss", "best", "best_step", "evaluated",
            "_bad_evals")
