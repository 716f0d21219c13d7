"""Rewrites expressions over the columns of a core (see `canonical_form`) to expressions over the outputs of a plan."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from operators.expressions import Call, Column, Expression, Literal

#: The output column that holds each expression over the core.
OutputColumns = Mapping[Expression, Expression]


def output_columns(outputs: Mapping[str, Expression]) -> OutputColumns:
    """The output columns by the expressions that they hold."""
    return {expression: Column(name, expression.type, expression.nullable) for name, expression in outputs.items()}


def over(expression: Expression, columns: OutputColumns) -> Expression | None:
    """The expression over output columns; None if it reads a column of the core that no output holds. A constant
    argument stays a constant, because functions such as IN and LIKE require one.

    >>> import pyarrow as pa
    >>> from operators.expressions import call, to_sql
    >>> x, y = (Column(name, pa.int64()) for name in "xy")
    >>> to_sql(over(call("add", x, call("add", x, y)), output_columns({"a": call("add", x, y), "b": x})))
    'b + a'
    >>> one = Literal(1, pa.int64())
    >>> to_sql(over(call("in", x, one), output_columns({"a": one, "b": x})))
    'b IN (1)'
    """
    if expression in columns:
        return columns[expression]
    if isinstance(expression, Column):
        return None
    if not isinstance(expression, Call):
        return expression
    constants: OutputColumns = {
        argument: argument for argument in expression.arguments if isinstance(argument, Literal)
    }
    arguments = all_over(expression.arguments, {**columns, **constants})
    return None if arguments is None else replace(expression, arguments=tuple(arguments))


def all_over(expressions: Collection[Expression], columns: OutputColumns) -> list[Expression] | None:
    """All expressions over output columns; None if any of them cannot be rewritten."""
    rewritten = [over(expression, columns) for expression in expressions]
    complete = [expression for expression in rewritten if expression is not None]
    return complete if len(complete) == len(rewritten) else None
