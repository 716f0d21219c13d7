"""Checks Python values against a declared column. A value is accepted exactly or refused; DOUBLE and REAL take the
nearest number.

A check returns what Arrow stores: days for a date, microseconds for a timestamp, a Decimal of the declared scale.
"""

import base64
import binascii
import datetime
import decimal
import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa

from connectors.formats.base import NULL_REFUSED, ValueMismatch
from connectors.formats.calendar_text import days, microseconds
from connectors.formats.type_names import type_name
from operators.core.calendar_range import FIRST_DAY, FIRST_US, LAST_DAY, LAST_US, YEARS
from operators.expressions.types import BY_ARROW

Check = Callable[[object], object]

INT64_MAX = 2**63 - 1
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()
_MICROSECOND = datetime.timedelta(microseconds=1)
_EXACT = decimal.Context(prec=100, traps=[decimal.Inexact, decimal.InvalidOperation])
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,9})?", re.ASCII)
FLOAT_WORDS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


def check_field(field: "pa.Field[Any]") -> Check:
    """The check of a column. It accepts NULL if the column is nullable, and otherwise applies the check of the column's
    type.

    >>> check_field(pa.field("a", pa.int8()))(5)
    5
    >>> check_field(pa.field("a", pa.int8(), nullable=False))(None)
    Traceback (most recent call last):
    connectors.formats.base.ValueMismatch: column "a" is NULL but declared NOT NULL
    """
    check, name, nullable = check_type(field.type), field.name, field.nullable

    def checked(value: object) -> object:
        if value is None:
            if nullable:
                return None
            raise ValueMismatch(NULL_REFUSED, (name,))
        try:
            return check(value)
        except ValueMismatch as mismatch:
            raise mismatch.under(name) from None

    return checked


def check_type(declared: pa.DataType) -> Check:
    """The check of values of a type, except NULL.

    >>> check_type(pa.decimal128(5, 2))("1.5")
    Decimal('1.50')
    """
    if pa.types.is_integer(declared):
        return partial(_integer, *integer_range(declared), type_name(declared))
    if pa.types.is_floating(declared):
        return partial(_float, declared.bit_width == 32)
    if pa.types.is_decimal(declared):
        return partial(checked_decimal, declared)
    if pa.types.is_list(declared):
        return partial(_list, check_field(declared.value_field.with_name("element")))
    if pa.types.is_struct(declared):
        return partial(_struct, [(field.name, check_field(field)) for field in declared])
    scalar = BY_ARROW.get(declared)
    return _SIMPLE[declared] if scalar is None or scalar.read is None else partial(_scalar, scalar.read, scalar.form)


def integer_range(declared: pa.DataType) -> tuple[int, int]:
    """The least and the greatest value of a signed integer type.

    >>> integer_range(pa.int8())
    (-128, 127)
    """
    bound = 1 << (declared.bit_width - 1)
    return -bound, bound - 1


def mismatch_error(expected: str, value: object) -> ValueMismatch:
    """The error for a value that is not of the expected type."""
    return ValueMismatch(f": expected {expected}, got {abbreviated(value)}")


def out_of_range_error(value: object, name: str) -> ValueMismatch:
    """The error for a value of the right type that is out of its range."""
    return ValueMismatch(f": {abbreviated(value)} is out of range for {name}")


