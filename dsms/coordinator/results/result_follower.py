"""Reads on in results that SELECTs have read, so that the next SELECT has little to read."""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog

from operators.core.errors import DsmsError

_EVERY_S = 0.5
log = structlog.get_logger()


class ResultFollower:
    """Calls a function again and again, in a thread of its own, until it is closed. The function gets an event that is
    set by `close`. An error that it raises is logged."""

    def __init__(self, follow: Callable[[threading.Event], None], every_s: float = _EVERY_S) -> None:
        self._follow, self._every_s, self._closed = follow, every_s, threading.Event()
        self._thread = threading.Thread(target=self._run, name="follow-results", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread."""
        self._closed.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closed.wait(self._every_s):
            try:
                self._follow(self._closed)
            except DsmsError as error:
                log.debug("results are not followed for now", reason=str(error))
            except Exception:
                log.exception("following results has failed")
