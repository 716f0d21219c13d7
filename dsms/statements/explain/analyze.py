"""EXPLAIN ANALYZE: the operators of a running query with their measurements."""

from __future__ import annotations

from dataclasses import dataclass

from dsms.introspection.explain_analyze import explain_analyze
from dsms.model import statements as st
from dsms.model.objects import Source
from dsms.model.statement_result import StatementResult
from dsms.sql.parser import queries
from dsms.sql.parser.cursor import Cursor
from dsms.statements.context import Context
from dsms.statements.statement_kind import StatementKind, named


@dataclass(frozen=True, slots=True)
class ExplainAnalyze(st.Statement):
    """`EXPLAIN ANALYZE name`: a running query with its measurements."""

    name: st.Name
    sql: str


def parse_analyze(cursor: Cursor) -> ExplainAnalyze:
    """The rest of the statement after EXPLAIN."""
    cursor.expect("ANALYZE")
    if cursor.peek().text.upper() in queries.STARTS:
        cursor.fail("EXPLAIN ANALYZE needs the name of a running query", "SHOW QUERIES lists them")
    return ExplainAnalyze(cursor.rest_as_name("query name"), cursor.sql)


def _answer(statement: ExplainAnalyze, context: Context) -> StatementResult:
    reports, catalog = context.reports(), context.catalog
    target = catalog.find(statement.name.text, statement.name.place)
    if isinstance(target, Source):
        raise statement.name.place.error(f'"{target.name}" is a source', "ask for a view or query that reads it")
    return explain_analyze(target, reports, catalog, context.size(target.id))


KIND = StatementKind(statement=ExplainAnalyze, answer=_answer, role="reader", read_name=named)
