"""The load of queries over the last hours, for charts. It is in the memory of the leading coordinator, so it begins
again with each of them. Keep what is needed for longer in a monitoring system (docs/operations.md)."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from dsms.coordinator.watcher.progress import Progress
from dsms.introspection.entities import QueryUsage
from dsms.model.catalog import Catalog

HOURS: Final = 6
#: The least seconds between two samples, and the most samples of all queries together.
_EVERY_S: Final = 10.0
_MOST: Final = 200_000


class Sample(NamedTuple):
    """What a query did at a time, in milliseconds since 1970: the records that it read per second and those that are
    unread, the bytes of its state, and the cores that its operators used."""

    at: int
    records_per_second: float
    unread: int
    state_bytes: int
    load: float


def seconds_between(queries: int) -> float:
    """The seconds between two samples, so that the samples of all hours fit: more with very many queries.

    >>> seconds_between(90), seconds_between(1_000)
    (10.0, 108.0)
    """
    return max(_EVERY_S, HOURS * 3600 * queries / _MOST)


def _now() -> float:
    return time.time()


@dataclass
class History:
    """The samples of each running query. `progress` and `usage` return the last measurements, by the id and by the name
    of queries. Several threads may use it."""

    catalog: Callable[[], Catalog]
    progress: Callable[[], Mapping[str, Progress]]
    usage: Callable[[], Mapping[str, QueryUsage]]
    clock: Callable[[], float] = _now
    _samples: dict[str, deque[Sample]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _last: float = 0.0

    def turn(self) -> None:
        """Takes a sample of each query whose progress is known, if one is due, and forgets those that are too old."""
        running, now = self.catalog().running(), self.clock()
        if now - self._last < seconds_between(len(running)):
            return
        self._last, progress, usage = now, self.progress(), self.usage()
        at, oldest = int(now * 1000), int((now - HOURS * 3600) * 1000)
        with self._lock:
            self._samples = {query.id: self._samples.get(query.id, deque()) for query in running}
            for query in running:
                samples, reached = self._samples[query.id], progress.get(query.id)
                used = usage.get(query.name, QueryUsage())
                if reached is not None:
                    samples.append(Sample(at, round(reached.rate, 1), reached.unread, used.state_bytes, used.load))
                while samples and samples[0].at < oldest:
                    samples.popleft()

    def of(self, query: str, since: int) -> list[Sample]:
        """The samples of a query, given by its id, from a time on, oldest first."""
        with self._lock:
            return [sample for sample in self._samples.get(query, ()) if sample.at >= since]
