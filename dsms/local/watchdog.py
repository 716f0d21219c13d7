"""A watchdog: ends a process that hangs or is about to hang, so that its supervisor starts it again."""

from __future__ import annotations

import faulthandler
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

#: Longer than any request to Kafka or Redis may take, with its retries.
LIMIT_S = 180.0
#: How far a wall clock may be set back: a call that hangs for this long is like a slow broker.
MAX_BACK_S = 10.0
#: Progress is noted at most this often, because each time starts a thread of the interpreter.
_PERIOD_S = 1.0


def _end(reason: str) -> None:
    sys.stderr.write(f"{reason}\n")
    sys.stderr.flush()
    os._exit(1)


@dataclass
class Watchdog:
    """Ends the process with exit code 1 in two cases. It begins with the first call of `progress`.

    - `progress` was not called for `limit_s` seconds of the monotonic clock. The stacks of all threads are written to
      stderr before. It also ends a process in which a call of a C library never returns and holds the interpreter's
      lock.
    - The wall clock was set back by more than MAX_BACK_S. librdkafka waits for instants of the wall clock, so each of
      its calls that waits at that moment hangs for as long as the clock was set back: perhaps in the thread of a
      statement, while other threads make progress.

    >>> wall, reasons = [1_000.0], []
    >>> watchdog = Watchdog(wall=lambda: wall[0], monotonic=lambda: 0.0, end=reasons.append, limit_s=1e6)
    >>> for wall[0] in (1_000.0, 4_600.0, 4_595.0, 4_600.0, 1_000.0):
    ...     watchdog.progress()
    >>> reasons
    ['the wall clock was set back by 3600 s, so calls to kafka may hang for as long: the process ends']
    >>> faulthandler.cancel_dump_traceback_later()
    """

    limit_s: float = LIMIT_S
    wall: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    end: Callable[[str], None] = _end
    _noted_at: float = field(default=float("-inf"), init=False)
    #: How far the wall clock was ahead of the monotonic one at the last call.
    _ahead_s: float = field(default=float("-inf"), init=False)

    def progress(self) -> None:
        """Notes that the process still works."""
        now = self.monotonic()
        ahead_s = self.wall() - now
        back_s, self._ahead_s = self._ahead_s - ahead_s, ahead_s
        if back_s > MAX_BACK_S:
            what = f"the wall clock was set back by {back_s:.0f} s"
            self.end(f"{what}, so calls to kafka may hang for as long: the process ends")
        if now - self._noted_at >= min(_PERIOD_S, self.limit_s / 4):
            self._noted_at = now
            faulthandler.dump_traceback_later(self.limit_s, exit=True, file=sys.stderr)
