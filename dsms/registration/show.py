"""SHOW and EXPLAIN applied to a catalog, which they do not change."""

from __future__ import annotations

from dsms.model import logical
from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import Object, Query, Stream, kind_of
from dsms.model.statement_result import StatementResult
from dsms.planner.physical.explain import explain
from dsms.planner.physical.fragment_plan import plan_fragment
from dsms.registration.environment import Applied, Environment
from dsms.sql.binder.bind import bind, plan_of
from dsms.sql.parser.nodes import WholeQuery


def show_objects(statement: st.Show, catalog: Catalog, environment: Environment) -> Applied:
    """The objects of a kind, with their states."""
    all_of_kind = (item for item in catalog.objects.values() if kind_of(item) == statement.kind)
    shown = [item for item in all_of_kind if environment.may_read(item.name)]
    rows = tuple((item.name, _over(item), environment.state_of(item), item.sql, *_weight(item)) for item in shown)
    weight = ("weight",) if statement.kind in ("view", "query") else ()
    columns = ("name", "topic or source", "state", "sql", *weight)
    return catalog, StatementResult("SHOW", f"{len(rows)} found", columns, rows)


def _weight(item: Object) -> tuple[float, ...]:
    return (item.weight,) if isinstance(item, Query) else ()


def _over(item: Object) -> str:
    return item.source if isinstance(item, Stream) else getattr(item, "topic", "")


def explain_plan(statement: st.Explain, catalog: Catalog, environment: Environment) -> Applied:
    """The plan of an object, or of a SELECT without running it."""
    node = (
        bind(WholeQuery(this=statement.select), catalog, environment.check_read)
        if statement.select is not None
        else _named_plan(statement, catalog)
    )
    name = statement.name.text if statement.name is not None else ""
    running = plan_fragment(catalog, 1).queries.values()
    readable = [query for query in running if environment.may_read(query.name)]
    text = explain(node, readable, name, environment.statistics())
    return catalog, StatementResult("EXPLAIN", "plan", ("plan",), tuple((line,) for line in text.splitlines()))


def _named_plan(statement: st.Explain, catalog: Catalog) -> logical.Node:
    assert statement.name is not None
    return plan_of(catalog.find(statement.name.text, statement.name.place).name, catalog)
