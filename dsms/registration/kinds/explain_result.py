"""EXPLAIN RESULT: its syntax. It is executed where the settings of queries are known."""

from __future__ import annotations

from dataclasses import dataclass

from dsms.model import statements as st
from dsms.registration.clauses import instant_of
from dsms.registration.statement_kind import StatementKind, named
from dsms.sql.parser.cursor import Cursor, place_of


@dataclass(frozen=True, slots=True)
class ExplainResult(st.Statement):
    """`EXPLAIN RESULT name [AT instant]`: the settings (such as shedding rates) under which the result of a query was
    computed, at all instants or at one."""

    name: st.Name
    at: int | None
    sql: str


def _parse(cursor: Cursor, _: st.Name | None) -> ExplainResult | st.Explain:
    if not cursor.more():  # EXPLAIN of an object called "result"
        return st.Explain(cursor.name_of(cursor.tokens[cursor.at - 1], "name"), None, cursor.sql)
    name, at = cursor.name("query name"), None
    if cursor.accept("AT"):
        at = _instant(cursor)
    cursor.end()
    return ExplainResult(name, at, cursor.sql)


def _instant(cursor: Cursor) -> int:
    cursor.accept("TIMESTAMP")
    token = cursor.next()
    text = token.text + (cursor.next().text if token.text == "-" else "")
    at = instant_of(text)
    if at is None:
        raise place_of(token).error(
            f'"{text[:40]}" is not an instant', "have: AT 1500, AT TIMESTAMP '2026-05-01 12:00:00'"
        )
    return at


KIND = StatementKind(
    statement=ExplainResult,
    starts={("EXPLAIN", "RESULT"): _parse},
    subject="runtime",
    role="reader",
    read_name=named,
    words=("AT",),
)
