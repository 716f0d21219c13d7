"""Typing rules of aggregates."""

from __future__ import annotations

import math

import pyarrow as pa

from operators.aggregates.function import Parameters, Rule, Types
from operators.core.errors import UserError
from operators.expressions.arrow_types import decimal, digits, integer, numeric, temporal
from operators.kernels.near_values import MIN_ERROR

#: The relative error of an approximate aggregate if the statement gives none.
DEFAULT_ERROR = 0.01


def always(type_: pa.DataType) -> Rule:
    """The result has the same type whatever the arguments."""
    return lambda types, parameters: type_


def same(types: Types, parameters: Parameters) -> pa.DataType:
    """The result has the type of the first argument."""
    return types[0]


def listed(types: Types, parameters: Parameters) -> pa.DataType:
    """The result is a list of the first argument."""
    return pa.list_(types[0])


def numbers_to_double(types: Types, parameters: Parameters) -> pa.DataType | None:
    """Numbers give DOUBLE."""
    return pa.float64() if all(numeric(type_) for type_ in types) else None


def integers(types: Types, parameters: Parameters) -> pa.DataType | None:
    """Integers only; the result has the type of the argument."""
    return types[0] if integer(types[0]) else None


def booleans(types: Types, parameters: Parameters) -> pa.DataType | None:
    """BOOLEAN only; the result is BOOLEAN."""
    return pa.bool_() if types[0] == pa.bool_() else None


def counted_booleans(types: Types, parameters: Parameters) -> pa.DataType | None:
    """BOOLEAN only; the result is a count, BIGINT."""
    return pa.int64() if types[0] == pa.bool_() else None


def strings(types: Types, parameters: Parameters) -> pa.DataType | None:
    """VARCHAR only; the result is VARCHAR."""
    return pa.string() if types[0] == pa.string() else None


def summed(types: Types, parameters: Parameters) -> pa.DataType | None:
    """Integers give BIGINT, DECIMAL(p, s) gives DECIMAL(38, s), floats give DOUBLE.

    >>> summed((pa.int8(),), ()), summed((pa.decimal128(9, 2),), ())
    (DataType(int64), Decimal128Type(decimal128(38, 2)))
    """
    if decimal(types[0]):
        return pa.decimal128(38, digits(types[0])[1])
    if integer(types[0]):
        return pa.int64()
    return pa.float64() if numeric(types[0]) else None


def fraction(parameters: Parameters) -> float:
    """The fraction of a percentile; 0.5 if none is given. Raises UserError if it is not a number from 0 to 1."""
    try:
        value = float(str(parameters[0])) if parameters else 0.5
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise UserError("the fraction of a percentile must be a number from 0 to 1")
    return value


def error_of(value: object = DEFAULT_ERROR) -> float:
    """The error of an approximate aggregate. Raises UserError if it is not a number from MIN_ERROR to 0.5."""
    try:
        error = float(str(value))
    except ValueError:
        error = math.nan
    if not MIN_ERROR <= error <= 0.5:
        raise UserError(f"the error of an approximate aggregate must be a number from {MIN_ERROR} to 0.5")
    return error


def counted_about(types: Types, parameters: Parameters) -> pa.DataType | None:
    """The result is a count, BIGINT; the error is an optional constant."""
    error_of(*parameters)
    return None if parameters and pa.types.is_nested(types[0]) else pa.int64()


def near(types: Types, parameters: Parameters) -> pa.DataType | None:
    """Numbers only, with a fraction and an error as constants; the result has the type of the argument."""
    if not parameters:
        raise UserError('"approx_percentile" needs a fraction', hint="for example approx_percentile(x, 0.9)")
    fraction(parameters)
    error_of(*parameters[1:])
    return types[0] if numeric(types[0]) else None


def interpolated(types: Types, parameters: Parameters) -> pa.DataType | None:
    """Interpolation between numbers gives DOUBLE, between times TIMESTAMP."""
    fraction(parameters)
    if temporal(types[0]):
        return pa.timestamp("us")
    return numbers_to_double(types, parameters)


def picked(types: Types, parameters: Parameters) -> pa.DataType | None:
    """The result is one of the values, so it has their type."""
    fraction(parameters)
    return types[0]