def abbreviated(value: object) -> str:
    """The text of a value in a message: as in JSON, and at most 62 characters.

    >>> abbreviated("a" * 100)
    '"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…'
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= 62 else text[:61] + "…"


def _integer(least: int, greatest: int, name: str, value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int):
        raise mismatch_error(name, value)
    if not least <= value <= greatest:
        raise out_of_range_error(value, name)
    return value


def _float(single: bool, value: object) -> object:
    name = "REAL" if single else "DOUBLE"
    if isinstance(value, str) and value in FLOAT_WORDS:
        return FLOAT_WORDS[value]
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise mismatch_error(name, value)
    return checked_float(value, name)


def checked_float(value: int | float | Decimal, name: str) -> float:
    """The nearest REAL or DOUBLE, by `name`. Raises ValueMismatch if a finite number would become infinite.

    >>> checked_float(1, "DOUBLE")
    1.0
    """
    try:
        number = float(value)
        packed: float = struct.unpack("<f", struct.pack("<f", number))[0] if name == "REAL" else number
    except OverflowError:
        raise out_of_range_error(value, name) from None
    if packed in (FLOAT_WORDS["Infinity"], FLOAT_WORDS["-Infinity"]) and value != packed:
        raise out_of_range_error(value, name)
    return packed


def checked_decimal(declared: Any, value: object) -> Decimal:
    """The number with the declared scale. Raises ValueMismatch if it would have to be rounded, is out of range, or is
    not a number.

    >>> checked_decimal(pa.decimal128(3, 1), "1.25")
    Traceback (most recent call last):
    connectors.formats.base.ValueMismatch: column "": "1.25" has more digits after the point than DECIMAL(3, 1)
    """
    number = _to_decimal(value)
    if number is None or not number.is_finite():
        raise mismatch_error(type_name(declared), value)
    if not number:
        return Decimal((0, (0,), -declared.scale))
    if number.adjusted() >= declared.precision - declared.scale:
        raise out_of_range_error(value, type_name(declared))
    try:
        return number.quantize(Decimal((0, (1,), -declared.scale)), context=_EXACT)
    except decimal.Inexact:
        raise ValueMismatch(
            f": {abbreviated(value)} has more digits after the point than {type_name(declared)}"
        ) from None


def _to_decimal(value: object) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        return None
    if isinstance(value, str) and not _NUMBER.fullmatch(value):
        return None
    try:
        return Decimal(repr(value) if isinstance(value, float) else value)
    except decimal.InvalidOperation:
        return None


def _scalar(read: Check, form: str, value: object) -> object:
    result = read(value)
    if result is None:
        raise mismatch_error(form, value)
    return result


def _boolean(value: object) -> object:
    if not isinstance(value, bool):
        raise mismatch_error("BOOLEAN", value)
    return value


def _string(value: object) -> object:
    if not isinstance(value, str):
        raise mismatch_error("STRING", value)
    try:
        value.isascii() or value.encode()
    except UnicodeEncodeError:
        raise ValueMismatch(": expected STRING, got text with half a surrogate pair") from None
    return value


def _binary(value: object) -> object:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            pass
    raise mismatch_error("BYTES (base64)", value)


def _date(value: object) -> object:
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return value.toordinal() - _EPOCH_DAY
    count = days(value) if isinstance(value, str) else None
    if count is None:
        raise mismatch_error("DATE (YYYY-MM-DD)", value)
    return checked_date(count, value)


def checked_date(count: int, value: object) -> int:
    """Returns `count`, in days since 1970. Raises ValueMismatch, with `value`, if it is outside the years 1 to 9999.

    >>> checked_date(3_000_000, "+10183-11-14")
    Traceback (most recent call last):
    connectors.formats.base.ValueMismatch: column "": "+10183-11-14" is out of range for DATE, the years 1 to 9999
    """
    if not FIRST_DAY <= count <= LAST_DAY:
        raise out_of_range_error(value, f"DATE, {YEARS}")
    return count


def _timestamp(value: object) -> object:
    count = _microseconds(value)
    if count is None:
        raise mismatch_error("TIMESTAMP (ISO 8601 or epoch milliseconds)", value)
    return checked_timestamp(count, value)


def checked_timestamp(count: int, value: object) -> int:
    """Returns `count`, in microseconds since 1970. Raises ValueMismatch, with `value`, if it is outside the years 1 to
    9999.

    >>> checked_timestamp(5, "…")
    5
    """
    if not FIRST_US <= count <= LAST_US:
        raise out_of_range_error(value, f"TIMESTAMP, {YEARS}")
    return count


def _microseconds(value: object) -> int | None:
    if isinstance(value, str):
        return microseconds(value)
    if isinstance(value, datetime.datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
        return (aware - _EPOCH) // _MICROSECOND
    if isinstance(value, int) and not isinstance(value, bool):
        return value * 1000
    return None


def _list(check: Check, value: object) -> object:
    if not isinstance(value, list | tuple):
        raise mismatch_error("an array", value)
    return [check(element) for element in value]


def _struct(checks: Sequence[tuple[str, Check]], value: object) -> object:
    if not isinstance(value, Mapping):
        raise mismatch_error("an object", value)
    return dict(zip((name for name, _ in checks), checked_row(checks, value), strict=True))


def checked_row(checks: Sequence[tuple[str, Check]], row: Mapping[str, object]) -> list[object]:
    """The checked values of a mapping in the order of columns; a missing key is NULL.

    A column is read from the key with exactly its name, otherwise from the key whose name differs only in case.

    >>> checked_row([("a", check_field(pa.field("a", pa.int8())))], {"A": 1, "b": 2})
    [1]
    """
    folded: dict[str, str] | None = None
    values = []
    for name, check in checks:
        if name in row:
            values.append(check(row[name]))
            continue
        folded = fold(row) if folded is None else folded
        values.append(check(row.get(folded.get(name.casefold(), name))))
    return values


def fold(row: Iterable[str]) -> dict[str, str]:
    """The keys of a row by their case-folded form. If several keys have the same form, the first in code-point order
    wins.

    >>> fold(["B", "a", "b"])
    {'b': 'B', 'a': 'a'}
    """
    return {key.casefold(): key for key in sorted(row, reverse=True)}


_SIMPLE: Mapping[pa.DataType, Check] = {
    pa.bool_(): _boolean,
    pa.string(): _string,
    pa.binary(): _binary,
    pa.date32(): _date,
    pa.timestamp("us"): _timestamp,
}
