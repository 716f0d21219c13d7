"""PostgreSQL's types and values: determines the type of a column of an answer, writes its values, and turns parameters
into SQL literals."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Final, NamedTuple
from uuid import UUID

from dsms.coordinator.postgres.messages import Malformed
from operators.core.quoting import quoted_text

_INTEGERS: Final = {21: "!h", 23: "!i", 20: "!q"}
_FLOATS: Final = {700: "!f", 701: "!d"}
_BOOL, _TEXT, _JSON, _NUMERIC, _TIMESTAMP = 16, 25, 114, 1700, 1114
_UUID = 2950
_START = datetime(2000, 1, 1)  # noqa: DTZ001  instants are counted from here, in UTC where they have a zone
#: Readers of the binary form of dates and times, by type: from days or microseconds to text.
_MOMENTS: Final[dict[int, Callable[[int], str]]] = {
    1082: lambda days: str((_START + timedelta(days=days)).date()),
    1083: lambda micros: str((_START + timedelta(microseconds=micros)).time()),
    _TIMESTAMP: lambda micros: str(_START + timedelta(microseconds=micros)),
    1184: lambda micros: f"{_START + timedelta(microseconds=micros)}+00",
}
#: Types whose literals need no quotes.
_NUMBERS = frozenset({*_INTEGERS, *_FLOATS, 26, _NUMERIC})
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


class Type(NamedTuple):
    """The OID of a type in pg_type, and its size in bytes; -1: it varies."""

    oid: int
    size: int


TEXT, JSON = Type(_TEXT, -1), Type(_JSON, -1)
#: PostgreSQL's types by the part of DuckDB's type names before a parenthesis; other types become JSON.
_BY_NAME = {
    "BOOLEAN": Type(_BOOL, 1), "BOOL": Type(_BOOL, 1),
    "TINYINT": Type(21, 2), "SMALLINT": Type(21, 2), "UTINYINT": Type(21, 2),
    "INTEGER": Type(23, 4), "USMALLINT": Type(23, 4),
    "BIGINT": Type(20, 8), "UINTEGER": Type(20, 8),
    "HUGEINT": Type(_NUMERIC, -1), "UBIGINT": Type(_NUMERIC, -1), "UHUGEINT": Type(_NUMERIC, -1),
    "DECIMAL": Type(_NUMERIC, -1),
    "FLOAT": Type(700, 4), "DOUBLE": Type(701, 8),
    "VARCHAR": TEXT, "STRING": TEXT, "DATE": Type(1082, 4), "TIME": Type(1083, 8),
    "TIMESTAMP": Type(_TIMESTAMP, 8), "TIMESTAMP_S": Type(_TIMESTAMP, 8), "TIMESTAMP_MS": Type(_TIMESTAMP, 8),
    "TIMESTAMP_NS": Type(_TIMESTAMP, 8), "TIMESTAMP WITH TIME ZONE": Type(1184, 8),
    "INTERVAL": TEXT, "UUID": Type(2950, 16), "BLOB": TEXT, "NULL": TEXT, '"NULL"': TEXT,
}  # fmt: skip


def type_of(name: str) -> Type:
    """The type of a column of a one-time SELECT, by DuckDB's name of its type.

    >>> type_of("BIGINT"), type_of("DECIMAL(9,2)"), type_of("INTEGER[]")
    (Type(oid=20, size=8), Type(oid=1700, size=-1), Type(oid=114, size=-1))
    """
    listed = name.endswith("]")
    return Type(_JSON, -1) if listed else _BY_NAME.get(name.partition("(")[0].upper(), Type(_JSON, -1))


def type_of_values(values: Sequence[object]) -> Type:
    """The type of a column, derived from its values, as for SHOW.

    >>> type_of_values([None, 3]), type_of_values([1, "a"])
    (Type(oid=20, size=8), Type(oid=25, size=-1))
    """
    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return Type(_BOOL, 1)
    if kinds == {int}:
        return Type(20, 8)
    return Type(701, 8) if kinds and kinds <= {int, float} else TEXT


def writer_of(type_: Type, *, binary: bool) -> Callable[[object], bytes | None]:
    """A function that writes values of a column, in the format that the client asks for. Raises Unwritable if the type
    has no binary form here.

    >>> writer_of(Type(20, 8), binary=True)(7), writer_of(Type(16, 1), binary=False)(True)
    (b'\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x07', b't')
    """
    write = _binary(type_.oid) if binary else _as_text(type_.oid)
    return lambda value: None if value is None else write(value)


class Unwritable(Exception):
    """A type without a binary form."""


def _binary(oid: int) -> Callable[[object], bytes]:
    if oid in _INTEGERS:
        return lambda value: struct.pack(_INTEGERS[oid], int(str(value)))
    if oid in _FLOATS:
        return lambda value: struct.pack(_FLOATS[oid], float(str(value)))
    if oid == _BOOL:
        return lambda value: b"\1" if value else b"\0"
    if oid in (_TEXT, _JSON):
        return _as_text(oid)
    if (write := _PACKED.get(oid)) is not None:
        return lambda value: _packed(write, str(value), oid)
    raise Unwritable(f"values of type {oid} have no binary form here; ask for text")


def _packed(write: Callable[[str], bytes], text: str, oid: int) -> bytes:
    try:
        return write(text)
    except (ValueError, ArithmeticError, struct.error) as error:
        raise Unwritable(f"{text} of type {oid} has no binary form here; ask for text") from error


def _micros(text: str) -> bytes:
    """The microseconds from 2000 on of a timestamp, in UTC if it has a zone.

    >>> int.from_bytes(_micros("2000-01-01T00:00:01.5Z"), "big")
    1500000
    """
    moment = datetime.fromisoformat(text)
    moment = moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
    return struct.pack("!q", (moment - _START) // timedelta(microseconds=1))


def _days(text: str) -> bytes:
    return struct.pack("!i", (date.fromisoformat(text) - _START.date()).days)


def _of_day(text: str) -> bytes:
    return _micros(f"2000-01-01 {text}")


def _digits(text: str) -> bytes:
    """The binary form of a decimal number: digits to the base of 10 000.

    >>> _numeric(_digits("-10232.250")), _numeric(_digits("0.00001")), _numeric(_digits("0"))
    ('-10232.250', '0.00001', '0')
    """
    whole, _, fraction = f"{Decimal(text):f}".removeprefix("-").partition(".")
    padded = whole.zfill(-(-len(whole) // 4) * 4) + fraction.ljust(-(-len(fraction) // 4) * 4, "0")
    groups = [int(padded[at : at + 4]) for at in range(0, len(padded), 4)]
    sign = 0x4000 if text.startswith("-") else 0
    head = struct.pack("!hhHh", len(groups), -(-len(whole) // 4) - 1, sign, len(fraction))
    return head + struct.pack(f"!{len(groups)}h", *groups)


#: Writers of the binary form of values that are given as text, by type.
_PACKED: Final[dict[int, Callable[[str], bytes]]] = {
    1082: _days,
    1083: _of_day,
    _TIMESTAMP: _micros,
    1184: _micros,
    _NUMERIC: _digits,
    2950: lambda text: UUID(text).bytes,
}


def _as_text(oid: int) -> Callable[[object], bytes]:
    if oid == _BOOL:
        return lambda value: b"t" if value else b"f"
    if oid == _JSON:
        return lambda value: (value if isinstance(value, str) else json.dumps(value)).encode()
    if oid in (_TIMESTAMP, 1184):
        return lambda value: str(value).replace("T", " ", 1).removesuffix("Z").encode()
    return lambda value: str(value).encode()


def literal(value: bytes | None, oid: int, *, binary: bool) -> str:
    """A parameter as an SQL literal: a number or a Boolean if its type says so, else a quoted text.

    >>> literal(b"7", 20, binary=False), literal(b"O'Hara", 0, binary=False), literal(None, 0, binary=False)
    ('7', "'O''Hara'", 'NULL')
    >>> literal(b"\\0\\0\\0\\7", 23, binary=True), literal(b"t", 16, binary=False)
    ('7', 'TRUE')
    """
    if value is None:
        return "NULL"
    shown = _from_binary(value, oid) if binary else _decoded(value)
    if oid == _BOOL:
        return "TRUE" if shown.lower() in ("t", "true", "1", "yes", "on") else "FALSE"
    if oid in _NUMBERS and _NUMBER.fullmatch(shown):
        return shown
    return quoted_text(_uuid(shown) if oid == _UUID else shown)


def _uuid(text: str) -> str:
    """A UUID in canonical form: clients may leave out its hyphens."""
    try:
        return str(UUID(text))
    except ValueError as error:
        raise Malformed(f'"{text}" is not a UUID') from error


def _from_binary(value: bytes, oid: int) -> str:
    form = _INTEGERS.get(oid) or _FLOATS.get(oid) or ""
    if form and len(value) == struct.calcsize(form):
        return repr(struct.unpack(form, value)[0])
    if oid == _BOOL:
        return "t" if value == b"\1" else "f"
    if oid in (0, _TEXT, 1043, 705):
        return _decoded(value)
    if (read := _MOMENTS.get(oid)) is not None and len(value) in (4, 8):
        try:
            return read(int.from_bytes(value, "big", signed=True))
        except OverflowError as error:
            raise Malformed("a date or time is outside the years 1 to 9999") from error
    if oid == _NUMERIC and len(value) >= 8:
        return _numeric(value)
    if oid == _UUID and len(value) == 16:
        return str(UUID(bytes=value))
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
