"""The progress of all queries in their sources, from the reports of executors and the end offsets of topics."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from dsms.coordinator.watcher.progress import Progress, ReadingRates, partitions_by_name, starts_of
from dsms.model.catalog import Catalog
from dsms.placement.leases import ExecutorStatus

Ends = Callable[[Collection[tuple[str, int]]], Mapping[tuple[str, int], int]]


@dataclass
class QueryProgress:
    """Measures the progress of queries. `ends` returns the end offsets of topic partitions. `latest`, the progress when
    it was last measured, is an immutable value that is read without a lock."""

    catalog: Callable[[], Catalog]
    ends: Ends
    latest: Mapping[str, Progress] = field(default_factory=dict)
    _rates: ReadingRates = field(default_factory=ReadingRates)
    _measuring: threading.Lock = field(default_factory=threading.Lock)

    def measure(self, alive: Mapping[str, ExecutorStatus]) -> Mapping[str, Progress]:
        """Measures and returns the progress of each running query, by id."""
        catalog = self.catalog()
        sources = catalog.logs()
        partitions = {name: place for source in sources for name, place in partitions_by_name(source).items()}
        ends = self.ends(partitions.values())
        starts = {name: offset for source in sources for name, offset in starts_of(source).items()}
        reached = {name: ends[place] for name, place in partitions.items() if place in ends}
        with self._measuring:
            self.latest = self._rates.update(time.monotonic(), alive, reached, starts)
            return self.latest
