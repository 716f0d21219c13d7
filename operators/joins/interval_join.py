"""Interval join: an equi-join of points with intervals, or of intervals that overlap, found by range searches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from operators.core.delta import Delta
from operators.core.run import Run
from operators.joins.band_range import Band
from operators.joins.join import Indexes, Join
from operators.kernels.points import expand_ranges, points_of
from operators.state.range_trace import POINT, arranged_by_point
from operators.state.span_trace import SpanTrace, span_places, with_reach
from operators.state.trace import Trace

_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class IntervalJoin(Join):
    """A ⋈ B with two comparisons: `low` says that a column of A is at least a column of B, `high` that a column of A is
    at most another column of B. Examples: `a.x BETWEEN b.begins AND b.ends`, or
    `a.begins <= b.ends AND a.ends >= b.begins`. For floats the bounds are slightly wider, and a filter after the join
    drops the pairs outside.

    Within each key both sides are sorted by the column of `low`, and each row has the furthest value so far of the
    column of `high`. So a search for the intervals that contain a point skips all rows before the first one that
    reaches the point. Rows with NULL in these columns have no partner.

    >>> from operators.core.operator import Move
    >>> join = IntervalJoin((), (), low=Band("x", "begins", low=0), high=Band("x", "ends", high=0))
    >>> points = Delta.of([("+", {"x": at}, 3) for at in range(9)])
    >>> spans = Delta.of([("+", {"begins": at, "ends": at + 1}, 3) for at in (0, 4)])
    >>> join.step(points, spans, join.traces(), Move(0, 9)).delta.frame["x"].to_list()
    [0, 1, 4, 5]
    """

    low: Band = Band("", "")
    high: Band = Band("", "")

    def traces(self) -> tuple[Trace, ...]:
        """The states of the left and the right side, by key and column."""
        left, right = self._bounds()
        of_left, of_right = (self.low.left, self.high.left), (self.low.right, self.high.right)
        return (
            SpanTrace("key", self.left_keys, bound=left, column=of_left[0], other=of_left[1], falling=True),
            SpanTrace("key", self.right_keys, bound=right, column=of_right[0], other=of_right[1]),
        )

    def _new(self, delta: Delta, *, right: bool) -> Run:
        column, other = (self.low.right, self.high.right) if right else (self.low.left, self.high.left)
        frame, keys = self._with_keys(delta, right=right)
        placed = arranged_by_point(frame.drop_nulls(other), keys, column)
        return Run(with_reach(placed, other, falling=not right), "key")

    def _matches(self, left: pl.DataFrame, right: pl.DataFrame) -> pl.Series:
        """For each candidate pair, whether it satisfies the join: range searches also return neighbours that do not."""
        lowest = self.low.of_right(left[POINT].to_numpy())[1]
        reached = self.high.of_right(points_of(left[self.high.left]))[0]
        near = (right[POINT].to_numpy() <= lowest) & (points_of(right[self.high.right]) >= reached)
        return Join._matches(self, left, right) & pl.Series(near)

    def _candidates_of_step(self, left: Run, right: Run) -> tuple[Indexes, Indexes]:
        return self._candidates(left, right)

    def _candidates(self, left: Run, right: Run) -> tuple[Indexes, Indexes]:
        """The indexes of candidate pairs, which have equal hashes. The smaller run is looked up in the larger one,
        which may be state."""
        if not left.height or not right.height:
            return _NONE, _NONE
        if left.height <= right.height:
            highs = self.low.of_right(left.frame[POINT].to_numpy())[1]
            reached = self.high.of_right(points_of(left.frame[self.high.left]))[0]
            return expand_ranges(*span_places(right, left.sorted_column, highs=highs, reach=reached))
        lows = self.low.swapped().of_right(right.frame[POINT].to_numpy())[0]
        reached = self.high.swapped().of_right(points_of(right.frame[self.high.right]))[1]
        at_right, at_left = expand_ranges(*span_places(left, right.sorted_column, lows=lows, reach=reached))
        return at_left, at_right
