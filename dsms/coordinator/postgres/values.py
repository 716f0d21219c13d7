"""Writes the values of columns, as text and in PostgreSQL's binary form."""

from __future__ import annotations

import json
import struct
from base64 import b64decode
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Final
from uuid import UUID

from dsms.coordinator.postgres.array_texts import array_text
from dsms.coordinator.postgres.intervals import interval_text, length_of, packed_interval
from dsms.coordinator.postgres.wire_types import (
    BOOL,
    BYTEA,
    ELEMENTS,
    FLOATS,
    INT2VECTOR,
    INTEGERS,
    INTERVAL,
    JSON,
    NUMERIC,
    START,
    TEXT,
    Type,
)


@lru_cache(1_000)
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
    if oid in INTEGERS:
        return lambda value: struct.pack(INTEGERS[oid], int(str(value)))
    if oid in FLOATS:
        return lambda value: struct.pack(FLOATS[oid], float(str(value)))
    if oid == BOOL:
        return lambda value: b"\1" if value else b"\0"
    if oid in (TEXT.oid, JSON.oid):
        return _as_text(oid)
    if oid == BYTEA:
        return _bytes
    if oid == INTERVAL:
        return lambda value: packed_interval(length_of(value))
    if oid == INT2VECTOR.oid:
        return lambda value: _array(value, 21, first=0)
    if (element := ELEMENTS.get(oid)) is not None:
        return lambda value: _array(value, element, first=1)
    if (write := _PACKED.get(oid)) is not None:
        return lambda value: _packed(write, str(value), oid)
    raise Unwritable(f"values of type {oid} have no binary form here; ask for text")


def _array(items: object, element: int, *, first: int) -> bytes:
    """A list of scalars as an array with one dimension, whose first item has the number `first`."""
    assert isinstance(items, list | tuple)
    write = writer_of(Type(element, -1), binary=True)
    values = [write(item) for item in items]
    dimensions = struct.pack("!ii", len(values), first) if values else b""
    head = struct.pack("!iii", bool(values), None in values, element)
    parts = (struct.pack("!i", -1) if value is None else struct.pack("!i", len(value)) + value for value in values)
    return head + dimensions + b"".join(parts)


def _bytes(value: object) -> bytes:
    """Bytes, which are base64 in rows that another process has serialised."""
    return value if isinstance(value, bytes) else b64decode(str(value))


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
    return struct.pack("!q", (moment - START) // timedelta(microseconds=1))


def _days(text: str) -> bytes:
    return struct.pack("!i", (date.fromisoformat(text) - START.date()).days)


def _of_day(text: str) -> bytes:
    return _micros(f"2000-01-01 {text}")


def _digits(text: str) -> bytes:
    """The binary form of a decimal number: digits to the base of 10 000.

    >>> _digits("-10232.250").hex(" ", 2), _digits("0").hex(" ", 2)
    ('0003 0001 4000 0003 0001 00e8 09c4', '0001 0000 0000 0000 0000')
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
    1114: _micros,
    1184: _micros,
    NUMERIC: _digits,
    2950: lambda text: UUID(text).bytes,
}


def _as_text(oid: int) -> Callable[[object], bytes]:
    write = _text_writer(oid)
    return lambda value: write(value).encode()


def _text_writer(oid: int) -> Callable[[object], str]:
    if oid == BOOL:
        return lambda value: "t" if value else "f"
    if oid == JSON.oid:
        return lambda value: value if isinstance(value, str) else json.dumps(value)
    if oid in (1114, 1184):
        return lambda value: str(value).replace("T", " ", 1).removesuffix("Z")
    if oid in FLOATS:
        return lambda value: _NOT_FINITE.get(str(value), str(value))
    if oid == BYTEA:
        return lambda value: f"\\x{_bytes(value).hex()}"
    if oid == INTERVAL:
        return lambda value: interval_text(length_of(value))
    if oid == INT2VECTOR.oid:
        return lambda value: " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    if (element := ELEMENTS.get(oid)) is not None:
        write = _text_writer(element)
        return lambda value: array_text(value, write) if isinstance(value, list | tuple) else str(value)
    return str


_NOT_FINITE: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
