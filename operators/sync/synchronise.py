"""Synchronisation: a relation as of the last synchronisation point, ℜ[Sync](S) in SyncSQL section 3.1."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, cast

import numpy as np
import polars as pl

from operators.core.delta import BEGINNING, FOREVER, FROM, TO, WEIGHT, Delta, union_all
from operators.core.operator import Move, Step
from operators.core.stored_names import ADDED_LATER
from operators.state.trace import Trace
from operators.streams.retract_ends import starts_and_ends
from operators.sync.sync_points import Periodic


@dataclass(frozen=True, slots=True)
class PeriodicSync:
    """sync(A) at τ = A at the last point ≤ τ. Stateless: both ends of an element are rounded up to the next point.

    An element without a point in its interval is dropped. Because starts are rounded up, they may lie beyond the move.

    >>> seen = Delta(Delta.of([("+", {"a": 1}, 3)]).frame.with_columns(pl.lit(25, pl.Int64).alias(TO)))
    >>> PeriodicSync(Periodic(10)).step(seen, (), Move(0, 5)).delta.frame.select(FROM, TO).rows()
    [(10, 30)]
    """

    operator_version: ClassVar[int] = 1
    points: Periodic

    def traces(self) -> tuple[Trace, ...]:
        """(): the operator is stateless."""
        return ()

    def reads(self, wanted: frozenset[str]) -> frozenset[str]:
        """Only the wanted columns."""
        return wanted

    def step(self, delta: Delta, traces: tuple[Trace, ...], move: Move) -> Step:
        """The elements, rounded to points."""
        starts, ends = (self.points.next_points(delta.frame[name].to_numpy()) for name in (FROM, TO))
        rounded = delta.frame.with_columns(pl.Series(FROM, starts, pl.Int64), pl.Series(TO, ends, pl.Int64))
        seen = starts < ends
        return Step(Delta(rounded if seen.all() else rounded.filter(seen)))


@dataclass(frozen=True, slots=True)
class EventSync:
    """sync(A) at τ = A at the last point ≤ τ, and empty before the first. The points are the instants at which a row is
    inserted into the input `points` and not retracted at once.

    With a `clock`, its points are points, too. A change waits for the first point at or after it and keeps its order.
    The start and the finite end of an element are two changes. State: the waiting changes by time, and the last event.

    >>> rows, points = Delta.of([("+", {"a": 1}, 3)]), Delta.of([("+", {"p": 0}, 7)])
    >>> sync = EventSync()
    >>> sync.step(rows, points, sync.traces(), Move(0, 9)).delta.frame.select("a", FROM).rows()
    [(1, 7)]
    >>> sync = EventSync(Periodic(5))
    >>> sync.step(rows, points, sync.traces(), Move(0, 9)).delta.frame.select("a", FROM).rows()
    [(1, 5)]
    """

    operator_version: ClassVar[int] = 1
    clock: Periodic | None = field(default=None, metadata={ADDED_LATER: True})

    def traces(self) -> tuple[Trace, ...]:
        """The waiting changes, and the last event."""
        return (Trace("time"), Trace("time"))

    def step(self, left: Delta, points: Delta, traces: tuple[Trace, ...], move: Move) -> Step:
        """The changes that become visible at points of the move."""
        waiting, last = traces
        changes, insertions = starts_and_ends(left), _insertions(points)
        instants = np.unique(insertions.frame[FROM].to_numpy())
        after = max(_after(last), self._after_tick(move.start))
        end = max([after, self._after_tick(move.end), *(instants[-1:] + 1).tolist()])
        kept_last = _newest(insertions) if len(instants) else last
        if end == after and self.clock is None:
            return Step(Delta(left.frame.clear()), (waiting.append(changes, after), kept_last))
        due = union_all([*waiting.between(after, end), changes.between(BEGINNING, end)])
        visible = self._first_points(due.frame[FROM].to_numpy(), instants)
        released = _without_cancelled(Delta(due.frame.with_columns(pl.Series(FROM, visible, pl.Int64))))
        kept = waiting.forget(end).append(changes.between(end, FOREVER), end)
        return Step(released, (kept, kept_last))

    def _after_tick(self, instant: int) -> int:
        """The instant after the last point of the clock below an instant; BEGINNING if there is none."""
        if self.clock is None or instant == BEGINNING:
            return BEGINNING
        return int(self.clock.points(instant - self.clock.period, instant)[-1]) + 1

    def _first_points(self, changes: np.ndarray, events: np.ndarray) -> np.ndarray:
        """The first point at or after each change, at an event or of the clock; each has one."""
        if self.clock is None:
            return np.asarray(events[np.searchsorted(events, changes)])
        next_events = np.append(events, FOREVER)[np.searchsorted(events, changes)]
        return np.asarray(np.minimum(next_events, self.clock.next_points(changes)))


def _newest(insertions: Delta) -> Trace:
    """The last of the insertions."""
    newest = insertions.frame.filter(pl.col(FROM) == pl.col(FROM).max())[:1]
    return Trace("time").append(Delta(newest), int(newest[FROM].item()))


def _without_cancelled(delta: Delta) -> Delta:
    """The changes without those that cancel. If all are insertions they are not merged: each keeps its own order."""
    return delta if (delta.frame[WEIGHT] > 0).all() else delta.consolidate()


def _insertions(points: Delta) -> Delta:
    assert (points.frame[TO] == FOREVER).all(), "points are changes"
    return Delta(points.consolidate().frame.filter(pl.col(WEIGHT) > 0))


def _after(last: Trace) -> int:
    """The instant after the last event. All earlier changes are visible already, although runs may still hold them."""
    return cast(int, last.runs[0].frame[FROM].item()) + 1 if last.runs else BEGINNING
