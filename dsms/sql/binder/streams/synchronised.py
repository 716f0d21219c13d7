"""Binds synchronised relations: `R[Sync](S)` changes only at the points of a stream (SyncSQL section 3)."""

from __future__ import annotations

from functools import reduce

import pyarrow as pa
from sqlglot import exp

from dsms.model import logical
from dsms.model.objects import Query, Source
from dsms.model.position import position_of
from dsms.model.statements import TextLocation
from dsms.sql.binder.from_clause.catalog_relations import plan_of
from dsms.sql.binder.relation import Context, Relation, bind_relation
from dsms.sql.binder.streams.clock import clock_view, is_clock, view_tree
from dsms.sql.parser.nodes import SyncRelation
from dsms.sql.parser.table_names import name_and_place
from operators.expressions import Literal
from operators.sync.sync_points import Periodic
from operators.sync.with_clock import WithClock

_NUMBER = "stream"


def bind_synchronised(node: exp.Expr, context: Context) -> Relation:
    """The relation of the inner item as of the last point; empty before the first one.

    The points of a view over the clock are periodic; those of any other stream or view are the instants at which rows
    enter it. `R[A ∪ B](S)` has the points of both.
    """
    assert isinstance(node, SyncRelation)
    relation = bind_relation(node.this, context)
    points = _united([_points(table, context) for table in node.expressions])
    # every instant is a point of the clock itself
    return relation if points == Periodic(1) else relation.over(logical.Sync(relation.node, points))


def _united(points: list[Periodic | logical.Node]) -> Periodic | logical.Node:
    """The points of any of the streams. Events are told apart by the number of their stream, so that a row that enters
    one of them hides no row that leaves another."""
    clocks = [each for each in points if isinstance(each, Periodic)]
    events = [each for each in points if not isinstance(each, Periodic)]
    clock = reduce(lambda left, right: left | right, clocks) if clocks else None
    if not events or clock == Periodic(1):
        return clock or Periodic(1)
    streams = [logical.ToStream(each, "istream") for each in events]
    numbered = [
        logical.Project(stream, ((_NUMBER, Literal(number, pa.int64())),)) for number, stream in enumerate(streams)
    ]
    united = events[0] if len(events) == 1 else logical.Union(tuple(numbered))
    return united if clock is None else logical.Apply(united, WithClock(clock))


def _points(table: exp.Expr, context: Context) -> Periodic | logical.Node:
    assert isinstance(table, exp.Table)
    name, at = name_and_place(table)
    if is_clock(name):
        return Periodic(1)
    place, catalog = TextLocation(*position_of(at)), context.catalog
    context.on_name(name)
    stream = catalog.find(name, place)
    if isinstance(stream, Source):
        raise place.error(f'"{name}" is a source, not a stream', f"CREATE STREAM … OVER {name} KEY …")
    if isinstance(stream, Query) and stream.kind == "query":
        raise place.error(f'"{name}" is a query, not a view', "make it a view: CREATE STREAMED VIEW … AS …")
    if not isinstance(stream, Query) or stream.periodic is None:
        return plan_of(stream.name, catalog, context.text_given)
    view = clock_view(view_tree(stream), catalog)
    if view is None or view.outputs:
        raise place.error(f'"{stream.name}" is the current instant, not a synchronisation stream')
    return view.points
