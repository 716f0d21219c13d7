"""Sliding windows over rows at a steady rate: a longer window has more rows, but as many rows enter and leave it in a
step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import polars as pl
import pyarrow as pa

from benchmarks.delta_law.flow import Flow, Input
from benchmarks.delta_law.subjects import COUNT, ROW, SUM
from benchmarks.delta_law.table import CHANGE, LOADS, elements
from operators.aggregates.aggregate import Aggregate
from operators.core.delta import BEGINNING, Delta
from operators.core.operator import Move
from operators.grouping.group_by import GroupBy
from operators.joins.join import Join
from operators.streams.retract_ends import RetractEnds
from operators.windows.time_window import TimeWindow

#: Rows per instant, over all inputs.
RATE = 10
#: The number of instants in a step. As many rows enter as leave, together as many as a change has elements.
STEP = CHANGE // 2 // RATE
KEYS = 1_000
#: A row of the left input joins the row of the right input that came `LAG` rows before.
LAG = 100


@dataclass
class Sliding:
    """A stream of `RATE` rows an instant. The load fills a window."""

    length: int
    slide: int = 1
    groups: int = KEYS
    now: int = field(init=False, default=0)

    def load(self) -> Iterator[Input]:
        """The rows of the instants in a window and of one more instant."""
        yield from (self.upto(int(end) + 1) for end in np.linspace(0, self.length, LOADS + 1)[1:])

    def change(self) -> Input:
        """The rows of the next instants."""
        return self.upto(self.now + STEP)

    def upto(self, end: int) -> Input:
        """The rows of the instants up to `end`."""
        move = Move(self.now if self.now else BEGINNING, end)
        first, self.now = self.now, end
        return Input(self.deltas(first, end), move)

    def deltas(self, start: int, end: int) -> tuple[Delta, ...]:
        """The rows of these instants, for each input."""
        raise NotImplementedError


class WindowedGroups(Sliding):
    """Count and sum by key of the rows in a window."""

    aggregates: tuple[Aggregate, ...] = (COUNT, SUM)

    @property
    def flow(self) -> Flow:
        """The window, retractions at the ends of rows, and the group-by."""
        return Flow((RetractEnds(), GroupBy(("k",), self.aggregates, ROW)), TimeWindow(self.length, self.slide))

    def deltas(self, start: int, end: int) -> tuple[Delta, ...]:
        """One stream."""
        numbers = np.arange(start * RATE, end * RATE)
        return (elements(_rows(numbers, self.groups), numbers // RATE, 1),)


class WindowedLeast(WindowedGroups):
    """The minimum of an ascending column: each row that leaves the window is the minimum of its group."""

    aggregates = (Aggregate("low", "min", ("i",), pa.int64()),)


class WindowedPairs(Sliding):
    """The join of two streams, each with a window. Each row has one partner in the other window."""

    @property
    def flow(self) -> Flow:
        """The windows and the join."""
        return Flow((Join(("i",), ("i2",)),), TimeWindow(self.length))

    def deltas(self, start: int, end: int) -> tuple[Delta, ...]:
        """Two streams of half the rate each."""
        numbers = np.arange(start * RATE // 2, end * RATE // 2)
        instants = numbers * 2 // RATE
        right = _rows(numbers + LAG, self.groups).rename({"k": "k2", "i": "i2", "v": "v2"})
        return elements(_rows(numbers, self.groups), instants, 1), elements(right, instants, 1)


def _rows(numbers: np.ndarray, groups: int) -> pl.DataFrame:
    mixed = numbers * 2_654_435_761 % 2**31
    return pl.DataFrame({"k": mixed % groups, "i": numbers, "v": mixed})
