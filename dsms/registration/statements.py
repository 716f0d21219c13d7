"""Statements applied to a catalog: pure decisions, with the outside world behind `Environment`."""

from __future__ import annotations

import pyarrow as pa

from dsms.model import logical, properties
from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import Object, Query, Source, Stream, kind_of
from dsms.model.schema import visible
from dsms.model.statement_result import StatementResult
from dsms.model.types import type_sql
from dsms.physical.explain import explain
from dsms.physical.fragment_plan import plan_fragment
from dsms.registration import (
    life_cycle as register_life,
)
from dsms.registration import (
    queries as register_query,
)
from dsms.registration import (
    replacement as register_replace,
)
from dsms.registration import (
    sources as register_source,
)
from dsms.registration.dependents import dependents
from dsms.registration.environment import Applied, Environment, apply
from dsms.registration.queries import RESULT_PREFIX
from dsms.sql.binder.bind import bind, plan_of
from dsms.sql.binder.clock import clock_schema
from dsms.sql.parser.nodes import WholeQuery

__all__ = [
    "RESULT_PREFIX", "Environment", "apply", "register_life", "register_query", "register_replace", "register_source",
    "schema_and_keys",
]  # fmt: skip


@apply.register
def _(statement: st.Drop, catalog: Catalog, environment: Environment) -> Applied:
    found = catalog.get(statement.name.text)
    if found is None and statement.if_exists:
        return catalog, StatementResult("DROP", f'{statement.kind} "{statement.name.text}" does not exist')
    found = catalog.find(statement.name.text, statement.name.place)
    if statement.kind not in _kinds(found):
        raise statement.name.place.error(f'"{found.name}" is a {kind_of(found)}, not a {statement.kind}')
    above = [one.name for one in dependents(catalog, found)]
    if above and not statement.cascade:
        raise statement.name.place.error(
            f'{statement.kind} "{found.name}" is used by {", ".join(above)}',
            "drop these first or add CASCADE",
        )
    names = [found.name, *above]
    return catalog.without(names), StatementResult("DROP", f"dropped {', '.join(names)}", name=found.name)


def _kinds(found: Object) -> tuple[str, ...]:
    """What DROP may call an object: a view made by CREATE STREAM … AS is a stream, too."""
    derived = isinstance(found, Query) and found.sql.upper().split()[:2] == ["CREATE", "STREAM"]
    return (kind_of(found), "stream") if derived else (kind_of(found),)


@apply.register
def _(statement: st.Show, catalog: Catalog, environment: Environment) -> Applied:
    shown = [found for found in catalog.objects.values() if kind_of(found) == statement.kind]
    rows = tuple((found.name, _over(found), environment.state_of(found), found.sql, *_weight(found)) for found in shown)
    weight = ("weight",) if statement.kind in ("view", "query") else ()
    columns = ("name", "topic or source", "state", "sql", *weight)
    return catalog, StatementResult("SHOW", f"{len(rows)} found", columns, rows)


def _weight(found: Object) -> tuple[float, ...]:
    return (found.weight,) if isinstance(found, Query) else ()


def _over(found: Object) -> str:
    return found.source if isinstance(found, Stream) else found.topic


@apply.register
def _(statement: st.Describe, catalog: Catalog, environment: Environment) -> Applied:
    found = catalog.find(statement.name.text, statement.name.place)
    schema, keys = schema_and_keys(found, catalog)
    rows = tuple((field.name, type_sql(field.type), field.nullable, field.name in keys) for field in schema)
    weight = f", weight {found.weight:g}{register_life.limit_of(found)}" if isinstance(found, Query) else ""
    message = f'{kind_of(found)} "{found.name}": {environment.state_of(found)}{weight}{_promises(found)}'
    return catalog, StatementResult("DESCRIBE", message, ("column", "type", "nullable", "key"), rows, name=found.name)


def _promises(found: Object) -> str:
    """What a source promises of its records."""
    promises = found.constraints if isinstance(found, Source) else ()
    return "".join(f", {one.sql}" for one in promises)


def schema_and_keys(found: Object, catalog: Catalog) -> tuple[pa.Schema, tuple[str, ...]]:
    """The visible columns of an object, and its key."""
    if isinstance(found, Source):
        return found.schema, ()
    if isinstance(found, Query) and found.periodic is not None:
        return clock_schema(found, catalog)
    node = plan_of(found.name, catalog)
    return visible(node), properties.keys(node)


@apply.register
def _(statement: st.Explain, catalog: Catalog, environment: Environment) -> Applied:
    node = (
        bind(WholeQuery(this=statement.select), catalog)
        if statement.select is not None
        else _named_plan(statement, catalog)
    )
    name = statement.name.text if statement.name is not None else ""
    text = explain(node, plan_fragment(catalog, 1).queries.values(), name)
    return catalog, StatementResult("EXPLAIN", "plan", ("plan",), tuple((line,) for line in text.splitlines()))


def _named_plan(statement: st.Explain, catalog: Catalog) -> logical.Node:
    assert statement.name is not None
    return plan_of(catalog.find(statement.name.text, statement.name.place).name, catalog)
