"""What a scalar subquery of aggregates is over no rows."""

from __future__ import annotations

from sqlglot import exp

from dsms.sql.binder.aggregate_calls import aggregate_call
from operators.expressions import Column, Expression, call
from operators.expressions import Literal as Constant

_STRICT = exp.Add | exp.Sub | exp.Mul | exp.Div | exp.Neg | exp.Paren | exp.Cast | exp.Alias
_ALONE = ("having", "group", "qualify", "distinct", "order", "limit", "offset")


def is_nothing_known(node: exp.Expr) -> bool:
    """Whether a scalar subquery without a row has the value of the same subquery over no rows: `of_nothing` gives it.

    >>> from sqlglot import parse_one
    >>> [is_nothing_known(parse_one(f"SELECT {item} FROM t")) for item in ("COUNT(*)", "2 * MAX(x)", "COUNT(*) + 1")]
    [True, True, False]
    """
    if (select := _only_item(node)) is None:
        return False
    return _is_count(select) or _is_null_of_nothing(select)


def of_nothing(node: exp.Expr, value: Column) -> Expression:
    """The value of a scalar subquery, NULL where it has no row: counts are 0."""
    item = _only_item(node)
    return call("coalesce", value, Constant(0, value.type)) if item is not None and _is_count(item) else value


def _only_item(node: exp.Expr) -> exp.Expr | None:
    while isinstance(node, exp.Subquery | exp.Paren):
        if any(node.args.get(part) for part in (*_ALONE, "with_")):
            return None
        node = node.this
    if not isinstance(node, exp.Select) or any(node.args.get(part) for part in _ALONE) or len(node.expressions) != 1:
        return None
    item: exp.Expr = node.expressions[0]
    return item.this if isinstance(item, exp.Alias) else item


def _is_count(item: exp.Expr) -> bool:
    aggregate = aggregate_call(item)
    return aggregate is not None and not aggregate.function.nullable


def _is_null_of_nothing(item: exp.Expr) -> bool:
    """Whether a strict expression has an aggregate in it that is NULL over no rows."""
    if (aggregate := aggregate_call(item)) is not None:
        return aggregate.function.nullable
    return isinstance(item, _STRICT) and any(_is_null_of_nothing(part) for part in item.iter_expressions())
