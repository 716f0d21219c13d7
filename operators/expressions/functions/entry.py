"""Helpers to write the entries of the catalogue."""

from collections.abc import Callable

import polars as pl
import pyarrow as pa

from operators.expressions.arrow_types import integer
from operators.expressions.function import Arguments, Evaluation, Rule, Signature
from operators.expressions.tree import Expression, Literal

TEXT, LONG, DOUBLE, BOOLEAN = pa.string(), pa.int64(), pa.float64(), pa.bool_()
Build = Callable[..., pl.Expr]


def constant(expression: Expression) -> bool:
    """True for a literal that is not NULL."""
    return isinstance(expression, Literal) and expression.value is not None


def with_constants(rule: Rule, *positions: int) -> Rule:
    """Returns the rule with a further condition: arguments at these positions, if present, must be literals."""

    def checked(arguments: Arguments) -> Signature | None:
        fits = all(constant(arguments[position]) for position in positions if position < len(arguments))
        return rule(arguments) if fits else None

    return checked


def argument_count_in(arguments: Arguments, low: int, high: int) -> bool:
    return low <= len(arguments) <= high


def is_integer_or_null(expression: Expression) -> bool:
    """True for an integer or NULL."""
    return integer(expression.type) or bool(pa.types.is_null(expression.type))


__all__ = [
    "BOOLEAN",
    "DOUBLE",
    "LONG",
    "TEXT",
    "Build",
    "Evaluation",
    "argument_count_in",
    "constant",
    "is_integer_or_null",
    "with_constants",
]
