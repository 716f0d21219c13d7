"""The names of what PostgreSQL's catalog numbers: relations, schemas, types and functions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final, NamedTuple

from dsms.coordinator.catalog.lookup import ReadableObject
from dsms.coordinator.postgres import catalog_rows
from dsms.coordinator.postgres.catalog_columns import SCHEMAS
from dsms.coordinator.postgres.catalog_types import PG_TYPES
from dsms.model.names import PUBLIC
from operators.core.errors import SqlError

#: The OIDs by which PostgreSQL knows the relations of its catalog; the others get numbers from `_OTHER_RELATIONS` on.
_RELATION_OIDS: Final = {
    "pg_tablespace": 1213, "pg_type": 1247, "pg_attribute": 1249, "pg_proc": 1255, "pg_class": 1259, "pg_authid": 1260,
    "pg_database": 1262, "pg_foreign_server": 1417, "pg_foreign_data_wrapper": 2328, "pg_am": 2601, "pg_attrdef": 2604,
    "pg_cast": 2605, "pg_constraint": 2606, "pg_conversion": 2607, "pg_description": 2609, "pg_index": 2610,
    "pg_language": 2612, "pg_namespace": 2615, "pg_opclass": 2616, "pg_operator": 2617, "pg_rewrite": 2618,
    "pg_trigger": 2620, "pg_opfamily": 2753, "pg_extension": 3079, "pg_policy": 3256, "pg_statistic_ext": 3381,
    "pg_collation": 3456, "pg_event_trigger": 3466, "pg_enum": 3501, "pg_ts_config": 3602, "pg_publication": 6104,
}  # fmt: skip
_OTHER_RELATIONS: Final = 13_100
_KINDS: Final = {"regclass": "relation", "regnamespace": "schema", "regtype": "type", "regproc": "function"}
#: The columns of the relation of names.
COLUMNS: Final = "kind name oid# shown"


class UnknownRelation(SqlError):
    """A query of the catalog names a relation, schema, type or function that is not in the catalog here."""


class Named(NamedTuple):
    """What a name of a kind (`regclass`, …) denotes; the kind `hidden` has what no bare name
    finds. The name is in small letters; `shown` is how it is shown."""

    kind: str
    name: str
    oid: int
    shown: str


def relation_oid(schema: str, name: str) -> int:
    """The OID of a relation of the catalog.

    >>> relation_oid("pg_catalog", "pg_class")
    1259
    """
    return _oids()[schema, name]


@cache
def _oids() -> dict[tuple[str, str], int]:
    names = [(schema, name) for schema, relations in SCHEMAS.items() for name in sorted(relations)]
    numbered = {key: _OTHER_RELATIONS + at for at, key in enumerate(names)}
    return numbered | {("pg_catalog", name): oid for name, oid in _RELATION_OIDS.items()}


def names(objects: Sequence[ReadableObject]) -> list[Named]:
    """All names, those of relations also with their schema."""
    return [*_of_objects(objects), *_of_system()]


def _of_objects(objects: Sequence[ReadableObject]) -> list[Named]:
    found = []
    schemas = {catalog_rows.namespace_oid(name): name for name in catalog_rows.schemas_of(objects)}
    for row in catalog_rows.ROWS["pg_class"](objects):
        name, oid = str(row["relname"]), int(str(row["oid"]))
        schema, plain = schemas[int(str(row["relnamespace"]))], catalog_rows.shown_name(name)
        in_path = schema == PUBLIC
        shown = plain if in_path else f"{catalog_rows.shown_name(schema)}.{plain}"
        found += [
            Named("regclass", each.lower(), oid, shown) for each in ([name] if in_path else []) + [f"{schema}.{name}"]
        ]
        if not in_path:
            found.append(Named("hidden", "", oid, shown))
    added = (name for name in catalog_rows.schemas_of(objects) if name not in (PUBLIC, *SCHEMAS))
    return [*found, *(Named("regnamespace", name, catalog_rows.namespace_oid(name), name) for name in added)]


@cache
def _of_system() -> tuple[Named, ...]:
    found = []
    for (schema, name), oid in _oids().items():
        full = f"{schema}.{name}"
        if schema == "pg_catalog":
            found.append(Named("regclass", name, oid, name))
        found.append(Named("regclass", full, oid, name if schema == "pg_catalog" else full))
    for known in PG_TYPES:
        for name in {known.name, known.sql, f"pg_catalog.{known.name}"}:
            found.append(Named("regtype", name, known.oid, known.sql))
    for kind, relation, column in (("regnamespace", "pg_namespace", "nspname"), ("regproc", "pg_proc", "proname")):
        for row in catalog_rows.ROWS[relation](()):
            name, oid = str(row[column]), int(str(row["oid"]))
            forms = [name] if kind == "regnamespace" else [name, f"pg_catalog.{name}"]
            found += [Named(kind, each, oid, name) for each in forms]
    return tuple(found)


def oid_of_name(kind: str, text: str, objects: Sequence[ReadableObject]) -> int:
    """The OID of what a text names. Raises UnknownRelation if nothing of this kind has the name."""
    plain = text.replace('"', "").lower()
    for named in (*_of_objects(objects), *_of_system()):
        if (named.kind, named.name) == (kind, plain):
            return named.oid
    raise UnknownRelation(f'{_KINDS[kind]} "{text}" does not exist')
