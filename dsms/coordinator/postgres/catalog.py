"""PostgreSQL's catalog: recognises the clients' queries of `pg_catalog` and `information_schema`, and prepares them for
DuckDB, which runs them over relations that describe the objects of this system."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import pyarrow as pa
import sqlglot
from sqlglot import exp

from dsms.coordinator.catalog.lookup import ReadableObject
from dsms.coordinator.postgres import catalog_rows, information_schema_rows
from dsms.coordinator.postgres.catalog_columns import INFORMATION_SCHEMA, PG_CATALOG, relation
from dsms.coordinator.postgres.catalog_functions import DEFINITIONS, MACROS
from dsms.coordinator.postgres.catalog_rewriting import rewritten
from dsms.coordinator.postgres.catalog_types import oid_of_type
from dsms.model.position import position_of
from dsms.sql.parser.sqlglot_errors import readable_sqlglot_errors
from dsms.tables.one_time import check_only_selects
from dsms.tables.one_time_query import OneTimeQueryWithRows, is_common
from operators.core.errors import SqlError

#: The relations of the two schemas: their columns, and the rows of those that have some.
_SCHEMAS: Final = {
    "pg_catalog": (PG_CATALOG, catalog_rows.ROWS),
    "information_schema": (INFORMATION_SCHEMA, information_schema_rows.ROWS),
}
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
#: A text without any of these is no query of the catalog.
_SIGNS: Final = ("pg_", "information_schema", "::reg")


class UnknownRelation(SqlError):
    """A query of the catalog names a relation that is not in the catalog here."""


def catalog_query(sql: str) -> exp.Query | None:
    """The statement if it is a query that reads PostgreSQL's catalog; None for any other statement.

    >>> catalog_query("SELECT * FROM rooms JOIN pg_class ON true") is None, catalog_query("SELECT 'pg_class'") is None
    (False, True)
    """
    if not any(sign in sql.lower() for sign in _SIGNS):
        return None
    with suppress(SqlError), readable_sqlglot_errors():
        parsed = sqlglot.parse(sql, dialect="postgres")
        if len(parsed) == 1 and isinstance(parsed[0], exp.Query) and _reads_catalog(parsed[0]):
            return parsed[0]
    return None


def _reads_catalog(query: exp.Query) -> bool:
    """Whether a query reads a relation of the catalog, or no relation and calls a function of its schemas."""
    tables = [table for table in query.find_all(exp.Table) if not isinstance(table.this, exp.Func)]
    if tables:
        return any(map(_schema_of, tables))
    named = [*(dot.this.name for dot in query.find_all(exp.Dot)), *(table.db for table in query.find_all(exp.Table))]
    return any(name.lower() in _SCHEMAS for name in named) or any(
        isinstance(cast.to, exp.ObjectIdentifier) for cast in query.find_all(exp.Cast)
    )


def _schema_of(table: exp.Table) -> str | None:
    """The schema of a relation of the catalog; None for anything else."""
    schema, name = table.db.lower(), table.name.lower()
    if isinstance(table.this, exp.Func) or is_common(table):
        return None
    return schema if schema in _SCHEMAS else "pg_catalog" if not schema and name in PG_CATALOG else None


def asked_of_catalog(query: exp.Query, objects: Sequence[ReadableObject], user: str) -> OneTimeQueryWithRows:
    """A client's query of the catalog, rewritten for DuckDB. Raises SqlError for anything but one SELECT: other
    statements would affect the queries of other clients. Raises UnknownRelation for relations outside the catalog."""
    with readable_sqlglot_errors():
        made = rewritten(query, user, lambda kind, name: _named_oid(kind, name, objects))
        relations = _relations_of(made, objects)
        text = made.sql(dialect="duckdb", comments=False)
    check_only_selects(text)
    return OneTimeQueryWithRows(MACROS + text, relations)


def _relations_of(query: exp.Query, objects: Sequence[ReadableObject]) -> dict[str, pa.Table]:
    """The relations that the query reads, by the names that their tables get."""
    relations = {DEFINITIONS: relation("oid# part# definition", catalog_rows.definitions(objects))}
    has_tableoid = any(column.name.lower() == "tableoid" for column in query.find_all(exp.Column))
    for table in list(query.find_all(exp.Table)):
        if isinstance(table.this, exp.Func) or is_common(table):
            continue
        schema, name = _schema_of(table), table.name.lower()
        if schema is None or name not in _SCHEMAS[schema][0]:
            raise _unknown(table)
        columns, rows = _SCHEMAS[schema][0][name], _SCHEMAS[schema][1].get(name)
        found = relation(columns, rows(objects) if rows else ())
        if has_tableoid and "oid" in found.column_names:
            found = found.append_column("tableoid", pa.array([_relation_oid(name)] * len(found), pa.int64()))
        relations[f"{schema} {name}"] = found
        _rename(table, f"{schema} {name}")
    return relations


def _rename(table: exp.Table, name: str) -> None:
    """Gives a table another name, without a schema. Without an alias, its old name becomes the alias."""
    alias: exp.TableAlias = table.args.get("alias") or exp.TableAlias()
    if not alias.this:
        alias.set("this", table.this.copy())
    table.set("alias", alias)
    table.set("this", exp.to_identifier(name, quoted=True))
    table.set("db", None)
    table.set("catalog", None)


def _unknown(table: exp.Table) -> UnknownRelation:
    name = f"{table.db}.{table.name}" if table.db else table.name
    hint = "a query of the catalog reads only pg_catalog and information_schema"
    line, column = position_of(table)
    return UnknownRelation(f'relation "{name}" is not in the catalog', line=line, column=column, hint=hint)


def _relation_oid(name: str) -> int:
    return _RELATION_OIDS.get(name, _OTHER_RELATIONS + sorted(PG_CATALOG).index(name))


def _named_oid(kind: str, text: str, objects: Sequence[ReadableObject]) -> int:
    """The OID of a relation, a schema or a type. Raises UnknownRelation if there is none of this name."""
    schema, _, name = text.replace('"', "").rpartition(".")
    oids = {"regclass": _relation_oids, "regnamespace": _schema_oids}
    known = oids[kind](objects) if kind in oids else {}
    oid = known.get(name.lower()) if kind in oids else oid_of_type(text)
    if oid is None or schema not in ("", "public", *_SCHEMAS):
        raise UnknownRelation(f'{_KINDS[kind]} "{text}" does not exist')
    return oid


_KINDS: Final = {"regclass": "relation", "regnamespace": "schema", "regtype": "type"}


def _relation_oids(objects: Sequence[ReadableObject]) -> dict[str, int]:
    found = {str(row["relname"]).lower(): int(str(row["oid"])) for row in catalog_rows.ROWS["pg_class"](objects)}
    return {name: _relation_oid(name) for name in PG_CATALOG} | found


def _schema_oids(objects: Sequence[ReadableObject]) -> dict[str, int]:
    return {str(row["nspname"]): int(str(row["oid"])) for row in catalog_rows.ROWS["pg_namespace"](objects)}
