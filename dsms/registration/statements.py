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
from dsms.registration import life_cycle, queries, replacement, sources
from dsms.registration.environment import Applied, Environment, apply
from dsms.registration.queries import RESULT_PREFIX
from dsms.sql.binder.bind import bind, plan_of
from dsms.sql.binder.clock import clock_schema
from dsms.sql.binder.dependencies import dependents
from dsms.sql.parser.nodes import WholeQuery

#: Importing a module registers its statements with `apply`.
HANDLERS = (life_cycle, queries, replacement, sources)

__all__ = ["RESULT_PREFIX", "Environment", "apply", "schema_and_keys"]


@apply.register
def _(statement: st.Drop, catalog: Catalog, environment: Environment) -> Applied:
    dropped = catalog.get(statement.name.text)
    if dropped is None and statement.if_exists:
        return catalog, StatementResult("DROP", f'{statement.kind} "{statement.name.text}" does not exist')
    dropped = catalog.find(statement.name.text, statement.name.place)
    if statement.kind not in _kinds(dropped):
        raise statement.name.place.error(f'"{dropped.name}" is a {kind_of(dropped)}, not a {statement.kind}')
    above = [reader.name for reader in dependents(catalog, dropped)]
    if above and not statement.cascade:
        raise statement.name.place.error(
            f'{statement.kind} "{dropped.name}" is used by {", ".join(above)}',
            "drop these first or add CASCADE",
        )
    names = [dropped.name, *above]
    return catalog.without(names), StatementResult("DROP", f"dropped {', '.join(names)}", name=dropped.name)


def _kinds(item: Object) -> tuple[str, ...]:
    """The kinds by which DROP may name an object: a view created by CREATE STREAM … AS is also a stream."""
    derived = isinstance(item, Query) and item.sql.upper().split()[:2] == ["CREATE", "STREAM"]
    return (kind_of(item), "stream") if derived else (kind_of(item),)


@apply.register
def _(statement: st.Show, catalog: Catalog, environment: Environment) -> Applied:
    shown = [item for item in catalog.objects.values() if kind_of(item) == statement.kind]
    rows = tuple((item.name, _over(item), environment.state_of(item), item.sql, *_weight(item)) for item in shown)
    weight = ("weight",) if statement.kind in ("view", "query") else ()
    columns = ("name", "topic or source", "state", "sql", *weight)
    return catalog, StatementResult("SHOW", f"{len(rows)} found", columns, rows)


def _weight(item: Object) -> tuple[float, ...]:
    return (item.weight,) if isinstance(item, Query) else ()


def _over(item: Object) -> str:
    return item.source if isinstance(item, Stream) else item.topic


@apply.register
def _(statement: st.Describe, catalog: Catalog, environment: Environment) -> Applied:
    item = catalog.find(statement.name.text, statement.name.place)
    schema, keys = schema_and_keys(item, catalog)
    rows = tuple((field.name, type_sql(field.type), field.nullable, field.name in keys) for field in schema)
    weight = f", weight {item.weight:g}{life_cycle.limit_of(item)}" if isinstance(item, Query) else ""
    message = f'{kind_of(item)} "{item.name}": {environment.state_of(item)}{weight}{_promises(item)}'
    return catalog, StatementResult("DESCRIBE", message, ("column", "type", "nullable", "key"), rows, name=item.name)


def _promises(item: Object) -> str:
    """The constraints of a source in the words of DESCRIBE."""
    promises = item.constraints if isinstance(item, Source) else ()
    return "".join(f", {promise.sql}" for promise in promises)


def schema_and_keys(item: Object, catalog: Catalog) -> tuple[pa.Schema, tuple[str, ...]]:
    """The visible columns of an object and its key."""
    if isinstance(item, Source):
        return item.schema, ()
    if isinstance(item, Query) and item.periodic is not None:
        return clock_schema(item, catalog)
    node = plan_of(item.name, catalog)
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
