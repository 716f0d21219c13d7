"""CREATE VIEW, CREATE QUERY and SELECT STREAMED. `dsms.registration.queries` compiles and places the query."""

from __future__ import annotations

from dsms.model.statements import ContinuousQuery
from dsms.registration.queries import create_query
from dsms.sql.binder.dependencies import calls_in, names_in
from dsms.sql.parser import queries as syntax
from dsms.sql.parser.summaries import create_summary
from dsms.statements.statement_kind import StatementKind, changes_named


def query_reads(statement: ContinuousQuery) -> list[str]:
    """The names of the relations that a query reads and of the functions that it calls, in lower case."""
    return [name.lower() for name in (*names_in(statement.select), *calls_in(statement.select))]


KIND = StatementKind(
    statement=ContinuousQuery,
    starts={
        ("CREATE", "STREAMED", "VIEW"): syntax.create_streamed_view,
        ("CREATE", "COMPLETE", "VIEW"): syntax.create_complete_view,
        ("CREATE", "MATERIALIZED", "VIEW"): syntax.create_complete_view,
        ("CREATE", "VIEW"): syntax.create_streamed_view,
        ("CREATE", "QUERY"): syntax.create_query,
        ("CREATE", "SUMMARY"): create_summary,
    },
    apply=create_query,
    changed_names=changes_named,
    declaration_reads=query_reads,
    words=("WITH", "AS", "GRANULARITY", "COLLAPSE", "BUCKETS", "ZONES"),
)
