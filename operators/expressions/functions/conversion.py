"""Casts. `converted` is null where the target type has no such value; CAST makes this a fault, TRY_CAST keeps NULL."""

from collections.abc import Callable, Sequence
from itertools import chain

import polars as pl
import pyarrow as pa

from operators.expressions.arrow_types import common_type, decimal, digits, polars_type, whole_digits
from operators.expressions.function import (
    Arguments,
    Compiled,
    Function,
    Signature,
    lit_text,
    may_fail_call,
    no_value,
    quoted,
)
from operators.expressions.functions.shift_time import date_in_range, in_range
from operators.expressions.rendering import type_name
from operators.expressions.tree import Call
from operators.expressions.types import BY_ARROW, TYPES, Conversion
from operators.kernels.full_decimals import rounded

_TRUE = ["t", "true", "y", "yes", "on", "1"]
_FALSE = ["f", "false", "n", "no", "off", "0"]
_STAMPS = ["%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M"]
_ZONED = ["%Y-%m-%d %H:%M:%S%.f%#z", "%Y-%m-%d %H:%M:%S%.f %#z"]


def kind(type_: pa.DataType) -> str:
    """Returns the name of the group of types that are converted in the same way."""
    if (scalar := BY_ARROW.get(type_)) is not None:
        return scalar.kind
    return next((name for name, test in _FAMILIES if test(type_)), str(type_))


#: The kinds of types that are not in the registry: types with parameters, and Arrow types that SQL cannot name.
_FAMILIES: list[tuple[str, Callable[[pa.DataType], bool]]] = [
    ("null", pa.types.is_null),
    ("integer", pa.types.is_integer),
    ("float", pa.types.is_floating),
    ("decimal", pa.types.is_decimal),
    ("timestamp", pa.types.is_timestamp),
]


def convertible(source: pa.DataType, target: pa.DataType) -> bool:
    """True where CAST between the types is defined."""
    return bool(
        source == target or (kind(source), kind(target)) in CONVERSIONS or common_type([source, target]) == target
    )


def converted(value: pl.Expr, source: pa.DataType, target: pa.DataType) -> pl.Expr:
    """Returns the value in the target type, null where the target type has no such value."""
    if source == target:
        return value
    conversion = CONVERSIONS.get((kind(source), kind(target)), _plain)
    return conversion(value, source, target)


def _plain(value: pl.Expr, _: pa.DataType, target: pa.DataType) -> pl.Expr:
    return value.cast(polars_type(target), strict=False)


def _half_even(value: pl.Expr, source: pa.DataType, target: pa.DataType) -> pl.Expr:
    return _plain(value.round(0, mode="half_to_even"), source, target)


def _half_away(value: pl.Expr, source: pa.DataType, target: pa.DataType) -> pl.Expr:
    scale = digits(target)[1] if decimal(target) else 0
    if digits(source)[1] <= scale:
        return _plain(value, source, target)
    return rounded(value, digits(source)[0], scale, "half", polars_type(target))


def _float_to_float(value: pl.Expr, source: pa.DataType, target: pa.DataType) -> pl.Expr:
    result = _plain(value, source, target)
    return pl.when(~(result.is_infinite() & value.is_finite())).then(result)


def _to_boolean(value: pl.Expr, *_: pa.DataType) -> pl.Expr:
    return value != 0


def _trimmed(value: pl.Expr, source: pa.DataType, target: pa.DataType) -> pl.Expr:
    return _plain(value.str.strip_chars(), source, target)


def _text_to_decimal(value: pl.Expr, source: pa.DataType, target: pa.DataType) -> pl.Expr:
    exact = pa.decimal128(38, 38 - whole_digits(target))
    return _half_away(_trimmed(value, source, exact), exact, target)


def _text_to_boolean(value: pl.Expr, *_: pa.DataType) -> pl.Expr:
    word = value.str.strip_chars().str.to_lowercase()
    return pl.when(word.is_in(_TRUE)).then(True).when(word.is_in(_FALSE)).then(False)


def _text_to_date(value: pl.Expr, source: pa.DataType, _: pa.DataType) -> pl.Expr:
    stamp = _text_to_timestamp(value, source, pa.timestamp("us"))
    day = date_in_range(value.str.strip_chars().str.to_date("%Y-%m-%d", strict=False))
    return pl.coalesce(day, stamp.cast(pl.Date))


def _text_to_timestamp(value: pl.Expr, *_: pa.DataType) -> pl.Expr:
    text = value.str.strip_chars().str.replace(r"^(\d{4}-\d\d-\d\d)[Tt]", "${1} ")
    naive = [text.str.to_datetime(format_, time_unit="us", strict=False) for format_ in _STAMPS]
    zoned_text = text.str.replace("[Zz]$", "+00:00")
    zoned = [
        zoned_text.str.to_datetime(format_, time_unit="us", strict=False, time_zone="UTC").dt.replace_time_zone(None)
        for format_ in _ZONED
    ]
    day = text.str.to_date("%Y-%m-%d", strict=False).cast(pl.Datetime("us"))
    return in_range(pl.coalesce([*naive, day, *zoned]))


