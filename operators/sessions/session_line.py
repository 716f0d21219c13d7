"""The sessions of one partition while its changes come, one after the other."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

#: Running sums, the first of which is the number of rows.
Parts = tuple[int, ...]
Combine = Callable[[Parts, Parts], Parts]
#: The birth of a session that was there before the step, and the death of one that is there after it.
BEFORE, NEVER = -1, -1


@dataclass(slots=True)
class Version:
    """A session as it was from the change in cell `born` up to that in cell `died`: bounds and sums."""

    low: int
    high: int
    parts: Parts
    born: int = BEFORE
    died: int = NEVER

    @property
    def was(self) -> bool:
        """Whether it was there at any instant: one that comes and goes in one cell was not."""
        return self.born != self.died or self.born == BEFORE


@dataclass(slots=True)
class SessionLine:
    """A change costs O(log sessions) where rows come, and the smaller of the two parts where one that goes splits a
    session. Without `points` no row goes.

    >>> plus, minus = lambda one, other: (one[0] + other[0],), lambda one, other: (one[0] - other[0],)
    >>> line = SessionLine(5, plus, minus, [], {})
    >>> for cell, (value, rows) in enumerate([(0, 1), (10, 1), (5, 2), (5, -2)]):
    ...     line.change(cell, value, value, (rows,))
    >>> [(one.low, one.high, *one.parts, one.born, one.died) for one in line.made if one.was]
    [(0, 0, 1, 0, 2), (10, 10, 1, 1, 2), (0, 10, 4, 2, 3), (0, 0, 1, 3, -1), (10, 10, 1, 3, -1)]
    """

    gap: int
    plus: Combine
    minus: Combine
    sessions: list[Version]
    #: The sums at each value of the sessions that a change is near to.
    points: dict[int, Parts] | None = None
    #: All there were, the first ones first.
    made: list[Version] = field(default_factory=list)
    _lows: list[int] = field(default_factory=list)
    _values: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.made += self.sessions
        self._lows = [one.low for one in self.sessions]
        self._values = sorted(self.points or ())

    def change(self, cell: int, low: int, high: int, parts: Parts) -> None:
        """The sums from a value to a value change in a cell, with no gap between; one value at a time where rows go.
        Cells come in order, what changes in one cell in any."""
        if self.points is None:
            self._absorb(cell, low, high, parts)
        else:
            assert low == high
            self._change_at(cell, low, parts, self.points)

    def _change_at(self, cell: int, value: int, parts: Parts, points: dict[int, Parts]) -> None:
        held = points.get(value)
        after = parts if held is None else self.plus(held, parts)
        if after[0]:
            points[value] = after
            if held is None:
                insort(self._values, value)
            self._absorb(cell, value, value, parts)
        elif held is not None:
            del points[value]
            self._release(cell, value, parts)

    def _absorb(self, cell: int, low: int, high: int, parts: Parts) -> None:
        """Into the session that holds the values or comes to hold them, made of those that they connect."""
        end = bisect_right(self._lows, high + self.gap)
        start = end
        while start and self.sessions[start - 1].high >= low - self.gap:
            start -= 1
        if start == end:
            self._put(start, end, [Version(low, high, parts, cell)])
            return
        one = self._own(cell, start)
        for other in self.sessions[start + 1 : end]:
            other.died = cell
            one.high, one.parts = other.high, self.plus(one.parts, other.parts)
        one.low, one.high = min(one.low, low), max(one.high, high)
        one.parts = self.plus(one.parts, parts)
        self._lows[start] = one.low
        if end - start > 1:
            del self._lows[start + 1 : end], self.sessions[start + 1 : end]

    def _release(self, cell: int, value: int, parts: Parts) -> None:
        """Out of the session that holds the value, which may shrink, split or vanish."""
        at, place = bisect_right(self._lows, value) - 1, bisect_left(self._values, value)
        del self._values[place]
        one = self._own(cell, at)
        one.parts = self.plus(one.parts, parts)
        first, last = bisect_left(self._values, one.low), bisect_right(self._values, one.high)
        if first == last:
            one.died = cell
            self._put(at, at + 1, [])
        elif first < place < last and self._values[place] - self._values[place - 1] > self.gap:
            one.died = cell
            self._put(at, at + 1, self._halves(cell, one.parts, (first, place, last)))
        else:
            one.low, one.high = self._values[first], self._values[last - 1]
            self._lows[at] = one.low

    def _halves(self, cell: int, parts: Parts, places: tuple[int, int, int]) -> list[Version]:
        first, middle, last = places
        small = (first, middle) if middle - first <= last - middle else (middle, last)
        summed = self._summed(self._values[slice(*small)])
        rest = self.minus(parts, summed)
        left, right = (summed, rest) if small[0] == first else (rest, summed)
        values = self._values
        return [
            Version(values[first], values[middle - 1], left, cell),
            Version(values[middle], values[last - 1], right, cell),
        ]

    def _summed(self, values: Sequence[int]) -> Parts:
        assert self.points is not None
        found = self.points[values[0]]
        for value in values[1:]:
            found = self.plus(found, self.points[value])
        return found

    def _own(self, cell: int, at: int) -> Version:
        """The session at a place as a version of this cell."""
        one = self.sessions[at]
        if one.born == cell:
            return one
        one.died = cell
        mine = Version(one.low, one.high, one.parts, cell)
        self.sessions[at] = mine
        self.made.append(mine)
        return mine

    def _put(self, start: int, end: int, found: list[Version]) -> None:
        self.sessions[start:end] = found
        self._lows[start:end] = [one.low for one in found]
        self.made += found
