"""Checks the constraints on the order of a source's records.

Records that violate a constraint are refused. The lower bounds of ordered columns are sent to the operators as marks,
so that they can drop state.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from dsms.model.declared_columns import Constraint
from dsms.model.objects import Source
from operators.core.delta import FOREVER, FROM, ORDER, RESERVED, TO, WEIGHT, Delta
from operators.core.ordering import Ordering, physical_distance

#: The most marks for the records of one batch.
_MARKS = 16


@dataclass(frozen=True)
class Checked:
    """`keeps` is, row by row, whether the row satisfies all constraints; `reasons` has the offset and the reason of
    each refused row. `least` has, row by row and for each ordered column, the lower bound that holds at the row.
    `orders` are the states of the constraints after all rows."""

    keeps: np.ndarray
    reasons: tuple[tuple[int, str], ...]
    least: pl.DataFrame
    orders: tuple[Ordering, ...]


def check_order(source: Source, frame: pl.DataFrame, orders: tuple[Ordering, ...]) -> Checked:
    """Checks the rows of a partition against the source's order constraints; `orders` are the states before them.

    The law: whether a row is refused depends only on the rows before it in the log of its partition.
    """
    keeps, reasons = np.ones(frame.height, np.bool_), dict[int, str]()
    least, after = list[pl.Series](), list[Ordering]()
    orders_before = orders or tuple(Ordering() for _ in source.ordered)
    for constraint, order in zip(source.ordered, orders_before, strict=True):
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
        yield offset, f"{what}: the value {value} is below {bound}, the least value still allowed"


def order_marks(least: pl.DataFrame, frame: pl.DataFrame, high: int) -> Delta:
    """The marks: from the instant of a mark on, no element of the partition has a column value below that of the mark.

    A mark is set at a row whose instant is greater than all before it: elements at or after that instant arrived with
    the row or later, so the bounds at the row hold for them. `least` and `frame` correspond row by row; `high` is the
    greatest instant before them. The last mark implies the others, which only make the bounds known earlier.
    """
    instants = frame[FROM].to_numpy()
    before = np.maximum.accumulate(np.concatenate([[high], instants]))[:-1]
    known = least.select(pl.any_horizontal(pl.all().is_not_null())).to_series().to_numpy()
    later = np.flatnonzero((instants > before) & known)
    chosen = later[np.unique(np.linspace(0, len(later) - 1, min(_MARKS, len(later))).astype(np.int64))]
    ends, once = pl.lit(FOREVER, pl.Int64).alias(TO), pl.lit(1, pl.Int64).alias(WEIGHT)
    marks = pl.concat([least[chosen], frame.select(FROM, ORDER)[chosen]], how="horizontal").with_columns(ends, once)
    return Delta(marks.select(*least.columns, *RESERVED))
