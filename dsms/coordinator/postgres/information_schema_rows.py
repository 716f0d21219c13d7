"""The rows of `information_schema`: the objects that the caller may read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from dsms.coordinator.catalog.lookup import ReadableObject
from dsms.coordinator.postgres.catalog_rows import Rows, columns_of, key_name, relkind, schemas_of
from dsms.coordinator.postgres.catalog_types import ColumnType, type_of_oid

_TABLE_TYPES: Final = {"r": "BASE TABLE", "f": "FOREIGN"}
#: The binary digits of numbers that are not DECIMAL, and the fractional digits of seconds.
_BITS: Final = {"int2": 16, "int4": 32, "int8": 64, "float4": 24, "float8": 53}
_SECOND_DIGITS: Final = {"date": 0, "time": 6, "timestamp": 6, "timestamptz": 6, "interval": 6}


def _tables(objects: Sequence[ReadableObject]) -> Rows:
    for item in objects:
        kind = relkind(item)
        yield _of_table(item) | {
            "table_type": _TABLE_TYPES.get(kind, "VIEW"),
            "is_insertable_into": "YES" if kind == "r" else "NO",
            "is_typed": "NO",
        }


def _columns(objects: Sequence[ReadableObject]) -> Rows:
    for item in objects:
        for at, (name, kind, nullable) in enumerate(columns_of(item), 1):
            yield _of_table(item) | _digits(kind) | {
                "column_name": name, "ordinal_position": at, "column_default": item.defaults.get(name),
                "is_nullable": "YES" if nullable else "NO", "udt_catalog": "dsms",
                "data_type": "ARRAY" if kind.type.element else kind.type.sql,
                "udt_schema": "pg_catalog", "udt_name": kind.type.name, "dtd_identifier": str(at), "is_identity": "NO",
                "is_generated": "NEVER", "is_updatable": "NO", "identity_cycle": "NO",
            }  # fmt: skip


def _digits(kind: ColumnType) -> dict[str, object]:
    """The sizes of a type; NULL where its values have no such size."""
    bits = _BITS.get(kind.type.name)
    decimal = kind.modifier >= 0
    return {
        "character_maximum_length": None,
        "character_octet_length": None,
        "interval_precision": None,
        "numeric_precision": kind.modifier - 4 >> 16 if decimal else bits,
        "numeric_precision_radix": 10 if kind.type.name == "numeric" else 2 if bits else None,
        "numeric_scale": kind.modifier - 4 & 0xFFFF if decimal else 0 if kind.type.name.startswith("int") else None,
        "datetime_precision": _SECOND_DIGITS.get(kind.type.name),
    }


def _views(objects: Sequence[ReadableObject]) -> Rows:
    for item in objects:
        if relkind(item) not in _TABLE_TYPES:
            updated = {"is_updatable": "NO", "is_insertable_into": "NO"}
            yield _of_table(item) | {"view_definition": item.definition, "check_option": "NONE"} | updated


def _constraints(objects: Sequence[ReadableObject]) -> Rows:
    shared = {"is_deferrable": "NO", "initially_deferred": "NO", "enforced": "YES"}
    for item in objects:
        named = [(key_name(item), "PRIMARY KEY")] if item.keys else []
        for name, kind in [*named, *((name, "CHECK") for name in item.checks)]:
            yield _of_table(item) | _of_constraint(name, item) | shared | {"constraint_type": kind}


def _key_columns(objects: Sequence[ReadableObject]) -> Rows:
    for item in objects:
        for at, key in enumerate(item.keys, 1):
            place = {"column_name": key, "ordinal_position": at, "position_in_unique_constraint": None}
            yield _of_table(item) | _of_constraint(key_name(item), item) | place


def _checks(objects: Sequence[ReadableObject]) -> Rows:
    for item in objects:
        for name, condition in item.checks.items():
            yield _of_constraint(name, item) | {"check_clause": condition}


def _schemas(objects: Sequence[ReadableObject]) -> Rows:
    for name in schemas_of(objects):
        yield {"catalog_name": "dsms", "schema_name": name, "schema_owner": "dsms"}


def _of_table(item: ReadableObject) -> dict[str, object]:
    return {"table_catalog": "dsms", "table_schema": item.schema_name, "table_name": item.relation_name}


def _of_constraint(name: str, item: ReadableObject) -> dict[str, object]:
    return {"constraint_catalog": "dsms", "constraint_schema": item.schema_name, "constraint_name": name}


def _roles(_: Sequence[ReadableObject]) -> Rows:
    yield {"role_name": "dsms"}


def _database(_: Sequence[ReadableObject]) -> Rows:
    yield {"catalog_name": "dsms"}


def _privileges(objects: Sequence[ReadableObject]) -> Rows:
    granted = {"grantor": "dsms", "grantee": "dsms", "privilege_type": "SELECT", "is_grantable": "NO"}
    for item in objects:
        yield _of_table(item) | granted | {"with_hierarchy": "YES"}


def _elements(objects: Sequence[ReadableObject]) -> Rows:
    """The types of the elements of arrays."""
    for item in objects:
        named: dict[str, object] = {
            "object_catalog": "dsms",
            "object_schema": item.schema_name,
            "object_name": item.relation_name,
            "object_type": "TABLE",
        }
        for at, (_, kind, _) in enumerate(columns_of(item), 1):
            if kind.type.element:
                element = type_of_oid(kind.type.element)
                yield named | {
                    "collection_type_identifier": str(at), "data_type": element.sql, "udt_catalog": "dsms",
                    "udt_schema": "pg_catalog", "udt_name": element.name, "dtd_identifier": f"a{at}",
                }  # fmt: skip


#: The relations that have rows; the others are empty.
ROWS: Final[dict[str, Callable[[Sequence[ReadableObject]], Rows]]] = {
    "check_constraints": _checks,
    "columns": _columns,
    "constraint_column_usage": _key_columns,
    "element_types": _elements,
    "enabled_roles": _roles,
    "information_schema_catalog_name": _database,
    "key_column_usage": _key_columns,
    "role_table_grants": _privileges,
    "schemata": _schemas,
    "table_constraints": _constraints,
    "table_privileges": _privileges,
    "tables": _tables,
    "views": _views,
}
