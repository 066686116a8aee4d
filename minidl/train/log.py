"""The log of a run: one JSON object a line, which a resumed run continues as if never stopped."""

from __future__ import annotations

import json
import math
import os
from typing import Any

import numpy as np

from minidl.errors import ArgumentError

Path = str | os.PathLike[str]


class Log:
    """Lines kept in memory, so that a checkpoint holds all of them, and appended to a file."""

    def __init__(self, path: str | None) -> None:
        self.path = path
        self._data = bytearray()
        self._written = 0

    def write(self, record: dict[str, Any]) -> None:
        """Add a line; numbers that are not finite, which JSON does not have, become null."""
        for key, value in record.items():
            if type(value) is float and not math.isfinite(value):
                record = {**record, key: None}
        self._data += json.dumps(record).encode() + b"\n"

    def flush(self) -> None:
        """Append to the file what is new."""
        if self.path is not None and self._written < len(self._data):
            with open(self.path, "ab") as file:
                file.write(self._data[self._written :])
            self._written = len(self._data)

    def content(self) -> np.ndarray:
        """All of it as bytes, for a checkpoint."""
        return np.frombuffer(bytes(self._data), np.uint8)

    def restore(self, content: np.ndarray) -> None:
        """Go back to what a checkpoint held; lines of later steps leave the file."""
        self._data = bytearray(content.tobytes())
        if self.path is not None:
            with open(self.path, "wb") as file:
                file.write(self._data)
        self._written = len(self._data)


def read_log(path: Path) -> list[dict[str, Any]]:
    """The records of a run's ``log.jsonl``: one a step, and one an evaluation (with ``val_loss``).
    A last line that was cut off by a kill is left out.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "log.jsonl")
    >>> with open(path, "w") as file:
    ...     _ = file.write('{"step": 1, "loss": 4.2}\\n{"step": 2, "lo')
    >>> read_log(path)
    [{'step': 1, 'loss': 4.2}]
    """
    with open(path, "rb") as file:
        lines = file.read().split(b"\n")[:-1]
    try:
        records = [json.loads(line) for line in lines if line.strip()]
    except ValueError:
        records = [None]
    if not all(isinstance(record, dict) for record in records):
        raise ArgumentError(f"{os.fspath(path)} is not a log of a run: a line is no JSON object")
    return records
