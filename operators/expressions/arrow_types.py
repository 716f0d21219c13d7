"""The type lattice of expressions: Arrow types, their Polars counterparts and the common type of several."""

from collections.abc import Sequence

import polars as pl
import pyarrow as pa

from operators.expressions.types import TYPES

INTEGER_DIGITS: dict[pa.DataType, int] = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 19}
TIMESTAMP = pa.timestamp("us")
INTERVAL = pa.month_day_nano_interval()

_POLARS: dict[pa.DataType, pl.DataType] = {pa.null(): pl.Null(), **{type_.arrow: type_.polars for type_ in TYPES}}


def polars_type(type_: pa.DataType) -> pl.DataType:
    """Returns the Polars type with exactly the values of an Arrow type. Raises TypeError if no such type exists.

    >>> polars_type(pa.list_(pa.decimal128(9, 2)))
    List(Decimal(precision=9, scale=2))
    """
    if (simple := _POLARS.get(type_)) is not None:
        return simple
    if pa.types.is_decimal(type_):
        return pl.Decimal(type_.precision, type_.scale)
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return pl.List(polars_type(type_.value_type))
    if pa.types.is_struct(type_):
        return pl.Struct({field.name: polars_type(field.type) for field in type_})
    if pa.types.is_large_string(type_):
        return pl.String()
    if pa.types.is_large_binary(type_):
        return pl.Binary()
    raise TypeError(f'no Polars type holds exactly the values of type "{type_}"')


def integer(type_: pa.DataType) -> bool:
    return type_ in INTEGER_DIGITS


def floating(type_: pa.DataType) -> bool:
    return bool(pa.types.is_float32(type_) or pa.types.is_float64(type_))


def decimal(type_: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(type_))


def digits(type_: pa.DataType) -> tuple[int, int]:
    """Returns precision and scale of a decimal type."""
    assert isinstance(type_, pa.Decimal128Type)
    return type_.precision, type_.scale


def whole_digits(type_: pa.DataType) -> int:
    """Returns how many digits a decimal type has before the point."""
    precision, scale = digits(type_)
    return precision - scale


def numeric(type_: pa.DataType) -> bool:
    return integer(type_) or floating(type_) or decimal(type_)


def temporal(type_: pa.DataType) -> bool:
    return bool(pa.types.is_date32(type_) or pa.types.is_timestamp(type_))


def as_decimal(type_: pa.DataType) -> pa.DataType:
    """Returns the smallest decimal type that holds every value of an integer type; decimals stay as they are."""
    return type_ if decimal(type_) else pa.decimal128(INTEGER_DIGITS[type_], 0)


def common_type(types: Sequence[pa.DataType]) -> pa.DataType | None:
    """Returns the smallest type to which all the types widen without a cast; None if no such type exists.

    >>> common_type([pa.int32(), pa.null(), pa.int64()])
    DataType(int64)
    >>> common_type([pa.int32(), pa.decimal128(4, 2)])
    Decimal128Type(decimal128(12, 2))
    >>> common_type([pa.int32(), pa.string()]) is None
    True
    """
    result: pa.DataType | None = pa.null()
    for type_ in types:
        result = None if result is None else _pair(result, type_)
    return result


def _pair(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if left == right or pa.types.is_null(right):
        return left
    if pa.types.is_null(left):
        return right
    if numeric(left) and numeric(right):
        return _numeric_pair(left, right)
    if temporal(left) and temporal(right):
        return TIMESTAMP
    if pa.types.is_list(left) and pa.types.is_list(right):
        inner = _pair(left.value_type, right.value_type)
        return None if inner is None else pa.list_(inner)
    if pa.types.is_struct(left) and pa.types.is_struct(right):
        return _struct_pair(left, right)
    return None


def _numeric_pair(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if integer(left) and integer(right):
        return max(left, right, key=lambda type_: INTEGER_DIGITS[type_])
    if floating(left) or floating(right):
        narrow = (pa.int8(), pa.int16(), pa.float32())
        return pa.float32() if left in narrow and right in narrow else pa.float64()
    left, right = as_decimal(left), as_decimal(right)
    scale = max(digits(left)[1], digits(right)[1])
    whole = max(whole_digits(left), whole_digits(right))
    return pa.decimal128(min(38, whole + scale), scale)


def _struct_pair(left: pa.StructType, right: pa.StructType) -> pa.DataType | None:
    if [field.name for field in left] != [field.name for field in right]:
        return None
    inner = [_pair(ours.type, theirs.type) for ours, theirs in zip(left, right, strict=True)]
    if any(type_ is None for type_ in inner):
        return None
    return pa.struct([pa.field(field.name, type_) for field, type_ in zip(left, inner, strict=True)])
