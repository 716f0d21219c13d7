"""The interface of functions: each has a typing rule, and an evaluation with Polars that never raises."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

import polars as pl
import pyarrow as pa

from operators.expressions.rendering import to_sql
from operators.expressions.tree import Call, Expression, Literal


@dataclass(frozen=True, slots=True)
class Compiled:
    """A value and its fault, as Polars expressions over the columns of the row.

    A row is in fault if the expression has no value on it, such as `1 / 0`. `value` never raises and is null where the
    row is in fault; `fault` is a text there and null elsewhere. A `fault` of None means that no row can be in fault.
    """

    value: pl.Expr
    fault: pl.Expr | None = None


@dataclass(frozen=True, slots=True)
class Signature:
    """The types to which the arguments are widened, and the type of the result. `nullable` None means that the result
    is nullable if an argument is."""

    arguments: tuple[pa.DataType, ...]
    result: pa.DataType
    nullable: bool | None = None


Arguments: TypeAlias = tuple[Expression, ...]
Rule: TypeAlias = Callable[[Arguments], Signature | None]
Evaluation: TypeAlias = Callable[[Call, Sequence[Compiled]], Compiled]


@dataclass(frozen=True, slots=True)
class Function:
    """An entry of the catalogue. `resolve` returns None if the arguments do not fit `accepted_arguments`."""

    kind: str
    accepted_arguments: str
    summary: str
    example: str
    resolve: Rule
    evaluate: Evaluation


def first_fault(faults: Sequence[pl.Expr | None]) -> pl.Expr | None:
    """Returns the first fault of each row, or None if no fault is possible."""
    possible = [fault for fault in faults if fault is not None]
    if len(possible) < 2:
        return possible[0] if possible else None
    return pl.coalesce(possible)


def height_of(values: Sequence[pl.Series]) -> int:
    """Returns the number of rows of the arguments; a constant has a single value for any number of rows.

    >>> height_of([pl.Series([1, 2]), pl.Series([7])]), height_of([pl.Series([]), pl.Series([7])])
    (2, 0)
    """
    return min(map(len, values)) and max(map(len, values))


def never_fails(build: Callable[..., pl.Expr]) -> Evaluation:
    """Returns the evaluation of a function that has a value for every argument; null where an argument is null."""
    return never_fails_call(lambda _, *values: build(*values))


def never_fails_call(build: Callable[..., pl.Expr]) -> Evaluation:
    """As `never_fails`, for a builder that also takes the call."""

    def evaluate(call: Call, arguments: Sequence[Compiled]) -> Compiled:
        value = build(call, *[argument.value for argument in arguments])
        return Compiled(value, first_fault([argument.fault for argument in arguments]))

    return evaluate


def may_fail(build: Callable[..., pl.Expr], problem: str) -> Evaluation:
    """Returns the evaluation of a strict function that is in fault where it has no value for non-null arguments."""
    return may_fail_call(lambda _, *values: build(*values), lambda call, *_: lit_text(f"{problem} in {quoted(call)}"))


def may_fail_call(build: Callable[..., pl.Expr], message: Callable[..., pl.Expr]) -> Evaluation:
    """As `may_fail`, for builders of the value and the message that also take the call."""

    def evaluate(call: Call, arguments: Sequence[Compiled]) -> Compiled:
        values = [argument.value for argument in arguments]
        value = build(call, *values)
        failed = no_value(value, call.arguments, values)
        own = pl.when(failed).then(message(call, *values))
        return Compiled(value, first_fault([*(argument.fault for argument in arguments), own]))

    return evaluate


def no_value(value: pl.Expr, arguments: Arguments, values: Sequence[pl.Expr]) -> pl.Expr:
    """True where the value is null although no argument is null."""
    if any(isinstance(argument, Literal) and argument.value is None for argument in arguments):
        return pl.lit(value=False)
    present = [
        value_.is_not_null()
        for argument, value_ in zip(arguments, values, strict=True)
        if not isinstance(argument, Literal)
    ]
    return reduce(lambda left, right: left & right, [value.is_null(), *present])


def quoted(call: Call) -> str:
    return f'"{to_sql(call)}"'


def lit_text(text: str) -> pl.Expr:
    return pl.lit(text, dtype=pl.String)


def literal_value(expression: Expression) -> Any:
    """Returns the value of a literal argument that a rule has already checked."""
    assert isinstance(expression, Literal)
    return expression.value
