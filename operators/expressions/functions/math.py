"""Functions of numbers."""

import math
from collections.abc import Callable

import polars as pl
import pyarrow as pa

from operators.expressions.arrow_types import decimal, digits, integer, numeric, polars_type, whole_digits
from operators.expressions.function import (
    Arguments,
    Function,
    Rule,
    Signature,
    lit_text,
    literal_value,
    may_fail,
    may_fail_call,
    never_fails,
    never_fails_call,
    quoted,
)
from operators.expressions.functions.entry import BOOLEAN, DOUBLE, LONG, Build, argument_count_in, constant
from operators.expressions.functions.rules import exactly, of_common_type
from operators.expressions.quotient import quotient
from operators.expressions.tree import Call
from operators.kernels.full_decimals import by_polars, rounded

_ONE = exactly(DOUBLE, result=DOUBLE)
_BITS: dict[pa.DataType, int] = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}


def _double(summary: str, example: str, build: Build) -> Function:
    return Function("numbers", "a number", summary, example, _doubles(1), never_fails(build))


def _doubles(count: int) -> Rule:
    def rule(arguments: Arguments) -> Signature | None:
        fits = len(arguments) == count and all(
            numeric(argument.type) or pa.types.is_null(argument.type) for argument in arguments
        )
        return Signature((DOUBLE,) * count, DOUBLE) if fits else None

    return rule


def _defined(summary: str, example: str, build: Build, problem: str) -> Function:
    return Function("numbers", "a number", summary, example, _doubles(1), may_fail(build, problem))


def _rounding(arguments: Arguments) -> Signature | None:
    """The typing rule of rounding: a decimal keeps the requested digits, and gets one more whole digit for the
    carry."""
    if not argument_count_in(arguments, 1, 2) or not numeric(arguments[0].type):
        return None
    if len(arguments) == 2 and not (constant(arguments[1]) and integer(arguments[1].type)):
        return None
    places = literal_value(arguments[1]) if len(arguments) == 2 else 0
    type_ = arguments[0].type
    if not 0 <= places <= 38:
        return None
    if decimal(type_):
        scale = min(places, digits(type_)[1])
        result: pa.DataType = pa.decimal128(min(38, max(1, whole_digits(type_) + 1 + scale)), scale)
    else:
        result = type_
    return Signature((type_, *(argument.type for argument in arguments[1:])), result)


def _places(call: Call) -> int:
    return int(literal_value(call.arguments[1])) if len(call.arguments) == 2 else 0


def _round(mode: str) -> Callable[..., pl.Expr]:
    def build(call: Call, value: pl.Expr, *_: pl.Expr) -> pl.Expr:
        type_ = call.arguments[0].type
        if integer(type_):
            return value
        if not decimal(type_):
            return by_polars(value, _places(call), mode)
        precision, scale = digits(type_)
        return rounded(value.cast(pl.Decimal(38, scale)), precision, _places(call), mode, polars_type(call.type))

    return build


def _abs(call: Call, value: pl.Expr) -> pl.Expr:
    if not integer(call.type):
        return value.abs()
    return value.cast(pl.Int128).abs().cast(polars_type(call.type), strict=False)


def _sign(call: Call, value: pl.Expr) -> pl.Expr:
    return value.sign().cast(polars_type(call.type), strict=False)


