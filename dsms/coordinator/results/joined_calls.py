"""One call on behalf of all threads that wait for it."""

from __future__ import annotations

import threading
from collections.abc import Callable


class JoinedCalls:
    """Calls a function for many threads.

    The law: `call` returns after a call of the function that began after `call` itself, and has succeeded. At most one
    call of the function is under way; the threads that come meanwhile share the next one.
    """

    def __init__(self, function: Callable[[], None]) -> None:
        self._function, self._changed = function, threading.Condition()
        self._begun, self._succeeded, self._running = 0, 0, False

    def call(self) -> None:
        """Waits for a call of the function, or makes it. Raises what the function raises, if this thread makes it."""
        with self._changed:
            wanted = self._begun + 1
            self._changed.wait_for(lambda: self._succeeded >= wanted or not self._running)
            if self._succeeded >= wanted:
                return
            self._begun += 1
            number, self._running = self._begun, True
        try:
            self._function()
            with self._changed:
                self._succeeded = number
        finally:
            with self._changed:
                self._running = False
                self._changed.notify_all()
