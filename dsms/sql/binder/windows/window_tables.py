"""Binds SQL's windows as table functions: TUMBLE, HOP, CUMULATE and SESSION over a column of instants, timestamps or
dates."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from dsms.model import logical
from dsms.model.position import error_at
from dsms.model.schema import WINDOW_COLUMNS, schema
from dsms.sql.binder.relation import Context, Relation, bind_relation
from dsms.sql.binder.scalars.expressions import bind_expression
from dsms.sql.binder.scope import Entry
from dsms.sql.binder.windows.window_lengths import instants_of, is_bare, positive
from dsms.sql.parser.nodes import WindowTable
from operators.expressions import Column, type_name
from operators.expressions import column as column_of


def bind_window_table(node: exp.Expr, context: Context) -> Relation:
    """The relation with `window_start` and `window_end`; a row is repeated for each window that contains it."""
    assert isinstance(node, WindowTable)
    relation = bind_relation(node.this, context)
    if taken := [entry for entry in relation.visible if entry.name.lower() in WINDOW_COLUMNS]:
        raise error_at(node, f'the relation already has a column "{taken[0].name}"', hint="rename it with AS")
    column = _time_column(node.args["column"], relation)
    for span in node.expressions:
        if is_bare(span) and not pa.types.is_integer(column.type):
            raise error_at(span, f"the length of a window over a {type_name(column.type)} must be an INTERVAL")
    if node.args["function"] == "session":
        return _with_windows(relation, _session(node, relation, column, context))
    return _with_windows(relation, _assign(node, relation.node, column))


def _time_column(node: exp.Expr, relation: Relation) -> Column:
    bound = bind_expression(node, relation.scope)
    moment = pa.types.is_timestamp(bound.type) or pa.types.is_date(bound.type)
    if not isinstance(bound, Column) or not (moment or pa.types.is_int64(bound.type)):
        kind = type_name(bound.type)
        raise error_at(node, f"DESCRIPTOR needs a column of type BIGINT, TIMESTAMP or DATE, not {kind}")
    return bound


def _session(node: exp.Expr, relation: Relation, column: Column, context: Context) -> logical.Session:
    if len(node.expressions) > 1:
        raise error_at(node.expressions[1], "SESSION takes no offset")
    keys = [bind_expression(key, relation.scope) for key in node.args.get("partition") or []]
    for key, at in zip(keys, node.args.get("partition") or [], strict=True):
        if not isinstance(key, Column):
            raise error_at(at, "PARTITION BY of SESSION takes only columns")
    outer = tuple(name for name in context.outer_columns if name in schema(relation.node).names)
    partition = (*outer, *(key.name for key in keys if isinstance(key, Column)))
    return logical.Session(relation.node, column.name, positive(node.expressions[0], "the gap"), partition)


def _assign(node: exp.Expr, below: logical.Node, column: Column) -> logical.Assign:
    function, spans = node.args["function"], node.expressions
    if node.args.get("partition"):
        raise error_at(node, f"{function.upper()} takes no PARTITION BY", hint="only SESSION takes one")
    slide = positive(spans[0], "the length")
    size = slide if function == "tumble" else positive(spans[1], "the length")
    rest = spans[1:] if function == "tumble" else spans[2:]
    if function == "cumulate" and size % slide:
        raise error_at(spans[1], "the size of CUMULATE must be a multiple of its step")
    offset = instants_of(rest[0]) if rest else 0
    return logical.Assign(below, "cumulate" if function == "cumulate" else "hop", column.name, size, slide, offset)


def _with_windows(relation: Relation, node: logical.Assign | logical.Session) -> Relation:
    """The columns of the relation, then the bounds of the window."""
    fields = schema(node)
    bounds = tuple(Entry(relation.scope.alias, name, column_of(fields.field(name))) for name in WINDOW_COLUMNS)
    scope = replace(relation.scope, fields=fields, entries=(*relation.scope.entries, *bounds))
    return Relation(node, scope, (*relation.visible, *bounds))
