"""SpanTrace: a range trace that also indexes how far a second column reaches, to find intervals that contain a point or
overlap another interval."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from operators.core.delta import Delta
from operators.core.run import HASH, Run
from operators.kernels.pairs import greatest_so_far, group_numbers
from operators.kernels.points import first_above, first_at_least, points_of
from operators.state.range_trace import POINT, RangeTrace

#: Of each element of a key, in the order of points: the greatest point of the other column among the elements up to
#: this one or, if `falling`, the least among those from this one on. So the values ascend.
REACH = "__reach"


@dataclass(frozen=True)
class SpanTrace(RangeTrace):
    """A range trace by `column` whose runs have REACH of the column `other`.

    If elements of a run are dropped, REACH stays a valid bound for the others and is not recomputed.
    """

    other: str = ""
    falling: bool = False

    def delta(self) -> Delta:
        """Returns all elements as one delta; an empty frame if there are none."""
        return Delta(super().delta().frame.drop(REACH, strict=False))

    def _run(self, frame: pl.DataFrame, frontier: int) -> Run:
        return self._reaching(super()._run(frame.drop(REACH, strict=False).drop_nulls(self.other), frontier))

    def _merge(self, frontier: int, elder: Run, younger: Run) -> Run:
        parts = (Run(run.frame.drop(REACH), run.arrangement) for run in (elder, younger))
        return self._reaching(super()._merge(frontier, *parts))

    def _reaching(self, run: Run) -> Run:
        return Run(with_reach(run.frame, self.other, falling=self.falling), run.arrangement)


def with_reach(frame: pl.DataFrame, other: str, *, falling: bool) -> pl.DataFrame:
    """Returns a frame that is sorted by HASH and POINT with the REACH of a column without NULLs.

    >>> frame = pl.DataFrame({HASH: [1, 1, 1, 2], "ends": [5, 3, 9, 4]})
    >>> [with_reach(frame, "ends", falling=falling)[REACH].to_list() for falling in (False, True)]
    [[5, 5, 9, 4], [3, 3, 9, 4]]
    """
    points, hashes = points_of(frame[other]), frame[HASH].to_numpy()
    if not falling:
        reach = greatest_so_far(group_numbers(hashes), points)
    else:
        reach = ~greatest_so_far(group_numbers(hashes[::-1]), ~points[::-1])[::-1]
    return frame.with_columns(pl.Series(REACH, reach, pl.Int64))


def span_places(
    run: Run,
    hashes: np.ndarray,
    *,
    lows: np.ndarray | None = None,
    highs: np.ndarray | None = None,
    reach: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Returns, for each hash, a range of its elements, as the index of the first and their number. With `highs`: from
    the first element with REACH ≥ `reach` to the last one with a point ≤ `highs`. With `lows`: from the first element
    with a point ≥ `lows` to the last one with REACH ≤ `reach`."""
    begin, counts = run.matches(hashes)
    end, points, reaches = begin + counts, run.frame[POINT].to_numpy(), run.frame[REACH].to_numpy()
    if highs is not None:
        first, last = first_at_least(reaches, begin, end, reach), first_above(points, begin, end, highs)
    else:
        assert lows is not None
        first, last = first_at_least(points, begin, end, lows), first_above(reaches, begin, end, reach)
    return first, np.maximum(last - first, 0)
