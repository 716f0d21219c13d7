"""PostgreSQL's catalog: the relations of `pg_catalog` and `information_schema` that clients read, filled from the
objects of this system. DuckDB runs the clients' queries over them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

from dsms.coordinator.catalog.lookup import ReadableObject
from dsms.coordinator.postgres.values import Type, type_of
from dsms.tables.one_time import check_only_selects, type_names
from dsms.tables.question import QuestionWithRows

_PUBLIC, _PG_CATALOG, _OWNER = 2200, 11, 10
_FIRST_OID = 16_384
#: The relations of the catalog that are empty here, each with the columns that clients read. `[]` and `{}` mark arrays
#: of numbers and of texts, `$` marks a text.
_EMPTY = {
    "pg_am": "oid amname amtype", "pg_attrdef": "oid adrelid adnum adbin",
    "pg_index": "indexrelid indrelid indisunique indisprimary indisclustered indisvalid indkey[] indisreplident"
    " indnkeyatts indnullsnotdistinct indoption[] indpred indexprs indclass[] indisexclusion",
    "pg_constraint": "oid conname conrelid contype conindid confrelid conkey[] confkey[] conparentid condeferrable"
    " condeferred confupdtype confdeltype connamespace",
    "pg_description": "objoid classoid objsubid description", "pg_inherits": "inhrelid inhparent inhseqno"
    " inhdetachpending", "pg_policy": "polname polrelid polpermissive polroles[] polcmd polqual polwithcheck",
    "pg_trigger": "oid tgrelid tgname tgenabled tgisinternal tgparentid tgfoid",
    "pg_statistic_ext": "oid stxrelid stxnamespace stxname stxkind{} stxstattarget",
    "pg_publication": "oid pubname puballtables pubinsert pubupdate pubdelete pubtruncate pubviaroot",
    "pg_publication_rel": "prpubid prrelid prqual prattrs[]",
    "pg_publication_namespace": "pnpubid pnnspid", "pg_foreign_table": "ftrelid ftserver ftoptions",
    "pg_foreign_server": "oid srvname", "pg_collation": "oid collname collnamespace", "pg_enum": "oid enumtypid"
    " enumlabel enumsortorder", "pg_range": "rngtypid rngsubtype",
    "pg_extension": "oid extname extnamespace extversion",
    "pg_proc": "oid proname pronamespace prokind prorettype", "pg_opclass": "oid opcname opcdefault",
    "pg_rewrite": "oid ev_class rulename ev_enabled is_instead",
    "pg_sequence": "seqrelid seqstart seqincrement seqmin seqmax seqcache seqcycle",
    "pg_tablespace": "oid spcname", "pg_partitioned_table": "partrelid partstrat",
    "pg_auth_members": "roleid member grantor admin_option", "pg_depend": "objid refobjid deptype classid$ refclassid$"
    " objsubid refobjsubid", "pg_views": "schemaname viewname viewowner definition",
    "pg_indexes": "schemaname tablename indexname indexdef",
}  # fmt: skip
_NUMBERED = re.compile(r"((?<!classo)id|num|seqno|order|member|nkeyatts)$")
_TRUTH = re.compile(r"indis|indnulls|opcdefault|tgisinternal|condefer|polperm|puball|is_instead|inhdetach|admin_option")
_MACROS = """
pg_get_userbyid(a) AS 'dsms'; pg_table_is_visible(a) AS true; pg_type_is_visible(a) AS true;
pg_encoding_to_char(a) AS 'UTF8'; pg_get_viewdef(a) AS NULL, (a, b) AS NULL;
pg_get_indexdef(a, b, c) AS NULL, (a) AS NULL;
pg_get_expr(a, b) AS NULL, (a, b, c) AS NULL; obj_description(a, b) AS NULL, (a) AS NULL; col_description(a, b) AS NULL;
pg_get_constraintdef(a) AS NULL, (a, b) AS NULL; pg_relation_size(a) AS 0; pg_total_relation_size(a) AS 0;
pg_size_pretty(a) AS NULL; shobj_description(a, b) AS NULL; to_regtype(a) AS NULL; to_regclass(a) AS NULL;
has_table_privilege(a, b) AS true, (a, b, c) AS true; has_schema_privilege(a, b) AS true, (a, b, c) AS true;
has_database_privilege(a, b) AS true; pg_relation_is_publishable(a) AS false; pg_get_partkeydef(a) AS NULL;
pg_get_statisticsobjdef_columns(a) AS NULL; current_schemas(a) AS ['public']; array_upper(a, b) AS len(a);
array_lower(a, b) AS 1; pg_get_serial_sequence(a, b) AS NULL;
pg_get_function_result(a) AS NULL; pg_get_function_arguments(a) AS NULL; pg_get_function_identity_arguments(a) AS NULL;
pg_function_is_visible(a) AS true; parse_ident(a) AS string_split(a, '.');
quote_ident(a) AS
    CASE WHEN regexp_full_match(a, '[a-z_][a-z0-9_]*') THEN a ELSE '"' || replace(a, '"', '""') || '"' END;
