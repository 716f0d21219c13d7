"""EXPLAIN: the plan of an object, or of a SELECT without running it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from dsms.model import logical
from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.statement_result import StatementResult
from dsms.planner.physical.explain import explain
from dsms.planner.physical.fragment_plan import plan_fragment
from dsms.registration.environment import Applied, Environment
from dsms.sql.binder.bind import bind, plan_of
from dsms.sql.binder.dependencies import names_in
from dsms.sql.parser import queries
from dsms.sql.parser.cursor import Cursor
from dsms.sql.parser.nodes import WholeQuery
from dsms.statements.continuous import reads_streams
from dsms.statements.explain.analyze import ExplainAnalyze, parse_analyze
from dsms.statements.statement_kind import StatementKind, named
from dsms.tables.access_paths import access_paths
from dsms.tables.one_time_query import one_time_query_of
from operators.core.errors import UserError


@dataclass(frozen=True)
class Explain(st.Statement):
    """`EXPLAIN name` or `EXPLAIN select …`."""

    name: st.Name | None
    select: exp.Expr | None
    sql: str


def _parse(cursor: Cursor, _: st.Name | None) -> Explain | ExplainAnalyze:
    if cursor.peeks("ANALYZE") and len(cursor.tokens) - cursor.at > 1:
        return parse_analyze(cursor)
    if cursor.peek().text.upper() in queries.STARTS:
        return Explain(None, queries.continuous_query(cursor, None).select, cursor.sql)
    return Explain(cursor.rest_as_name("name"), None, cursor.sql)


def _apply(statement: Explain, catalog: Catalog, environment: Environment) -> Applied:
    node = (
        bind(WholeQuery(this=statement.select), catalog, environment.check_read)
        if statement.select is not None
        else _named_plan(statement, catalog)
    )
    name = statement.name.text if statement.name is not None else ""
    running = plan_fragment(catalog, 1).queries.values()
    readable = [query for query in running if environment.may_read(query.name)]
    lines = [*explain(node, readable, name, environment.statistics()).splitlines(), *_once(statement, catalog)]
    return catalog, StatementResult("EXPLAIN", "plan", ("plan",), tuple((line,) for line in lines))


def _once(statement: Explain, catalog: Catalog) -> Iterator[str]:
    """How the SELECT finds its rows if it runs once; nothing for one that can only run continuously."""
    if statement.select is not None and not reads_streams(names_in(statement.select), catalog):
        try:
            asked = one_time_query_of(statement.select, catalog, instants=True)
        except UserError:  # it has a window, for example
            return
        yield from (f"as a SELECT that runs once: {path}" for path in access_paths(asked, catalog))


def _named_plan(statement: Explain, catalog: Catalog) -> logical.Node:
    assert statement.name is not None
    return plan_of(catalog.find(statement.name.text, statement.name.place).name, catalog)


KIND = StatementKind(
    statement=Explain,
    starts={("EXPLAIN",): _parse},
    apply=_apply,
    read_name=named,
    role="reader",
    words=("ANALYZE",),
)
