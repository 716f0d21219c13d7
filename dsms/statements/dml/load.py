"""COPY and LOAD TABLE: add rows of a file or of a database to a table."""

from __future__ import annotations

from dsms.model.statement_result import StatementResult
from dsms.model.statements import Load, LoadDatabase, LoadFile
from dsms.sql.parser import loads
from dsms.statements.context import Context
from dsms.statements.statement_kind import StatementKind, written_table


def _answer(statement: Load, context: Context) -> StatementResult:
    return context.load(statement)


# files and databases are read with the rights of the coordinator
KINDS = (
    StatementKind(
        statement=LoadFile,
        starts={("COPY",): loads.copy},
        answer=_answer,
        writes_records=True,
        role="administrator",
        words=("FROM", "WITH"),
        read_name=written_table,
    ),
    StatementKind(
        statement=LoadDatabase,
        starts={("LOAD", "TABLE"): loads.load},
        answer=_answer,
        writes_records=True,
        role="administrator",
        words=("FROM",),
        read_name=written_table,
    ),
)
