"""How training is going: tqdm's bar on a terminal, plain lines everywhere else."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TYPE_CHECKING, Any

from .callbacks import Callback
from .peak import peak_flops

if TYPE_CHECKING:
    from .trainer import Trainer

BAR = "{percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}{postfix}]"
WARM = 1.0  # seconds of training before the machine's peak is measured: the first loss comes first


class Progress(Callback):
    """Loss, tokens a second, MFU (the part of the machine's measured peak that the model's own
    FLOPs reach) and the time left, on standard error.

    ``every`` is the number of seconds between two plain lines; a bar, where tqdm is installed and
    standard error is a terminal, moves ten times a second.
    """

    def __init__(self, every: float = 5.0) -> None:
        self.every = every
        self.bar: Any = None
        self.peak = 0.0
        self._next = self._rate = self._loss = 0.0

    def on_start(self, trainer: Trainer) -> None:
        self.first, self.began = trainer.step, time.perf_counter()
        self._seen = trainer.tokens, trainer.busy
        self._next = 0.0
        if sys.stderr.isatty():
            try:
                from tqdm import tqdm
            except ImportError:
                return
            self.every = 0.1
            sized = shutil.get_terminal_size((0, 0)).columns > 0  # a pipe that poses as a terminal
            self.bar = tqdm(total=trainer.steps, initial=trainer.step, bar_format=BAR,
                            dynamic_ncols=sized, ncols=None if sized else 100)

    def on_step(self, trainer: Trainer, record: dict[str, Any]) -> None:
        loss = record["loss"]
        self._loss = loss if not self._loss else 0.95 * self._loss + 0.05 * loss
        now = time.perf_counter()
        if now < self._next:
            return
        self._next = now + self.every
        if not self.peak and trainer.busy > WARM and hasattr(trainer.model, "flops_per_token"):
            self.peak = peak_flops()
        self._measure(trainer)
        self._show(trainer, self._text(trainer))

    def on_eval(self, trainer: Trainer, record: dict[str, Any]) -> None:
        self.say(f"step {trainer.step}: validation loss {record['val_loss']:.4f}"
                 + (", the best so far" if trainer.best_step == trainer.step else ""))

    def on_end(self, trainer: Trainer) -> None:
        if self.bar is not None:
            self.bar.n = trainer.step
            self.bar.set_postfix_str(self._text(trainer), refresh=True)
            self.bar.close()
            self.bar = None

    def say(self, text: str) -> None:
        """A line that stays, above the bar."""
        if self.bar is not None:
            self.bar.write(text, file=sys.stderr)
        else:
            print(text, file=sys.stderr, flush=True)

    def _measure(self, trainer: Trainer) -> None:
        tokens, busy = trainer.tokens - self._seen[0], trainer.busy - self._seen[1]
        if busy > 0:
            rate = tokens / busy
            # A bar that moves ten times a second shows the mean of about a second.
            keep = 0.9 if self.bar is not None and self._rate else 0.0
            self._rate = keep * self._rate + (1 - keep) * rate
        self._seen = trainer.tokens, trainer.busy

    def _text(self, trainer: Trainer) -> str:
        text = f"loss {self._loss:.3f}, {_count(self._rate)} tokens/s"
        if self.peak:
            used = self._rate * trainer.model.flops_per_token() / self.peak
            text += f", MFU {used:.0%}"
        return text

    def _show(self, trainer: Trainer, text: str) -> None:
        if self.bar is not None:
            self.bar.n = trainer.step
            self.bar.set_postfix_str(text, refresh=True)
            return
        done = trainer.step - self.first
        left = (trainer.steps - trainer.step) * (time.perf_counter() - self.began) / max(done, 1)
        self.say(f"step {trainer.step}/{trainer.steps}: {text}, {_clock(left)} left")


def _count(number: float) -> str:
    """1234 as 1.2k."""
    return f"{number / 1000:.1f}k" if number >= 1000 else f"{number:.0f}"


def _clock(seconds: float) -> str:
    """75 as 1:15."""
    minutes, rest = divmod(int(seconds + 0.5), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
