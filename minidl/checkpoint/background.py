"""Work on another thread, one piece at a time, whose failure waits to be asked for."""

from __future__ import annotations

import threading
import warnings
import weakref
from collections.abc import Callable

from minidl.errors import CheckpointWarning


class Background:
    """One thread at a time. It is no daemon: a program that ends waits for it, and a failure that
    nobody has asked for by then is a warning."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._failures: list[BaseException] = []
        weakref.finalize(self, _warn, self._failures)

    def start(self, work: Callable[[], object]) -> None:
        """Run ``work``, after what still runs; raises what failed there."""
        self.wait()

        def run() -> None:
            try:
                work()
            except BaseException as error:
                self._failures.append(error)

        self._thread = threading.Thread(target=run, name="minidl checkpoint")
        self._thread.start()

    def check(self) -> None:
        """Raise what failed since the last time somebody asked."""
        if self._failures:
            raise self._failures.pop()

    def wait(self) -> None:
        """Wait for the work to end, then ``check``."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.check()


def _warn(failures: list[BaseException]) -> None:
    for error in failures:
        warnings.warn(f"a save in the background failed: {error}", CheckpointWarning, stacklevel=2)
