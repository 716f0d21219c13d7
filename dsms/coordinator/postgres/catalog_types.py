"""PostgreSQL's types, as its catalog describes them, and the functions that read and write their values."""

from __future__ import annotations

from typing import Final, NamedTuple

from dsms.coordinator.postgres.wire_types import ARRAYS, type_of


class PgType(NamedTuple):
    """A type: its OID, its name in pg_type, its name in SQL, its size in bytes (-1: it varies), its category, and the
    OID of its elements if it is an array or a vector, else 0."""

    oid: int
    name: str
    sql: str
    size: int
    category: str = "U"
    element: int = 0


#: The types of columns here, and the types that clients look up by name.
_ELEMENTS: Final = tuple(
    PgType(*described)
    for described in (
        (16, "bool", "boolean", 1, "B"),
        (17, "bytea", "bytea", -1),
        (18, "char", '"char"', 1, "Z"),
        (19, "name", "name", 64, "S"),
        (20, "int8", "bigint", 8, "N"),
        (21, "int2", "smallint", 2, "N"),
        (22, "int2vector", "int2vector", -1, "A", 21),
        (23, "int4", "integer", 4, "N"),
        (24, "regproc", "regproc", 4, "N"),
        (25, "text", "text", -1, "S"),
        (26, "oid", "oid", 4, "N"),
        (30, "oidvector", "oidvector", -1, "A", 26),
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
PG_TYPES: Final = _ELEMENTS + tuple(
    PgType(ARRAYS[known.oid], f"_{known.name}", f"{known.sql}[]", -1, "A", known.oid)
    for known in _ELEMENTS
    if known.oid in ARRAYS
)
_BY_OID: Final = {known.oid: known for known in PG_TYPES}
_NUMERIC: Final = 1700
#: Types whose functions have an underscore in their names: date, time, timestamp, timestamptz, interval, numeric, uuid,
#: json, jsonb.
_WITH_UNDERSCORE: Final = frozenset({114, 1082, 1083, 1114, 1184, 1186, 1700, 2950, 3802})


class ColumnType(NamedTuple):
    """The type of a column, and its modifier in pg_attribute: the precision and the scale of a number, or -1."""

    type: PgType
    modifier: int


def column_type(duckdb_name: str) -> ColumnType:
    """The type of a column that has this name of a type in DuckDB.

    >>> column_type("DECIMAL(9,2)").modifier, column_type("INTEGER[]").type.sql
    (589830, 'integer[]')
    """
    wire = type_of(duckdb_name)
    return ColumnType(_BY_OID[wire.oid], wire.modifier)


def type_of_oid(oid: int) -> PgType:
    """The type with an OID. Raises KeyError for an unknown one."""
    return _BY_OID[oid]


def functions_of(known: PgType) -> tuple[str, str, str, str]:
    """The names of the functions that read and write the values of a type: as text, then in binary form.

    >>> functions_of(_BY_OID[16])
    ('boolin', 'boolout', 'boolrecv', 'boolsend')
    """
    listed = known.name.startswith("_")
    name = "array" if listed else known.name
    between = "_" if listed or known.oid in _WITH_UNDERSCORE else ""
    read, write, receive, send = (f"{name}{between}{verb}" for verb in ("in", "out", "recv", "send"))
    return read, write, receive, send


def format_type_sql() -> str:
    """DuckDB's text of `format_type(a, b)`: the name in SQL of the type with OID `a`, with its modifier `b`."""
    cases = " ".join(f"WHEN {known.oid} THEN '{known.sql}'" for known in PG_TYPES)
    precise = f"WHEN a = {_NUMERIC} AND b >= 4 THEN 'numeric(' || ((b - 4) >> 16) || ',' || ((b - 4) & 65535) || ')'"
    return f"CASE WHEN a IS NULL THEN NULL {precise} ELSE CASE a {cases} ELSE '???' END END"
