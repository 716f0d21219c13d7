"""CREATE OR REPLACE applied to a catalog: a query replaces another from an instant on. REPAIR QUERY replaces a query by
the same one.

The name, the topic and the consumers stay. At the instant up to which the former query has published, the published
relation changes into that of the new query. Views and queries that read a replaced view are replaced in the same way:
each by itself over the new view.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from connectors.formats.record_formats import FORMATS
from dsms.model import logical, properties
from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.field_role import defaults_of, names_of
from dsms.model.objects import FirstOffsets, Object, Query, Source, Table, kind_of, last_change, number_of
from dsms.model.schema import visible
from dsms.model.statement_result import StatementResult
from dsms.planner.optimizer.start_instants import from_instant
from dsms.planner.physical.fragment_plan import PlannedQuery, compile_lane, planned
from dsms.registration.adjustment_options import check_shedding_options, with_memory
from dsms.registration.clauses import result_settings
from dsms.registration.deleted_records import check_none_deleted
from dsms.registration.environment import Applied, Environment
from dsms.registration.queries import (
    create_query,
    default_output,
    draft_of,
    resolved_settings,
)
from dsms.registration.query_limits import check_plan
from dsms.registration.view_matching import moved_off
from dsms.sql.binder.bind import bind, plan_of
from dsms.sql.binder.dependencies import dependencies_of, dependents
from dsms.sql.binder.former_versions import former_of
from dsms.sql.binder.streams.clock import clock_view
from dsms.sql.parser.nodes import WholeQuery
from operators.core.errors import UserError

_FIXED = names_of(Query, lambda role: role.on_replacement == "fixed")
_CARRIED = names_of(Query, lambda role: role.on_replacement == "carried")
_COMPARED = names_of(Query, lambda role: role.compared)
#: The most earlier versions of which the results are watched: more have no executor that still publishes.
_MAX_EARLIER = 8
_RESET = defaults_of(Query, lambda role: role.on_replacement == "reset")


def replace_query(statement: st.ReplaceQuery, catalog: Catalog, environment: Environment) -> Applied:
    """Replaces a query and its readers, or creates the query if it does not exist."""
    query, name = statement.query, statement.name
    before = catalog.get(name.text)
    if before is None:
        return create_query(query, catalog, environment)
    if not isinstance(before, Query) or before.kind != query.kind:
        raise name.place.error(f'"{before.name}" is a {kind_of(before)}, not a {query.kind}', "drop it first")
    if before.periodic is not None or clock_view(query.select, catalog) is not None:
        raise name.place.error(f'"{before.name}" is a view over the clock and cannot be replaced', "drop it first")
    _check_undivided(query, before, catalog)
    new = _new(query, before, catalog, environment)
    if before.former is None and _unchanged(new, before, catalog):
        return catalog, StatementResult("CREATE OR REPLACE", f'{before.kind} "{before.name}" is unchanged')
    after = replaced(catalog, [new, *readers(catalog, before)], environment)
    if moved := moved_off(after, environment):
        after = after.with_changed(*moved)
    return after, _result(query, before, catalog, after)


def _check_undivided(statement: st.ContinuousQuery, before: Query, catalog: Catalog) -> None:
    """Raises UserError if several fragments run, or would run, one of the replaced queries: such fragments have no
    common instant for the change."""
    divided = [query.name for query in (before, *readers(catalog, before)) if query.shares]
    if divided or "fragments" in result_settings(statement.clauses):
        name = divided[0] if divided else before.name
        raise _cannot_be_replaced(
            before, f'"{name}" is run by several fragments' if divided else "FRAGMENTS cannot be changed"
        )


def with_halted(catalog: Catalog, queries: Sequence[Query]) -> Catalog:
    """The catalog in which queries are halted, so that the instant up to which they have published is fixed."""
    return catalog.with_changed(*(msgspec.structs.replace(query, halted=True, grouped=False) for query in queries))


def queries_to_resume(catalog: Catalog) -> list[Query]:
    """The halted queries, set to run again because they were not replaced."""
    return [msgspec.structs.replace(query, halted=False) for query in catalog.queries() if query.halted]


def readers(catalog: Catalog, view: Query) -> list[Query]:
    """The views and queries that read a view, directly or indirectly, in order of creation."""
    return [reader for reader in dependents(catalog, view) if isinstance(reader, Query)]


def _new(statement: st.ContinuousQuery, before: Query, catalog: Catalog, environment: Environment) -> Query:
    """The query of the statement, with the settings that it takes over from the query before it."""
    given = result_settings(statement.clauses)
    for option in (*_FIXED, "fragment"):
        if option in given and given[option] != getattr(before, option):
            raise _cannot_be_replaced(
                before, f"{option.upper()} would change from {getattr(before, option)} to {given[option]}"
            )
    settings = resolved_settings(statement, catalog, environment)
    check_shedding_options(statement, settings)
    node = from_instant(bind(WholeQuery(this=statement.select), catalog, environment.check_read), settings.get("start"))
    check_plan(node, environment.limits)
    output = statement.output or default_output(node)
    kept = {name: getattr(before, name) for name in (*_FIXED, *_CARRIED)}
    kept["first_offsets"] = {**before.first_offsets, **_of_other_versions(node, before.first_offsets)}
    draft = draft_of(statement, st.Name(before.name), {"output": output, **kept, **settings}, catalog)
    draft = with_memory(statement, draft, node)
    return msgspec.structs.replace(draft, id=before.id)


def _of_other_versions(node: logical.Node, first: FirstOffsets) -> FirstOffsets:
    """The first offsets of sources of which the former query read another version: the topic is the same."""
    return {source.id: first[id] for source in properties.sources(node) for id in source.ids if id in first}


def _unchanged(new: Query, before: Query, catalog: Catalog) -> bool:
    """Whether a replacement would change nothing that a user can declare, and no version of a function or aggregate
    that the query calls."""
    newer = any(_changed_after(before, item) for item in dependencies_of(before, catalog))
    return not newer and all(getattr(new, name) == getattr(before, name) for name in _COMPARED)


def _changed_after(query: Query, item: Object) -> bool:
    """Whether an object that the query reads has a version that is newer than the one that the query uses."""
    used = query.text_given if isinstance(item, Source | Table) else number_of(query.id)
    return last_change(item) > used


def replaced(catalog: Catalog, queries: list[Query], environment: Environment) -> Catalog:
    """The catalog in which `queries` replace those of the same names; the first is new, the others are its readers."""
    names = {query.name.lower() for query in queries}
    kept = {name: item for name, item in catalog.objects.items() if name not in names}
    after = catalog.with_objects(kept)
    for query in queries:
        before = catalog.objects[query.name.lower()]
        assert isinstance(before, Query)
        text_of = before.text_given if query is before else None  # a query with the same text keeps its columns
        following = msgspec.structs.replace(
            _with_takeover(query, before, catalog, environment), id=after.next_id(), text_of=text_of
        )
        extended = _with_query(following, after)
        new = planned(following, extended)
        check_plan(new.node, environment.limits)
        check_none_deleted([new.node, *([new.former] if new.former else [])], environment, f'replacing "{before.name}"')
        _check(new, plan_of(before.name, catalog), before)
        after = _with_query(
            msgspec.structs.replace(following, reads=_sources(new), lasting=_needs_former_always(new, extended)), after
        )
    return after


def _with_query(query: Query, catalog: Catalog) -> Catalog:
    """The catalog with one more query, without a new version number."""
    objects = {**catalog.objects, query.name.lower(): query}
    return msgspec.structs.replace(catalog, ids=catalog.ids + 1, objects=objects)


def _sources(query: PlannedQuery) -> tuple[str, ...]:
    nodes = [query.node] if query.former is None else [query.node, query.former]
    return tuple(dict.fromkeys(source.id for node in nodes for source in properties.sources(node)))


def _with_takeover(new: Query, before: Query, catalog: Catalog, environment: Environment) -> Query:
    """The new query with the instant `since` at which it takes over; None if nothing has been published so far."""
    own = environment.published(before.id)
    if own is None and before.since is None and any(environment.published(id) is not None for id in before.earlier):
        raise _cannot_be_replaced(before, "an earlier version has published results after it was replaced")
    earlier = None if before.former is None else environment.published(before.former.id)
    since = max((at for at in (own, earlier, before.since) if at is not None), default=None)
    fields = {**_RESET, "since": since, "earlier": (before.id, *before.earlier)[:_MAX_EARLIER]}
    if since is not None:
        unseen = before.former is not None and before.since is not None and (own is None or own <= before.since)
        fields["former"] = before.former if unseen else former_of(before, catalog)
    return msgspec.structs.replace(new, **fields)


def _check(new: PlannedQuery, was: logical.Node, before: Query) -> None:
    """Raises UserError if the form of the records would change, because consumers keep reading the topic."""
    assert new.sink is not None
    if new.sink.output != before.output:
        raise _cannot_be_replaced(
            before, f"the output would change from {before.output.upper()} to {new.sink.output.upper()}"
        )
    columns, others = visible(new.node), visible(was)
    if list(zip(columns.names, columns.types, strict=True)) != list(zip(others.names, others.types, strict=True)):
        raise _cannot_be_replaced(before, f"the columns would change from ({_listed(others)}) to ({_listed(columns)})")
    if FORMATS[before.format].schema and columns != others:
        raise _cannot_be_replaced(before, "the nullability of its columns would change")
    key, other = properties.keys(new.node), properties.keys(was)
    if key != other:
        raise _cannot_be_replaced(before, f"the key would change from ({', '.join(other)}) to ({', '.join(key)})")
    compile_lane(new.id, [new])  # raises an error for queries that cannot run


def _cannot_be_replaced(before: Query, what: str) -> UserError:
    return UserError(
        f'{before.kind} "{before.name}" cannot be replaced: {what}',
        hint=f"DROP {before.kind.upper()} {before.name} and create it again",
    )


def _listed(columns: object) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in columns)  # type: ignore[attr-defined]


def _result(statement: st.ContinuousQuery, before: Query, catalog: Catalog, after: Catalog) -> StatementResult:
    names = [reader.name for reader in readers(catalog, before)]
    notices = tuple(replacement_notice(after.find(name)) for name in (before.name, *names))
    also = f", together with its readers {', '.join(names)}" if names else ""
    message = f'{before.kind} "{before.name}" replaced{also}; results in topic "{before.topic}"'
    return StatementResult("CREATE OR REPLACE", message, notices=notices, name=before.name)


def replacement_notice(query: object) -> str:
    """Since when a query has replaced the former one, for messages."""
    assert isinstance(query, Query)
    return (
        f"{query.name}: replaced before it published anything"
        if query.since is None
        else f"{query.name}: replaced from instant {query.since} on"
    )


def with_former_dropped(catalog: Catalog, published: Mapping[str, int | None]) -> Iterator[Query]:
    """Yields the queries whose former version is no longer needed for future results, with that version removed.
    `published` gives the instant below which each query (by id) has published."""
    for query in catalog.running():
        if query.former is None or query.since is None or query.lasting:
            continue
        if (published.get(query.id) or query.since) > query.since:
            yield msgspec.structs.replace(query, former=None)


def _needs_former_always(query: PlannedQuery, catalog: Catalog) -> bool:
    """Whether the former version is needed as long as the query exists: without it, the plan would need state that the
    plan with it does not hold."""
    if query.sink is None or query.former is None:
        return False
    alone = msgspec.structs.replace(query.sink, former=None)
    return not _state_keys(planned(alone, catalog)) <= _state_keys(query)


def _state_keys(query: PlannedQuery) -> set[str]:
    flow = compile_lane(query.id, [query]).flow
    return {key for key, vertex in zip(flow.keys, flow.vertices, strict=True) if vertex.operator and vertex.stage}
