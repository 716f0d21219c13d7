"""Binds UNNEST and generate_series in FROM: the elements of an array or the numbers of a range, for each row of the
items before them."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from dsms.model import logical
from dsms.model.position import error_at, not_supported
from dsms.model.schema import schema
from dsms.sql.binder.from_clause.from_items import one_row
from dsms.sql.binder.from_clause.join_clause import JoinClause
from dsms.sql.binder.scalars.conditions import extended
from dsms.sql.binder.scalars.expressions import bind_expression
from dsms.sql.binder.scope import Entry, Scope, free_names
from operators.expressions import Column, Literal, type_name
from operators.table_functions.series import Series

#: The nodes of items that return several rows for each row of the items before them.
Exploding = exp.Unnest | exp.ExplodingGenerateSeries


def exploding(table: exp.Expr) -> Exploding | None:
    """The UNNEST or generate_series of an item of FROM; None for every other item."""
    inner = table.this if isinstance(table, exp.Lateral) else table
    return inner if isinstance(inner, Exploding) else None


def exploded(item: Exploding, join: JoinClause, left: logical.Node | None, scope: Scope) -> tuple[logical.Node, Entry]:
    """The rows of `left`, each repeated for each element or number, and the entry of that element or number."""
    return unnested(item, join, left, scope) if isinstance(item, exp.Unnest) else _series(item, join, left, scope)


def unnested(
    array: exp.Unnest, join: JoinClause, left: logical.Node | None, scope: Scope
) -> tuple[logical.Node, Entry]:
    """The rows of `left`, each repeated for each element of the array, and the entry of the element."""
    _check(array, join)
    value = bind_expression(array.expressions[0], scope)
    if not pa.types.is_list(value.type):
        raise error_at(array, f"UNNEST needs an array, not {type_name(value.type)}")
    node, (column,) = extended(one_row().node if left is None else left, [("__u", value)])
    alias = join.table.alias or "unnest"
    name = (list(join.table.alias_column_names) or [alias])[0]
    column_name = free_names([name], schema(node).names, alias)[name]
    entry = Entry(alias, name, Column(column_name, value.type.value_type, True))
    return logical.Unnest(node, column.name, column_name, join.outer == "left"), entry


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


def _check(array: exp.Unnest, join: JoinClause) -> None:
    if array.args.get("offset"):
        raise not_supported(array, "UNNEST WITH ORDINALITY", "generate_series(1, CARDINALITY(a)) AS g(i), and a[i]")
    if len(array.expressions) != 1:
        raise not_supported(array, "UNNEST of several arrays")
    is_true = isinstance(join.on, exp.Boolean) and join.on.this
    if join.outer in ("right", "full") or join.using or join.natural or (join.outer == "left" and not is_true):
        raise not_supported(array, "this join of UNNEST", "CROSS JOIN UNNEST(…), LEFT JOIN UNNEST(…) ON TRUE")
