"""Substitutes expressions for the columns of an expression."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from operators.expressions import Call, Column, Expression
from operators.windows.now_filter import NowRange


def substitute(expression: Expression, values: Mapping[str, Expression]) -> Expression:
    """The expression with each column that is in `values` replaced by its value.

    >>> import pyarrow as pa
    >>> from operators.expressions import call, to_sql
    >>> x, y = Column("x", pa.int64()), Column("y", pa.int64())
    >>> to_sql(substitute(call("add", x, x), {"x": call("negate", y)}))
    '-y + -y'
    """
    if isinstance(expression, Column):
        return values.get(expression.name, expression)
    if isinstance(expression, Call):
        return replace(expression, arguments=tuple(substitute(part, values) for part in expression.arguments))
    return expression


def substitute_range(now_range: NowRange, values: Mapping[str, Expression]) -> NowRange:
    """The range of Now with each column that is in `values` replaced by its value."""
    parts = (now_range.lower, now_range.upper, now_range.condition)
    return NowRange(*(None if part is None else substitute(part, values) for part in parts))


def range_expressions(now_range: NowRange) -> list[Expression]:
    """The bounds and the condition of a range of Now, without absent ones."""
    return [part for part in (now_range.lower, now_range.upper, now_range.condition) if part is not None]
