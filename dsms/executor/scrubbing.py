"""The thread that compares the files of a fragment's state with their check sums, slowly, while the fragment runs.

A file that is not used for long may rot unseen, and the copy that could replace it may go meanwhile. The thread also
raises the alarms for damage that the workers have found.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Protocol

import structlog

from operators.core.alarms import Alarms
from operators.core.errors import ExternalError

log = structlog.get_logger()
#: At most so many bytes are compared in a second: about one hundredth of a core.
RATE = 32 << 20
#: A pass over all files begins at most this often.
PERIOD_S = 600.0
_TURN_S = 1.0


class CheckedRuns(Protocol):
    """The stored runs of a fragment."""

    def check(self, name: str) -> int | None:
        """Compares the file of a run with its check sums; returns its size, None if there is none."""
        ...

    def damage(self) -> dict[str, str]:
        """What was found damaged since the last call: by place, the reason."""
        ...


class Scrubbing:
    """Checks the files of the runs that `names` gives, pass after pass. A damaged file is replaced by its copy in
    Redis; if there is none, `check` raises, so that the fragment starts again and recovers its state."""

    def __init__(self, fragment: str, runs: CheckedRuns, alarms: Alarms, names: Callable[[], set[str]]) -> None:
        self._fragment, self._runs, self._alarms, self._names = fragment, runs, alarms, names
        self._stopping = threading.Event()
        self._lost: ExternalError | None = None
        self._thread = threading.Thread(target=self._run, name="scrub", daemon=True)

    def start(self) -> None:
        """Starts to check."""
        self._thread.start()

    def check(self) -> None:
        """Raises the error if a part of the state is lost."""
        if self._lost is not None:
            raise self._lost

    def close(self) -> None:
        """Checks nothing further."""
        self._stopping.set()

    def _run(self) -> None:
        due, waits = time.monotonic(), self._passes()
        while not self._stopping.wait(_TURN_S):
            now = time.monotonic()
            try:
                self.hear()
                while due <= now and not self._stopping.is_set():
                    due += next(waits)
            except ExternalError as error:
                log.debug("state could not be checked", fragment=self._fragment, reason=str(error))
                due, waits = now + PERIOD_S, self._passes()
            except Exception:
                log.exception("a pass over the files of state has ended", fragment=self._fragment)
                due, waits = now + PERIOD_S, self._passes()

    def hear(self) -> None:
        """Raises the alarms for damage that was found since the last call."""
        for place, reason in self._runs.damage().items():
            self._alarms.raise_at(place, reason)

    def _passes(self) -> Iterator[float]:
        """Checks one file after the other; gives after each of them how many seconds to wait."""
        while True:
            waited = 0.0
            for name in sorted(self._names()):
                pause = self._checked(name) / RATE
                waited += pause
                yield pause
            yield max(PERIOD_S - waited, _TURN_S)

    def _checked(self, name: str) -> int:
        """Checks a run; returns how many bytes were read."""
        try:
            return self._runs.check(name) or 0
        except ExternalError as error:
            if name not in self._names():  # a commit has replaced it meanwhile
                return 0
            self._lost = error
            raise
