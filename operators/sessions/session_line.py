"""SessionLine: the sessions of a partition, maintained change by change."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

#: Running sums as plain integers; the first is the number of rows.
Parts = tuple[int, ...]
Combine = Callable[[Parts, Parts], Parts]
#: The birth of a session that was present before the step, and the death of a session that is present after it.
BEFORE, NEVER = -1, -1


@dataclass(slots=True)
class Version:
    """The bounds and sums of a session from phase `born` on, until before phase `died`."""

    low: int
    high: int
    parts: Parts
    born: int = BEFORE
    died: int = NEVER

    @property
    def existed(self) -> bool:
        """Whether the version was present at any instant: one that begins and ends in the same phase was not."""
        return self.born != self.died or self.born == BEFORE


@dataclass(slots=True)
class SessionLine:
    """The sessions of a partition. An insertion takes O(log sessions); a retraction that splits a session takes time
    proportional to the size of the smaller part. Without `points`, no retractions are possible.

    >>> plus, minus = lambda x, y: (x[0] + y[0],), lambda x, y: (x[0] - y[0],)
    >>> line = SessionLine(5, plus, minus, [], {})
    >>> for phase, (value, rows) in enumerate([(0, 1), (10, 1), (5, 2), (5, -2)]):
    ...     line.change(phase, value, value, (rows,))
    >>> [(each.low, each.high, *each.parts, each.born, each.died) for each in line.made if each.existed]
    [(0, 0, 1, 0, 2), (10, 10, 1, 1, 2), (0, 10, 4, 2, 3), (0, 0, 1, 3, -1), (10, 10, 1, 3, -1)]
    """

    gap: int
    plus: Combine
    minus: Combine
    sessions: list[Version]
    #: The sums at each value of the sessions near a change.
    points: dict[int, Parts] | None = None
    #: All versions in the order of their creation.
    made: list[Version] = field(default_factory=list)
    _lows: list[int] = field(default_factory=list)
    _values: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.made += self.sessions
        self._lows = [session.low for session in self.sessions]
        self._values = sorted(self.points or ())

    def change(self, phase: int, low: int, high: int, parts: Parts) -> None:
        """Adds `parts`, the sums of some changes of a phase. Their values span `low` to `high` without a gap; if there
        are `points`, they have a single value. Phases must come in order; the changes of a phase may come in any
        order."""
        if self.points is None:
            self._absorb(phase, low, high, parts)
        else:
            assert low == high
            self._change_at(phase, low, parts, self.points)

    def _change_at(self, phase: int, value: int, parts: Parts, points: dict[int, Parts]) -> None:
        held = points.get(value)
        after = parts if held is None else self.plus(held, parts)
        if after[0]:
            points[value] = after
            if held is None:
                insort(self._values, value)
            self._absorb(phase, value, value, parts)
        elif held is not None:
            del points[value]
            self._release(phase, value, parts)

    def _absorb(self, phase: int, low: int, high: int, parts: Parts) -> None:
        """Adds values to the session that contains or is near them, merging the sessions that they connect."""
        end = bisect_right(self._lows, high + self.gap)
        start = end
        while start and self.sessions[start - 1].high >= low - self.gap:
            start -= 1
        if start == end:
            self._put(start, end, [Version(low, high, parts, phase)])
            return
        session = self._own(phase, start)
        for other in self.sessions[start + 1 : end]:
            other.died = phase
            session.high, session.parts = other.high, self.plus(session.parts, other.parts)
        session.low, session.high = min(session.low, low), max(session.high, high)
        session.parts = self.plus(session.parts, parts)
        self._lows[start] = session.low
        if end - start > 1:
            del self._lows[start + 1 : end], self.sessions[start + 1 : end]

    def _release(self, phase: int, value: int, parts: Parts) -> None:
        """Removes a value from its session, which may shrink, split or vanish."""
        at, place = bisect_right(self._lows, value) - 1, bisect_left(self._values, value)
        del self._values[place]
        session = self._own(phase, at)
        session.parts = self.plus(session.parts, parts)
        first, last = bisect_left(self._values, session.low), bisect_right(self._values, session.high)
        if first == last:
            session.died = phase
            self._put(at, at + 1, [])
        elif first < place < last and self._values[place] - self._values[place - 1] > self.gap:
            session.died = phase
            self._put(at, at + 1, self._halves(phase, session.parts, (first, place, last)))
        else:
            session.low, session.high = self._values[first], self._values[last - 1]
            self._lows[at] = session.low

    def _halves(self, phase: int, parts: Parts, places: tuple[int, int, int]) -> list[Version]:
        first, middle, last = places
        small = (first, middle) if middle - first <= last - middle else (middle, last)
        summed = self._summed(self._values[slice(*small)])
        rest = self.minus(parts, summed)
        left, right = (summed, rest) if small[0] == first else (rest, summed)
        values = self._values
        return [
            Version(values[first], values[middle - 1], left, phase),
            Version(values[middle], values[last - 1], right, phase),
        ]

    def _summed(self, values: Sequence[int]) -> Parts:
        assert self.points is not None
        total = self.points[values[0]]
        for value in values[1:]:
            total = self.plus(total, self.points[value])
        return total

    def _own(self, phase: int, at: int) -> Version:
        """Returns the session at an index as a version that begins at this phase; its previous version ends there."""
        session = self.sessions[at]
        if session.born == phase:
            return session
        session.died = phase
        version = Version(session.low, session.high, session.parts, phase)
        self.sessions[at] = version
        self.made.append(version)
        return version

    def _put(self, start: int, end: int, versions: list[Version]) -> None:
        self.sessions[start:end] = versions
        self._lows[start:end] = [version.low for version in versions]
        self.made += versions
