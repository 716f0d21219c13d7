"""PostgreSQL's types, as its catalog describes them."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import pyarrow as pa

from dsms.coordinator.postgres.values import type_of


class PgType(NamedTuple):
    """A type: its OID, its name in pg_type, its name in SQL, its size in bytes (-1: it varies), and its category."""

    oid: int
    name: str
    sql: str
    size: int
    category: str = "U"


#: The types of columns here, and the types that clients look up by name.
PG_TYPES: Final = tuple(
    PgType(*described)
    for described in (
        (16, "bool", "boolean", 1, "B"),
        (17, "bytea", "bytea", -1),
        (18, "char", '"char"', 1, "Z"),
        (19, "name", "name", 64, "S"),
        (20, "int8", "bigint", 8, "N"),
        (21, "int2", "smallint", 2, "N"),
        (22, "int2vector", "int2vector", -1, "A"),
        (23, "int4", "integer", 4, "N"),
        (24, "regproc", "regproc", 4, "N"),
        (25, "text", "text", -1, "S"),
        (26, "oid", "oid", 4, "N"),
        (114, "json", "json", -1),
        (700, "float4", "real", 4, "N"),
        (701, "float8", "double precision", 8, "N"),
        (1042, "bpchar", "character", -1, "S"),
        (1043, "varchar", "character varying", -1, "S"),
        (1082, "date", "date", 4, "D"),
        (1083, "time", "time without time zone", 8, "D"),
        (1114, "timestamp", "timestamp without time zone", 8, "D"),
        (1184, "timestamptz", "timestamp with time zone", 8, "D"),
        (1186, "interval", "interval", 16, "T"),
        (1700, "numeric", "numeric", -1, "N"),
        (2205, "regclass", "regclass", 4, "N"),
        (2206, "regtype", "regtype", 4, "N"),
        (2950, "uuid", "uuid", 16),
        (3802, "jsonb", "jsonb", -1),
    )
)
_BY_OID: Final = {known.oid: known for known in PG_TYPES}
_NUMERIC: Final = 1700


class ColumnType(NamedTuple):
    """The type of a column, and its modifier in pg_attribute: the precision and the scale of a number, or -1."""

    type: PgType
    modifier: int


def column_type(field: pa.Field[Any], duckdb_name: str) -> ColumnType:
    """The type of a column that has this name of a type in DuckDB.

    >>> column_type(pa.field("price", pa.decimal128(9, 2)), "DECIMAL(9,2)").modifier
    589830
    """
    known = _BY_OID[type_of(duckdb_name).oid]
    precise = known.oid == _NUMERIC and pa.types.is_decimal(field.type)
    return ColumnType(known, (field.type.precision << 16 | field.type.scale) + 4 if precise else -1)


def oid_of_type(name: str) -> int | None:
    """The OID of the type with this name in pg_type or in SQL; None if there is none.

    >>> oid_of_type("double precision"), oid_of_type("pg_catalog.int4")
    (701, 23)
    """
    plain = name.removeprefix("pg_catalog.").lower()
    return next((known.oid for known in PG_TYPES if plain in (known.name, known.sql)), None)


def format_type_sql() -> str:
    """DuckDB's text of `format_type(a, b)`: the name in SQL of the type with OID `a`, with its modifier `b`."""
    cases = " ".join(f"WHEN {known.oid} THEN '{known.sql}'" for known in PG_TYPES)
    precise = f"WHEN a = {_NUMERIC} AND b >= 4 THEN 'numeric(' || ((b - 4) >> 16) || ',' || ((b - 4) & 65535) || ')'"
    return f"CASE WHEN a IS NULL THEN NULL {precise} ELSE CASE a {cases} ELSE '???' END END"
