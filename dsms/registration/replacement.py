"""CREATE OR REPLACE applied to a catalog: a query takes the place of another from an instant on.

The name, the topic and the consumers stay. At the instant below which the former query has published, its relation
turns into that of the new one. Views and queries that read a replaced view are replaced in the same way, by what they
are over the new view.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from dsms.model import logical, properties
from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import Query, kind_of
from dsms.model.schema import visible
from dsms.model.statement_result import StatementResult
from dsms.optimizer.start_instants import started
from dsms.physical.fragment_plan import Planned, compile_lane, planned
from dsms.registration.clauses import result_settings
from dsms.registration.dependents import dependents
from dsms.registration.environment import Applied, Environment, apply
from dsms.registration.queries import check_quality, default_output, draft_of, settled
from dsms.sql.binder.bind import bind, plan_of
from dsms.sql.binder.clock import clock_view
from dsms.sql.binder.earlier_queries import former_of
from dsms.sql.parser.nodes import WholeQuery
from operators.core.errors import UserError

_KEPT = ("topic", "format", "partitions")
_SAID = (
    "select", "output", "start", "weight", "state_memory", "shared", "max_error", "deadline", "error_columns",
    "shed_where",
)  # fmt: skip


@apply.register
def _(statement: st.ReplaceQuery, catalog: Catalog, environment: Environment) -> Applied:
    """What is not there is made."""
    query, name = statement.query, statement.name
    found = catalog.get(name.text)
    if found is None:
        return apply(query, catalog, environment)
    if not isinstance(found, Query) or found.kind != query.kind:
        raise name.place.error(f'"{found.name}" is a {kind_of(found)}, not a {query.kind}', "drop it first")
    if found.periodic is not None or clock_view(query.select, catalog) is not None:
        raise name.place.error(f'"{found.name}" is a view over the clock and cannot be replaced', "drop it first")
    new = _new(query, found, catalog, environment)
    if found.former is None and _same(new, found):
        return catalog, StatementResult("CREATE OR REPLACE", f'{found.kind} "{found.name}" is unchanged')
    after = _replaced(catalog, [new, *readers(catalog, found)], environment)
    return after, _result(query, found, catalog, after)


@apply.register
def _(statement: st.RepairQuery, catalog: Catalog, environment: Environment) -> Applied:
    """The query takes its own place: the new one has read all of the log, and at the instant of the change what is
    published becomes what it is."""
    found = catalog.find(statement.name.text, statement.name.place)
    if not isinstance(found, Query) or not found.sheddable:
        raise statement.name.place.error(
            f'"{found.name}" has nothing to repair', "only queries with MAX_ERROR shed input"
        )
    after = _replaced(catalog, [found], environment)
    notices = (_told(after.find(found.name)),)
    message = f'query "{found.name}" rereads the input that was shed'
    return after, StatementResult("REPAIR QUERY", message, notices=notices, name=found.name)


def replaced_by(statement: st.ReplaceQuery | st.RepairQuery, catalog: Catalog) -> list[Query]:
    """The queries that are there and that a statement replaces: those that are to be halted for it."""
    found = catalog.get(statement.name.text)
    return [found, *readers(catalog, found)] if isinstance(found, Query) else []


def halted(catalog: Catalog, queries: list[Query]) -> Catalog:
    """The catalog in which queries stay where they are, so that what they have published is known."""
    return catalog.with_changed(*(msgspec.structs.replace(one, halted=True, grouped=False) for one in queries))


def gone_on(catalog: Catalog) -> list[Query]:
    """The halted queries as they are when nothing replaces them."""
    return [msgspec.structs.replace(one, halted=False) for one in catalog.queries() if one.halted]


def readers(catalog: Catalog, found: Query) -> list[Query]:
    """The views and queries that read a view, directly or not, in order of creation."""
    return [one for one in dependents(catalog, found) if isinstance(one, Query)]


def _new(statement: st.ContinuousQuery, found: Query, catalog: Catalog, environment: Environment) -> Query:
    """What the statement says, with what stays of the query before."""
    given = result_settings(statement.clauses)
    for option in _KEPT:
        if option in given and given[option] != getattr(found, option):
            raise _wrong(found, f"{option} would change from {getattr(found, option)} to {given[option]}")
    settings = settled(statement, catalog, environment)
    check_quality(statement, settings)
    node = started(bind(WholeQuery(this=statement.select), catalog), settings.get("start"))
    output = statement.output or default_output(statement, node)
    kept = {name: getattr(found, name) for name in (*_KEPT, "weight", "state_memory", "shared", "paused", "fragment")}
    draft = draft_of(statement, st.Name(found.name), {"output": output, **kept, **settings}, catalog)
    return msgspec.structs.replace(
        draft, key_schema_id=found.key_schema_id, value_schema_id=found.value_schema_id, id=found.id
    )


def _same(new: Query, found: Query) -> bool:
    """Whether nothing would be another."""
    return all(getattr(new, name) == getattr(found, name) for name in _SAID)


def _replaced(catalog: Catalog, queries: list[Query], environment: Environment) -> Catalog:
    """The catalog with queries that take the place of those of their names; the first is new, the others read it."""
    names = {one.name.lower() for one in queries}
    kept = {name: found for name, found in catalog.objects.items() if name not in names}
    after = Catalog(catalog.version + 1, catalog.ids, kept)
    for one in queries:
        before = catalog.objects[one.name.lower()]
        assert isinstance(before, Query)
        following = msgspec.structs.replace(_following(one, before, catalog, environment), id=after.next_id())
        there = _with(following, after)
        new = planned(following, there)
        _check(new, plan_of(before.name, catalog), before)
        after = _with(msgspec.structs.replace(following, reads=_sources(new), lasting=_lasting(new, there)), after)
    return after


def _with(query: Query, catalog: Catalog) -> Catalog:
    """The same version of the catalog with one more."""
    return Catalog(catalog.version, catalog.ids + 1, {**catalog.objects, query.name.lower(): query})


def _sources(query: Planned) -> tuple[str, ...]:
    nodes = [query.node] if query.former is None else [query.node, query.former]
    return tuple(dict.fromkeys(source.id for node in nodes for source in properties.sources(node)))


def _following(new: Query, before: Query, catalog: Catalog, environment: Environment) -> Query:
    """The new query with the instant from which it counts; without one where nothing is published so far."""
    own = environment.published(before.id)
    earlier = None if before.former is None else environment.published(before.former.id)
    since = max((at for at in (own, earlier, before.since) if at is not None), default=None)
    fields: dict[str, Any] = {
        "halted": False, "family": None, "constants": None, "grouped": False, "marks": (), "over": (),
        "since": since, "former": None,
    }  # fmt: skip
    if since is not None:
        unseen = before.former is not None and before.since is not None and (own is None or own <= before.since)
        fields["former"] = before.former if unseen else former_of(before, catalog)
    return msgspec.structs.replace(new, **fields)


def _check(new: Planned, was: logical.Node, before: Query) -> None:
    """Consumers go on reading the topic, so its records must not change their form."""
    assert new.sink is not None
    if new.sink.output != before.output:
        raise _wrong(before, f"the output would change from {before.output.upper()} to {new.sink.output.upper()}")
    columns, others = visible(new.node), visible(was)
    if list(zip(columns.names, columns.types, strict=True)) != list(zip(others.names, others.types, strict=True)):
        raise _wrong(before, f"the columns would change from ({_listed(others)}) to ({_listed(columns)})")
    if before.format == "avro" and columns != others:
        raise _wrong(before, "other columns would be nullable")
    key, other = properties.keys(new.node), properties.keys(was)
    if key != other:
        raise _wrong(before, f"the key would change from ({', '.join(other)}) to ({', '.join(key)})")
    compile_lane(new.id, [new])  # refuses what cannot run


def _wrong(before: Query, what: str) -> UserError:
    return UserError(
        f'{before.kind} "{before.name}" cannot be replaced: {what}',
        hint=f"DROP {before.kind.upper()} {before.name} and create it anew",
    )


def _listed(columns: object) -> str:
    return ", ".join(f"{one.name} {one.type}" for one in columns)  # type: ignore[attr-defined]


def _result(statement: st.ContinuousQuery, found: Query, catalog: Catalog, after: Catalog) -> StatementResult:
    names = [one.name for one in readers(catalog, found)]
    notices = tuple(_told(after.find(name)) for name in (found.name, *names))
    also = f", and with it {', '.join(names)}" if names else ""
    message = f'{found.kind} "{found.name}" replaced{also}; results in topic "{found.topic}"'
    return StatementResult("CREATE OR REPLACE", message, notices=notices, name=found.name)


def _told(query: object) -> str:
    assert isinstance(query, Query)
    return (
        f"{query.name}: replaced before it published anything"
        if query.since is None
        else f"{query.name}: replaced from instant {query.since} on"
    )


def retired(catalog: Catalog, published: Mapping[str, int | None]) -> Iterator[Query]:
    """Queries without what they were before, where no result to come depends on it; `published` are the instants below
    which results are published, by query."""
    for one in catalog.running():
        if one.former is None or one.since is None or one.lasting:
            continue
        if (published.get(one.id) or one.since) > one.since:
            yield msgspec.structs.replace(one, former=None)


def _lasting(query: Planned, catalog: Catalog) -> bool:
    """Whether what a query was before is needed as long as the query: the state that is held must be all that the plan
    without it needs."""
    if query.sink is None or query.former is None:
        return False
    alone = msgspec.structs.replace(query.sink, former=None)
    return not _state(planned(alone, catalog)) <= _state(query)


def _state(query: Planned) -> set[str]:
    flow = compile_lane(query.id, [query]).flow
    return {key for key, vertex in zip(flow.keys, flow.vertices, strict=True) if vertex.operator and vertex.stage}
