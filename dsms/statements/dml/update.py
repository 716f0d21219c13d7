"""UPDATE: changes rows of a table."""

from __future__ import annotations

from dsms.model.statement_result import StatementResult
from dsms.model.statements import Update
from dsms.sql.parser import tables as syntax
from dsms.statements.context import Context
from dsms.statements.statement_kind import StatementKind, written_table


def _answer(statement: Update, context: Context) -> StatementResult:
    return context.write(statement)


KIND = StatementKind(
    statement=Update,
    starts={("UPDATE",): syntax.update},
    answer=_answer,
    writes_records=True,
    words=("SET", "WHERE"),
    read_name=written_table,
)
