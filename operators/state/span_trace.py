"""SpanTrace: a range trace whose elements also say how far a second column reaches, to find intervals that contain a
point or overlap another one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from operators.core.delta import Delta
from operators.core.run import HASH, Run
from operators.kernels.points import first_above, first_at_least, points_of
from operators.state.range_trace import POINT, RangeTrace

#: Of the elements of a key in the order of their points, the greatest point of the other column up to an element, or,
#: `falling`, the least one from an element on. So it ascends.
REACH = "__reach"


@dataclass(frozen=True)
class SpanTrace(RangeTrace):
    """A range trace by `column` whose runs have REACH of the column `other`.

    REACH bounds what a part of a run without some of its elements reaches, so elements may be dropped without changing
    that of others.
    """

    other: str = ""
    falling: bool = False

    def delta(self) -> Delta:
        """All elements as one delta; an empty frame when there is none."""
        return Delta(super().delta().frame.drop(REACH, strict=False))

    def _run(self, frame: pl.DataFrame, frontier: int) -> Run:
        return self._reaching(super()._run(frame.drop(REACH, strict=False).drop_nulls(self.other), frontier))

    def _merge(self, frontier: int, elder: Run, younger: Run) -> Run:
        parts = (Run(run.frame.drop(REACH), run.arrangement) for run in (elder, younger))
        return self._reaching(super()._merge(frontier, *parts))

    def _reaching(self, run: Run) -> Run:
        return Run(with_reach(run.frame, self.other, falling=self.falling), run.arrangement)


def with_reach(frame: pl.DataFrame, other: str, *, falling: bool) -> pl.DataFrame:
    """A frame that is sorted by HASH and POINT with REACH of a column without NULLs.

    >>> frame = pl.DataFrame({HASH: [1, 1, 1, 2], "ends": [5, 3, 9, 4]})
    >>> [with_reach(frame, "ends", falling=falling)[REACH].to_list() for falling in (False, True)]
    [[5, 5, 9, 4], [3, 3, 9, 4]]
    """
    points, hashes = points_of(frame[other]), frame[HASH].to_numpy()
    reach = _furthest(~points[::-1], hashes[::-1]) if falling else _furthest(points, hashes)
    return frame.with_columns(pl.Series(REACH, ~reach[::-1] if falling else reach, pl.Int64))


def _furthest(points: np.ndarray, hashes: np.ndarray) -> np.ndarray:
    """The greatest point so far among those with equal hashes, which are beside each other.

    >>> _furthest(np.array([5, 3, 9, 4]), np.array([1, 1, 1, 2])).tolist()
    [5, 5, 9, 4]
    """
    if not len(points) or hashes[0] == hashes[-1]:
        return np.maximum.accumulate(points)
    ascending = np.argsort(points, kind="stable")
    ranks = np.empty(len(points), np.int64)
    ranks[ascending] = np.arange(len(points))
    group = np.concatenate([[0], np.cumsum(hashes[1:] != hashes[:-1])]) * len(points)
    return np.asarray(points[ascending[np.maximum.accumulate(group + ranks) - group]])


def span_places(
    run: Run,
    hashes: np.ndarray,
    *,
    lows: np.ndarray | None = None,
    highs: np.ndarray | None = None,
    reach: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """For each hash, where its elements begin that may matter, and how many there are: those with a point of at most
    `highs` behind the first that reaches `reach`, or those with a point of at least `lows` up to the last of which
    `reach` is not exceeded."""
    begin, counts = run.matches(hashes)
    end, points, reaches = begin + counts, run.frame[POINT].to_numpy(), run.frame[REACH].to_numpy()
    if highs is not None:
        first, last = first_at_least(reaches, begin, end, reach), first_above(points, begin, end, highs)
    else:
        assert lows is not None
        first, last = first_at_least(points, begin, end, lows), first_above(reaches, begin, end, reach)
    return first, np.maximum(last - first, 0)
