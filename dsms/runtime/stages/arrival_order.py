"""What a source promises of the order of its records: what breaks a promise is refused, and how far columns have come
is told to the operators whose state can forget by it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from dsms.model.objects import Constraint, Source
from operators.core.delta import FOREVER, FROM, ORDER, RESERVED, TO, WEIGHT, Delta
from operators.core.ordering import Ordering, physical_distance

#: At most so many marks are made of the records of one batch.
_MARKS = 16


@dataclass(frozen=True)
class Checked:
    """Which rows break no promise, why the others do (offset and reason), the least values that each row may have by
    column, and the state of the promises after all of them."""

    keeps: np.ndarray
    reasons: tuple[tuple[int, str], ...]
    least: pl.DataFrame
    orders: tuple[Ordering, ...]


def check_order(source: Source, frame: pl.DataFrame, orders: tuple[Ordering, ...]) -> Checked:
    """The law: which rows are refused depends on the rows before each of them in the partition's log alone."""
    keeps, reasons = np.ones(frame.height, np.bool_), dict[int, str]()
    least, after = list[pl.Series](), list[Ordering]()
    held = orders or tuple(Ordering() for _ in source.ordered)
    for constraint, order in zip(source.ordered, held, strict=True):
        values = frame[constraint.column]
        k = None if constraint.k is None else physical_distance(values.dtype, constraint.k)
        broken, bound, known = order.admit(values, k)
        reasons = dict(_reasons(constraint, frame.filter(pl.Series(broken)), bound.filter(pl.Series(broken)))) | reasons
        keeps &= ~broken
        least.append(bound.alias(constraint.column))
        after.append(known)
    return Checked(keeps, tuple(reasons.items()), pl.DataFrame(least), tuple(after))


def _reasons(constraint: Constraint, rows: pl.DataFrame, least: pl.Series) -> Iterator[tuple[int, str]]:
    values = rows[constraint.column]
    what = f"violates {constraint.sql}"
    bounds = least.cast(values.dtype)
    for offset, value, bound in zip(rows[ORDER], values, bounds, strict=True):
        yield offset, f"{what}: {value} came, {bound} is the least that may still come"


def order_marks(least: pl.DataFrame, frame: pl.DataFrame, high: int) -> Delta:
    """From instant t on, no element of the partition has a value of a column below the mark's: t is an instant that is
    later than all before it, so what is at or after it came with or after its record. `high` is the greatest instant
    before the rows of the frame; both frames are row by row. One mark is as good as many, but for how soon it is known.
    """
    instants = frame[FROM].to_numpy()
    before = np.maximum.accumulate(np.concatenate([[high], instants]))[:-1]
    known = least.select(pl.any_horizontal(pl.all().is_not_null())).to_series().to_numpy()
    later = np.flatnonzero((instants > before) & known)
    chosen = later[np.unique(np.linspace(0, len(later) - 1, min(_MARKS, len(later))).astype(np.int64))]
    ends, one = pl.lit(FOREVER, pl.Int64).alias(TO), pl.lit(1, pl.Int64).alias(WEIGHT)
    told = pl.concat([least[chosen], frame.select(FROM, ORDER)[chosen]], how="horizontal").with_columns(ends, one)
    return Delta(told.select(*least.columns, *RESERVED))
