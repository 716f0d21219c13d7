"""A thread that calls functions one after the other."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class SerialThread:
    """Calls functions in the order in which they are submitted.

    Only one thread may submit and wait. It must `wait` before it submits a function that depends on an earlier one: a
    failed function does not stop those that are already submitted.

    >>> done = []
    >>> work = SerialThread("example")
    >>> work.submit(lambda: done.append(1)); work.wait(); work.close(); done
    [1]
    """

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._last: Future[None] | None = None

    @property
    def outstanding(self) -> bool:
        """Whether the last function has not been waited for, or has failed."""
        return self._last is not None

    def submit(self, function: Callable[[], None]) -> None:
        """Calls a function after those submitted before it."""
        self._last = self._thread.submit(function)

    def wait(self) -> None:
        """Waits until all functions have ended; raises the error of the last one, at every call again."""
        if self._last is not None:
            self._last.result()
            self._last = None

    def check(self) -> None:
        """Raises the error of the last function, if it has failed; does not wait."""
        last = self._last
        if last is not None and last.done():
            last.result()

    def close(self) -> None:
        """Waits for the last function, whether it succeeds or fails."""
        self._thread.shutdown(wait=True)
