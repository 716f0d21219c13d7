"""The rows of `pg_catalog`: the objects that the caller may read, as PostgreSQL would describe them.

Tables are tables, views and queries are materialized views, and streams are foreign tables, since their rows are stored
elsewhere. A primary key is an index and a constraint, as in PostgreSQL.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from dsms.coordinator.catalog.lookup import ReadableObject, ReadableObjects
from dsms.coordinator.postgres.catalog_types import PG_TYPES, ColumnType, column_type, functions_of
from dsms.coordinator.postgres.session_values import SHOWN
from dsms.coordinator.postgres.wire_types import ARRAYS
from dsms.model.names import PUBLIC
from dsms.tables.one_time import type_names
from operators.core.quoting import quoted_identifier

#: The rows of a relation, as values by column.
Rows = Iterator[dict[str, object]]
_PG_CATALOG, _INFORMATION_SCHEMA, _OWNER, _BTREE, _HEAP = 11, 13_000, 10, 403, 2
#: The OIDs of objects, indexes, and constraints begin here; the objects' numbers are added.
_OBJECTS, _INDEXES, _KEYS, _CHECKS = 16_384, 2**29, 2**30, 2**30 + 2**29
#: The OIDs of the indexes of views and queries, which are not visible in lists.
VIEW_INDEXES: Final = range(2**29 + 2**28, 2**30)
#: The OIDs of functions begin here.
_FUNCTIONS: Final = 15_000
_ANY: Final = 2276
#: The OIDs of schemas that statements created begin here.
_SCHEMAS: Final = 2**28
#: The most checks of a table that have OIDs of their own.
_MAX_CHECKS = 1_024
_RELKINDS: Final = {"table": "r", "stream": "f"}
_MATERIALIZED_VIEW = "m"
#: The tablespace of everything, and the server of foreign tables with its kind.
_TABLESPACE: Final = 1_663
_SERVER, _WRAPPER = 16_383, 16_382
#: The OID of pg_class, the relation whose rows comments describe.
_CLASS: Final = 1_259


def relkind(item: ReadableObject) -> str:
    """The kind of an object in pg_class."""
    return _RELKINDS.get(item.kind, _MATERIALIZED_VIEW)


def oid_of(item: ReadableObject) -> int:
    """The OID of an object."""
    return _OBJECTS + item.number


def columns_of(item: ReadableObject) -> list[tuple[str, ColumnType, bool]]:
    """The name, the type, and whether the value may be NULL, of each column."""
    named = zip(item.schema, type_names(item.schema), strict=True)
    return [(field.name, column_type(name), field.nullable) for field, name in named]


def key_name(item: ReadableObject) -> str:
    """The name of the primary key and of its index."""
    return f"{item.relation_name}_pkey"


def definitions(objects: Sequence[ReadableObject]) -> Rows:
    """The texts of views, indexes and constraints by OID; those of the columns of an index by their numbers, from 1
    on. Comments have negative numbers: -1 on an object, -1 - n on its column n."""
    for item in objects:
        yield {"oid": oid_of(item), "definition": item.definition}
        for at, text in _comments_of(item):
            yield {"oid": oid_of(item), "part": -1 - at, "definition": text}
        for at, (_, condition) in enumerate(item.checks.items()):
            yield {"oid": _check_oid(item, at), "definition": f"CHECK ({condition})"}
    for item in _keyed(objects):
        keys = list(map(shown_name, item.keys))
        yield {"oid": _KEYS + item.number, "definition": f"PRIMARY KEY ({', '.join(keys)})"}
        yield {"oid": _index_oid(item), "definition": _index_sql(item)}
        for at, key in enumerate(keys, 1):
            yield {"oid": _index_oid(item), "part": at, "definition": key}


def _index_sql(item: ReadableObject) -> str:
    keys = ", ".join(map(shown_name, item.keys))
    table = f"{shown_name(item.schema_name)}.{shown_name(item.relation_name)}"
    return f"CREATE UNIQUE INDEX {shown_name(key_name(item))} ON {table} USING btree ({keys})"


def shown_name(name: str) -> str:
    """The name, in quotes only if PostgreSQL needs them.

    >>> shown_name("rooms"), shown_name("Rooms")
    ('rooms', '"Rooms"')
    """
    return name if name.isascii() and name.isidentifier() and name == name.lower() else quoted_identifier(name)


def _comments_of(item: ReadableObject) -> Iterator[tuple[int, str]]:
    """The comments on an object (0) and on its columns, by their numbers from 1 on."""
    for at, name in enumerate(("", *item.schema.names)):
        if name in item.comments:
            yield at, item.comments[name]


def _descriptions(objects: Sequence[ReadableObject]) -> Rows:
    for item in objects:
        for at, text in _comments_of(item):
            yield {"objoid": oid_of(item), "classoid": _CLASS, "objsubid": at, "description": text}


def _keyed(objects: Sequence[ReadableObject]) -> Iterator[ReadableObject]:
    return (item for item in objects if item.keys)


def _check_oid(item: ReadableObject, at: int) -> int:
    return _CHECKS + item.number * _MAX_CHECKS + at


def _classes(objects: Sequence[ReadableObject]) -> Rows:
    shared = {"relowner": _OWNER, "relpersistence": "p", "reltuples": -1}
    for item in objects:
        kind = relkind(item)
        yield shared | {
            "oid": oid_of(item), "relname": item.relation_name, "relnamespace": namespace_oid(item.schema_name),
            "relkind": kind, "relnatts": len(item.schema),
            "relreplident": "d", "relhasindex": bool(item.keys), "relchecks": len(item.checks), "relispopulated": True,
            "relam": 0 if kind == "f" else _HEAP,
        }  # fmt: skip
    for item in _keyed(objects):
        yield shared | {
            "oid": _index_oid(item), "relname": key_name(item), "relnamespace": namespace_oid(item.schema_name),
            "relkind": "i", "relnatts": len(item.keys),
            "relreplident": "n", "relam": _access_method(item), "relispopulated": True,
        }  # fmt: skip


def _index_oid(item: ReadableObject) -> int:
    return (_INDEXES if relkind(item) == "r" else VIEW_INDEXES.start) + item.number


def _access_method(item: ReadableObject) -> int:
    """That of the index of a key. The index of a view has none: dbt would drop an index that a model does not have."""
    return _BTREE if relkind(item) == "r" else 0


def _attributes(objects: Sequence[ReadableObject]) -> Rows:
    for item in objects:
        columns = list(enumerate(columns_of(item), 1))
        for at, (name, kind, nullable) in columns:
            yield _attribute(oid_of(item), at, name, kind) | {
                "attnotnull": not nullable,
                "atthasdef": name in item.defaults,
            }
        kinds = {name: kind for _, (name, kind, _) in columns}
        for at, key in enumerate(item.keys, 1):
            yield _attribute(_index_oid(item), at, key, kinds[key])


def _attribute(oid: int, at: int, name: str, kind: ColumnType) -> dict[str, object]:
    return {
        "attrelid": oid, "attnum": at, "attname": name, "atttypid": kind.type.oid, "attlen": kind.type.size,
        "atttypmod": kind.modifier, "attstattarget": -1, "attcacheoff": -1, "attidentity": "", "attgenerated": "",
        "attcompression": "", "attstorage": "p", "attalign": "i", "attislocal": True,
        "attndims": int(bool(kind.type.element)),
    }  # fmt: skip


def _defaults(objects: Sequence[ReadableObject]) -> Rows:
    for item in objects:
        for at, name in enumerate(item.schema.names, 1):
            if name in item.defaults:
                yield {"oid": _OBJECTS, "adrelid": oid_of(item), "adnum": at, "adbin": item.defaults[name]}


def _key_numbers(item: ReadableObject) -> list[int]:
    return [item.schema.names.index(key) + 1 for key in item.keys]


def _indexes(objects: Sequence[ReadableObject]) -> Rows:
    for item in _keyed(objects):
        count = len(item.keys)
        yield {
            "indexrelid": _index_oid(item), "indrelid": oid_of(item), "indnatts": count, "indnkeyatts": count,
            "indkey": _key_numbers(item), "indoption": [0] * count, "indclass": [0] * count,
            "indcollation": [0] * count, "indisunique": True, "indisprimary": True, "indimmediate": True,
            "indisvalid": True, "indisready": True, "indislive": True,
        }  # fmt: skip


def _constraints(objects: Sequence[ReadableObject]) -> Rows:
    shared: dict[str, object] = {"convalidated": True, "conislocal": True, "connoinherit": True}
    shared |= {"confupdtype": " ", "confdeltype": " ", "confmatchtype": " "}
    for item in _keyed(objects):
        yield shared | {
            "connamespace": namespace_oid(item.schema_name), "oid": _KEYS + item.number, "conname": key_name(item),
            "contype": "p", "conrelid": oid_of(item),
            "conindid": _index_oid(item), "conkey": _key_numbers(item),
        }  # fmt: skip
    for item in objects:
        for at, name in enumerate(item.checks):
            yield shared | {
                "connamespace": namespace_oid(item.schema_name), "oid": _check_oid(item, at), "conname": name,
                "contype": "c", "conrelid": oid_of(item), "conbin": item.checks[name],
            }  # fmt: skip


def _types(_: Sequence[ReadableObject]) -> Rows:
    for known in PG_TYPES:
        read, write, receive, send = functions_of(known)
        yield {
            "oid": known.oid, "typname": known.name, "typlen": known.size, "typcategory": known.category,
            "typnamespace": _PG_CATALOG, "typowner": _OWNER, "typtype": "b", "typdelim": ",", "typtypmod": -1,
            "typbyval": 0 < known.size <= 8, "typisdefined": True, "typalign": "i", "typstorage": "p",
            "typinput": read, "typoutput": write, "typreceive": receive, "typsend": send, "typelem": known.element,
            "typarray": ARRAYS.get(known.oid, 0),
        }  # fmt: skip


def _functions(_: Sequence[ReadableObject]) -> Rows:
    """The functions that read and write the values of types."""
    named = dict.fromkeys(name for known in PG_TYPES for name in functions_of(known))
    for at, name in enumerate(named):
        yield {
            "oid": _FUNCTIONS + at, "proname": name, "pronamespace": _PG_CATALOG, "proowner": _OWNER, "prosrc": name,
            "prolang": 12, "prokind": "f", "provolatile": "i", "proparallel": "s", "proisstrict": True, "pronargs": 1,
            "proargtypes": [_ANY], "prorettype": _ANY,
        }  # fmt: skip


def _tables(objects: Sequence[ReadableObject]) -> Rows:
    for item in objects:
        if relkind(item) == "r":
            yield {
                "schemaname": item.schema_name,
                "tablename": item.relation_name,
                "tableowner": "dsms",
                "hasindexes": bool(item.keys),
            }


def _materialized_views(objects: Sequence[ReadableObject]) -> Rows:
    for item in objects:
        if relkind(item) == _MATERIALIZED_VIEW:
            yield {
                "schemaname": item.schema_name, "matviewname": item.relation_name, "matviewowner": "dsms",
                "ispopulated": True, "definition": item.definition,
            }  # fmt: skip


def _namespaces(objects: Sequence[ReadableObject]) -> Rows:
    for name in schemas_of(objects):
        yield {"oid": namespace_oid(name), "nspname": name, "nspowner": _OWNER}


def schemas_of(objects: Sequence[ReadableObject]) -> tuple[str, ...]:
    """The schemas in which the caller may read objects, and those of the catalog."""
    schemas = objects.schemas if isinstance(objects, ReadableObjects) else (PUBLIC,)
    return (*schemas, "pg_catalog", "information_schema")


def namespace_oid(schema: str) -> int:
    """The OID of a schema. Those of schemas that statements created are check sums of their names.

    >>> namespace_oid("public"), namespace_oid("sales") == namespace_oid("sales")
    (2200, True)
    """
    known = {PUBLIC: 2200, "pg_catalog": _PG_CATALOG, "information_schema": _INFORMATION_SCHEMA}
    return known.get(schema) or _SCHEMAS + zlib.crc32(schema.encode()) % _SCHEMAS


def _counted(objects: Sequence[ReadableObject]) -> Rows:
    for item in objects:
        if relkind(item) != "f":
            yield {"relid": oid_of(item), "schemaname": item.schema_name, "relname": item.relation_name}


def _foreign_tables(objects: Sequence[ReadableObject]) -> Rows:
    for item in objects:
        if relkind(item) == "f":
            yield {"ftrelid": oid_of(item), "ftserver": _SERVER}


def _index_texts(objects: Sequence[ReadableObject]) -> Rows:
    for item in _keyed(objects):
        names = {"tablename": item.relation_name, "indexname": key_name(item)}
        yield {"schemaname": item.schema_name, **names, "indexdef": _index_sql(item)}


def _always(*rows: dict[str, object]) -> Callable[[Sequence[ReadableObject]], Rows]:
    """The same rows whatever the objects are."""
    return lambda _: iter(rows)


#: The relations that have rows; the others are empty.
ROWS: Final[dict[str, Callable[[Sequence[ReadableObject]], Rows]]] = {
    "pg_am": _always(
        {"oid": _HEAP, "amname": "heap", "amhandler": "heap_tableam_handler", "amtype": "t"},
        {"oid": _BTREE, "amname": "btree", "amhandler": "bthandler", "amtype": "i"},
    ),
    "pg_attrdef": _defaults,
    "pg_attribute": _attributes,
    "pg_class": _classes,
    "pg_constraint": _constraints,
    "pg_database": _always({
        "oid": 1, "datname": "dsms", "datdba": _OWNER, "encoding": 6, "datlocprovider": "c", "datallowconn": True,
        "datconnlimit": -1, "datcollate": "C", "datctype": "C", "dattablespace": _TABLESPACE,
    }),
    "pg_description": _descriptions,
    "pg_foreign_data_wrapper": _always({"oid": _WRAPPER, "fdwname": "dsms", "fdwowner": _OWNER}),
    "pg_foreign_server": _always({"oid": _SERVER, "srvname": "sources", "srvowner": _OWNER, "srvfdw": _WRAPPER}),
    "pg_foreign_table": _foreign_tables,
    "pg_index": _indexes,
    "pg_indexes": _index_texts,
    "pg_matviews": _materialized_views,
    "pg_namespace": _namespaces,
    "pg_proc": _functions,
    "pg_roles": _always({
        "oid": _OWNER, "rolname": "dsms", "rolinherit": True, "rolcanlogin": True, "rolconnlimit": -1,
    }),
    "pg_stat_activity": _always({
        "datid": 1, "datname": "dsms", "pid": 1, "usesysid": _OWNER, "usename": "dsms", "state": "active",
        "backend_type": "client backend",
    }),
    "pg_settings": lambda _: (
        {"name": name, "setting": value, "context": "internal", "vartype": "string", "source": "default",
         "boot_val": value, "reset_val": value} for name, value in sorted(SHOWN.items())
    ),
    "pg_stat_user_tables": _counted,
    "pg_stat_all_tables": _counted,
    "pg_tables": _tables,
    "pg_tablespace": _always({"oid": _TABLESPACE, "spcname": "pg_default", "spcowner": _OWNER}),
    "pg_timezone_names": _always({"name": "UTC", "abbrev": "UTC", "utc_offset": "00:00:00"}),
    "pg_type": _types,
    "pg_user": _always({"usename": "dsms", "usesysid": _OWNER}),
}  # fmt: skip
