"""DELETE and TRUNCATE: remove rows of a table."""

from __future__ import annotations

from dsms.model.statement_result import StatementResult
from dsms.model.statements import Delete
from dsms.sql.parser import tables as syntax
from dsms.statements.context import Context
from dsms.statements.statement_kind import StatementKind, written_table


def _answer(statement: Delete, context: Context) -> StatementResult:
    return context.write(statement)


KIND = StatementKind(
    statement=Delete,
    starts={("DELETE", "FROM"): syntax.delete, ("TRUNCATE",): syntax.truncate},
    answer=_answer,
    writes_records=True,
    words=("WHERE",),
    read_name=written_table,
)
