"""Arithmetic: never wraps and never raises; a result that does not fit its type is a fault."""

from collections.abc import Callable, Sequence

import polars as pl
import pyarrow as pa

from operators.expressions.arrow_types import (
    INTERVAL,
    TIMESTAMP,
    as_decimal,
    decimal,
    digits,
    floating,
    integer,
    numeric,
    polars_type,
    temporal,
    whole_digits,
)
from operators.expressions.function import (
    Arguments,
    Compiled,
    Evaluation,
    Function,
    Rule,
    Signature,
    lit_text,
    may_fail_call,
    never_fails,
    quoted,
)
from operators.expressions.functions.rules import is_text_literal, of_common_type, shared_type
from operators.expressions.functions.shift_time import days_after, interval_after
from operators.expressions.quotient import quotient
from operators.expressions.tree import Call, Expression, Literal

Operation = Callable[[pl.Expr, pl.Expr], pl.Expr]


def _wide(type_: pa.DataType) -> pl.DataType:
    return pl.Int128() if type_ == pa.int64() else pl.Int64()


def _narrow(value: pl.Expr, type_: pa.DataType) -> pl.Expr:
    return value.cast(polars_type(type_), strict=False)


def _truncated(left: pl.Expr, right: pl.Expr) -> pl.Expr:
    return (left.abs() // right.abs()) * left.sign() * right.sign()


def _remainder(left: pl.Expr, right: pl.Expr) -> pl.Expr:
    return (left.abs() % right.abs()) * left.sign()


def _decimal_digits(expression: Expression) -> pa.DataType:
    if isinstance(expression, Literal) and isinstance(expression.value, int):
        return pa.decimal128(min(38, len(str(abs(expression.value)))), 0)
    return as_decimal(expression.type)


def _decimal_result(name: str, left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Returns the decimal type of a result, which is exact if 38 digits suffice (docs/functions.md); None if the scale
    is too large."""
    (_, left_scale), (_, right_scale) = digits(left), digits(right)
    whole, scale = max(whole_digits(left), whole_digits(right)), max(left_scale, right_scale)
    if name == "multiply":
        whole, scale = whole_digits(left) + whole_digits(right), left_scale + right_scale
    elif name == "divide":
        whole, scale = whole_digits(left) + right_scale, max(6, scale)
    elif name != "modulo":
        whole += 1
    return pa.decimal128(min(38, whole + scale), scale) if scale <= 38 else None


def _numbers(name: str) -> Rule:
    def rule(arguments: Arguments) -> Signature | None:
        shared = shared_type(arguments)
        if len(arguments) != 2 or shared is None or not (numeric(shared) or pa.types.is_null(shared)):
            return None
        if not decimal(shared):
            shared = pa.int32() if pa.types.is_null(shared) else shared
            return Signature((shared, shared), shared)
        known = [shared if is_text_literal(argument) else argument.type for argument in arguments]
        if any(pa.types.is_null(type_) for type_ in known):
            return Signature((shared, shared), shared)
        left, right = (shared if is_text_literal(argument) else _decimal_digits(argument) for argument in arguments)
        result = _decimal_result(name, left, right)
        return None if result is None else Signature((left, right), result)

    return rule


def _time_first(name: str) -> Rule:
    """Returns the rule for two numbers, a date or timestamp and an interval, a date and a number of days, or two dates
    (subtract only)."""
    numbers = _numbers(name)

    def rule(arguments: Arguments) -> Signature | None:
        if len(arguments) != 2:
            return None
        left, right = arguments[0].type, arguments[1].type
        if temporal(left) and right == INTERVAL:
            return Signature((TIMESTAMP, INTERVAL), TIMESTAMP)
        if name == "add" and left == INTERVAL and temporal(right):
            return Signature((INTERVAL, TIMESTAMP), TIMESTAMP)
        if pa.types.is_date32(left) and integer(right):
            return Signature((left, pa.int64()), left)
        if (
            name == "subtract"
            and pa.types.is_date32(left)
            and (pa.types.is_date32(right) or is_text_literal(arguments[1]))
        ):
            return Signature((left, left), pa.int64())
        return numbers(arguments)

    return rule


def _fits(estimate: pl.Expr, type_: pa.DataType) -> pl.Expr:
    return estimate.abs() < 10.0 ** whole_digits(type_) * (1 - 1e-12)


def _decimal_value(call: Call, operation: Operation, left: pl.Expr, right: pl.Expr) -> pl.Expr:
    """Computes with 38 digits at the scale of the result.

    Polars raises an error if the result has more digits. Where the result may have more, it is first estimated with
    floats; a result within a relative 10^-12 of the limit counts as an overflow.
    """
    result = call.type
    if digits(result)[0] == 38:
        size = operation(left.cast(pl.Float64), right.cast(pl.Float64))
        left = pl.when(_fits(size, result)).then(left)
    wide = pl.Decimal(38, digits(result)[1])
    right = right if call.function == "multiply" else right.cast(wide, strict=False)
    return _narrow(operation(left.cast(wide, strict=False), right), result)


def _value(call: Call, operation: Operation, left: pl.Expr, right: pl.Expr) -> pl.Expr:
    if integer(call.type):
        wide = _wide(call.type)
        return _narrow(operation(left.cast(wide), right.cast(wide)), call.type)
    if decimal(call.type):
        return _decimal_value(call, operation, left, right)
    return operation(left, right)


def _arithmetic(operation: Operation, sign: int = 1) -> Evaluation:
    exact = may_fail_call(
        lambda call, left, right: _value(call, operation, left, right),
        lambda call, *_: lit_text(f"{_overflow(call)} in {quoted(call)}"),
    )
    approximate = never_fails(operation)
    days = may_fail_call(
        lambda _, left, right: days_after(left, sign * right),
        lambda call, *_: lit_text(f"date out of range in {quoted(call)}"),
    )

    def evaluate(call: Call, arguments: Sequence[Compiled]) -> Compiled:
        left, right = call.arguments[0].type, call.arguments[1].type
        if INTERVAL in (left, right):
            return interval_after(call, arguments, sign)
        if pa.types.is_date32(left) and pa.types.is_date32(right):
            return never_fails(lambda late, early: late.cast(pl.Int64) - early.cast(pl.Int64))(call, arguments)
        if pa.types.is_date32(left):
            return days(call, arguments)
        return (approximate if floating(call.type) else exact)(call, arguments)

    return evaluate


def _overflow(call: Call) -> str:
    return "integer overflow" if integer(call.type) else "decimal overflow"


def _division_value(call: Call, left: pl.Expr, right: pl.Expr) -> pl.Expr:
    divide = call.function == "divide"
    right = right.replace(0.0 if floating(call.type) else 0, None)
    if floating(call.type):
        return quotient(left, right) if divide else _remainder_float(left, right)
    if integer(call.type):
        return _value(call, _truncated if divide else _remainder, left, right)
    return _value(call, (lambda a, b: a / b) if divide else _remainder_decimal, left, right)


def _remainder_decimal(left: pl.Expr, right: pl.Expr) -> pl.Expr:
    return left % right


def _remainder_float(left: pl.Expr, right: pl.Expr) -> pl.Expr:
    return (
        pl.when(right.is_infinite() & left.is_finite()).then(left).otherwise((left.abs() % right.abs()) * left.sign())
    )


def _division_problem(call: Call, left: pl.Expr, right: pl.Expr) -> pl.Expr:
    del left
    text = quoted(call)
    zero = pl.when(right == 0).then(lit_text(f"division by zero in {text}"))
    return zero.otherwise(lit_text(f"{_overflow(call)} in {text}"))


def _negate(call: Call, value: pl.Expr) -> pl.Expr:
    if not integer(call.type):
        return -value
    wide = _wide(call.type)
    return _narrow(pl.lit(0, dtype=wide) - value.cast(wide), call.type)


_NUMBERS = "two numbers"

ARITHMETIC: dict[str, Function] = {
    "add": Function(
        "arithmetic",
        "two numbers; a date or timestamp and an interval; a date and a number of days",
        "The sum; overflow of an integer or a decimal is a fault.",
        "1 + 2",
        _time_first("add"),
        _arithmetic(lambda left, right: left + right),
    ),
    "subtract": Function(
        "arithmetic",
        "two numbers; a date or timestamp and an interval; a date and a number of days; two dates",
        "The difference; for two dates, in days.",
        "3 - 2",
        _time_first("subtract"),
        _arithmetic(lambda left, right: left - right, -1),
    ),
    "multiply": Function(
        "arithmetic",
        _NUMBERS,
        "The product; for decimals, with the sum of both scales.",
        "2 * 3",
        _numbers("multiply"),
        _arithmetic(lambda left, right: left * right),
    ),
    "divide": Function(
        "arithmetic",
        _NUMBERS,
        "Quotient; integers truncate toward zero; zero as divisor is a fault, for floats too.",
        "7 / 2",
        _numbers("divide"),
        may_fail_call(_division_value, _division_problem),
    ),
    "modulo": Function(
        "arithmetic",
        _NUMBERS,
        "Remainder with the sign of the dividend; also MOD(a, b).",
        "-7 % 3",
        _numbers("modulo"),
        may_fail_call(_division_value, _division_problem),
    ),
    "negate": Function(
        "arithmetic",
        "a number",
        "The number with the opposite sign.",
        "-x",
        of_common_type(numeric, 1),
        may_fail_call(_negate, lambda call, *_: lit_text(f"{_overflow(call)} in {quoted(call)}")),
    ),
}
