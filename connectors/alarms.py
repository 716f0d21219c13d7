"""Alarms report invalid records of a log, and invalid values of a store, with their location and the reason.

A process never ends because of a record that is damaged or that another writer wrote: it skips the record and raises an
alarm, which users see.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable

import msgspec

#: The number of alarms that are kept; further ones are only counted.
MAX_ALARMS = 100
_LONGEST_REASON = 300


class Alarm(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a process ignored at one place for one reason. `place` is a topic, a key of Redis, a file or a fragment.
    For a topic, `partition` is set, and `first` and `last` are the offsets of the first and the last ignored record."""

    place: str
    reason: str
    partition: int | None = None
    first: int | None = None
    last: int | None = None
    count: int = 1
    #: When this process noticed the first one, in seconds since 1970.
    since: float = 0.0


class Alarms:
    """The alarms of a process, safe for several threads. `notify` is called with each alarm when it is first raised.

    A record is counted once, even if its log is read several times. An invalid value of a store is one alarm until
    `clear` removes it.

    >>> alarms = Alarms()
    >>> for offset in (3, 8, 3, 8):
    ...     alarms.raise_at("topic", "not JSON", 0, offset)
    >>> [(alarm.first, alarm.last, alarm.count) for alarm in alarms.all()]
    [(3, 8, 2)]
    """

    def __init__(
        self, notify: Callable[[Alarm], None] = lambda _: None, clock: Callable[[], float] = time.time
    ) -> None:
        self._notify, self._clock = notify, clock
        self._alarms: dict[tuple[str, int | None, str], Alarm] = {}
        self._lock = threading.Lock()
        #: The number of alarms that were raised but not kept.
        self.dropped = 0

    def raise_at(self, place: str, reason: str, partition: int | None = None, offset: int | None = None) -> None:
        """Adds an invalid record or value to the alarm for its place, partition and reason."""
        reason = reason[:_LONGEST_REASON]
        key = (place, partition, reason)
        with self._lock:
            known = self._alarms.get(key)
            if known is None and len(self._alarms) >= MAX_ALARMS:
                self.dropped += 1
                return
            raised = _grown(known, offset) or Alarm(place, reason, partition, offset, offset, since=self._clock())
            self._alarms[key] = raised
        if known is None:
            self._notify(raised)

    def clear(self, place: str) -> None:
        """Forgets the alarms of a place that is valid again."""
        with self._lock:
            for key in [key for key in self._alarms if key[0] == place]:
                del self._alarms[key]

    def all(self, most: int = MAX_ALARMS) -> tuple[Alarm, ...]:
        """At most `most` alarms, from as many places as possible; the oldest come first.

        >>> alarms = Alarms()
        >>> for place, reason in (("a", "x"), ("a", "y"), ("b", "x")):
        ...     alarms.raise_at(place, reason)
        >>> [(alarm.place, alarm.reason) for alarm in alarms.all(2)]
        [('a', 'x'), ('b', 'x')]
        """
        with self._lock:
            alarms = list(self._alarms.values())
        seen, ranked = Counter[str](), list[tuple[int, Alarm]]()
        for alarm in alarms:
            ranked.append((seen[alarm.place], alarm))
            seen[alarm.place] += 1
        kept = [alarm for _, alarm in sorted(ranked, key=lambda each: each[0])[:most]]
        return tuple(alarm for alarm in alarms if alarm in kept)


def _grown(known: Alarm | None, offset: int | None) -> Alarm | None:
    """The alarm with one more record. Offsets grow as a log is read, so one up to `last` was counted before."""
    if known is None:
        return None
    if offset is None or known.last is None or offset <= known.last:
        return known
    return msgspec.structs.replace(known, last=offset, count=known.count + 1)


def merged(parts: Iterable[Iterable[Alarm]]) -> list[Alarm]:
    """The alarms of several processes. Processes that read the same log raise equal alarms, which are merged into one.

    >>> one, two = Alarm("t", "not JSON", 0, 3, 3), Alarm("t", "not JSON", 0, 3, 8, count=2)
    >>> merged([[one], [two]]) == [two]
    True
    """
    by_key: dict[tuple[str, int | None, str], Alarm] = {}
    for alarm in (alarm for part in parts for alarm in part):
        key = (alarm.place, alarm.partition, alarm.reason)
        by_key[key] = max(by_key.get(key, alarm), alarm, key=lambda each: each.count)
    return list(by_key.values())
