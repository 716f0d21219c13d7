"""The clock of a log partition: which instants may still get records, and which records are late."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from operators.core.delta import BEGINNING
from operators.core.ordering import Ordering


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A promise in the log: from `offset` on, no record of the partition has an instant below `time`."""

    offset: int
    time: int


@dataclass(frozen=True, slots=True)
class PartitionClock:
    """Any later record with an instant below `frontier` (an exact watermark) is late; `high` is the greatest instant
    seen so far. `orders` has the `Ordering` of each column for which the source promises an order.

    All three are functions of the partition's log up to a position and do not depend on how it is cut into batches.

    >>> late, clock = PartitionClock().admit(np.array([5, 3, 7, 6]), np.arange(4), slack=1)
    >>> late.tolist(), clock.frontier, clock.high
    ([False, True, False, False], 6, 7)
    """

    frontier: int = BEGINNING
    high: int = BEGINNING
    orders: tuple[Ordering, ...] = ()

    def admit(
        self, instants: np.ndarray, offsets: np.ndarray, *, slack: int = 0, heartbeats: Sequence[Heartbeat] = ()
    ) -> tuple[np.ndarray, PartitionClock]:
        """Returns a boolean mask of the late records (instant below the frontier at their position), and the clock
        after them.

        `instants` and `offsets` are int64 arrays in the order of the log; `slack` is in the unit of instants. A
        heartbeat at offset o applies to the records from o on, and to the clock.
        """
        highest_before = np.maximum.accumulate(np.concatenate([[self.high], instants]))[:-1]
        bound = np.maximum(highest_before - slack, self.frontier)
        if heartbeats:
            bound = np.maximum(bound, _promised(offsets, heartbeats))
        high = int(max(self.high, instants.max(initial=BEGINNING)))
        promised = max((beat.time for beat in heartbeats), default=BEGINNING)
        return instants < bound, replace(self, frontier=max(self.frontier, high - slack, promised), high=high)

    def latent(self, instants: np.ndarray, offsets: np.ndarray, heartbeats: Sequence[Heartbeat] = ()) -> np.ndarray:
        """The instants of records that are timestamped on arrival (ESL's latent timestamps). Each is raised to the
        greatest instant that the partition reached before, so that no record is late. The result is a function of the
        log and does not depend on how it is cut into batches.

        >>> PartitionClock(high=4).latent(np.array([3, 7, 5]), np.arange(3), [Heartbeat(2, 9)]).tolist()
        [4, 7, 9]
        """
        reached = np.maximum(instants, max(self.high, self.frontier))
        return np.maximum.accumulate(np.maximum(reached, _promised(offsets, heartbeats)) if heartbeats else reached)


def _promised(offsets: np.ndarray, heartbeats: Sequence[Heartbeat]) -> np.ndarray:
    """For each offset, the greatest time promised by a heartbeat at or before it; BEGINNING where there is none."""
    ordered = sorted(heartbeats, key=lambda beat: beat.offset)
    times = np.maximum.accumulate(np.array([BEGINNING, *(beat.time for beat in ordered)], np.int64))
    return times[np.searchsorted([beat.offset for beat in ordered], offsets, side="right")]
