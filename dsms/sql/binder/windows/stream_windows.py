"""Binds windows on streams in FROM: CQL's brackets, PIPES' WINDOW, and windows as table functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from dsms.model import logical
from dsms.model.position import error_at
from dsms.model.properties import append_only, keys, walk
from dsms.model.schema import schema
from dsms.sql.binder.expansion import expanded, misplaced_now
from dsms.sql.binder.from_clause.table_functions import bind_table_function
from dsms.sql.binder.relation import Context, Relation, bind_query, bind_relation
from dsms.sql.binder.scalars.expressions import bind_expression
from dsms.sql.binder.scalars.predicates import predicate
from dsms.sql.binder.streams.synchronised import bind_synchronised
from dsms.sql.binder.streams.to_stream import as_stream, bind_stream
from dsms.sql.binder.windows.window_lengths import instants_of, positive, rows_of
from dsms.sql.binder.windows.window_tables import bind_window_table
from dsms.sql.parser import nodes
from operators.core.errors import SqlError
from operators.expressions import Column, Literal, call, column
from operators.streams.tagger import TS
from operators.sync.sync_points import Periodic
from operators.windows.now_filter import NowRange
from operators.windows.ranged_window import RangedWindow


@bind_query.register
def _(query: nodes.WholeQuery, context: Context) -> Relation:
    """A whole query: its defaults are made explicit first."""
    tree = expanded(query.this, context.catalog)
    tree.parent = None
    try:
        return bind_query(tree, context)
    except SqlError as error:
        raise misplaced_now(error) from error


def bind_window(node: exp.Expr, context: Context) -> Relation:
    """The relation that a window derives from a stream. If the item is a relation, the window applies to the stream of
    the rows that enter it (CQL: windows apply to streams) or of the rows that it contains (PIPES). A `Where` inside the
    bracket filters the stream before the window."""
    relation = bind_relation(node.this, context)
    stream = as_stream(relation.node, node)
    if (where := node.args.get("where")) is not None:
        stream = logical.Filter(stream, predicate(where, relation.scope, "WHERE of a window"))
    partition = tuple(_column(key, relation).name for key in node.args.get("partition") or [])
    bind = _BY_KIND[node.args["kind"]]
    window = bind(node, relation.over(stream), (*_outer_columns(stream, context), *partition))
    if (granule := node.args.get("granularity")) is not None:
        return window.over(_at_granules(window.node, granule))
    return window


def _at_granules(window: logical.Node, granule: exp.Expr) -> logical.Node:
    """The window with a GRANULARITY (PIPES, chapter 20): validity begins and ends at multiples of the granule, so the
    window is exact at these. Raises SqlError unless the granule is a multiple of all granules below the window."""
    length = positive(granule, "GRANULARITY")
    finer = [below.points for below in walk(window) if isinstance(below, logical.Sync)]
    periods = [points.period for points in finer if isinstance(points, Periodic) and points.residues == (0,)]
    for period in periods:
        if length % period:
            message = f"the granularity {length} is not a multiple of {period}, the granularity of the window's input"
            raise error_at(granule, message, hint="use a multiple of the granularity of the input")
    return logical.Sync(window, Periodic(length))


def _outer_columns(stream: logical.Node, context: Context) -> tuple[str, ...]:
    """The outer columns of a correlated query: each of their bindings has its own window."""
    return tuple(name for name in context.outer_columns if name in schema(stream).names)


def _column(node: exp.Expr, relation: Relation) -> Column:
    bound = bind_expression(node, relation.scope)
    if not isinstance(bound, Column):
        raise error_at(node, "PARTITION BY of a window takes only columns")
    return bound


def _now(node: exp.Expr, stream: Relation, _: tuple[str, ...]) -> Relation:
    return stream.over(logical.TimeWindow(stream.node, 0))


def _range(node: exp.Expr, stream: Relation, _: tuple[str, ...]) -> Relation:
    """The time window; it is the same with and without partitions (CQL section 6.1.3)."""
    size, slide = node.args.get("size"), node.args.get("slide")
    step = 1 if slide is None else positive(slide, "SLIDE")
    if (least := node.args.get("least")) is not None:
        return _range_of_sizes(node, stream, least)
    if node.args["notation"] == "cql":
        return stream.over(logical.TimeWindow(stream.node, None if size is None else instants_of(size), step))
    # PIPES: a row is valid for w instants including its own; a slide a ends at a-1, 2a-1, …
    window = logical.TimeWindow(stream.node, None if size is None else positive(size, "RANGE") - 1)
    return stream.over(window if step == 1 else logical.Sync(window, Periodic(step, (step - 1,))))


def _range_of_sizes(node: exp.Expr, stream: Relation, least: exp.Expr) -> Relation:
    """A window whose size is chosen between two sizes. PIPES counts a row's own instant in a size, CQL does not."""
    if node.args.get("slide") is not None:
        raise error_at(node, "a window with a range of sizes cannot have a SLIDE")
    pipes = node.args["notation"] == "pipes"
    lengths = [positive(size, "RANGE") - 1 if pipes else instants_of(size) for size in (least, node.args["size"])]
    if lengths[0] > lengths[1]:
        raise error_at(node, "MIN of the window is greater than its MAX")
    return stream.over(logical.Apply(stream.node, RangedWindow("", lengths[0], lengths[1])))


