"""PostgreSQL's catalog: recognises the clients' queries of `pg_catalog` and `information_schema`, and prepares them for
DuckDB, which runs them over relations that describe the objects of this system."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import sqlglot
from sqlglot import exp

from dsms.coordinator.catalog.lookup import ReadableObject
from dsms.coordinator.postgres import catalog_names, catalog_rows, information_schema_rows
from dsms.coordinator.postgres.catalog_arrays import with_numbers_for_oids
from dsms.coordinator.postgres.catalog_columns import PG_CATALOG, SCHEMAS, relation
from dsms.coordinator.postgres.catalog_functions import DEFINITIONS, NAMES, NAMES_OF_FUNCTIONS, macros_for
from dsms.coordinator.postgres.catalog_names import UnknownRelation, relation_oid
from dsms.coordinator.postgres.catalog_rewriting import VECTORS, rewritten
from dsms.coordinator.postgres.session_values import SESSION_FUNCTIONS, function_name
from dsms.model.position import position_of
from dsms.sql.parser.sqlglot_errors import readable_sqlglot_errors
from dsms.tables.one_time import check_only_selects
from dsms.tables.one_time_query import OneTimeQueryWithRows, is_common
from operators.core.errors import SqlError

#: The rows of those relations of the two schemas that have some.
_ROWS: Final = {"pg_catalog": catalog_rows.ROWS, "information_schema": information_schema_rows.ROWS}
#: The columns that PostgreSQL adds to each relation, beside `tableoid`.
_SYSTEM_COLUMNS: Final = {"xmin": 1, "xmax": 0, "cmin": 0, "cmax": 0}
_FUNCTIONS: Final = NAMES_OF_FUNCTIONS | SESSION_FUNCTIONS
#: A text without any of these, or one of the functions, is no query of the catalog.
_SIGNS: Final = re.compile(r"pg_|information_schema|::\s*reg")
_WORD: Final = re.compile(r"\w+")


def catalog_query(sql: str) -> exp.Query | None:
    """The statement if it is a query that reads PostgreSQL's catalog; None for any other statement.

    >>> catalog_query("SELECT * FROM rooms JOIN pg_class ON true") is None, catalog_query("SELECT 'pg_class'") is None
    (False, True)
    >>> catalog_query("SELECT CASE WHEN has_table_privilege('rooms', 'SELECT') THEN 1 END") is None
    False
    """
    if not may_ask_catalog(sql):
        return None
    with suppress(SqlError), readable_sqlglot_errors():
        parsed = sqlglot.parse(with_numbers_for_oids(sql), dialect="postgres")
        if len(parsed) == 1 and isinstance(parsed[0], exp.Query) and _reads_catalog(parsed[0]):
            return parsed[0]
    return None


def may_ask_catalog(sql: str) -> bool:
    """Whether a statement has a word by which clients ask PostgreSQL's catalog."""
    plain = sql.lower()
    return bool(_SIGNS.search(plain)) or not _FUNCTIONS.isdisjoint(_WORD.findall(plain))


def _reads_catalog(query: exp.Query) -> bool:
    """Whether a query reads a relation of the catalog, or no relation and calls a function of PostgreSQL."""
    tables = [table for table in query.find_all(exp.Table) if not isinstance(table.this, exp.Func)]
    if tables:
        return any(map(_schema_of, tables))
    named = [*(dot.this.name for dot in query.find_all(exp.Dot)), *(table.db for table in query.find_all(exp.Table))]
    if any(name.lower() in SCHEMAS for name in named):
        return True
    casts = (isinstance(cast.to, exp.ObjectIdentifier) for cast in query.find_all(exp.Cast))
    return any(casts) or any(function_name(call) in _FUNCTIONS for call in query.find_all(exp.Func))


def _schema_of(table: exp.Table) -> str | None:
    """The schema of a relation of the catalog; None for anything else."""
    schema, name = table.db.lower(), table.name.lower()
    if isinstance(table.this, exp.Func) or is_common(table):
        return None
    return schema if schema in SCHEMAS else "pg_catalog" if not schema and name in PG_CATALOG else None


@dataclass(frozen=True)
class CatalogQuestion:
    """A client's query of the catalog, prepared for DuckDB, and the columns of its answer that are lists of numbers of
    the kind that PostgreSQL writes without braces (int2vector)."""

    asked: OneTimeQueryWithRows
    vectors: frozenset[str]


def asked_of_catalog(query: exp.Query, objects: Sequence[ReadableObject], user: str) -> CatalogQuestion:
    """A client's query of the catalog, rewritten for DuckDB. Raises SqlError for anything but one SELECT: other
    statements would affect the queries of other clients. Raises UnknownRelation for relations outside the catalog."""
    with readable_sqlglot_errors():
        made = rewritten(query, user, lambda kind, name: catalog_names.oid_of_name(kind, name, objects))
        relations = _relations_of(made, objects)
        text = made.sql(dialect="duckdb", comments=False)
    check_only_selects(text)
    macros = macros_for(text)
    if f'"{DEFINITIONS}"' in macros:
        relations[DEFINITIONS] = relation("oid# part# definition", catalog_rows.definitions(objects))
    if f'"{NAMES}"' in macros:
        listed = (named._asdict() for named in catalog_names.names(objects))
        relations[NAMES] = relation(catalog_names.COLUMNS, listed)
    return CatalogQuestion(OneTimeQueryWithRows(macros + text, relations), _vectors(query))


def _vectors(query: exp.Query) -> frozenset[str]:
    named = (each.alias for each in query.selects if isinstance(each, exp.Alias) and each.this.name in VECTORS)
    return frozenset(VECTORS) | frozenset(named)


def _relations_of(query: exp.Query, objects: Sequence[ReadableObject]) -> dict[str, pa.Table]:
    """The relations that the query reads, by the names that their tables get."""
    relations: dict[str, pa.Table] = {}
    mentioned = {column.name.lower() for column in query.find_all(exp.Column)}
    for table in list(query.find_all(exp.Table)):
        if isinstance(table.this, exp.Func) or is_common(table):
            continue
        schema, name = _schema_of(table), table.name.lower()
        if schema is None or name not in SCHEMAS[schema]:
            raise _unknown(table)
        rows = _ROWS[schema].get(name)
        found = relation(SCHEMAS[schema][name], rows(objects) if rows else ())
        hidden = _SYSTEM_COLUMNS | ({"tableoid": relation_oid(schema, name)} if "oid" in found.column_names else {})
        for column, value in hidden.items():
            if column in mentioned and column not in found.column_names:
                found = found.append_column(column, pa.array([value] * len(found), pa.int64()))
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
