"""What a user can hang into the training loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .trainer import Trainer


class Callback:
    """Called by a Trainer: a subclass writes the methods it needs. ``record`` is the line that
    goes into the log, and may be added to.

    >>> class StopBelow(md.train.Callback):
    ...     def on_eval(self, trainer, record):
    ...         if record["val_loss"] < 1.5:
    ...             trainer.stop("good enough")
    """

    def on_start(self, trainer: Trainer) -> None:
        """Before the first step of ``fit``, after resuming."""

    def on_step(self, trainer: Trainer, record: dict[str, Any]) -> None:
        """After each step; ``record`` has step, loss, lr, grad_norm, tokens, seconds."""

    def on_eval(self, trainer: Trainer, record: dict[str, Any]) -> None:
        """After each evaluation; ``record`` has step, val_loss, seconds."""

    def on_save(self, trainer: Trainer, path: str) -> None:
        """After each checkpoint."""

    def on_end(self, trainer: Trainer) -> None:
        """When ``fit`` ends, however it ends."""
