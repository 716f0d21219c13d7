"""Parameters as SQL literals."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Final
from uuid import UUID

from dsms.coordinator.postgres.array_texts import Item, NoArray, items_of
from dsms.coordinator.postgres.intervals import unpacked_interval
from dsms.coordinator.postgres.messages import Malformed, Reader
from dsms.coordinator.postgres.wire_types import (
    BOOL,
    BYTEA,
    ELEMENTS,
    FLOATS,
    INTEGERS,
    INTERVAL,
    NUMERIC,
    START,
    TEXT,
)
from operators.core.quoting import quoted_text

_INTEGERS: Final = {**INTEGERS, 26: "!I"}
_DATE, _UUID = 1082, 2950
#: Readers of the binary form of dates and times, by type: from days or microseconds to text.
_MOMENTS: Final[dict[int, Callable[[int], str]]] = {
    _DATE: lambda days: str((START + timedelta(days=days)).date()),
    1083: lambda micros: str((START + timedelta(microseconds=micros)).time()),
    1114: lambda micros: str(START + timedelta(microseconds=micros)),
    1184: lambda micros: f"{START + timedelta(microseconds=micros)}+00",
}
#: Types whose literals need no quotes.
_NUMBERS: Final = frozenset({*_INTEGERS, *FLOATS, NUMERIC})
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_NOT_FINITE: Final = {"nan": "NaN", "inf": "Infinity", "infinity": "Infinity"}
#: A day with the zone that drivers send for a date without one, as in `2024-05-01 +01`.
_ZONED_DAY: Final = re.compile(r"(\d{4}-\d\d-\d\d)(?: 00:00:00)? ?[+-]\d\d(?::?\d\d)?(?: AD)?")
#: SQL's names of types by OID, for NULLs and for texts that are not values of the type by themselves.
_SQL: Final = {
    BOOL: "BOOLEAN", BYTEA: "VARBINARY", 20: "BIGINT", 21: "SMALLINT", 23: "INTEGER", 700: "REAL", 701: "DOUBLE",
    _DATE: "DATE", 1114: "TIMESTAMP", 1184: "TIMESTAMP", INTERVAL: "INTERVAL", NUMERIC: "DECIMAL(38, 9)", _UUID: "UUID",
    26: "BIGINT",
}  # fmt: skip


def literal(value: bytes | None, oid: int, *, binary: bool) -> str:
    """A parameter as an SQL literal: a number or a Boolean if its type says so, else a quoted text. Raises Malformed if
    it is not a value of its type.

    >>> literal(b"7", 20, binary=False), literal(b"O'Hara", 0, binary=False), literal(None, 0, binary=False)
    ('7', "'O''Hara'", 'NULL')
    >>> literal(b"\\0\\0\\0\\7", 23, binary=True), literal(b"t", 16, binary=False)
    ('7', 'TRUE')
    >>> literal(b"{1,NULL}", 1007, binary=False), literal(b'{"a b"}', 1009, binary=False)
    ('ARRAY[1, NULL]', "ARRAY['a b']")
    >>> literal(b"\\0\\xff", 17, binary=True), literal(b"NaN", 701, binary=False)
    ("X'00ff'", "CAST('NaN' AS DOUBLE)")
    """
    if value is None:
        return null_of(oid)
    if (element := ELEMENTS.get(oid)) is not None:
        return _array(_items(value, element, binary=binary), element)
    return _of_text(_from_binary(value, oid) if binary else _decoded(value), oid)


def null_of(oid: int) -> str:
    """NULL as an SQL literal. That of an interval or array has its type, without which it cannot be an operand.

    >>> null_of(23), null_of(1007), null_of(1186)
    ('NULL', 'CAST(NULL AS INTEGER[])', 'CAST(NULL AS INTERVAL)')
    """
    if (element := ELEMENTS.get(oid)) is None:
        return "CAST(NULL AS INTERVAL)" if oid == INTERVAL else "NULL"
    return f"CAST(NULL AS {_SQL.get(element, 'VARCHAR')}[])"


def _of_text(shown: str, oid: int) -> str:
    match oid:
        case _ if oid == BOOL:
            return "TRUE" if shown.lower() in ("t", "true", "1", "yes", "on") else "FALSE"
        case _ if oid in _NUMBERS and _NUMBER.fullmatch(shown):
            return shown
        case _ if oid in FLOATS and (name := _NOT_FINITE.get(shown.lower().lstrip("+-"))) is not None:
            return f"CAST('{'-' * shown.startswith('-')}{name}' AS DOUBLE)"
        case _ if oid == BYTEA:
            return f"X'{_bytes_of(shown).hex()}'"
        case _ if oid == INTERVAL:
            return f"CAST({quoted_text(shown.replace('+', ''))} AS INTERVAL)"
        case _ if oid == _UUID:
            return quoted_text(_uuid(shown))
        case _ if oid in (0, _DATE, 1114) and (day := _ZONED_DAY.fullmatch(shown)) is not None:
            return quoted_text(day[1])
        case _:
            return quoted_text(shown)


def _array(items: list[Item], element: int) -> str:
    """An array of SQL. An empty one is written as what remains when its only element is removed, since `ARRAY[]` has no
    type.

    >>> _array([["1"], ["2"]], 23), _array([None], 23), _array([], 23)
    ('ARRAY[ARRAY[1], ARRAY[2]]', 'ARRAY[CAST(NULL AS INTEGER)]', 'ARRAY_REMOVE(ARRAY[0], 0)')
    """
    if not items:
        some = _typed("0", element) if element in _NUMBERS else _SOME.get(element, "''")
        return f"ARRAY_REMOVE(ARRAY[{some}], {some})"
    if all(item is None for item in items) and element in _SQL:
        return f"ARRAY[{', '.join(f'CAST(NULL AS {_SQL[element]})' for _ in items)}]"
    return f"ARRAY[{', '.join(_item(item, element) for item in items)}]"


#: A value of each type for the writing of empty arrays.
_SOME: Final = {
    BOOL: "TRUE", BYTEA: "X''", _DATE: "CAST('2000-01-01' AS DATE)", 1114: "CAST('2000-01-01' AS TIMESTAMP)",
    1184: "CAST('2000-01-01' AS TIMESTAMP)", _UUID: "CAST('00000000-0000-0000-0000-000000000000' AS UUID)",
}  # fmt: skip


def _item(item: Item, element: int) -> str:
    if isinstance(item, list):
        return _array(item, element)
    return "NULL" if item is None else _typed(item, element)


def _typed(text: str, oid: int) -> str:
    """A literal that has its type by itself, since the elements of an array have one type."""
    shown = _of_text(text, oid)
    if oid in FLOATS and _NUMBER.fullmatch(shown):
        return f"CAST({shown} AS DOUBLE)"
    return f"CAST({shown} AS {_SQL[oid]})" if oid in (_DATE, 1114, 1184, _UUID) else shown


def _items(value: bytes, element: int, *, binary: bool) -> list[Item]:
    """The items of an array, as texts. Raises Malformed if the value is not an array."""
    if binary:
        return _items_of_binary(value)
    try:
        return items_of(_decoded(value))
    except NoArray as error:
        raise Malformed(str(error)) from error


def _items_of_binary(value: bytes) -> list[Item]:
    reader = Reader(value)
    dimensions, _, element = reader.number(4), reader.number(4), reader.number(4)
    if not 0 <= dimensions <= _MOST_DIMENSIONS:
        raise Malformed(f"an array has {dimensions} dimensions")
    lengths = [(reader.number(4), reader.number(4))[0] for _ in range(dimensions)]
    if math.prod(lengths) * 4 > len(value):
        raise Malformed("an array is shorter than its lengths say")
    return _nested(reader, element, lengths) if lengths else []


_MOST_DIMENSIONS: Final = 6


def _nested(reader: Reader, element: int, lengths: list[int]) -> list[Item]:
    first, *rest = lengths
    if rest:
        return [_nested(reader, element, rest) for _ in range(first)]
    values = (reader.value() for _ in range(first))
    return [None if value is None else _from_binary(value, element) for value in values]


def _bytes_of(text: str) -> bytes:
    """The bytes that a text denotes, in the forms `\\x00ff` and `a\\000b`."""
    if text.startswith("\\x"):
        try:
            return bytes.fromhex(text[2:])
        except ValueError as error:
            raise Malformed("bytes as text have two hexadecimal digits each, after \\x") from error
    escaped = re.compile(rb"\\(\\|[0-3][0-7]{2})")
    return escaped.sub(lambda found: b"\\" if found[1] == b"\\" else bytes([int(found[1], 8)]), text.encode())


def _uuid(text: str) -> str:
    """A UUID in canonical form: clients may leave out its hyphens."""
    try:
        return str(UUID(text))
    except ValueError as error:
        raise Malformed(f'"{text}" is not a UUID') from error


def _from_binary(value: bytes, oid: int) -> str:
    form = _INTEGERS.get(oid) or FLOATS.get(oid) or ""
    if form and len(value) == struct.calcsize(form):
        return repr(struct.unpack(form, value)[0])
    if oid == BOOL:
        return "t" if value == b"\1" else "f"
    if oid in (0, TEXT.oid, 19, 1042, 1043, 705):
        return _decoded(value)
    if (read := _MOMENTS.get(oid)) is not None and len(value) in (4, 8):
        try:
            return read(int.from_bytes(value, "big", signed=True))
        except OverflowError as error:
            raise Malformed("a date or time is outside the years 1 to 9999") from error
    if oid == NUMERIC and len(value) >= 8:
        return _numeric(value)
    if oid == _UUID and len(value) == 16:
        return str(UUID(bytes=value))
    if oid == BYTEA:
        return f"\\x{value.hex()}"
    if oid == INTERVAL and len(value) == 16:
        return unpacked_interval(value)
    raise Malformed(f"parameters of type {oid} are supported in text format only")


def _numeric(value: bytes) -> str:
    """A decimal number as text, from digits to the base of 10 000; the first digit is multiplied by 10 000 ** weight.

    >>> _numeric(bytes.fromhex("0003 0001 4000 0003 0001 00e8 09c4"))
    '-10232.250'
    """
    count, weight, sign, scale = struct.unpack_from("!hhHh", value)
    if sign not in (0, 0x4000) or len(value) != 8 + 2 * count:
        raise Malformed("a number is not finite, or is shorter than its digit count says")
    digits = struct.unpack_from(f"!{count}h", value, 8)
    whole = sum(digit * 10_000 ** (count - 1 - at) for at, digit in enumerate(digits))
    exact = Decimal(f"{whole}E{4 * (weight - count + 1)}")  # sums of Decimals would be rounded to 28 digits
    shown = f"{exact:.{max(scale, 0)}f}"
    return f"-{shown}" if sign else shown


def _decoded(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise Malformed("a parameter is not UTF-8") from error
