"""MERGE: changes, removes and adds rows of a table."""

from __future__ import annotations

from dsms.model.statement_result import StatementResult
from dsms.model.statements import Merge
from dsms.sql.parser.merge import merge
from dsms.statements.context import Context
from dsms.statements.statement_kind import StatementKind, written_table


def _answer(statement: Merge, context: Context) -> StatementResult:
    return context.write(statement)


KIND = StatementKind(
    statement=Merge,
    starts={("MERGE", "INTO"): merge},
    answer=_answer,
    writes_records=True,
    words=("USING", "ON", "WHEN", "MATCHED", "THEN"),
    read_name=written_table,
)
