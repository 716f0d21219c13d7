"""A table of constant size: a change removes old rows and inserts as many new ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from operators.core.delta import FOREVER, FROM, ORDER, TO, WEIGHT, Delta

#: The number of elements in a change: half of them remove rows, half insert rows.
CHANGE = 10_000
#: The number of instants in a change.
INSTANTS = 10
#: The number of steps in a load. It is a power of two, so that all rows are merged into one run.
LOADS = 4
#: The number of rows of a group that can change. They have the least and the greatest values, so that a change has the
#: same effect on groups of any size.
CHANGING = 10
Places = NDArray[np.int64]


@dataclass(slots=True)
class Table:
    """Rows `(k, i, v)`: each group `k` has `width` rows; `v` grows each time that row `i` is replaced."""

    rows: int
    width: int = 1
    replaced: NDArray[np.int64] = field(init=False)
    random: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.replaced = np.zeros(self.rows, np.int64)
        self.random = np.random.default_rng(self.rows)

    def parts(self) -> Iterator[Delta]:
        """All rows, in `LOADS` parts with different instants."""
        for part, places in enumerate(np.array_split(np.arange(self.rows), LOADS)):
            yield elements(self._rows(places), np.full(len(places), part), 1)

    def places(self, count: int, groups: int) -> Places:
        """The positions of `count` rows in `groups` groups, both drawn at random."""
        per_group = count // groups
        drawn = self.random.choice(self.rows // self.width, groups, replace=False)
        among = min(self.width, CHANGING)
        inside = (self.random.integers(among, size=groups)[:, None] + np.arange(per_group)) % among
        return np.asarray(drawn[:, None] * self.width + inside).ravel()

    def replace(self, places: Places, start: int) -> Delta:
        """Replaces the rows at these positions by other values, at the `INSTANTS` instants from `start` on."""
        instants = start + np.arange(len(places)) % INSTANTS
        old = elements(self._rows(places), instants, -1)
        self.replaced[places] += 1
        return Delta(pl.concat([old.frame, elements(self._rows(places), instants, 1).frame]))

    def _rows(self, places: Places) -> pl.DataFrame:
        values = (places * 2_654_435_761 + self.replaced[places] * 1_000_003) % 2**31
        outer = np.where(values < 2**30, values - 2**31, values + 2**31)
        extreme = np.where(places % self.width < CHANGING, outer, values)
        return pl.DataFrame({"k": places // self.width, "i": places, "v": extreme})


def elements(rows: pl.DataFrame, instants: Places, weight: int) -> Delta:
    """Elements with these rows, valid from their instants on without an end."""
    size = rows.height
    return Delta(
        rows.with_columns(
            pl.Series(FROM, instants, pl.Int64),
            pl.repeat(FOREVER, size, dtype=pl.Int64, eager=True).alias(TO),
            pl.repeat(weight, size, dtype=pl.Int64, eager=True).alias(WEIGHT),
            pl.Series(ORDER, np.arange(size), pl.Int64),
        )
    )
