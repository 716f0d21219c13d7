"""Fault points: steps of the commit protocol at which a crash test kills the process; off by default."""

from __future__ import annotations

import os
import signal

POINTS = ("computed", "begun", "half_written", "written", "committed", "flushed", "manifest_written")
POISON = "poison"


def poisoned(spec: str) -> str | None:
    """The query that fails on purpose, as `poison:NAME` asks; this simulates an unknown defect.

    >>> poisoned("poison:Q3"), poisoned("begun:2")
    ('Q3', None)
    """
    kind, _, name = spec.partition(":")
    return name if kind == POISON else None


class FaultPoints:
    """`point:n` kills the process with SIGKILL when it passes `point` for the n-th time; "" never does.

    >>> FaultPoints("").hit("begun")
    """

    def __init__(self, spec: str) -> None:
        self._point, _, count = spec.partition(":") if poisoned(spec) is None else ("", "", "")
        self._left = int(count or 1)
        if self._point and self._point not in POINTS:
            raise ValueError(f'unknown fault point "{self._point}"; available: {", ".join(POINTS)}')

    def hit(self, point: str) -> None:
        """Passes a point, or kills the process."""
        assert point in POINTS
        if point != self._point:
            return
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
