"""INSERT: rows of a table, or a continuous query that fills the table if the SELECT reads a stream."""

from __future__ import annotations

from dsms.model.catalog import Catalog
from dsms.model.statement_result import StatementResult
from dsms.model.statements import Insert, Statement
from dsms.sql.binder.dependencies import names_in
from dsms.sql.parser import tables as syntax
from dsms.statements.context import Context
from dsms.statements.continuous import reads_streams
from dsms.statements.dml.insert_stream import InsertStream
from dsms.statements.statement_kind import StatementKind, written_table


def _resolve(statement: Insert, catalog: Catalog) -> Statement:
    return InsertStream(statement) if reads_streams(names_in(statement.rows), catalog) else statement


def _answer(statement: Insert, context: Context) -> StatementResult:
    return context.write(statement)


KIND = StatementKind(
    statement=Insert,
    starts={("INSERT", "INTO"): syntax.insert},
    resolve=_resolve,
    answer=_answer,
    writes_records=True,
    words=("VALUES",),
    read_name=written_table,
)
