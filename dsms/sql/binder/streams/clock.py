"""Views over the clock `clockStr`: synchronisation streams (SyncSQL section 3.2), and the current instant as a view
(section 3.3). They are computed by arithmetic on instants, without a running dataflow."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from dsms.model.catalog import Catalog
from dsms.model.objects import Query
from dsms.model.position import error_at
from dsms.sql.binder.scalars.expressions import bind_expression
from dsms.sql.binder.scope import Scope
from dsms.sql.binder.streams.clock_predicates import points_where
from dsms.sql.parser.queries import parse_query
from dsms.sql.parser.table_names import name_of
from operators.core.errors import SqlError
from operators.sync.sync_points import Periodic

CLOCK = "clockStr"
TIMEPOINT = "Timepoint"
_PARTS = {"expressions", "from_", "where", "distinct"}


@dataclass(frozen=True)
class ClockView:
    """A synchronisation stream with these points or, with `outputs`, a view of the last point. `outputs` has the name
    of each column and its constant, or None for the last point itself."""

    points: Periodic
    outputs: tuple[tuple[str, exp.Expr | None], ...] = ()


def is_clock(name: str) -> bool:
    """Whether a name is the name of the clock."""
    return name.lower() == CLOCK.lower()


def reads_clock(query: exp.Expr, catalog: Catalog) -> bool:
    """Whether a query reads nothing but the clock and synchronisation streams over it."""
    tables = list(query.find_all(exp.Table))
    return bool(tables) and all(_is_of_clock(table, catalog) for table in tables)


def _is_of_clock(table: exp.Table, catalog: Catalog) -> bool:
    if not isinstance(table.this, exp.Identifier | exp.Anonymous):
        return False
    name = name_of(table)
    view = catalog.get(name)
    return is_clock(name) or (isinstance(view, Query) and view.periodic is not None)


def clock_view(query: exp.Expr, catalog: Catalog) -> ClockView | None:
    """The view that a query over the clock defines; None for every other query. Raises SqlError.

    >>> from dsms.sql.parser.queries import parse_query
    >>> clock_view(parse_query("SELECT Timepoint FROM R(clockStr) WHERE Timepoint mod 2 = 0"), Catalog())
    ClockView(points=Periodic(period=2, residues=(0,)), outputs=())
    """
    if not reads_clock(query, catalog):
        return None
    outputs = _last_point(query) if isinstance(query, exp.Select) else ()
    if not outputs:
        return ClockView(_points(query, catalog))
    assert isinstance(query, exp.Select)
    return ClockView(_points_of_select(query, catalog), outputs)


def points_alone(query: exp.Expr) -> SqlError:
    """The refusal of a continuous query that reads nothing but points."""
    read = next(map(name_of, query.find_all(exp.Table)))
    hint = (
        "make it a view and read a relation at its points: R[Sync](S)"
        if is_clock(read)
        else f"read a relation at its points: R[{read}](S); or its points once: SELECT … FROM {read}"
    )
    return error_at(query, f'a query over "{read}" alone would list every point', hint=hint)


def view_tree(view: Query) -> exp.Expr:
    """The parsed query of a view."""
    return parse_query(view.select)


def clock_schema(view: Query, catalog: Catalog) -> tuple[pa.Schema, tuple[str, ...]]:
    """The columns and the key of a view over the clock."""
    of_clock = clock_view(view_tree(view), catalog)
    if of_clock is None or not of_clock.outputs:
        return pa.schema([pa.field(TIMEPOINT, pa.int64(), nullable=False)]), (TIMEPOINT,)
    empty = Scope(pa.schema([]))
    kinds = [
        (name, pa.int64() if constant is None else bind_expression(constant, empty).type)
        for name, constant in of_clock.outputs
    ]
    keys = tuple(name for name, constant in of_clock.outputs if constant is not None)
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in kinds]), keys


def _points(query: exp.Expr, catalog: Catalog) -> Periodic:
    match query:
        case exp.Subquery():
            return _points(query.this, catalog)
        case exp.Union():
            return _points(query.this, catalog) | _points(query.expression, catalog)
        case exp.Intersect():
            return _common(_points(query.this, catalog), _points(query.expression, catalog), query)
        case exp.Except():
            return _left(_points(query.this, catalog), _points(query.expression, catalog), query)
        case exp.Select():
            _check_columns(query)
            return _points_of_select(query, catalog)
    raise _refusal(query)


def _common(left: Periodic, right: Periodic, at: exp.Expr) -> Periodic:
    try:
        return left & right
    except ValueError as error:
        raise error_at(at, "the synchronisation stream has no points") from error


def _left(points: Periodic, removed: Periodic, at: exp.Expr) -> Periodic:
    try:
        return points - removed
    except ValueError as error:
        raise error_at(at, "the synchronisation stream has no points") from error


def _points_of_select(query: exp.Select, catalog: Catalog) -> Periodic:
    source = query.args.get("from_")
    if source is None or any(value and part not in _PARTS for part, value in query.args.items()):
        raise _refusal(query)
    points = _points_of_item(source.this, catalog)
    where = query.args.get("where")
    if where is None:
        return points
    chosen = points_where(where.this, TIMEPOINT)
    if chosen is None:
        raise error_at(where.this, "the synchronisation stream has no points")
    return points if chosen == Periodic(1) else chosen if points == Periodic(1) else _common(points, chosen, where)


def _points_of_item(item: exp.Expr, catalog: Catalog) -> Periodic:
    if isinstance(item, exp.Subquery):
        return _points(item, catalog)
    if not isinstance(item, exp.Table):
        raise _refusal(item)
    name = name_of(item)
    if is_clock(name):
        return Periodic(1)
    stream = catalog.find(name)
    assert isinstance(stream, Query)
    assert stream.periodic is not None
    if (view := clock_view(view_tree(stream), catalog)) is not None and view.outputs:
        raise error_at(item, f'"{stream.name}" is the current instant, not a synchronisation stream')
    return Periodic(*stream.periodic)


def _check_columns(query: exp.Select) -> None:
    """Raises SqlError unless the only column is Timepoint."""
    shown = [item.unnest() for item in query.expressions]
    if len(shown) == 1 and (shown[0].is_star or _is_timepoint(shown[0])):
        return
    hint = f"select {TIMEPOINT}, or a constant and MAX({TIMEPOINT}) for the current instant"
    raise error_at(query.expressions[0], "a stream over the clock has only one column", hint=hint)


def _is_timepoint(node: exp.Expr) -> bool:
    if isinstance(node, exp.Alias):
        return node.alias.lower() == TIMEPOINT.lower() and _is_timepoint(node.this)
    return isinstance(node, exp.Column) and node.name.lower() == TIMEPOINT.lower()


def _last_point(query: exp.Select) -> tuple[tuple[str, exp.Expr | None], ...]:
    """The columns of `SELECT 1 AS KEY, MAX(Timepoint) AS currTime`; () for every other select list."""
    columns: list[tuple[str, exp.Expr | None]] = []
    for number, node in enumerate(query.expressions, 1):
        name = node.alias or f"column{number}"
        value = node.this if isinstance(node, exp.Alias) else node
        is_last = isinstance(value, exp.Max) and _is_timepoint(value.this)
        if not is_last and not isinstance(value, exp.Literal):
            return ()
        columns.append((name, None if is_last else value))
    return tuple(columns) if any(value is None for _, value in columns) else ()


def _refusal(node: exp.Expr) -> SqlError:
    known = f"SELECT {TIMEPOINT} FROM R({CLOCK}) WHERE mod({TIMEPOINT}, n) = m"
    hint = f"have: {known}, and unions, intersections and differences"
    return error_at(node, f'"{node.key.upper()}" is not supported in a stream over the clock', hint=hint)
