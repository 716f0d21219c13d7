"""Measures how far queries have read their sources, how quickly, and when they will have caught up."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from dsms.model.objects import Source
from dsms.placement.leases import ExecutorStatus

#: Rates are averages over this many past seconds.
_SECONDS: Final = 10.0
#: An offset of each partition, by source id and partition in the form that executors use, such as "o1/0".
Ends = Mapping[str, int]


@dataclass(frozen=True)
class Progress:
    """The numbers of records that a query has read and still has to read, how many it reads per second, and by how many
    the unread ones decrease per second. It is behind if one batch cannot hold all unread records.

    >>> half = Progress(500, 500, 50.0, 25.0, behind=True)
    >>> half.percent, half.seconds_left, half.text
    (50, 20.0, 'catching up 50 %')
    """

    read: int
    unread: int
    rate: float = 0.0
    catch_up_rate: float = 0.0
    behind: bool = False

    @property
    def percent(self) -> int:
        """The percentage of all records that was read."""
        return 100 * self.read // (self.read + self.unread) if self.unread else 100

    @property
    def seconds_left(self) -> float | None:
        """The seconds until all is read at the current rate; None if the unread records do not decrease."""
        return round(self.unread / self.catch_up_rate, 1) if self.catch_up_rate > 0 else None

    @property
    def falls_behind(self) -> bool:
        """Whether the query reads records, has more to read than one batch can hold, and gets no nearer to the end.

        >>> Progress(900, 500, 50.0, -10.0, behind=True).falls_behind, Progress(900, 500, 50.0, 5.0, True).falls_behind
        (True, False)
        """
        return self.behind and self.rate > 0 and self.catch_up_rate <= 0

    @property
    def text(self) -> str:
        """The state in a few words."""
        return f"catching up {self.percent} %" if self.behind else "running"

    def document(self) -> dict[str, object]:
        """The JSON document for the HTTP interface."""
        return {
            "read": self.read,
            "unread": self.unread,
            "percent": self.percent,
            "catching_up": self.behind,
            "records_per_second": round(self.rate, 1),
            "seconds_left": self.seconds_left if self.behind else None,
        }


@dataclass
class ReadingRates:
    """The counts of read and unread records of each query in the last seconds."""

    _seen: dict[str, deque[tuple[float, int, int]]] = field(default_factory=dict)

    def update(
        self, now: float, executors: Mapping[str, ExecutorStatus], ends: Ends, starts: Ends
    ) -> dict[str, Progress]:
        """Adds the counts at a time, in seconds, and returns the progress of each query by id."""
        progress = {
            query: self._progress(query, now, _counts(lane.offsets, ends, starts), status.batch_records)
            for status in executors.values()
            for query, lane in status.lanes.items()
        }
        self._seen = {query: seen for query, seen in self._seen.items() if query in progress}
        return progress

    def _progress(self, query: str, now: float, counts: tuple[int, int], batch: int) -> Progress:
        seen = self._seen.setdefault(query, deque())
        seen.append((now, *counts))
        while now - seen[0][0] > _SECONDS:
            seen.popleft()
        first, read, unread = seen[0]
        seconds = max(now - first, 1e-3)
        return Progress(*counts, (counts[0] - read) / seconds, (unread - counts[1]) / seconds, behind=counts[1] > batch)


def _counts(offsets: Mapping[str, int], ends: Ends, starts: Ends) -> tuple[int, int]:
    """The numbers of read and unread records. A source that is no longer in the catalog has no unread records."""
    read = sum(offset - starts.get(place, offset) for place, offset in offsets.items())
    return read, sum(max(ends.get(place, offset) - offset, 0) for place, offset in offsets.items())


def partitions_by_name(source: Source) -> dict[str, tuple[str, int]]:
    """The partitions of a source's topic, by the names that executors use for them."""
    return {f"{source.id}/{partition}": (source.topic, partition) for partition in range(source.partitions)}


def starts_of(source: Source) -> dict[str, int]:
    """The first offsets of the partitions when the source was created, by the same names."""
    return {f"{source.id}/{partition}": source.start.get(partition, 0) for partition in range(source.partitions)}
