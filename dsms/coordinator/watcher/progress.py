"""How far queries have read their sources, how quickly, and when they will have caught up."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from dsms.model.objects import Source
from dsms.scheduler.leases import ExecutorStatus

#: The rate is that of the last seconds.
_SECONDS: Final = 10.0
#: The end of each partition, by source and partition as executors name them.
Ends = Mapping[str, int]


@dataclass(frozen=True)
class Progress:
    """Records that were read and that are still to be read, records read a second, and how quickly what is to be read
    becomes less. A query is behind where one batch cannot hold all that it has still to read.

    >>> half = Progress(500, 500, 50.0, 25.0, behind=True)
    >>> half.percent, half.seconds_left, half.text
    (50, 20.0, 'catching up 50 %')
    """

    read: int
    unread: int
    rate: float = 0.0
    closing: float = 0.0
    behind: bool = False

    @property
    def percent(self) -> int:
        """How much of what is there was read."""
        return 100 * self.read // (self.read + self.unread) if self.unread else 100

    @property
    def seconds_left(self) -> float | None:
        """When all will be read, if it goes on so; None where it does not become less."""
        return round(self.unread / self.closing, 1) if self.closing > 0 else None

    @property
    def text(self) -> str:
        """The state in a few words."""
        return f"catching up {self.percent} %" if self.behind else "running"

    def document(self) -> dict[str, object]:
        """All of it, for the API."""
        return {
            "read": self.read, "unread": self.unread, "percent": self.percent, "catching_up": self.behind,
            "records_per_second": round(self.rate, 1), "seconds_left": self.seconds_left if self.behind else None,
        }  # fmt: skip


@dataclass
class ReadingRates:
    """What was seen of the queries in the last seconds."""

    _seen: dict[str, deque[tuple[float, int, int]]] = field(default_factory=dict)

    def seen(
        self, now: float, executors: Mapping[str, ExecutorStatus], ends: Ends, starts: Ends
    ) -> dict[str, Progress]:
        """The progress of each query by id, at a time in seconds."""
        found = {
            query: self._progress(query, now, _counts(lane.offsets, ends, starts), status.batch_records)
            for status in executors.values() for query, lane in status.lanes.items()
        }  # fmt: skip
        self._seen = {query: seen for query, seen in self._seen.items() if query in found}
        return found

    def _progress(self, query: str, now: float, counts: tuple[int, int], batch: int) -> Progress:
        seen = self._seen.setdefault(query, deque())
        seen.append((now, *counts))
        while now - seen[0][0] > _SECONDS:
            seen.popleft()
        first, read, unread = seen[0]
        seconds = max(now - first, 1e-3)
        return Progress(*counts, (counts[0] - read) / seconds, (unread - counts[1]) / seconds, behind=counts[1] > batch)


def _counts(offsets: Mapping[str, int], ends: Ends, starts: Ends) -> tuple[int, int]:
    """The records before and after some offsets. What is gone from the catalog counts as read."""
    read = sum(offset - starts.get(place, offset) for place, offset in offsets.items())
    return read, sum(max(ends.get(place, offset) - offset, 0) for place, offset in offsets.items())


def places(source: Source) -> dict[str, tuple[str, int]]:
    """The partitions of a source's topic, by the names that executors give them."""
    return {f"{source.id}/{partition}": (source.topic, partition) for partition in range(source.partitions)}


def starts_of(source: Source) -> dict[str, int]:
    """Where the partitions began when the source was registered."""
    return {f"{source.id}/{partition}": source.start.get(partition, 0) for partition in range(source.partitions)}
