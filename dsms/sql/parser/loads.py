"""Parses COPY and LOAD TABLE."""

from __future__ import annotations

from sqlglot.tokenizer_core import Token, TokenType

from dsms.model import statements as st
from dsms.sql.parser.cursor import Cursor, place_of

_OPTIONS = ("FORMAT", "DELIMITER", "HEADER", "NULL")


def copy(cursor: Cursor, _: st.Name | None) -> st.LoadFile:
    """Parses the rest of COPY."""
    table = cursor.object_name("table name")
    cursor.expect("FROM")
    path = _text(cursor, "file")
    options = _options(cursor) if cursor.accept("WITH") else ()
    cursor.end()
    return st.LoadFile(table, path, options, cursor.sql)


def _options(cursor: Cursor) -> tuple[st.Clause, ...]:
    cursor.expect("(")
    parsed: list[st.Clause] = []
    while not cursor.accept(")"):
        token = cursor.peek()
        name = cursor.one_of(_OPTIONS, "option").lower()
        if any(name == other.name for other in parsed):
            raise place_of(token).error(f"option {name.upper()} is given twice")
        cursor.accept("=")
        parsed.append(st.Clause(name, (cursor.next().text,), place_of(token)))
        cursor.accept(",")
    return tuple(parsed)


def load(cursor: Cursor, _: st.Name | None) -> st.LoadDatabase:
    """Parses the rest of LOAD TABLE."""
    table = cursor.object_name("table name")
    cursor.expect("FROM")
    cursor.expect("DATABASE")
    url = _text(cursor, "database URL")
    cursor.expect("QUERY")
    query = _text(cursor, "query")
    cursor.end()
    return st.LoadDatabase(table, url, query)


def _text(cursor: Cursor, what: str) -> str:
    token: Token = cursor.next()
    if token.token_type is not TokenType.STRING:
        raise place_of(token).error(f'expected a {what} in single quotes, found "{token.text}"')
    return str(token.text)
