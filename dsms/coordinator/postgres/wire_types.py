"""PostgreSQL's types of the columns of an answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Final, NamedTuple


class Type(NamedTuple):
    """The OID of a type in pg_type, its size in bytes (-1: it varies), and its modifier: the precision and the scale of
    a number, or -1."""

    oid: int
    size: int
    modifier: int = -1


BOOL, BYTEA, BIGINT, NUMERIC, INTERVAL = 16, 17, 20, 1700, 1186
TEXT, JSON = Type(25, -1), Type(114, -1)
#: The binary forms of integers and of floating-point numbers, by type.
INTEGERS: Final = {21: "!h", 23: "!i", 20: "!q"}
FLOATS: Final = {700: "!f", 701: "!d"}
#: Instants are counted from here, in UTC where they have a zone.
START: Final = datetime(2000, 1, 1)  # noqa: DTZ001
#: A list of numbers that is written without braces.
INT2VECTOR: Final = Type(22, -1)
#: The OIDs of arrays by those of their elements.
ARRAYS: Final = {
    16: 1000, 17: 1001, 18: 1002, 19: 1003, 20: 1016, 21: 1005, 22: 1006, 23: 1007, 24: 1008, 25: 1009, 26: 1028,
    30: 1013, 114: 199, 700: 1021, 701: 1022, 1042: 1014, 1043: 1015, 1082: 1182, 1083: 1183, 1114: 1115, 1184: 1185,
    1186: 1187, 1700: 1231, 2205: 2210, 2206: 2211, 2950: 2951, 3802: 3807,
}  # fmt: skip
#: The OIDs of the elements of arrays.
ELEMENTS: Final = {array: element for element, array in ARRAYS.items()}
_DECIMAL: Final = re.compile(r"(?:DECIMAL|NUMERIC)\((\d+),\s*(\d+)\)", re.IGNORECASE)
_LIST: Final = re.compile(r"(.*[^\]])\[\d*\]", re.DOTALL)
#: PostgreSQL's types by the part of DuckDB's type names before a parenthesis; other types become JSON.
_BY_NAME: Final = {
    "BOOLEAN": Type(BOOL, 1), "BOOL": Type(BOOL, 1),
    "TINYINT": Type(21, 2), "SMALLINT": Type(21, 2), "UTINYINT": Type(21, 2),
    "INTEGER": Type(23, 4), "USMALLINT": Type(23, 4),
    "BIGINT": Type(BIGINT, 8), "UINTEGER": Type(BIGINT, 8),
    "HUGEINT": Type(NUMERIC, -1), "UBIGINT": Type(NUMERIC, -1), "UHUGEINT": Type(NUMERIC, -1),
    "DECIMAL": Type(NUMERIC, -1),
    "FLOAT": Type(700, 4), "REAL": Type(700, 4), "DOUBLE": Type(701, 8),
    "VARCHAR": TEXT, "STRING": TEXT, "DATE": Type(1082, 4), "TIME": Type(1083, 8),
    "TIMESTAMP": Type(1114, 8), "TIMESTAMP_S": Type(1114, 8), "TIMESTAMP_MS": Type(1114, 8),
    "TIMESTAMP_NS": Type(1114, 8), "TIMESTAMP WITH TIME ZONE": Type(1184, 8),
    "INTERVAL": Type(INTERVAL, 16), "UUID": Type(2950, 16), "BLOB": Type(BYTEA, -1), "VARBINARY": Type(BYTEA, -1),
    "NULL": TEXT, '"NULL"': TEXT,
}  # fmt: skip


@lru_cache(1_000)
def type_of(name: str) -> Type:
    """The type of a column of a one-time SELECT, by DuckDB's name of its type. Lists of scalars are arrays.

    >>> type_of("BIGINT"), type_of("DECIMAL(9,2)"), type_of("INTEGER[]")
    (Type(oid=20, size=8, modifier=-1), Type(oid=1700, size=-1, modifier=589830), Type(oid=1007, size=-1, modifier=-1))
    >>> type_of("INTEGER[][]") == type_of("STRUCT(a INTEGER[])") == JSON
    True
    """
    if (listed := _LIST.fullmatch(name)) is not None:
        element = type_of(listed[1])
        return JSON if element == JSON else Type(ARRAYS[element.oid], -1, element.modifier)
    found = _BY_NAME.get(name.partition("(")[0].upper(), JSON)
    if (precise := _DECIMAL.fullmatch(name)) is not None:
        return found._replace(modifier=(int(precise[1]) << 16 | int(precise[2])) + 4)
    return found


def type_of_values(values: Sequence[object]) -> Type:
    """The type of a column, derived from its values, as for SHOW.

    >>> type_of_values([None, 3]).oid, type_of_values([1, "a"]).oid
    (20, 25)
    """
    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return Type(BOOL, 1)
    if kinds == {int}:
        return Type(BIGINT, 8)
    return Type(701, 8) if kinds and kinds <= {int, float} else TEXT
