"""Work on another thread, one piece at a time, whose failure waits to be asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Background:
    """One thread at a time. It is no daemon: a program that ends waits for it."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None

    def start(self, work: Callable[[], object]) -> None:
        """Run ``work``, after what still runs; raises what failed there."""
        self.wait()

        def run() -> None:
            try:
                work()
            except BaseException as error:
                self._failure = error

        self._thread = threading.Thread(target=run, name="minidl checkpoint")
        self._thread.start()

    def check(self) -> None:
        """Raise what failed since the last time somebody asked."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def wait(self) -> None:
        """Wait for the work to end, then ``check``."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.check()
