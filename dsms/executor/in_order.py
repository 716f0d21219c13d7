"""Work that is done one after the other in a thread of its own, while its owner goes on."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class InOrder:
    """Calls functions in the order in which they are submitted. One thread submits and waits: it waits for the last
    function before it submits another that depends on it, so that none is called after one that has failed.

    >>> done = []
    >>> work = InOrder("example")
    >>> work.submit(lambda: done.append(1)); work.wait(); work.close(); done
    [1]
    """

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._last: Future[None] | None = None

    @property
    def outstanding(self) -> bool:
        """Whether nobody has waited for the last function, or it has failed."""
        return self._last is not None

    def submit(self, function: Callable[[], None]) -> None:
        """Calls a function after those before it."""
        self._last = self._thread.submit(function)

    def wait(self) -> None:
        """Waits until all have been called; raises the error of the last one, again at each call."""
        if self._last is not None:
            self._last.result()
            self._last = None

    def check(self) -> None:
        """Raises the error of the last one, if it has failed, without waiting."""
        last = self._last
        if last is not None and last.done():
            last.result()

    def close(self) -> None:
        """Waits for the last one, whether it succeeds or fails."""
        self._thread.shutdown(wait=True)
