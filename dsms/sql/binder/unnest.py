"""UNNEST in FROM: the elements of an array, for each row of the items before it."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from dsms.model import logical
from dsms.model.position import error_at
from dsms.model.schema import schema
from dsms.sql.binder.conditions import extended
from dsms.sql.binder.expressions import bind_expression
from dsms.sql.binder.from_items import one_row
from dsms.sql.binder.join_clause import Clause
from dsms.sql.binder.relation import refusal
from dsms.sql.binder.scope import Entry, Scope, free_names
from operators.expressions import Column, type_name


def array_of(table: exp.Expr) -> exp.Unnest | None:
    """The UNNEST of an item of FROM; None for every other item."""
    inner = table.this if isinstance(table, exp.Lateral) else table
    return inner if isinstance(inner, exp.Unnest) else None


def unnested(array: exp.Unnest, join: Clause, left: logical.Node | None, scope: Scope) -> tuple[logical.Node, Entry]:
    """The rows of `left`, each once for each element, and the name of the element."""
    _check(array, join)
    value = bind_expression(array.expressions[0], scope)
    if not pa.types.is_list(value.type):
        raise error_at(array, f"UNNEST needs an array, not {type_name(value.type)}")
    node, (column,) = extended(one_row().node if left is None else left, [("__u", value)])
    alias = join.table.alias or "unnest"
    name = (list(join.table.alias_column_names) or [alias])[0]
    frame_name = free_names([name], schema(node).names, alias)[name]
    entry = Entry(alias, name, Column(frame_name, value.type.value_type, True))
    return logical.Unnest(node, column.name, frame_name, join.outer == "left"), entry


def _check(array: exp.Unnest, join: Clause) -> None:
    if array.args.get("offset"):
        raise refusal(array, "UNNEST WITH ORDINALITY")
    if len(array.expressions) != 1:
        raise refusal(array, "UNNEST of several arrays")
    is_true = isinstance(join.on, exp.Boolean) and join.on.this
    if join.outer in ("right", "full") or join.using or join.natural or (join.outer == "left" and not is_true):
        raise refusal(array, "this join of UNNEST", "CROSS JOIN UNNEST(…), LEFT JOIN UNNEST(…) ON TRUE")
