"""The thread that slowly verifies the checksums of a fragment's state files while the fragment runs.

A file that is rarely read may decay on disk unnoticed, and by the time it is read, the copy in Redis that could replace
it may be gone. The thread also raises the alarms for damage that the workers have found.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Protocol

import structlog

from connectors.alarms import Alarms
from operators.core.errors import ExternalError

log = structlog.get_logger()
#: The most bytes that are verified per second: this takes about one hundredth of a core.
RATE = 32 << 20
#: A pass over all files begins at most this often.
PERIOD_S = 600.0
_TURN_S = 1.0


class CheckedRuns(Protocol):
    """The stored runs of a fragment."""

    def check(self, name: str) -> int | None:
        """Verifies the checksums of a run's file; returns its size, None if the run has no file."""
        ...

    def damage(self) -> dict[str, str]:
        """The damage that was found since the last call: the reason, by location."""
        ...


class Scrubbing:
    """Verifies the files of the runs that `names` returns, pass after pass. A damaged file is replaced by its copy in
    Redis. If there is no copy, `check` raises, so that the fragment restarts and recovers its state."""

    def __init__(self, fragment: str, runs: CheckedRuns, alarms: Alarms, names: Callable[[], set[str]]) -> None:
        self._fragment, self._runs, self._alarms, self._names = fragment, runs, alarms, names
        self._stopping = threading.Event()
        self._lost: ExternalError | None = None
        self._thread = threading.Thread(target=self._run, name="scrub", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def check(self) -> None:
        """Raises ExternalError if a part of the state is lost."""
        if self._lost is not None:
            raise self._lost

    def close(self) -> None:
        """Stops the thread."""
        self._stopping.set()

    def _run(self) -> None:
        due, waits = time.monotonic(), self._passes()
        while not self._stopping.wait(_TURN_S):
            now = time.monotonic()
            try:
                self.raise_alarms()
                while due <= now and not self._stopping.is_set():
                    due += next(waits)
            except ExternalError as error:
                log.debug("state files could not be verified", fragment=self._fragment, reason=str(error))
                due, waits = now + PERIOD_S, self._passes()
            except Exception:
                log.exception("verifying the state files failed", fragment=self._fragment)
                due, waits = now + PERIOD_S, self._passes()

    def raise_alarms(self) -> None:
        """Raises the alarms for damage that was found since the last call."""
        for place, reason in self._runs.damage().items():
            self._alarms.raise_at(place, reason)

    def _passes(self) -> Iterator[float]:
        """Verifies one file after the other; yields after each the seconds to wait."""
        while True:
            waited = 0.0
            for name in sorted(self._names()):
                pause = self._checked(name) / RATE
                waited += pause
                yield pause
            yield max(PERIOD_S - waited, _TURN_S)

    def _checked(self, name: str) -> int:
        """Verifies a run; returns the number of bytes read."""
        try:
            return self._runs.check(name) or 0
        except ExternalError as error:
            if name not in self._names():  # a commit has replaced it meanwhile
                return 0
            self._lost = error
            raise
