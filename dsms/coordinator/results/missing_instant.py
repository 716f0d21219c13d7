"""Why a result has no final instant yet, from what the topics of its sources hold."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from connectors.kafka.client.topics import Partition
from dsms.model.objects import Source
from operators.core.errors import UserError

_T = TypeVar("_T")
_PAUSE_S = 0.1


#: The most reasons that an error lists.
_MOST = 3
_HINT = "try again when it has results, or wait for them"


class NoFinalInstant(UserError):
    """A result has no final instant yet; it may have one later. `waits` says for what, by the source that it waits for;
    a caller who may not read a source does not learn its name and topic."""

    def __init__(self, result: str, waits: Sequence[tuple[str, str]] = ()) -> None:
        self._result, self._waits = result, tuple(waits)
        reasons = ", ".join([reason for _, reason in self._waits][:_MOST])
        super().__init__(f"{result} has no final instant yet{reasons and ': '}{reasons}", hint=_HINT)

    def waiting(self, waits: Sequence[tuple[str, str]]) -> NoFinalInstant:
        """The same error with what the result waits for."""
        return NoFinalInstant(self._result, waits)

    def with_readable_names(self, may_read: Callable[[str], bool]) -> NoFinalInstant:
        """The same error without the sources that the caller may not read."""
        shown = ((source, text) if may_read(source) else ("", _HIDDEN) for source, text in self._waits)
        return NoFinalInstant(self._result, [*dict.fromkeys(shown)])


_HIDDEN = "it waits for a source that you may not read"


def awaited_instant(act: Callable[[], _T], wait_s: float, cancelled: threading.Event) -> _T:
    """The answer of `act`, which is tried again for some seconds while it raises NoFinalInstant."""
    deadline = time.monotonic() + wait_s
    while True:
        try:
            return act()
        except NoFinalInstant:
            if time.monotonic() + _PAUSE_S > deadline or cancelled.wait(_PAUSE_S):
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
        since = f"has been silent since {_time(at)}" if at is not None else "has no records"
        if source.idle_ms is None:
            yield f'{place} {since}, and source "{source.name}" waits for it: send a record or a heartbeat'
        else:
            left = max(0, source.idle_ms - (now_ms - (now_ms if at is None else at)))
            yield f"{place} {since}; final in {-(-left // 1_000)} s"


def _time(at_ms: int) -> str:
    return dt.datetime.fromtimestamp(at_ms / 1_000, dt.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
