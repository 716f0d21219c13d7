"""SHOW OPERATORS, QUEUES, SYNOPSES, CONSTRAINTS and PATHS: running entities with their attributes."""

from __future__ import annotations

from dataclasses import dataclass

from dsms.introspection.entities import Kind
from dsms.introspection.show_tables import COLUMNS, row, selected
from dsms.model import statements as st
from dsms.model.statement_result import StatementResult
from dsms.sql.parser.cursor import Cursor
from dsms.statements.context import Context
from dsms.statements.statement_kind import StatementKind

ENTITIES: dict[str, Kind] = {
    "OPERATORS": "operators",
    "QUEUES": "queues",
    "SYNOPSES": "synopses",
    "CONSTRAINTS": "constraints",
    "PATHS": "paths",
}


@dataclass(frozen=True, slots=True)
class ShowEntities(st.Statement):
    """`SHOW OPERATORS | QUEUES | SYNOPSES | CONSTRAINTS | PATHS [FOR query]`."""

    kind: Kind
    query: st.Name | None
    sql: str


def parse_entities(cursor: Cursor, word: str) -> ShowEntities:
    """The rest of the statement after a word of ENTITIES."""
    query = cursor.object_name("query name") if cursor.accept("FOR") else None
    cursor.end()
    return ShowEntities(ENTITIES[word], query, cursor.sql)


def _answer(statement: ShowEntities, context: Context) -> StatementResult:
    """The entities of a kind, either all or those of one query."""
    asked = statement.query
    query = None if asked is None else context.catalog.find(asked.text, asked.place).name
    rows = tuple(row(entity) for entity in selected(context.reports(), statement.kind, query))
    return StatementResult("SHOW", f"{len(rows)} found", COLUMNS[statement.kind], rows)


KIND = StatementKind(statement=ShowEntities, answer=_answer, role="reader", read_name=lambda statement: statement.query)
