"""The value of a scalar subquery that aggregates no rows: 0 for a count, NULL for other aggregates."""

from __future__ import annotations

from sqlglot import exp

from dsms.sql.binder.aggregates.aggregate_calls import aggregate_call
from operators.expressions import Column, Expression, call
from operators.expressions import Literal as Constant

_STRICT_NODES = exp.Add | exp.Sub | exp.Mul | exp.Div | exp.Neg | exp.Paren | exp.Cast | exp.Alias
_EXCLUDED_CLAUSES = ("having", "group", "qualify", "distinct", "order", "limit", "offset")


def empty_value_known(node: exp.Expr) -> bool:
    """Whether the value of a scalar subquery over no rows is known: NULL or, for a plain count, 0 (see `if_empty`).

    >>> from sqlglot import parse_one
    >>> [empty_value_known(parse_one(f"SELECT {item} FROM t")) for item in ("COUNT(*)", "2 * MAX(x)", "COUNT(*) + 1")]
    [True, True, False]
    """
    if (select := _only_item(node)) is None:
        return False
    return _is_count(select) or _is_null_if_empty(select)


def if_empty(node: exp.Expr, value: Column) -> Expression:
    """The value of a scalar subquery, given a column that is NULL if the subquery has no row: a count is then 0."""
    item = _only_item(node)
    return call("coalesce", value, Constant(0, value.type)) if item is not None and _is_count(item) else value


def _only_item(node: exp.Expr) -> exp.Expr | None:
    while isinstance(node, exp.Subquery | exp.Paren):
        if any(node.args.get(part) for part in (*_EXCLUDED_CLAUSES, "with_")):
            return None
        node = node.this
    if (
        not isinstance(node, exp.Select)
        or any(node.args.get(part) for part in _EXCLUDED_CLAUSES)
        or len(node.expressions) != 1
    ):
        return None
    item: exp.Expr = node.expressions[0]
    return item.this if isinstance(item, exp.Alias) else item


def _is_count(item: exp.Expr) -> bool:
    aggregate = aggregate_call(item)
    return aggregate is not None and not aggregate.function.nullable


def _is_null_if_empty(item: exp.Expr) -> bool:
    """Whether an expression is NULL over no rows: it contains an aggregate that is, and NULL operands make it NULL."""
    if (aggregate := aggregate_call(item)) is not None:
        return aggregate.function.nullable
    return isinstance(item, _STRICT_NODES) and any(_is_null_if_empty(part) for part in item.iter_expressions())
