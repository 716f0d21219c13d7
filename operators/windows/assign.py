"""Assign: SQL's TUMBLE, HOP and CUMULATE, which pair each row with the windows that contain the time in a column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import polars as pl

from operators.core.calendar_range import microseconds_in_range
from operators.core.delta import RESERVED, Delta
from operators.core.operator import Move, Step, split_faults
from operators.state.trace import Trace

WINDOW_START, WINDOW_END = "window_start", "window_end"
#: A time further from 0 than this may have windows whose bounds do not fit into 64 bits.
_LIMIT = 2**62 - 1
_OUTSIDE = "a window of this row is outside the range of the time column's type"


@dataclass(frozen=True, slots=True)
class Assign:
    """assign(A) at τ = each row of A at τ once for every window [start, end) that contains the time in `column`.

    `hop` has, for every k, the window `[k·slide + offset, k·slide + offset + size)`; with slide = size these windows
    are tumbling. `cumulate` has, for every k, the windows that start at `k·size + offset` and are slide, 2·slide, …
    size long. Linear and stateless. A row whose time is NULL is in no window; a row with a window outside the range of
    the column's type is in fault. `size`, `slide` and `offset` have the unit of `column` if it is an integer; for a
    date or a timestamp they are in ms.

    >>> rows = Delta.of([("+", {"ts": 7}, 3)])
    >>> hop = Assign("hop", "ts", size=10, slide=5)
    >>> hop.step(rows, (), Move(0, 9)).delta.frame.select(WINDOW_START, WINDOW_END).rows()
    [(5, 15), (0, 10)]
    """

    operator_version: ClassVar[int] = 1
    kind: Literal["hop", "cumulate"]
    column: str
    size: int
    slide: int
    offset: int = 0

    def __post_init__(self) -> None:
        assert self.size > 0 and self.slide > 0
        assert self.kind == "hop" or self.size % self.slide == 0, "a cumulating window has a whole number of steps"

    def traces(self) -> tuple[Trace, ...]:
        """(): the operator is stateless."""
        return ()

    def reads(self, wanted: frozenset[str]) -> frozenset[str]:
        """The wanted columns and the time column."""
        return wanted | {self.column}

    def step(self, delta: Delta, traces: tuple[Trace, ...], move: Move) -> Step:
        """Each element once for each of its windows."""
        present = Delta(delta.frame.filter(pl.col(self.column).is_not_null()))
        values, unit = instants_of(present.frame[self.column])
        rows, starts, ends = self._windows(np.clip(values, -_LIMIT, _LIMIT), unit)
        type_ = window_type(delta.frame.schema[self.column])
        bounds = pl.DataFrame({WINDOW_START: in_type(starts, type_), WINDOW_END: in_type(ends, type_)})
        outside = np.abs(np.clip(values, -_LIMIT - 1, _LIMIT + 1)) > _LIMIT
        outside[rows[bounds.select(pl.any_horizontal(pl.all().is_null())).to_series().to_numpy()]] = True
        assigned = pl.concat([present.frame[rows], bounds], how="horizontal").filter(pl.Series(~outside[rows]))
        faults = pl.DataFrame({"outside": outside}).select(pl.when("outside").then(pl.lit(_OUTSIDE))).to_series()
        columns = [*delta.columns, WINDOW_START, WINDOW_END, *RESERVED]
        return Step(Delta(assigned.select(columns)), (), split_faults(present, faults)[1])

    def _windows(self, values: np.ndarray, unit: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All pairs of a row and a window that contains it: the row's index, and the window's start and end."""
        size, slide, offset = self.size * unit, self.slide * unit, self.offset * unit
        stride = slide if self.kind == "hop" else size
        # `last` is the latest start of a window that can contain the value. The other windows of a hop start one slide
        # earlier each; those of a cumulation all start at `last`, and the shortest one has the length first · slide.
        last = np.floor_divide(values - offset, stride) * stride + offset
        inside = values - last
        first = np.zeros_like(inside) if self.kind == "hop" else inside // slide + 1
        counts = np.maximum(-(-(size - inside) // slide), 0)
        rows = np.repeat(np.arange(len(values)), counts)
        # The numbers of a row's windows, from 0: counts [2 3] give [0 1 | 0 1 2].
        number = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        if self.kind == "hop":
            starts = last[rows] - number * slide
            return rows, starts, starts + size
        return rows, last[rows], last[rows] + (first[rows] + number) * slide


def instants_of(values: pl.Series) -> tuple[np.ndarray, int]:
    """The values of a time column without NULLs as int64 (dates and timestamps in µs), and the number by which a window
    size is multiplied to get their unit: 1000 for dates and timestamps (µs per ms), 1 for integers.

    >>> import datetime
    >>> instants_of(pl.Series([datetime.date(1970, 1, 2)]))
    (array([86400000000]), 1000)
    """
    if values.dtype == pl.Date:
        values = values.cast(pl.Datetime("us"))
    unit = 1000 if values.dtype == pl.Datetime("us") else 1
    return values.to_physical().cast(pl.Int64).to_numpy(), unit


def window_type(column: pl.DataType) -> pl.DataType:
    """The type of the window columns: that of the time column, or TIMESTAMP for a DATE."""
    return pl.Datetime("us") if column == pl.Date else column


def in_type(instants: np.ndarray, type_: pl.DataType) -> pl.Series:
    """The inverse of `instants_of`: int64 values as a column of type `type_`; NULL for values outside its range."""
    values = pl.Series(instants, dtype=pl.Int64)
    if type_ == pl.Datetime("us"):
        values = values.to_frame("at").select(pl.when(microseconds_in_range(pl.col("at"))).then("at")).to_series()
    return values.cast(type_, strict=False)
