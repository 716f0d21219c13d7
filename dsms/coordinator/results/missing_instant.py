"""Why a result has no final instant yet, from what the topics of its sources hold."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from connectors.formats.calendar_text import timestamp_text
from connectors.kafka.client.topics import Partition
from dsms.model.no_final_instant import NoFinalInstant
from dsms.model.objects import Source
from dsms.tables.select_budget import Cancelled

_T = TypeVar("_T")
_PAUSE_S = 0.1
#: How many statements may wait at a time: each holds a thread of the coordinator.
_MOST_WAITING = 3
_waiting = threading.BoundedSemaphore(_MOST_WAITING)


def awaited_instant(act: Callable[[], _T], wait_s: float, cancelled: threading.Event) -> _T:
    """The answer of `act`, which is tried again for some seconds while it raises NoFinalInstant. Raises it at once
    while as many statements wait as may, so that other statements find a thread."""
    try:
        return act()
    except NoFinalInstant:
        if wait_s <= _PAUSE_S or not _waiting.acquire(blocking=False):
            raise
    try:
        return _tried_again(act, time.monotonic() + wait_s, cancelled)
    finally:
        _waiting.release()


def _tried_again(act: Callable[[], _T], deadline: float, cancelled: threading.Event) -> _T:
    while True:
        if cancelled.wait(_PAUSE_S):
            raise Cancelled("the statement was cancelled while it waited for a result")
        try:
            return act()
        except NoFinalInstant:
            if time.monotonic() + _PAUSE_S > deadline:
                raise


def reasons(source: Source, last: Mapping[Partition, int | None], now_ms: int) -> Iterator[str]:
    """What the partitions of a source wait for; `last` has the times of their last records, in milliseconds since 1970,
    None without records.

    >>> source = Source(name="S", id="o1", sql="", columns=(), topic="t", partitions=2, idle_ms=5_000)
    >>> list(reasons(source, {("t", 0): 1_800_000_000_000, ("t", 1): None}, 1_800_000_002_000))[0]
    'partition 0 of topic "t" has been silent since 2027-01-15T08:00:00Z; final in 3 s'
    """
    if all(at is None for at in last.values()):
        yield f'topic "{source.topic}" has no records'
        return
    for (topic, partition), at in sorted(last.items()):
        place = f'partition {partition} of topic "{topic}"'
        since = (
            f"has been silent since {timestamp_text(at // 1_000 * 1_000_000)}" if at is not None else "has no records"
        )
        if source.idle_ms is None:
            yield f'{place} {since}, and source "{source.name}" waits for it: send a record or a heartbeat'
        else:
            left = max(0, source.idle_ms - (now_ms - (now_ms if at is None else at)))
            yield f"{place} {since}; final in {-(-left // 1_000)} s"
