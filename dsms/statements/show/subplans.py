"""SHOW SUBPLANS: the operators of each fragment by the queries that they serve, with their loads and links."""

from __future__ import annotations

from dataclasses import dataclass

from dsms.introspection.subplans import COLUMNS, subplans
from dsms.model import statements as st
from dsms.model.statement_result import StatementResult
from dsms.sql.parser.cursor import Cursor
from dsms.statements.context import Context
from dsms.statements.statement_kind import StatementKind

SUBPLANS = "SUBPLANS"


@dataclass(frozen=True, slots=True)
class ShowSubplans(st.Statement):
    """`SHOW SUBPLANS`."""

    sql: str


def parse_subplans(cursor: Cursor) -> ShowSubplans:
    """The rest of the statement after its words."""
    cursor.end()
    return ShowSubplans(cursor.sql)


def _answer(statement: ShowSubplans, context: Context) -> StatementResult:
    rows = tuple(subplan.row for subplan in subplans(context.reports(), context.catalog))
    return StatementResult("SHOW", f"{len(rows)} found", COLUMNS, rows)


KIND = StatementKind(statement=ShowSubplans, answer=_answer, role="reader")
