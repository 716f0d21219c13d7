"""Expressions over what a plan gives, instead of over the columns of its core."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from operators.expressions import Call, Column, Expression

Given = dict[Expression, Column]


def given(outputs: Mapping[str, Expression]) -> Given:
    """The column that holds each expression."""
    return {one: Column(name, one.type, one.nullable) for name, one in outputs.items()}


def over(expression: Expression, columns: Given) -> Expression | None:
    """The expression over columns; None where one does not hold what is needed.

    >>> import pyarrow as pa
    >>> from operators.expressions import call, to_sql
    >>> x, y = (Column(name, pa.int64()) for name in "xy")
    >>> to_sql(over(call("add", x, call("add", x, y)), given({"a": call("add", x, y), "b": x})))
    'b + a'
    """
    if expression in columns:
        return columns[expression]
    if isinstance(expression, Column):
        return None
    if not isinstance(expression, Call):
        return expression
    parts = [over(one, columns) for one in expression.arguments]
    whole = tuple(one for one in parts if one is not None)
    return replace(expression, arguments=whole) if len(whole) == len(parts) else None


def all_over(expressions: Collection[Expression], columns: Given) -> list[Expression] | None:
    """All of them, or None."""
    found = [one for one in (over(expression, columns) for expression in expressions) if one is not None]
    return found if len(found) == len(expressions) else None
