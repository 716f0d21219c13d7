"""The relations of views over the clock at an instant, which no query computes (SyncSQL sections 3.2 and 3.3)."""

from __future__ import annotations

from typing import Final

import polars as pl
import pyarrow as pa

from dsms.model.catalog import Catalog
from dsms.model.objects import Query
from dsms.sql.binder.scalars.expressions import bind_expression
from dsms.sql.binder.scope import Scope
from dsms.sql.binder.streams.clock import TIMEPOINT, ClockView, clock_schema, clock_view, view_tree
from operators.core.errors import UserError
from operators.expressions import LONGEST_CONSTANT, Column, evaluate
from operators.sync.sync_points import Periodic

_MAX_POINTS: Final = 1_000_000


def clock_rows(view: Query, instant: int, catalog: Catalog) -> pa.Table:
    """The rows of a view over the clock: the points from 0 to `instant`, or one row with the last of them. Raises
    UserError if they are too many."""
    defined = clock_view(view_tree(view), catalog)
    assert defined is not None, "a view over the clock"
    schema, _ = clock_schema(view, catalog)
    if not defined.outputs:
        _check_count(view.name, defined.points, instant)
        return pa.table([defined.points.points(0, instant + 1)], schema=schema)
    return _last_point(defined, instant, schema)


def _check_count(name: str, points: Periodic, instant: int) -> None:
    count = points.count(0, instant + 1)
    if count > _MAX_POINTS:
        raise UserError(
            f'"{name}" has {count:,} points up to instant {instant}, and at most {_MAX_POINTS:,} can be listed',
            hint=f"list the points of a range: SELECT … FROM generate_series(first, last, {points.period})",
        )


def _last_point(view: ClockView, instant: int, schema: pa.Schema) -> pa.Table:
    """The constants of the view and the last point; no row before the first point."""
    last = view.points.points(max(0, instant + 1 - view.points.period), instant + 1)[-1:]
    point, empty = Column(TIMEPOINT, pa.int64()), Scope(pa.schema([]))
    columns = {name: point if constant is None else bind_expression(constant, empty) for name, constant in view.outputs}
    values, _ = evaluate(pl.DataFrame({TIMEPOINT: last}), columns, LONGEST_CONSTANT)
    return values.to_arrow().cast(schema)