def _shift(*, left: bool) -> Callable[..., pl.Expr]:
    def build(call: Call, value: pl.Expr, by: pl.Expr) -> pl.Expr:
        steps = pl.when(by.is_between(0, _BITS[call.type] - 1)).then(by)
        factor = pl.lit(2, dtype=pl.Int128).pow(steps.cast(pl.UInt32))
        wide = value.cast(pl.Int128)
        return (wide * factor if left else wide // factor).cast(polars_type(call.type), strict=False)

    return build


def _shift_rule(arguments: Arguments) -> Signature | None:
    fits = len(arguments) == 2 and all(integer(argument.type) for argument in arguments)
    return Signature((arguments[0].type, LONG), arguments[0].type) if fits else None


def _bits(summary: str, example: str, build: Build, count: int = 2) -> Function:
    takes = "two integers" if count == 2 else "an integer"
    return Function("numbers", takes, summary, example, of_common_type(integer, count), never_fails(build))


def _out_of_range(call: Call, *_: pl.Expr) -> pl.Expr:
    return lit_text(f"integer overflow in {quoted(call)}")


def _positive(value: pl.Expr) -> pl.Expr:
    return pl.when(value > 0).then(value)


def _logarithm(_: Call, base: pl.Expr, number: pl.Expr) -> pl.Expr:
    return quotient(_positive(number).log(), _positive(base).log().replace(0.0, None))


def _no_logarithm(call: Call, base: pl.Expr, number: pl.Expr) -> pl.Expr:
    positive = (base > 0) & (number > 0)
    return (
        pl.when(positive)
        .then(lit_text(f"logarithm to base 1 in {quoted(call)}"))
        .otherwise(lit_text(f"{_NO_LOGARITHM} in {quoted(call)}"))
    )


_NO_LOGARITHM = "logarithm of a number that is not positive"
_ROUND_TAKES = "a number and a literal number of digits from 0 to 38"


def _rounder(summary: str, example: str, mode: str) -> Function:
    return Function("numbers", _ROUND_TAKES, summary, example, _rounding, may_fail_call(_round(mode), _out_of_range))


NUMBERS: dict[str, Function] = {
    "abs": Function(
        "numbers",
        "a number",
        "The absolute value.",
        "ABS(-2)",
        of_common_type(numeric, 1),
        may_fail_call(_abs, _out_of_range),
    ),
    "sign": Function(
        "numbers",
        "a number",
        "The sign of the number: -1, 0 or 1.",
        "SIGN(-2)",
        of_common_type(numeric, 1),
        never_fails_call(_sign),
    ),
    "floor": _rounder("Rounded down to a whole number, or to the given number of digits.", "FLOOR(1.5)", "floor"),
    "ceil": _rounder(
        "Rounded up to a whole number, or to the given number of digits; also CEILING.", "CEIL(1.5)", "ceil"
    ),
    "round": _rounder("Rounded to the given number of digits, halves away from zero.", "ROUND(2.345, 2)", "half"),
    "trunc": _rounder("Truncated to the given number of digits.", "TRUNC(2.345, 2)", "trunc"),
    "power": Function(
        "numbers",
        "two numbers",
        "The first to the power of the second.",
        "POWER(2, 3)",
        _doubles(2),
        never_fails(lambda a, b: a.pow(b)),
    ),
    "sqrt": _defined(
        "The square root.", "SQRT(2)", lambda a: pl.when(a >= 0).then(a).sqrt(), "square root of a negative number"
    ),
    "exp": _double("e to the power of the number.", "EXP(1)", lambda a: a.exp()),
    "ln": _defined("The natural logarithm.", "LN(2)", lambda a: _positive(a).log(), _NO_LOGARITHM),
    "log10": _defined(
        "The logarithm to base 10; also LOG(x).",
        "LOG10(100)",
        lambda a: _positive(a).log10(),
        _NO_LOGARITHM,
    ),
    "log2": _defined("The logarithm to base 2.", "LOG2(8)", lambda a: _positive(a).log(2), _NO_LOGARITHM),
    "log": Function(
        "numbers",
        "two numbers",
        "The logarithm of the second number to the base of the first.",
        "LOG(2, 8)",
        _doubles(2),
        may_fail_call(_logarithm, _no_logarithm),
    ),
    "sin": _double("Sine of radians.", "SIN(0)", lambda a: a.sin()),
    "cos": _double("Cosine of radians.", "COS(0)", lambda a: a.cos()),
    "tan": _double("Tangent of radians.", "TAN(0)", lambda a: a.tan()),
    "asin": _double("Arc sine.", "ASIN(0)", lambda a: a.arcsin()),
    "acos": _double("Arc cosine.", "ACOS(1)", lambda a: a.arccos()),
    "atan": _double("Arc tangent.", "ATAN(0)", lambda a: a.arctan()),
    "atan2": Function(
        "numbers",
        "two numbers",
        "The angle of the point with the coordinates y and x, in radians.",
        "ATAN2(0, 1)",
        _doubles(2),
        never_fails(pl.arctan2),
    ),
    "degrees": _double("Radians to degrees.", "DEGREES(0)", lambda a: a.degrees()),
    "radians": _double("Degrees to radians.", "RADIANS(0)", lambda a: a.radians()),
    "pi": Function(
        "numbers",
        "nothing",
        "The number pi.",
        "PI()",
        exactly(result=DOUBLE),
        never_fails(lambda: pl.lit(math.pi)),
    ),
    "isnan": Function(
        "numbers",
        "a float",
        "True for NaN.",
        "ISNAN(x)",
        exactly(DOUBLE, result=BOOLEAN),
        never_fails(lambda a: a.is_nan()),
    ),
    "bit_and": _bits("Bits set in both.", "5 & 3", lambda a, b: a & b),
    "bit_or": _bits("Bits set in at least one.", "5 | 3", lambda a, b: a | b),
    "bit_xor": _bits("Bits set in exactly one.", "XOR(5, 3)", lambda a, b: a ^ b),
    "bit_not": _bits("All bits inverted.", "~5", lambda a: ~a, 1),
    "shift_left": Function(
        "numbers",
        "two integers",
        "The first number times 2 to the power of the second; overflow is a fault.",
        "1 << 3",
        _shift_rule,
        may_fail_call(_shift(left=True), _out_of_range),
    ),
    "shift_right": Function(
        "numbers",
        "two integers",
        "The first number divided by 2 to the power of the second, rounded down.",
        "8 >> 3",
        _shift_rule,
        may_fail_call(_shift(left=False), _out_of_range),
    ),
}
