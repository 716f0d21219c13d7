"""Binds UNION, EXCEPT, INTERSECT, parenthesised queries and VALUES."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

import polars as pl
import pyarrow as pa
from sqlglot import exp

from dsms.model import logical
from dsms.model.position import error_at, not_supported
from dsms.model.schema import schema
from dsms.sql.binder.query.by_name import matched_by_name
from dsms.sql.binder.query.order_and_limit import limit_of, order_of, ordinal, sort_key, value_of
from dsms.sql.binder.relation import Context, Relation, bind_query, with_common_tables
from dsms.sql.binder.scalars.conditions import extended, own_columns, select_columns
from dsms.sql.binder.scalars.expressions import bind_expression
from dsms.sql.binder.scope import Entry, Scope
from dsms.sql.binder.streams.stream_unions import merged_streams, unites_streams
from operators.core.errors import UserError
from operators.expressions import (
    LONGEST_CONSTANT,
    Column,
    Expression,
    Literal,
    call,
    calls_user_function,
    coerce,
    column,
    evaluate,
    type_name,
)

_ONE_ROW = pl.DataFrame({"": [0]})


@bind_query.register
def _(query: exp.Subquery, context: Context) -> Relation:
    """A parenthesised query with ORDER BY and LIMIT after the parentheses."""
    inside = with_common_tables(query, context)
    return _limited(bind_query(query.this, inside), query, inside)


@bind_query.register
def _(query: exp.SetOperation, context: Context) -> Relation:
    by_name = bool(query.args.get("by_name"))
    for part in ("by_name", "side", "on"):
        if query.args.get(part) and not (part == "by_name" and isinstance(query, exp.Union)):
            construct = f"{query.key.upper()} {part.upper().replace('_', ' ')}"
            raise not_supported(query, construct, "leave it out, and list the columns in the same order")
    inside = with_common_tables(query, context)
    sides = replace(inside, shown_to_users=False)
    written = bind_query(query.left, sides), bind_query(query.right, sides)
    left, right = matched_by_name(query, *written, context) if by_name else written
    if len(left.visible) != len(right.visible):
        message = f"the sides of {query.key.upper()} have {len(left.visible)} and {len(right.visible)} columns"
        raise error_at(query.right, message)
    types = [_common(query, *pair) for pair in zip(left.visible, right.visible, strict=True)]
    names = _names(left, query, context)
    inputs = [_cast_to(side, types, names, context) for side in (left, right)]
    node = _combined(query, *inputs)
    if isinstance(node, logical.Distinct) and unites_streams(query, written, inside):
        node = merged_streams(logical.Union((*_branches(inputs[0]), *_branches(inputs[1]))))
    fields = {field.name: field for field in schema(node)}
    entries = tuple(
        Entry(None, entry.name, Column(name, fields[name].type, fields[name].nullable))
        for entry, name in zip(left.visible, names, strict=True)
    )
    scope = replace(Scope.of(entries, context.outer), fields=schema(node))
    return _limited(Relation(node, scope, entries), query, inside)


def _names(left: Relation, query: exp.Expr, context: Context) -> list[str]:
    names = [entry.column.name for entry in left.visible]
    if context.shown_to_users and any(entry.column.name != entry.name for entry in left.visible):
        twice = next(entry.name for entry in left.visible if entry.column.name != entry.name)
        raise error_at(query, f'two columns are named "{twice}"', hint="rename one with AS")
    return names


def _common(query: exp.Expr, left: Entry, right: Entry) -> pa.DataType:
    """The type that both columns are widened to."""
    if left.column.type == right.column.type:
        return left.column.type
    try:
        return call("coalesce", left.column, right.column).type
    except UserError as error:
        types = " and ".join(type_name(entry.column.type) for entry in (left, right))
        message = f'column "{left.name}" of {query.key.upper()} has no common type: {types}'
        raise error_at(query.args["expression"], message) from error


def _cast_to(relation: Relation, types: Sequence[pa.DataType], names: Sequence[str], context: Context) -> logical.Node:
    """The plan of a side with the names and types of the result."""
    fields = schema(relation.node)
    outer = [(name, column(fields.field(name))) for name in context.outer_columns]
    columns = zip(relation.visible, types, names, strict=True)
    values = [(name, coerce(entry.column, type_)) for entry, type_, name in columns]
    outputs = (*outer, *values)
    return relation.node if outputs == own_columns(relation.node) else logical.Project(relation.node, outputs)


def _combined(query: exp.SetOperation, left: logical.Node, right: logical.Node) -> logical.Node:
    is_distinct = query.args.get("distinct") is not False
    if isinstance(query, exp.Union):
        inputs = (*_branches(left), *_branches(right))
        return logical.Distinct(logical.Union(inputs)) if is_distinct else logical.Union(inputs)
    if isinstance(query, exp.Except):
        return logical.SetOperation(left, right, "except" if is_distinct else "except_all")
    return logical.SetOperation(left, right, "intersect" if is_distinct else "intersect_all")


def _branches(node: logical.Node) -> tuple[logical.Node, ...]:
    return node.inputs if isinstance(node, logical.Union) else (node,)


def _limited(relation: Relation, query: exp.Expr, context: Context) -> Relation:
    """The first rows of a result in the order of ORDER BY."""
    limit, items = limit_of(query), order_of(query)
    values: list[Expression] = []
    for item in items:
        at = ordinal(item, len(relation.visible))
        values.append(bind_expression(value_of(item), relation.scope) if at is None else relation.visible[at].column)
    if limit.is_all:
        return relation
    names = schema(relation.node).names
    node, columns = extended(relation.node, [(f"__o{at}", value) for at, value in enumerate(values)])
    keys = tuple(sort_key(item, column.name) for item, column in zip(items, columns, strict=True))
    return relation.over(select_columns(limit.applied_to(node, context.outer_columns, keys), names))


@bind_query.register
def _(query: exp.Values, context: Context) -> Relation:
    rows = [tuple(bind_expression(cell, Scope.of(())) for cell in _cells(row)) for row in query.expressions]
    if len({len(row) for row in rows}) != 1:
        raise error_at(query, "the rows of VALUES differ in length")
    columns = [_column(cells, query) for cells in zip(*rows, strict=True)]
    fields = pa.schema(
        [pa.field(f"column{at}", type_, None in values) for at, (type_, values) in enumerate(columns, 1)]
    )
    node: logical.Node = logical.Values(fields, tuple(zip(*[values for _, values in columns], strict=True)))
    entries = tuple(Entry(None, field.name, Column(field.name, field.type, field.nullable)) for field in fields)
    if context.domain is not None:
        node = logical.Join(context.domain, node, ())
    return Relation(node, replace(Scope.of(entries, context.outer), fields=schema(node)), entries)


def _cells(row: exp.Expr) -> list[exp.Expr]:
    return list(row.expressions) if isinstance(row, exp.Tuple) else [row]


def _column(cells: tuple[Expression, ...], query: exp.Expr) -> tuple[pa.DataType, list[Hashable]]:
    """The common type of the cells of a column, and their values."""
    try:
        type_ = call("coalesce", *cells).type if len(cells) > 1 else cells[0].type
        return type_, [_value(coerce(cell, type_), query) for cell in cells]
    except UserError as error:
        raise error_at(query, error.message, hint=error.hint) from error


def _value(cell: Expression, query: exp.Expr) -> Hashable:
    if isinstance(cell, Literal):
        return cell.value
    if calls_user_function(cell):
        raise error_at(query, "VALUES cannot call a function written in Python")
    values, faults = evaluate(_ONE_ROW, {"value": cell}, LONGEST_CONSTANT)
    if faults[0] is not None:
        raise error_at(query, str(faults[0]))
    return _frozen(values["value"][0])


def _frozen(value: object) -> Hashable:
    if isinstance(value, pl.Series | list):
        return tuple(_frozen(element) for element in value)
    if isinstance(value, dict):
        return tuple(_frozen(element) for element in value.values())
    assert isinstance(value, Hashable)
    return value
