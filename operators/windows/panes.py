"""Panes: merges rows that are in the same windows before `Assign` copies them once for each window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl

from operators.core.calendar_range import DAY_US, FIRST_US, LAST_US
from operators.core.delta import Delta, union_all
from operators.core.operator import Move, Step
from operators.state.trace import Trace
from operators.windows.assign import instants_of

#: Integers beyond _NEAR, and times within _CENTURY_US of the first or the last year, are not moved: they may have no
#: windows, and `Assign` reports that for each row.
_NEAR, _CENTURY_US = 2**61, 36_600 * DAY_US


@dataclass(frozen=True, slots=True)
class Panes:
    """panes(A) at τ = A with the time in `column` moved back to the start of its pane `[k·width + offset, … + width)`.

    If windows begin and end where panes do (width = gcd(size, slide)), each window contains a pane completely or not at
    all. `Assign` then returns the same rows except for `column` (Li et al., No Pane, No Gain, SIGMOD Record 34(1),
    2005). Equal rows of an instant become a single element with the greatest order. Linear and stateless. A row whose
    `column` is NULL is in no pane and is dropped. The width is in the unit of an integer column, in ms for times.

    >>> rows = Delta.of([("+", {"ts": 7}, 10), ("+", {"ts": 8}, 10)])
    >>> Panes("ts", width=5).step(rows, (), Move(0, 20)).delta.frame.select("ts", "__weight").rows()
    [(5, 2)]
    """

    operator_version: ClassVar[int] = 1
    column: str
    width: int
    offset: int = 0

    def traces(self) -> tuple[Trace, ...]:
        """(): the operator is stateless."""
        return ()

    def step(self, delta: Delta, traces: tuple[Trace, ...], move: Move) -> Step:
        """The elements, moved to the starts of their panes."""
        present = delta.frame.filter(pl.col(self.column).is_not_null())
        values, unit = instants_of(present[self.column])
        starts = values - np.mod(values - self.offset * unit, self.width * unit)
        least, most = (-_NEAR, _NEAR) if unit == 1 else (FIRST_US + _CENTURY_US, LAST_US - _CENTURY_US)
        near = (values > least) & (values < most)
        starts = np.where(near, starts, values)
        pane_starts = pl.Series(self.column, starts, pl.Int64).cast(present.schema[self.column])
        in_panes = present.with_columns(pane_starts)
        inside, outside = (Delta(in_panes.filter(pl.Series(mask, dtype=pl.Boolean))) for mask in (near, ~near))
        return Step(union_all([inside.consolidate(), outside]))
