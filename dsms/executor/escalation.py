"""What to restart when a fragment keeps failing in the same way: the fragment, the Spark session or the process.

Most failures are transient, so restarting the fragment is enough. It does not repair what fragments share: a Spark
session whose files are gone, or a process in which something else is broken. The decisions are pure functions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

#: What to restart after a failure.
Remedy = Literal["fragment", "session", "process"]
#: After this many equal failures in a row the session is restarted; after as many again, the process.
EQUAL_FAILURES = 3
#: Failures that are further apart than this many seconds do not belong to one series.
SAME_SERIES_S = 120.0
#: The parts of a message that differ between two failures of one kind: numbers, ids and times.
_VARYING = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b[0-9a-f]{2}(?=/)|[0-9a-f]{8,}|\d+")


@dataclass(frozen=True)
class FailureSeries:
    """Consecutive failures of Spark with the same message, with no epoch committed between them.

    >>> from itertools import accumulate
    >>> failures = [(f"NoSuchFileException: blockmgr-{at}", float(at)) for at in range(6)]
    >>> found = list(accumulate(failures, lambda series, failed: series.after(*failed), initial=FailureSeries()))
    >>> [series.remedy for series in found[1:]]
    ['fragment', 'fragment', 'session', 'fragment', 'fragment', 'process']
    >>> series = found[-1]
    >>> series.after("another reason", 7.0).remedy, series.after("NoSuchFileException: blockmgr-9", 999.0).remedy
    ('fragment', 'fragment')
    """

    pattern: str = ""
    count: int = 0
    first: float = 0.0
    last: float = 0.0

    def after(self, reason: str, now: float) -> FailureSeries:
        """The series after one more failure; `now` is in seconds."""
        pattern = _VARYING.sub("#", reason)
        continues = pattern == self.pattern and now - self.last <= SAME_SERIES_S
        return (
            FailureSeries(pattern, self.count + 1, self.first, now)
            if continues
            else FailureSeries(pattern, 1, now, now)
        )

    @property
    def remedy(self) -> Remedy:
        """What to restart after the last failure."""
        if self.count >= 2 * EQUAL_FAILURES:
            return "process"
        return "session" if self.count == EQUAL_FAILURES else "fragment"
