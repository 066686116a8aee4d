"""The log as TensorBoard's event files (the extra `tensorboard`)."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from .callbacks import Callback

if TYPE_CHECKING:
    from .trainer import Trainer


class TensorBoard(Callback):
    """Write every number of the log to ``folder`` (default: the run's ``tensorboard``)."""

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        try:
            from tensorboard.compat.proto import event_pb2, summary_pb2
            from tensorboard.summary.writer import event_file_writer
        except ImportError as error:
            raise ImportError(
                "TensorBoard needs the package `tensorboard`: pip install 'minidl[tensorboard]'"
            ) from error
        self.folder = folder
        self._event, self._summary = event_pb2.Event, summary_pb2.Summary
        self._open = event_file_writer.EventFileWriter
        self._writer: Any = None

    def on_start(self, trainer: Trainer) -> None:
        folder = self.folder or os.path.join(trainer.folder or ".", "tensorboard")
        self._writer = self._open(os.fspath(folder))

    def on_step(self, trainer: Trainer, record: dict[str, Any]) -> None:
        values = [self._summary.Value(tag=name, simple_value=value)
                  for name, value in record.items()
                  if name not in ("step", "seconds") and value is not None]
        summary = self._summary(value=values)
        self._writer.add_event(
            self._event(wall_time=time.time(), step=trainer.step, summary=summary))

    on_eval = on_step

    def on_end(self, trainer: Trainer) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
