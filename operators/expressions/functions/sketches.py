"""Functions that plans call for aggregates whose state is a sketch (`dsms.planner.optimizer.sketches`).

They have no examples, because users do not write them."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import polars as pl
import pyarrow as pa

from operators.expressions.arrow_types import decimal, digits, floating, numeric, polars_type
from operators.expressions.function import (
    Arguments,
    Compiled,
    Evaluation,
    Function,
    Rule,
    Signature,
    first_fault,
    literal_value,
    never_fails_call,
)
from operators.expressions.functions.entry import DOUBLE, LONG, constant
from operators.expressions.tree import Call, Expression
from operators.kernels.distinct_coupons import coupons_of, estimates
from operators.kernels.near_values import MIN_ERROR, near_floats, near_integers
from operators.kernels.unscaled_decimals import as_decimals


def _is_count(argument: Expression) -> bool:
    """Whether an argument is a number of registers."""
    value = literal_value(argument) if constant(argument) else None
    return isinstance(value, int) and 0 < value < 2**31


def _coupon_rule(arguments: Arguments) -> Signature | None:
    nested = any(pa.types.is_nested(argument.type) for argument in arguments)
    if len(arguments) < 2 or not _is_count(arguments[0]) or nested:
        return None
    return Signature((LONG, *(argument.type for argument in arguments[1:])), pa.int32())


def _coupon(call: Call, arguments: Sequence[Compiled]) -> Compiled:
    count, fault = int(literal_value(call.arguments[0])), first_fault([argument.fault for argument in arguments])
    values = [argument.value for argument in arguments[1:]]

    def coupons(columns: Sequence[pl.Series]) -> pl.Series:
        return pl.Series(coupons_of(columns, count)).cast(pl.Int32)

    known = pl.all_horizontal([value.is_not_null() for value in values])
    coupon = pl.map_batches(values, coupons, return_dtype=pl.Int32, returns_scalar=False)
    return Compiled(pl.when(known).then(coupon), fault)


def _count_rule(arguments: Arguments) -> Signature | None:
    fits = len(arguments) == 2 and _is_count(arguments[0]) and pa.types.is_integer(arguments[1].type)
    return Signature((LONG, LONG), LONG) if fits else None


def _count(call: Call, _: pl.Expr, coupons: pl.Expr) -> pl.Expr:
    count = int(literal_value(call.arguments[0]))

    def counted(column: pl.Series) -> pl.Series:
        return pl.Series(column.name, estimates(column.fill_null(0).to_numpy(), count), pl.Int64)

    return pl.when(coupons.is_not_null()).then(coupons.map_batches(counted, return_dtype=pl.Int64, is_elementwise=True))


def _near_rule(arguments: Arguments) -> Signature | None:
    if len(arguments) != 2 or not constant(arguments[0]) or not numeric(arguments[1].type):
        return None
    error = literal_value(arguments[0])
    if not isinstance(error, int | float | Decimal) or not MIN_ERROR <= float(error) < 1:
        return None
    return Signature((DOUBLE, arguments[1].type), arguments[1].type)


def _near(call: Call, _: pl.Expr, value: pl.Expr) -> pl.Expr:
    error, type_ = float(literal_value(call.arguments[0])), call.type

    def near(column: pl.Series) -> pl.Series:
        numbers = column.to_physical() if decimal(type_) else column
        values = numbers.cast(pl.Float64).fill_null(0.0).to_numpy()
        if floating(type_):
            most = np.finfo(np.float32 if type_ == pa.float32() else np.float64).max
            near_ = near_floats(values, error)
            return pl.Series(column.name, np.where(np.isfinite(near_), np.clip(near_, -most, most), near_)).cast(
                column.dtype
            )
        return _as_integers(column, near_integers(values, error), type_)

    return pl.when(value.is_not_null()).then(
        value.map_batches(near, return_dtype=polars_type(type_), is_elementwise=True)
    )


def _as_integers(column: pl.Series, rounded: np.ndarray, type_: pa.DataType) -> pl.Series:
    """Returns `rounded` numbers, integers or unscaled decimals, in the type of the column. A number that a float cannot
    hold exactly may be rounded beyond the limits of the type, and is then clipped to them."""
    exact = pl.Series(column.name, rounded).cast(pl.Int128)
    if decimal(type_):
        most, scale = digits(type_)
        limit = 10**most - 1
        return as_decimals(exact.clip(-limit, limit).cast(pl.Decimal(38, 0)), scale).cast(column.dtype)
    most = 2 ** (type_.bit_width - 1)
    return exact.clip(-most, most - 1).cast(polars_type(type_))


def _entry(rule: Rule, evaluate: Evaluation, summary: str) -> Function:
    return Function("sketches", "", summary, "", rule, evaluate)


SKETCHES: dict[str, Function] = {
    "distinct_coupon": _entry(
        _coupon_rule, _coupon, "The coupon of the values, for a sketch with the given number of registers."
    ),
    "distinct_estimate": _entry(
        _count_rule,
        never_fails_call(_count),
        "The estimated number of distinct values for a number of occupied coupons.",
    ),
    "near_value": _entry(_near_rule, never_fails_call(_near), "A number within a relative error of the given number."),
}