def _date_to_text(value: pl.Expr, *_: pa.DataType) -> pl.Expr:
    return value.dt.strftime("%Y-%m-%d")


def _timestamp_to_text(value: pl.Expr, *_: pa.DataType) -> pl.Expr:
    return value.dt.strftime("%Y-%m-%d %H:%M:%S%.6f").str.replace(r"\.?0+$", "")


def _binary_to_text(value: pl.Expr, *_: pa.DataType) -> pl.Expr:
    """Decodes bytes as UTF-8; NULL where they are not UTF-8. Polars raises for such bytes even in a cast that should
    return NULL."""
    return value.map_batches(_decoded, return_dtype=pl.String, is_elementwise=True)


def _decoded(values: pl.Series) -> pl.Series:
    try:
        return values.cast(pl.String)
    except pl.exceptions.ComputeError:
        return pl.Series(values.name, [None if each is None else _text_of(each) for each in values], pl.String)


def _text_of(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


CONVERSIONS: dict[tuple[str, str], Conversion] = {
    ("boolean", "integer"): _plain,
    ("boolean", "text"): _plain,
    ("integer", "boolean"): _to_boolean,
    ("integer", "integer"): _plain,
    ("integer", "float"): _plain,
    ("integer", "decimal"): _plain,
    ("integer", "text"): _plain,
    ("float", "boolean"): _to_boolean,
    ("float", "integer"): _half_even,
    ("float", "float"): _float_to_float,
    ("float", "decimal"): _plain,
    ("float", "text"): _plain,
    ("decimal", "boolean"): _to_boolean,
    ("decimal", "integer"): _half_away,
    ("decimal", "float"): _plain,
    ("decimal", "decimal"): _half_away,
    ("decimal", "text"): _plain,
    ("text", "boolean"): _text_to_boolean,
    ("text", "integer"): _trimmed,
    ("text", "float"): _trimmed,
    ("text", "decimal"): _text_to_decimal,
    ("text", "binary"): _plain,
    ("text", "date"): _text_to_date,
    ("text", "timestamp"): _text_to_timestamp,
    ("binary", "text"): _binary_to_text,
    ("date", "timestamp"): _plain,
    ("date", "text"): _date_to_text,
    ("timestamp", "date"): _plain,
    ("timestamp", "text"): _timestamp_to_text,
    **dict(chain.from_iterable(type_.converts.items() for type_ in TYPES)),
}


def _cast_value(call: Call, value: pl.Expr) -> pl.Expr:
    return converted(value, call.arguments[0].type, call.type)


def _cast_problem(call: Call, value: pl.Expr) -> pl.Expr:
    shown = (
        converted(value, call.arguments[0].type, pa.string())
        if convertible(call.arguments[0].type, pa.string())
        else None
    )
    tail = f"to {type_name(call.type)} in {quoted(call)}"
    if shown is None or pa.types.is_binary(call.arguments[0].type):
        return lit_text(f"cannot cast a value {tail}")
    return pl.concat_str(lit_text('cannot cast "'), shown.str.slice(0, 80), lit_text(f'" {tail}'))


def _try_cast(call: Call, arguments: Sequence[Compiled]) -> Compiled:
    return Compiled(_cast_value(call, arguments[0].value))


def _widen(call: Call, arguments: Sequence[Compiled]) -> Compiled:
    """Widens a value. This is in fault only where a decimal would need more than 38 digits in the common type."""
    source, target = call.arguments[0].type, call.type
    value = _cast_value(call, arguments[0].value)
    if not (decimal(target) and decimal(source)) or whole_digits(target) >= whole_digits(source):
        return Compiled(value, arguments[0].fault)
    own = pl.when(no_value(value, call.arguments, [arguments[0].value])).then(
        lit_text(f"decimal overflow in {quoted(call)}")
    )
    return Compiled(value, own if arguments[0].fault is None else pl.coalesce(arguments[0].fault, own))


def _no_rule(_: Arguments) -> Signature | None:
    return None


CONVERSION: dict[str, Function] = {
    "cast": Function(
        "conversion",
        "a value and a type",
        "The value converted to the type; a fault if the type has no such value. Also x::T.",
        "CAST(a AS BIGINT)",
        _no_rule,
        may_fail_call(_cast_value, _cast_problem),
    ),
    "try_cast": Function(
        "conversion",
        "a value and a type",
        "As CAST, but NULL instead of a fault.",
        "TRY_CAST(a AS BIGINT)",
        _no_rule,
        _try_cast,
    ),
    "widen": Function(
        "conversion", "a value and a type", "The cast that the system adds where types differ.", "", _no_rule, _widen
    ),
}
