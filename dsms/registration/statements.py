"""The list of all kinds of statements, and the functions derived from it: `parse`, `apply` and `kind_of_statement`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.limits import NO_LIMITS, Limits
from dsms.registration import life_cycle, queries, replacement, show, sources, tables
from dsms.registration.environment import Applied, Environment
from dsms.registration.kinds import (
    create_aggregate,
    create_index,
    create_table_as,
    describe,
    drop,
    explain_result,
    functions,
    if_not_exists,
    insert_stream,
    pause,
    refresh_view,
    replay,
    show_aggregates,
    show_alarms,
    show_audit,
    show_create,
    skip_record,
)
from dsms.registration.statement_kind import StatementKind, named, written
from dsms.sql.parser import admin, declarations, loads
from dsms.sql.parser import parse as script
from dsms.sql.parser import queries as query_syntax
from dsms.sql.parser import tables as table_syntax
from dsms.sql.parser.merge import merge
from dsms.sql.parser.parse import Starts
from dsms.sql.parser.sqlglot_errors import readable_sqlglot_errors
from dsms.sql.parser.summaries import create_summary, replace_summary
from operators.core.call_depth import allow_deep_calls
from operators.core.errors import UserError

#: To add a kind of statement, add a file in `kinds/` and a line here. Messages list statements in this order.
STATEMENTS: Final = (
    StatementKind(
        statement=st.RegisterSource,
        starts={("REGISTER", "SOURCE"): declarations.register_source},
        apply=sources.register_source,
        changed_name=named,
        words=("FROM", "FORMAT", "TOPIC"),
    ),
    StatementKind(
        statement=st.CreateStream,
        starts={("CREATE", "STREAM"): declarations.create_stream},
        apply=sources.create_stream,
        changed_name=named,
        words=("OVER", "KEY", "NULL"),
    ),
    StatementKind(statement=st.DeclareStream, apply=sources.declare_stream, changed_name=named),
    StatementKind(
        statement=st.ContinuousQuery,
        starts={
            ("CREATE", "STREAMED", "VIEW"): query_syntax.create_streamed_view,
            ("CREATE", "COMPLETE", "VIEW"): query_syntax.create_complete_view,
            ("CREATE", "MATERIALIZED", "VIEW"): query_syntax.create_complete_view,
            ("CREATE", "VIEW"): query_syntax.create_streamed_view,
            ("CREATE", "QUERY"): query_syntax.create_query,
            ("CREATE", "SUMMARY"): create_summary,
        },
        apply=queries.create_query,
        changed_name=named,
        words=("WITH", "AS", "GRANULARITY", "COLLAPSE", "BUCKETS", "ZONES"),
    ),
    StatementKind(
        statement=st.ReplaceQuery,
        starts={
            ("CREATE", "OR", "REPLACE"): query_syntax.create_or_replace,
            ("CREATE", "OR", "REPLACE", "SUMMARY"): replace_summary,
        },
        apply=replacement.replace_query,
        changed_name=named,
    ),
    StatementKind(
        statement=st.CreateTable,
        starts={("CREATE", "TABLE"): table_syntax.create_table},
        apply=tables.create_table,
        changed_name=named,
        words=("PRIMARY", "KEY"),
    ),
    create_table_as.KIND,
    StatementKind(
        statement=st.Insert,
        starts={("INSERT", "INTO"): table_syntax.insert},
        subject="rows",
        words=("VALUES",),
        read_name=written,
    ),
    insert_stream.KIND,
    StatementKind(
        statement=st.Update,
        starts={("UPDATE",): table_syntax.update},
        subject="rows",
        words=("SET", "WHERE"),
        read_name=written,
    ),
    StatementKind(
        statement=st.Delete,
        starts={("DELETE", "FROM"): table_syntax.delete, ("TRUNCATE",): table_syntax.truncate},
        subject="rows",
        words=("WHERE",),
        read_name=written,
    ),
    StatementKind(
        statement=st.Merge,
        starts={("MERGE", "INTO"): merge},
        subject="rows",
        words=("USING", "ON", "WHEN", "MATCHED", "THEN"),
        read_name=written,
    ),
    # files and databases are read with the rights of the coordinator
    StatementKind(
        statement=st.LoadFile,
        starts={("COPY",): loads.copy},
        subject="rows",
        role="administrator",
        words=("FROM", "WITH"),
        read_name=written,
    ),
    StatementKind(
        statement=st.LoadDatabase,
        starts={("LOAD", "TABLE"): loads.load},
        subject="rows",
        role="administrator",
        words=("FROM",),
        read_name=written,
    ),
    create_aggregate.KIND,
    create_aggregate.PYTHON_KIND,
    *functions.KINDS,
    *if_not_exists.KINDS,
    create_index.KIND,
    refresh_view.KIND,
    replay.KIND,
    skip_record.KIND,
    drop.KIND,
    pause.KIND,
    StatementKind(
        statement=st.RepairQuery,
        starts={("REPAIR", "QUERY"): admin.repair},
        apply=replacement.repair_query,
        changed_name=named,
    ),
    StatementKind(
        statement=st.AlterQuery,
        starts={("ALTER",): admin.alter},
        apply=life_cycle.alter_query,
        changed_name=named,
        words=("QUERY", "VIEW", "SET", "WEIGHT"),
    ),
    # an executor runs queries of all users
    StatementKind(statement=st.AlterExecutor, subject="runtime", role="administrator"),
    StatementKind(
        statement=st.Show,
        starts={("SHOW",): admin.show},
        apply=show.show_objects,
        role="reader",
        words=("SOURCES", "STREAMS"),
    ),
    StatementKind(
        statement=st.ShowEntities, subject="runtime", role="reader", read_name=lambda statement: statement.query
    ),
    StatementKind(statement=st.ShowExecutors, subject="runtime", role="reader"),
    show_aggregates.KIND,
    show_create.KIND,
    show_alarms.KIND,
    show_audit.KIND,
    describe.KIND,
    StatementKind(
        statement=st.Explain,
        starts={("EXPLAIN",): admin.explain},
        apply=show.explain_plan,
        read_name=named,
        role="reader",
        words=("ANALYZE",),
    ),
    StatementKind(statement=st.ExplainAnalyze, subject="runtime", role="reader", read_name=named),
    explain_result.KIND,
    # the parser itself recognizes the beginning of a query: SELECT, WITH, Istream (…), parentheses
    StatementKind(statement=st.Select, subject="rows", role="reader"),
)
_KINDS: Mapping[type[st.Statement], StatementKind] = {kind.statement: kind for kind in STATEMENTS}
_STARTS: Starts = {words: parse_rest for kind in STATEMENTS for words, parse_rest in kind.starts.items()}


def parse(text: str, limits: Limits = NO_LIMITS) -> list[st.Statement]:
    """The statements of a script, separated by semicolons.

    Raises SqlError with the line and column in the script.

    >>> [type(s).__name__ for s in parse("REGISTER SOURCE S (char a, int b) FROM t; SELECT STREAMED a FROM R(S)")]
    ['RegisterSource', 'ContinuousQuery']
    """
    allow_deep_calls()
    with readable_sqlglot_errors():
        return [part for statement in script.parse(text, _STARTS, limits) for part in create_table_as.parts(statement)]


def kind_of_statement(statement: st.Statement) -> StatementKind:
    """The kind to which a statement belongs.

    >>> kind_of_statement(parse("DROP VIEW v")[0]).role
    'writer'
    """
    return _KINDS[type(statement)]


def apply(statement: st.Statement, catalog: Catalog, environment: Environment) -> Applied:
    """The catalog after a statement, and its result. A pure decision, except for calls of `environment`.

    Raises SqlError or UserError if the statement is wrong, and UserError if its kind is not about the catalog.
    """
    kind = kind_of_statement(statement)
    if kind.apply is None:
        raise UserError(f"statements of kind {type(statement).__name__} are not supported here")
    with readable_sqlglot_errors():
        return kind.apply(statement, catalog, environment)
