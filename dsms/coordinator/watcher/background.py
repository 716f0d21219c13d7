"""Work of the watcher that takes too long for a turn: it runs in a thread of its own, one piece at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Background:
    """Runs one function at a time in a daemon thread.

    >>> work, done = Background("example"), threading.Event()
    >>> work.start(done.set)
    >>> done.wait(10)
    True
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: threading.Thread | None = None

    @property
    def busy(self) -> bool:
        """Whether a function is running."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, run: Callable[[], object]) -> None:
        """Starts a function, unless one is running."""
        if not self.busy:
            self._thread = threading.Thread(target=run, name=self._name, daemon=True)
            self._thread.start()

    def wait(self) -> None:
        """Waits until no function is running."""
        if self._thread is not None:
            self._thread.join()
