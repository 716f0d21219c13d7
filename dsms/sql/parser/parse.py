"""Parsing: our own statements by a cursor over sqlglot's tokens, queries by sqlglot's parser."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from dsms.model import statements as st
from dsms.sql.parser import admin, declarations, loads, queries, tables
from dsms.sql.parser.cursor import Cursor
from dsms.sql.parser.dialect import Dsms
from operators.core.errors import SqlError


def parse(script: str) -> list[st.Statement]:
    """The statements of a script, separated by semicolons.

    Raises SqlError with the line and column in the script.

    >>> [type(s).__name__ for s in parse("REGISTER SOURCE S (char a, int b) FROM t; SELECT STREAMED a FROM R(S)")]
    ['RegisterSource', 'ContinuousQuery']
    """
    try:
        tokens = Dsms().tokenize(script)
    except TokenError as error:
        raise SqlError(f"cannot read the statement: {error}") from error
    return [_statement(Cursor(script, part)) for part in _split(tokens)]


def _split(tokens: list[Token]) -> list[list[Token]]:
    parts: list[list[Token]] = [[]]
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]


def _statement(cursor: Cursor) -> st.Statement:
    label = _label(cursor)
    for words, parse_rest in _STATEMENTS.items():
        if cursor.accept(*words):
            return parse_rest(cursor, label)
    if cursor.peek().text.upper() in ("SELECT", "WITH", "(") or _starts_stream(cursor):
        return queries.select(cursor, label)
    return cursor.fail(f'"{cursor.peek().text}" does not start a statement', "have: " + ", ".join(_STARTS))


def _starts_stream(cursor: Cursor) -> bool:
    """Whether a query such as `Istream (SELECT …)` follows."""
    ahead = [token.text.upper() for token in cursor.tokens[cursor.at : cursor.at + 2]]
    return len(ahead) == 2 and ahead[0] in ("ISTREAM", "DSTREAM", "RSTREAM") and ahead[1] == "("


def _label(cursor: Cursor) -> st.Name | None:
    """SyncSQL's label of a statement: `Q3: SELECT STREAMED …`."""
    if len(cursor.tokens) > 1 and cursor.tokens[1].text == ":":
        name = cursor.name("name")
        cursor.expect(":")
        return name
    return None


_STATEMENTS: dict[tuple[str, ...], Callable[[Cursor, st.Name | None], st.Statement]] = {
    ("REGISTER", "SOURCE"): declarations.register_source,
    ("CREATE", "STREAM"): declarations.create_stream,
    ("CREATE", "STREAMED", "VIEW"): queries.create_streamed_view,
    ("CREATE", "COMPLETE", "VIEW"): queries.create_complete_view,
    ("CREATE", "MATERIALIZED", "VIEW"): queries.create_complete_view,
    ("CREATE", "VIEW"): queries.create_streamed_view,
    ("CREATE", "QUERY"): queries.create_query,
    ("CREATE", "OR", "REPLACE"): queries.create_or_replace,
    ("CREATE", "TABLE"): tables.create_table,
    ("INSERT", "INTO"): tables.insert,
    ("UPDATE",): tables.update,
    ("DELETE", "FROM"): tables.delete,
    ("COPY",): loads.copy,
    ("LOAD", "TABLE"): loads.load,
    ("DROP",): admin.drop,
    ("PAUSE",): admin.pause,
    ("DEACTIVATE",): admin.pause,
    ("RESUME",): admin.resume,
    ("ACTIVATE",): admin.resume,
    ("REPAIR", "QUERY"): admin.repair,
    ("ALTER",): admin.alter,
    ("SHOW",): admin.show,
    ("DESCRIBE",): admin.describe,
    ("EXPLAIN",): admin.explain,
}
_STARTS = (*(" ".join(words) for words in _STATEMENTS), "SELECT STREAMED", "SELECT COMPLETE", "SELECT")
