"""Binds UNNEST and generate_series in FROM: the elements of an array or the numbers of a range, for each row of the
items before them."""

from __future__ import annotations

from typing import Any, cast

import pyarrow as pa
from sqlglot import exp

from dsms.model import logical
from dsms.model.position import error_at, not_supported
from dsms.model.schema import schema
from dsms.sql.binder.from_clause.from_items import one_row
from dsms.sql.binder.from_clause.join_clause import JoinClause
from dsms.sql.binder.scalars.conditions import extended, own_columns, unique_name
from dsms.sql.binder.scalars.expressions import bind_expression
from dsms.sql.binder.scope import Entry, Scope, free_names
from operators.expressions import Column, Expression, Literal, call, type_name
from operators.table_functions.series import Series

#: The nodes of items that return several rows for each row of the items before them.
Exploding = exp.Unnest | exp.ExplodingGenerateSeries


def exploding(table: exp.Expr) -> Exploding | None:
    """The UNNEST or generate_series of an item of FROM; None for every other item."""
    inner = table.this if isinstance(table, exp.Lateral) else table
    return inner if isinstance(inner, Exploding) else None


def exploded(
    item: Exploding, join: JoinClause, left: logical.Node | None, scope: Scope
) -> tuple[logical.Node, tuple[Entry, ...]]:
    """The rows of `left`, each repeated for each element or number, and the entries of the columns that this adds."""
    if isinstance(item, exp.Unnest) and item.args.get("offset"):
        return _numbered(item, join, left, scope)
    bound = unnested(item, join, left, scope) if isinstance(item, exp.Unnest) else _series(item, join, left, scope)
    node, entry = bound
    return node, (entry,)


def unnested(
    array: exp.Unnest, join: JoinClause, left: logical.Node | None, scope: Scope
) -> tuple[logical.Node, Entry]:
    """The rows of `left`, each repeated for each element of the array, and the entry of the element."""
    value = _array(array, join, scope)
    node, (column,) = extended(one_row().node if left is None else left, [("__u", value)])
    alias = join.table.alias or "unnest"
    name = (list(join.table.alias_column_names) or [alias])[0]
    column_name = free_names([name], schema(node).names, alias)[name]
    entry = Entry(alias, name, Column(column_name, cast(Any, value.type).value_type, True))
    return logical.Unnest(node, column.name, column_name, join.outer == "left"), entry


def _numbered(
    array: exp.Unnest, join: JoinClause, left: logical.Node | None, scope: Scope
) -> tuple[logical.Node, tuple[Entry, ...]]:
    """UNNEST WITH ORDINALITY: the rows of `left`, each repeated for each position of the array, from 1, and the entries
    of the element and of the position."""
    node, values = _positions(_array(array, join, scope), join.outer == "left", left)
    alias, offset = join.table.alias or "unnest", array.args["offset"]
    names = [(list(join.table.alias_column_names) or [alias])[0], offset.name if offset is not True else "ordinality"]
    if names[0].casefold() == names[1].casefold():
        raise error_at(array, f'two columns of UNNEST are named "{names[0]}"')
    free = free_names(names, schema(node).names, alias)
    outputs = [(free[name], value) for name, value in zip(names, values, strict=True)]
    entries = [
        Entry(alias, name, Column(free[name], value.type, value.nullable))
        for name, value in zip(names, values, strict=True)
    ]
    return logical.Project(node, (*own_columns(node), *outputs)), tuple(entries)


def _positions(
    array: Expression, padded: bool, left: logical.Node | None
) -> tuple[logical.Node, tuple[Expression, Expression]]:
    """The rows of `left`, each repeated for each position of an array, with the element and the position. If `padded`,
    a row whose array has no elements is kept once, with NULL for both."""
    zero, one = Literal(0, pa.int64()), Literal(1, pa.int64())
    length = call("coalesce", call("cardinality", array), zero)
    high = call("greatest", length, one) if padded else length
    given: list[tuple[str, Expression]] = [("__u", array), ("__low", one), ("__high", high)]
    node, (elements, low, last) = extended(one_row().node if left is None else left, given)
    at = Column(unique_name("__at", schema(node).names), pa.int64(), False)
    exists = call("less_or_equal", at, call("coalesce", call("cardinality", elements), zero))
    number = call("case", exists, at, Literal(None, pa.int64())) if padded else at
    return logical.Apply(node, Series(low.name, last.name, 1, at.name)), (call("subscript", elements, at), number)


def _series(
    series: exp.ExplodingGenerateSeries, join: JoinClause, left: logical.Node | None, scope: Scope
) -> tuple[logical.Node, Entry]:
    """The rows of `left`, each repeated for each number from a start to an end, and the entry of the number."""
    if join.outer != "none" or join.using or join.natural or join.on is not None:
        raise not_supported(series, "this join of generate_series", "CROSS JOIN generate_series(…)")
    bounds = [bind_expression(series.args[name], scope) for name in ("start", "end")]
    step = bind_expression(series.args["step"], scope) if series.args.get("step") else Literal(1, pa.int32())
    if not all(pa.types.is_integer(bound.type) for bound in bounds):
        raise error_at(series, "generate_series needs two integers, and a positive integer as its step")
    if not (isinstance(step, Literal) and isinstance(step.value, int) and step.value > 0):
        raise error_at(series, "the step of generate_series must be a positive integer")
    values = list(zip(("__low", "__high"), bounds, strict=True))
    node, (low, high) = extended(one_row().node if left is None else left, values)
    alias = join.table.alias or "generate_series"
    name = (list(join.table.alias_column_names) or [alias])[0]
    column_name = free_names([name], schema(node).names, alias)[name]
    applied = logical.Apply(node, Series(low.name, high.name, step.value, column_name))
    return applied, Entry(alias, name, Column(column_name, pa.int64(), False))


def _array(array: exp.Unnest, join: JoinClause, scope: Scope) -> Expression:
    """The array of an UNNEST. Raises SqlError for a value of another type, and for joins that are not supported."""
    if len(array.expressions) != 1:
        raise not_supported(array, "UNNEST of several arrays")
    is_true = isinstance(join.on, exp.Boolean) and join.on.this
    if join.outer in ("right", "full") or join.using or join.natural or (join.outer == "left" and not is_true):
        raise not_supported(array, "this join of UNNEST", "CROSS JOIN UNNEST(…), LEFT JOIN UNNEST(…) ON TRUE")
    value = bind_expression(array.expressions[0], scope)
    if not pa.types.is_list(value.type):
        raise error_at(array, f"UNNEST needs an array, not {type_name(value.type)}")
    return value