"""
_REWRITTEN = (
    # Grafana's query for the schemas of the search path
    (
        re.compile(
            r"SELECT\s+CASE\s+WHEN\s+trim\(s\[i\]\)\s*=\s*'\"\$user\"'.{0,400}?"
            r"string_to_array\(current_setting\('search_path'\),','\)\s+s\b(?!.{0,400}?array_upper)",
            re.IGNORECASE | re.DOTALL,
        ),
        "SELECT 'public'",
    ),
    (re.compile(r"OPERATOR\s*\(\s*pg_catalog\s*\.\s*([^\s)]+)\s*\)", re.IGNORECASE), r"\1"),
    (re.compile(r"COLLATE\s+pg_catalog\s*\.\s*\"?\w+\"?", re.IGNORECASE), ""),
    (re.compile(r"\bpg_catalog\s*\.\s*(?=\w+\s*\()", re.IGNORECASE), ""),
    (re.compile(r"::\s*(pg_catalog\s*\.\s*)?(regclass|regtype|regproc|regnamespace|name|text)\b", re.I), "::VARCHAR"),
    (re.compile(r"\bjson_build_object\s*\(", re.IGNORECASE), "concat("),
    (re.compile(r"\bAS\s+(regclass|regtype)\s*\)", re.IGNORECASE), "AS VARCHAR)"),
    (re.compile(r"::\s*(pg_catalog\s*\.\s*)?(oid|xid)\b", re.IGNORECASE), "::BIGINT"),
    (re.compile(r"::\s*pg_catalog\s*\.\s*int(\d)", re.IGNORECASE), r"::INT\1"),
    (re.compile(r"\bE'\\n'"), "chr(10)"),
)
#: Relations of the catalog, named with their schema or by a name that begins with `pg_`.
_NAMED = re.compile(
    r"\b(?:(pg_catalog|information_schema)\s*\.\s*\"?(\w+)\"?|(?<![\w.\"])(pg_\w+))\b(?!\s*\()", re.IGNORECASE
)


def _relkind(item: ReadableObject) -> str:
    """The kind of a relation in pg_class: tables are tables, views are materialized views, and streams are foreign
    tables, since their rows are stored elsewhere."""
    return {"table": "r", "stream": "f"}.get(item.kind, "m")


def _columns_of(item: ReadableObject) -> list[tuple[str, Type, bool]]:
    """The name, the type and the nullability of each column."""
    named = zip(item.schema, type_names(item.schema), strict=True)
    return [(field.name, type_of(name), field.nullable) for field, name in named]


def asked_of_catalog(sql: str, objects: Iterable[ReadableObject]) -> QuestionWithRows:
    """A client's query of the catalog, rewritten for DuckDB. Raises SqlError for anything but one SELECT: other
    statements would affect the queries of other clients."""
    known, relations = list(objects), dict[str, pa.Table]()

    def renamed(found: re.Match[str]) -> str:
        schema, name = (found[1] or "pg_catalog").lower(), (found[2] or found[3]).lower()
        rows = _relation(schema, name, known)
        if rows is None:
            return found[0]
        relations[f"{schema} {name}"] = rows
        return f'"{schema} {name}"'

    for pattern, by in _REWRITTEN:
        sql = pattern.sub(by, sql)
    text = _NAMED.sub(renamed, sql)
    check_only_selects(text)
    return QuestionWithRows(_DEFINITIONS + text, relations)


def _relation(schema: str, name: str, objects: list[ReadableObject]) -> pa.Table | None:
    if schema == "information_schema":
        make = _INFORMATION.get(name)
        return None if make is None else make(objects)
    if name in _EMPTY:
        return pa.table(dict(map(_no_values, _EMPTY[name].split())))
    make = _PG.get(name)
    return None if make is None else make(objects)


def _no_values(column: str) -> tuple[str, pa.Array[Any]]:
    """A column without values. Its type is determined by its name."""
    if column.endswith("[]"):
        return column.removesuffix("[]"), pa.array([], pa.list_(pa.int64()))
    if column.endswith("{}"):
        return column.removesuffix("{}"), pa.array([], pa.list_(pa.string()))
    if column.endswith("$"):
        return column.removesuffix("$"), pa.array([], pa.string())
    kind = pa.int64() if _NUMBERED.search(column) else pa.bool_() if _TRUTH.match(column) else pa.string()
    return column, pa.array([], kind)


def _rows(columns: str, rows: Sequence[Sequence[Any]], **constants: Any) -> pa.Table:
    """A table with the rows in the named columns, and with constant columns."""
    names = columns.split()
    values = {name: [row[at] for row in rows] for at, name in enumerate(names)}
    return pa.table({**values, **{name: [value] * len(rows) for name, value in constants.items()}})


def _oid(item: ReadableObject) -> int:
    return _FIRST_OID + item.number


def _classes(objects: list[ReadableObject]) -> pa.Table:
    rows = [(_oid(item), item.name, _relkind(item), len(item.schema)) for item in objects]
    return _rows(
        "oid relname relkind relnatts", rows, relnamespace=_PUBLIC, relowner=_OWNER, relam=0, reltype=0, reloftype=0,
        reltablespace=0, relpages=0, reltuples=-1.0, reltoastrelid=0, relhasindex=False, relisshared=False,
        relpersistence="p", relchecks=0, relhasrules=False, relhastriggers=False, relhassubclass=False,
        relrowsecurity=False, relforcerowsecurity=False, relispopulated=True, relreplident="d", relispartition=False,
        relacl=None, reloptions=None, relpartbound=None, relfilenode=0,
    )  # fmt: skip


def _attributes(objects: list[ReadableObject]) -> pa.Table:
    rows = [
        (_oid(item), name, type_.oid, at, type_.size, not nullable)
        for item in objects
        for at, (name, type_, nullable) in enumerate(_columns_of(item), 1)
    ]
    return _rows(
        "attrelid attname atttypid attnum attlen attnotnull", rows, atttypmod=-1, atthasdef=False, attisdropped=False,
        attidentity="", attgenerated="", attcollation=0, attstattarget=-1, attstorage="p", attcompression="",
        attacl=None, attoptions=None, attfdwoptions=None, attislocal=True, attinhcount=0, attndims=0,
    )  # fmt: skip


_TYPES = {
    16: "boolean", 20: "bigint", 21: "smallint", 23: "integer", 25: "text", 114: "json", 700: "real",
    701: "double precision", 1082: "date", 1083: "time without time zone", 1114: "timestamp without time zone",
    1184: "timestamp with time zone", 1700: "numeric", 2950: "uuid",
}  # fmt: skip
_TYPNAMES = {16: "bool", 20: "int8", 21: "int2", 23: "int4", 700: "float4", 701: "float8", 1083: "time"} | {
    1114: "timestamp", 1184: "timestamptz",
}  # fmt: skip


def _types(_: list[ReadableObject]) -> pa.Table:
    rows = [(oid, _TYPNAMES.get(oid, name)) for oid, name in _TYPES.items()]
    return _rows(
        "oid typname", rows, typnamespace=_PG_CATALOG, typlen=-1, typtype="b", typcategory="U", typelem=0, typarray=0,
        typrelid=0, typbasetype=0, typtypmod=-1, typnotnull=False, typdelim=",", typcollation=0, typowner=_OWNER,
        typinput="", typdefault=None, typndims=0,
    )  # fmt: skip


def _format_type() -> str:
    cases = " ".join(f"WHEN {oid} THEN '{name}'" for oid, name in _TYPES.items())
    shown = f"CASE a::BIGINT {cases} ELSE '???' END"
    return f"format_type(a, b) AS {shown}, (a) AS {shown}"


#: The functions of PostgreSQL that clients call in such queries, as macros of DuckDB.
_DEFINITIONS = "".join(
    f"CREATE OR REPLACE TEMP MACRO {macro.strip()};" for macro in (*_MACROS.split(";"), _format_type()) if macro.strip()
)


def _tables(objects: list[ReadableObject]) -> pa.Table:
    kinds = {"r": "BASE TABLE", "f": "FOREIGN"}
    rows = [(item.name, kinds.get(_relkind(item), "VIEW")) for item in objects]
    return _rows("table_name table_type", rows, table_catalog="dsms", table_schema="public", is_insertable_into="NO")


def _columns(objects: list[ReadableObject]) -> pa.Table:
    rows = [
        (
            item.name,
            name,
            at,
            _TYPES.get(type_.oid, "text"),
            "YES" if nullable else "NO",
            _TYPNAMES.get(type_.oid, "text"),
            item.defaults.get(name),
        )
        for item in objects
        for at, (name, type_, nullable) in enumerate(_columns_of(item), 1)
    ]
    return _rows(
        "table_name column_name ordinal_position data_type is_nullable udt_name column_default", rows,
        table_catalog="dsms", table_schema="public", character_maximum_length=None, numeric_precision=None,
        numeric_scale=None, datetime_precision=None, udt_schema="pg_catalog", is_identity="NO", is_generated="NEVER",
    )  # fmt: skip


_Make = Callable[[list[ReadableObject]], pa.Table]
_PG: dict[str, _Make] = {
    "pg_class": _classes,
    "pg_attribute": _attributes,
    "pg_type": _types,
    "pg_namespace": lambda _: _rows(
        "oid nspname", [(_PUBLIC, "public"), (_PG_CATALOG, "pg_catalog")], nspowner=_OWNER, nspacl=None
    ),
    "pg_database": lambda _: _rows(
        "oid datname", [(1, "dsms")], datdba=_OWNER, encoding=6, datcollate="C", datctype="C", daticulocale=None,
        datlocprovider="c", datacl=None, datallowconn=True, datistemplate=False, datconnlimit=-1, dattablespace=0,
    ),
    "pg_roles": lambda _: _rows("oid rolname", [(_OWNER, "dsms")], rolsuper=False, rolcanlogin=True, rolinherit=True,
        rolcreaterole=False, rolcreatedb=False, rolconnlimit=-1, rolvaliduntil=None, rolreplication=False,
        rolbypassrls=False, rolconfig=None),
    "pg_user": lambda _: _rows("usesysid usename", [(_OWNER, "dsms")], usesuper=False),
    "pg_settings": lambda _: _rows("name setting", [("server_version", "15.0")], context="internal"),
    "pg_tables": lambda objects: _rows(
        "tablename", [(item.name,) for item in objects if _relkind(item) == "r"], schemaname="public", tableowner="dsms"
    ),
    "pg_matviews": lambda objects: _rows(
        "matviewname", [(item.name,) for item in objects if _relkind(item) == "m"], schemaname="public",
        matviewowner="dsms", ispopulated=True, hasindexes=False, definition=None,
    ),
}  # fmt: skip
_INFORMATION: dict[str, _Make] = {
    "tables": _tables,
    "columns": _columns,
    "schemata": lambda _: _rows("schema_name", [("public",)], catalog_name="dsms", schema_owner="dsms"),
    "views": lambda objects: _rows(
        "table_name", [(item.name,) for item in objects if _relkind(item) == "m"], table_catalog="dsms",
        table_schema="public", view_definition=None,
    ),
}  # fmt: skip
