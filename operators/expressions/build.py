"""Builds typed expressions for the binder."""

from typing import Any

import polars as pl
import pyarrow as pa

from operators.core.errors import UserError
from operators.expressions.arrow_types import polars_type
from operators.expressions.functions import FUNCTIONS
from operators.expressions.functions.conversion import converted, convertible
from operators.expressions.rendering import to_sql, type_name, visible_arguments
from operators.expressions.tree import Call, Column, Expression, Literal


def column(field: "pa.Field[Any]") -> Column:
    """Returns the column that a field of a schema describes."""
    return Column(field.name, field.type, field.nullable)


def call(name: str, *arguments: Expression) -> Call:
    """Returns the call with its type; its arguments are widened to the types that the function takes. Raises UserError
    if the function does not exist or does not take the arguments.

    >>> call("add", Column("x", pa.int32()), Column("y", pa.int64())).type
    DataType(int64)
    >>> call("add", Column("x", pa.int32()), Column("s", pa.string()))
    Traceback (most recent call last):
    operators.core.errors.UserError: "add" does not take (INTEGER, VARCHAR) in "x + s"; it takes two numbers; ...
    """
    function = FUNCTIONS.get(name)
    if function is None:
        raise UserError(f'function "{name}" not found', hint=f"have: {', '.join(sorted(FUNCTIONS))}")
    signature = function.resolve(arguments)
    if signature is None:
        types = ", ".join(type_name(argument.type) for argument in visible_arguments(name, arguments))
        text = _attempted(name, arguments)
        raise UserError(f'"{name}" does not take ({types}) in "{text}"', hint=f"it takes {function.accepted_arguments}")
    widened = tuple(map(coerce, arguments, signature.arguments))
    nullable = any(argument.nullable for argument in widened) if signature.nullable is None else signature.nullable
    return Call(name, widened, signature.result, nullable)


def _attempted(name: str, arguments: tuple[Expression, ...]) -> str:
    """Returns the text of a call with wrong arguments, for a message. If their number is wrong, the notation of an
    operator, such as that of `is_null()`, cannot show them; then the text is a function call."""
    try:
        return to_sql(Call(name, arguments, pa.null()))
    except (IndexError, ValueError, AssertionError):
        return f"{name.upper()}({', '.join(map(to_sql, arguments))})"


def cast(expression: Expression, target: pa.DataType, *, safe: bool = False) -> Expression:
    """Returns a CAST of the expression, or a TRY_CAST if `safe`. Raises UserError if no cast is defined for the types.

    >>> cast(Column("x", pa.string()), pa.int64()).function
    'cast'
    """
    if not convertible(expression.type, target):
        source = type_name(expression.type)
        raise UserError(f'cannot cast {source} to {type_name(target)} in "{to_sql(expression)}"')
    if expression.type == target:
        return expression
    return Call("try_cast" if safe else "cast", (expression,), target, safe or expression.nullable)


def coerce(expression: Expression, target: pa.DataType) -> Expression:
    """Returns the expression in a wider type; a literal becomes a literal of that type. Raises UserError if the type
    has no such value.

    >>> coerce(Literal("2024-01-31", pa.string()), pa.date32())
    Literal(value=datetime.date(2024, 1, 31), type=DataType(date32[day]))
    """
    if expression.type == target:
        return expression
    if isinstance(expression, Literal):
        return Literal(_literal_value(expression, target), target)
    return Call("widen", (expression,), target, expression.nullable)


def _literal_value(literal: Literal, target: pa.DataType) -> object:
    if literal.value is None:
        return None
    source = pl.lit(literal.value, dtype=polars_type(literal.type))
    value = pl.select(converted(source, literal.type, target)).item() if convertible(literal.type, target) else None
    if value is None:
        raise UserError(f"{to_sql(literal)} is not a valid {type_name(target)}")
    return value
