"""How far all queries have read their sources, from one look at the executors and one at the ends of topics."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from dsms.coordinator.watcher.progress import Progress, ReadingRates, places, starts_of
from dsms.model.catalog import Catalog
from dsms.scheduler.leases import ExecutorStatus

Ends = Callable[[Collection[tuple[str, int]]], Mapping[tuple[str, int], int]]


@dataclass
class QueryProgress:
    """`ends` gives the ends of topic partitions. The last look is one immutable value, taken without a lock."""

    catalog: Callable[[], Catalog]
    ends: Ends
    latest: Mapping[str, Progress] = field(default_factory=dict)
    _rates: ReadingRates = field(default_factory=ReadingRates)
    _looking: threading.Lock = field(default_factory=threading.Lock)

    def look(self, alive: Mapping[str, ExecutorStatus]) -> Mapping[str, Progress]:
        """The progress of each running query, by id."""
        catalog = self.catalog()
        sources = [*catalog.sources(), *(table.source for table in catalog.tables())]
        partitions = {name: place for source in sources for name, place in places(source).items()}
        ends = self.ends(partitions.values())
        starts = {name: offset for source in sources for name, offset in starts_of(source).items()}
        reached = {name: ends[place] for name, place in partitions.items() if place in ends}
        with self._looking:
            self.latest = self._rates.seen(time.monotonic(), alive, reached, starts)
            return self.latest
