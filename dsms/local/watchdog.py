"""A watchdog: ends a process that hangs, so that its supervisor starts it again."""

from __future__ import annotations

import faulthandler
import sys
import time
from dataclasses import dataclass, field

#: Longer than any request to Kafka or Redis may take, with its retries.
LIMIT_S = 180.0
#: Progress is noted at most this often, because each time starts a thread of the interpreter.
_PERIOD_S = 1.0


@dataclass
class Watchdog:
    """Ends the process with exit code 1 if `progress` was not called for `limit_s` seconds of the monotonic clock, and
    writes the stacks of all threads to stderr before that. It begins with the first call.

    It also ends a process in which a call of a C library never returns and holds the interpreter's lock. librdkafka can
    cause that: it waits for instants of the wall clock, so a client that is closed while that clock is set back by an
    hour waits for an hour.
    """

    limit_s: float = LIMIT_S
    _noted_at: float = field(default=float("-inf"), init=False)

    def progress(self) -> None:
        """Notes that the process still works."""
        if time.monotonic() - self._noted_at >= min(_PERIOD_S, self.limit_s / 4):
            self._noted_at = time.monotonic()
            faulthandler.dump_traceback_later(self.limit_s, exit=True, file=sys.stderr)
