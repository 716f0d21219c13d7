"""COPY, LOAD TABLE, and what is said of tables beside them: DROP TABLE and SHOW TABLES."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from sqlglot.tokenizer_core import Token, TokenType

from dsms.sql import statements as st
from dsms.sql.cursor import Cursor, place_of

#: The catalog's word for tables, among those that DROP and SHOW take.
_TABLE = cast("st.Kind", "table")
_OPTIONS = ("FORMAT", "DELIMITER", "HEADER", "NULL")


@dataclass(frozen=True)
class LoadFile:
    """`COPY table FROM 'file' [WITH (FORMAT csv | parquet, DELIMITER ';', HEADER false, NULL 'text')]`."""

    table: st.Name
    path: str
    options: tuple[st.Clause, ...]
    sql: str


@dataclass(frozen=True)
class LoadDatabase:
    """`LOAD TABLE table FROM DATABASE 'url' QUERY 'select'`. The url is a secret: it is in no message."""

    table: st.Name
    url: str
    query: str


Load = LoadFile | LoadDatabase


def copy(cursor: Cursor) -> LoadFile:
    """The rest of `COPY`."""
    table = cursor.name("table name")
    cursor.expect("FROM")
    path = _text(cursor, "file")
    options = _options(cursor) if cursor.accept("WITH") else ()
    cursor.end()
    return LoadFile(table, path, options, cursor.sql)


def _options(cursor: Cursor) -> tuple[st.Clause, ...]:
    cursor.expect("(")
    found: list[st.Clause] = []
    while not cursor.accept(")"):
        token = cursor.peek()
        name = cursor.one_of(_OPTIONS, "option").lower()
        if any(name == other.name for other in found):
            raise place_of(token).error(f"option {name.upper()} is given twice")
        cursor.accept("=")
        found.append(st.Clause(name, (cursor.next().text,), place_of(token)))
        cursor.accept(",")
    return tuple(found)


def load(cursor: Cursor) -> LoadDatabase:
    """The rest of `LOAD TABLE`."""
    table = cursor.name("table name")
    cursor.expect("FROM")
    cursor.expect("DATABASE")
    url = _text(cursor, "database url")
    cursor.expect("QUERY")
    query = _text(cursor, "query")
    cursor.end()
    return LoadDatabase(table, url, query)


def drop_table(cursor: Cursor) -> st.Drop:
    """The rest of `DROP TABLE`."""
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.name("table name")
    cascade = cursor.accept("CASCADE")
    cursor.end()
    return st.Drop(_TABLE, name, if_exists, cascade, cursor.sql)


def show_tables(cursor: Cursor) -> st.Show:
    """The rest of `SHOW TABLES`."""
    cursor.end()
    return st.Show(_TABLE, cursor.sql)


def _text(cursor: Cursor, what: str) -> str:
    token: Token = cursor.next()
    if token.token_type is not TokenType.STRING:
        raise place_of(token).error(f'expected a {what} in single quotes, found "{token.text}"')
    return str(token.text)
