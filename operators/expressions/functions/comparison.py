"""Comparisons: three-valued; NaN equals itself and is the largest number; text compares byte by byte."""

import operator
from collections.abc import Callable, Sequence
from typing import Final

import polars as pl
import pyarrow as pa

from operators.expressions.arrow_types import polars_type
from operators.expressions.function import (
    Arguments,
    Compiled,
    Function,
    Signature,
    first_fault,
    literal_value,
    never_fails_call,
)
from operators.expressions.functions.rules import anything, of_common_type, ordered, shared_type
from operators.expressions.tree import Call, Literal

_Build = Callable[[pl.Expr, pl.Expr], pl.Expr]

#: The order comparisons, each with the one that has its operands swapped: `x < y` is `y > x`.
MIRRORED_ORDERS: Final = {
    "less": "greater",
    "less_or_equal": "greater_or_equal",
    "greater": "less",
    "greater_or_equal": "less_or_equal",
}
#: The comparisons that hold on a contiguous range of values, each with the one that has its operands swapped.
MIRRORED: Final = {**MIRRORED_ORDERS, "equal": "equal"}


def null_where_fault(value: pl.Expr, fault: pl.Expr | None) -> Compiled:
    """Returns the value, null where the row is in fault."""
    return Compiled(value if fault is None else pl.when(fault.is_null()).then(value), fault)


def _never_null(build: Callable[..., pl.Expr]) -> Callable[[Call, Sequence[Compiled]], Compiled]:
    def evaluate(_: Call, arguments: Sequence[Compiled]) -> Compiled:
        fault = first_fault([argument.fault for argument in arguments])
        return null_where_fault(build(*[argument.value for argument in arguments]), fault)

    return evaluate


def _definite(count: int) -> Callable[[Arguments], Signature | None]:
    shared = of_common_type(anything, count, pa.bool_())

    def rule(arguments: Arguments) -> Signature | None:
        signature = shared(arguments)
        return signature and Signature(signature.arguments, pa.bool_(), False)

    return rule


def _compare(symbol: str, summary: str) -> Function:
    example = f"a {symbol} b"
    by_order = symbol in ("<", "<=", ">", ">=")
    takes = "two values of one type" + " that is not an array or struct" * by_order
    rule = of_common_type(ordered if by_order else anything, 2, pa.bool_())
    compared = never_fails_call(lambda call, *sides: compare(symbol, call.arguments[0].type)(*sides))
    return Function("comparison", takes, summary, example, rule, compared)


def _mirrored(build: _Build, mirror: _Build) -> _Build:
    """Puts a constant on the right. With a constant on the left, and a column that holds one repeated value on the
    right, Polars evaluates the comparison to a single row."""

    def built(a: pl.Expr, b: pl.Expr) -> pl.Expr:
        constant = not a.meta.root_names() and b.meta.root_names()
        return mirror(b, a) if constant else build(a, b)

    return built


#: The comparisons of two values.
COMPARE: dict[str, _Build] = {
    "=": _mirrored(operator.eq, operator.eq),
    "<>": _mirrored(operator.ne, operator.ne),
    "<": _mirrored(operator.lt, operator.gt),
    "<=": _mirrored(operator.le, operator.ge),
    ">": _mirrored(operator.gt, operator.lt),
    ">=": _mirrored(operator.ge, operator.le),
}


def compare(symbol: str, type_: pa.DataType) -> _Build:
    """Returns the comparison of two values of a type. Structs need a comparison of their own, because Polars panics
    when it compares two structs with `=` and one of them is NULL on every row."""
    return _STRUCTS.get(symbol, COMPARE[symbol]) if pa.types.is_struct(type_) else COMPARE[symbol]


def _where_both(build: _Build) -> _Build:
    return lambda a, b: pl.when(a.is_not_null() & b.is_not_null()).then(build(a, b))


_STRUCTS: dict[str, _Build] = {"=": _where_both(pl.Expr.eq_missing), "<>": _where_both(pl.Expr.ne_missing)}
_DISTINCT = _mirrored(pl.Expr.ne_missing, pl.Expr.ne_missing)
_NOT_DISTINCT = _mirrored(pl.Expr.eq_missing, pl.Expr.eq_missing)


def _in_list(call: Call, value: pl.Expr, *_: pl.Expr) -> pl.Expr:
    choices = [literal_value(choice) for choice in call.arguments[1:]]
    known = [choice for choice in choices if choice is not None]
    contained = value.is_in(pl.lit(pl.Series("", known, dtype=polars_type(call.arguments[0].type)).implode()).first())
    return contained if len(known) == len(choices) else pl.when(contained).then(True)


def _in_rule(arguments: Arguments) -> Signature | None:
    shared = shared_type(arguments)
    if shared is None or len(arguments) < 2 or not all(isinstance(choice, Literal) for choice in arguments[1:]):
        return None
    return Signature((shared,) * len(arguments), pa.bool_())


COMPARISON: dict[str, Function] = {
    "equal": _compare("=", "True if both are equal."),
    "not_equal": _compare("<>", "True if they differ."),
    "less": _compare("<", "True if the first is smaller."),
    "less_or_equal": _compare("<=", "True if the first is not larger."),
    "greater": _compare(">", "True if the first is larger."),
    "greater_or_equal": _compare(">=", "True if the first is not smaller."),
    "distinct": Function(
        "comparison",
        "two values of one type",
        "As <>, with NULL as an ordinary value.",
        "a IS DISTINCT FROM b",
        _definite(2),
        _never_null(_DISTINCT),
    ),
    "not_distinct": Function(
        "comparison",
        "two values of one type",
        "As =, with NULL as an ordinary value.",
        "a IS NOT DISTINCT FROM b",
        _definite(2),
        _never_null(_NOT_DISTINCT),
    ),
    "in": Function(
        "comparison",
        "a value and literals of its type",
        "True if the list contains the value; NULL if it does not, but contains a NULL.",
        "a IN (1, 2, 3)",
        _in_rule,
        never_fails_call(_in_list),
    ),
    "is_null": Function(
        "comparison", "a value", "True for NULL.", "a IS NULL", _definite(1), _never_null(lambda a: a.is_null())
    ),
    "is_not_null": Function(
        "comparison",
        "a value",
        "True unless the value is NULL.",
        "a IS NOT NULL",
        _definite(1),
        _never_null(lambda a: a.is_not_null()),
    ),
}