def _rows(node: exp.Expr, stream: Relation, partition: tuple[str, ...]) -> Relation:
    size, slide, within = node.args.get("size"), node.args.get("slide"), node.args.get("within")
    step = 1 if slide is None else rows_of(slide, "SLIDE")
    if node.args.get("least") is not None:
        raise error_at(node, "a ROWS window cannot have a range of sizes", hint="write RANGE MIN … MAX …")
    if within is not None:
        return _rows_within(node, stream, partition, step)
    if size is None and step == 1:
        return stream.over(logical.TimeWindow(stream.node, None))
    if size is None:
        raise error_at(node, "ROWS UNBOUNDED cannot have a SLIDE")
    return stream.over(logical.RowWindow(stream.node, rows_of(size, "ROWS"), partition, step))


def _rows_within(node: exp.Expr, stream: Relation, partition: tuple[str, ...], step: int) -> Relation:
    """The last n rows of each partition that are at most T instants old: a row leaves at TS + T + 1 at the latest."""
    size, length = node.args.get("size"), instants_of(node.args["within"])
    if size is None:
        return stream.over(logical.TimeWindow(stream.node, length, step))
    below = schema(stream.node)
    visible = {entry.column.name for entry in stream.visible}
    if TS in visible:
        raise error_at(node, "a column named TS hides the instants of the stream", hint="rename it with AS")
    stamped = stream.node if TS in below.names else logical.Restamp(stream.node, node.alias_or_name)
    rows = logical.RowWindow(stamped, rows_of(size, "ROWS"), partition, step)
    ts = column(schema(stamped).field(TS))
    ends = call("add", ts, Literal(length + 1, ts.type))
    kept = logical.NowFilter(rows, (NowRange(upper=ends),))
    if TS in below.names:
        return stream.over(kept)
    return stream.over(logical.Project(kept, tuple((field.name, column(field)) for field in below)))


def _sample(node: exp.Expr, context: Context) -> Relation:
    """A sample of the records of a stream, of the keys of a keyed relation, or of the rows that enter any other
    subquery. After a time window it is a sample of the stream below the window."""
    relation, percent = bind_relation(node.this, context), float(node.args["percent"].name)
    if not 0 < percent <= 100:
        raise error_at(node.args["percent"], "Sample needs a percentage above 0 and at most 100")
    return relation.over(_sampled(relation.node, percent, node))


def _sampled(below: logical.Node, percent: float, at: exp.Expr) -> logical.Node:
    number = sum(isinstance(child, logical.Sample) for child in walk(below))
    if append_only(below):
        return logical.Sample(below, percent, (), number)
    if isinstance(below, logical.TimeWindow):
        return replace(below, input=_sampled(below.input, percent, at))
    if not (known := keys(below)):
        if isinstance(at.this, exp.Subquery):
            return logical.Sample(logical.ToStream(below, "istream"), percent, (), number)
        raise error_at(at, "Sample needs a stream or a relation with a key", hint="write it before the window")
    return logical.Sample(below, percent, known, number)


_BY_KIND: dict[str, Callable[[exp.Expr, Relation, tuple[str, ...]], Relation]] = {
    "now": _now,
    "range": _range,
    "rows": _rows,
}

#: Binds the items of FROM other than names, queries and values, by the class of their nodes.
FROM_ITEM_BINDERS: dict[type[exp.Expr], Callable[[exp.Expr, Context], Relation]] = {
    nodes.StreamWindow: bind_window,
    nodes.WindowTable: bind_window_table,
    nodes.TableFunction: bind_table_function,
    nodes.SyncRelation: bind_synchronised,
    nodes.StreamOf: bind_stream,
    nodes.StreamSample: _sample,
}
