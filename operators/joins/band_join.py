"""Band join: an equi-join whose pairs also differ by at most a distance in a column, found by range searches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from operators.core.delta import Delta
from operators.core.run import Run
from operators.joins.band_range import Band
from operators.joins.join import Indexes, Join
from operators.kernels.points import expand_ranges
from operators.state.range_trace import POINT, RangeTrace, arranged_by_point, range_places
from operators.state.trace import Trace


@dataclass(frozen=True, slots=True)
class BandJoin(Join):
    """A ⋈ B where `low ≤ a - b ≤ high` for a column of each side. For floats the band is slightly wider, and a filter
    after the join drops the pairs outside.

    Both sides are sorted by that column within each key, so only pairs in the band are read. Rows with NULL in the
    column have no partner.

    >>> from operators.core.operator import Move
    >>> join = BandJoin((), (), band=Band("a", "b", -1, 1))
    >>> rows = [Delta.of([("+", {name: at}, 3) for at in range(9)]) for name in "ab"]
    >>> len(join.step(*rows, join.traces(), Move(0, 9)).delta)
    25
    """

    band: Band = Band("", "")

    def traces(self) -> tuple[Trace, ...]:
        """The states of the left and the right side, by key and column."""
        left, right = self._bounds()
        return (
            RangeTrace("key", self.left_keys, bound=left, column=self.band.left),
            RangeTrace("key", self.right_keys, bound=right, column=self.band.right),
        )

    def _new(self, delta: Delta, *, right: bool) -> Run:
        column = self.band.right if right else self.band.left
        return Run(arranged_by_point(*self._with_keys(delta, right=right), column), "key")

    def _candidates_of_step(self, left: Run, right: Run) -> tuple[Indexes, Indexes]:
        return self._candidates(left, right)

    def _candidates(self, left: Run, right: Run) -> tuple[Indexes, Indexes]:
        """The indexes of the pairs in the band that have equal hashes. The smaller run is looked up in the larger one,
        which may be state."""
        if left.height <= right.height:
            return _in_band(left, right, self.band)
        at_right, at_left = _in_band(right, left, self.band.swapped())
        return at_left, at_right


def _in_band(left: Run, right: Run, band: Band) -> tuple[Indexes, Indexes]:
    if not left.height:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return expand_ranges(*range_places(right, left.sorted_column, *band.of_right(left.frame[POINT].to_numpy())))
