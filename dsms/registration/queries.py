"""CREATE VIEW, CREATE QUERY and SELECT STREAMED applied to a catalog."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from dsms.model import logical, properties
from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.fingerprint import fingerprint
from dsms.model.objects import DEFAULT_DEADLINE_MS, FirstOffsets, Query
from dsms.model.position import error_at
from dsms.model.statement_result import StatementResult
from dsms.model.subplans import SharedSubplan
from dsms.model.topic_rules import check_result
from dsms.planner.optimizer.first_offsets import reading_from
from dsms.planner.optimizer.start_instants import from_instant
from dsms.planner.physical.fragment_plan import PlannedQuery, compile_lane, planned
from dsms.registration.adjustment_options import (
    check_preferred_column,
    check_shedding_options,
    value_preference,
    with_memory,
)
from dsms.registration.clauses import LATEST, result_settings
from dsms.registration.deleted_records import first_offsets, reads_of
from dsms.registration.division import check_divisible, check_fragment, divided_among, with_dead_letter_writers
from dsms.registration.environment import Applied, Environment, check_free
from dsms.registration.placement import placed
from dsms.registration.query_limits import check_plan, check_registered
from dsms.registration.shared_links import holding_links
from dsms.registration.view_matching import merged_with, moved_onto, over_views
from dsms.sql.binder.adjustable import adjustable_plan
from dsms.sql.binder.bind import bind
from dsms.sql.binder.dependencies import names_in, query_of
from dsms.sql.binder.expansion import default_windows, written_out
from dsms.sql.binder.streams.clock import CLOCK, ClockView, clock_view, points_alone
from dsms.sql.generated_name import generated_name
from dsms.sql.parser.dialect import Dsms
from dsms.sql.parser.nodes import WholeQuery

RESULT_PREFIX = "dsms."
#: The number of queries that differ only in constants and run separately; further ones run together as a family.
MAX_SEPARATE: Final = 2


@dataclass(frozen=True)
class _Declared:
    """What a statement declares about its query: settings by field name, and the number of its fragments. `defaults`
    are notices about the windows that are added to its `text`."""

    settings: Mapping[str, Any]
    fragments: int
    defaults: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class _Draft:
    """A query as it is stored, and its plan."""

    query: Query
    node: logical.Node


def create_query(statement: st.ContinuousQuery, catalog: Catalog, environment: Environment) -> Applied:
    """Adds a view or query, with a result topic. A view over the clock is stored as its points instead.

    The steps: what the statement declares, its plan, its division among fragments, the checks of its result, and its
    placement beside other queries. Only then the topic is created, so a statement that fails leaves none."""
    name, known = _named(statement, catalog)
    if known is not None:
        return catalog, StatementResult("SELECT STREAMED", f'query "{known.name}" is already running', name=known.name)
    check_registered(names_in(statement.select), catalog, environment.limits)
    view = clock_view(statement.select, catalog)
    if view is not None:
        return _clock_view(statement, view, name, catalog)
    declared = _declared(statement, catalog, environment)
    whole = _drafted(statement, name, declared, catalog, environment)
    pinned = _pinned(declared, environment)
    divided = _divided(whole, declared.fragments, catalog, environment)
    _check_result(statement, divided.query, catalog, environment)
    placed_query, views = _placed_among_others(divided, pinned, catalog, environment)
    query = environment.result_topic(placed_query, whole.node) if statement.fills is None else placed_query
    shared: tuple[str, ...] = ()
    if query.shares and whole.query.shared:
        query, shared = holding_links(query, whole.node, catalog, environment)
    computed_from = _computed_from_notices(query, (view for view in views if environment.may_read(view)))
    created = with_dead_letter_writers(query, catalog.with_object(query))
    moved = moved_onto(query, created, environment)
    notices = (
        *_notices(whole.node, query, declared.settings),
        *shared,
        *_cql_notices(statement, query),
        *_family_notices(query, catalog),
        *computed_from,
        *_moved_notices(moved),
        *_deleted_records_notices(whole.node, query.first_offsets),
        *declared.defaults,
        *_expanded_text_notice(statement, declared.text, query, catalog),
    )
    message = f'{statement.kind} "{name.text}" created; results in topic "{query.topic}"'
    return created.with_changed(*moved) if moved else created, StatementResult(
        _label(query), message, notices=notices, name=name.text
    )


def _declared(statement: st.ContinuousQuery, catalog: Catalog, environment: Environment) -> _Declared:
    defaults, text = default_windows(statement.select, catalog), statement.select.sql(dialect=Dsms)
    given = resolved_settings(statement, catalog, environment)
    settings = {name: value for name, value in given.items() if name != "fragments"}
    return _Declared(settings, given.get("fragments", 1), tuple(defaults), text)


def _drafted(
    statement: st.ContinuousQuery, name: st.Name, declared: _Declared, catalog: Catalog, environment: Environment
) -> _Draft:
    """The query with its plan, as one fragment would run it alone. Raises SqlError if it cannot be planned, or if its
    settings do not fit the plan."""
    first, node = _bound(statement, declared.settings.get("start"), catalog, environment)
    if not properties.sources(node):
        raise error_at(
            statement.select,
            "the query reads no stream, so its result never changes",
            hint="use SELECT … to run it once",
        )
    output = statement.output or default_output(node)
    check_free(catalog, name)
    check_shedding_options(statement, declared.settings)
    check_preferred_column(statement, node)
    derived = {"output": output, "partitions": _partitions(node), "first_offsets": first}
    query = with_memory(statement, draft_of(statement, name, {**derived, **declared.settings}, catalog), node)
    return _Draft(query, adjustable_plan(node, query))


def _bound(
    statement: st.ContinuousQuery, start: int | None, catalog: Catalog, environment: Environment
) -> tuple[FirstOffsets, logical.Node]:
    """The plan, which begins at the instant `start` and at the first records that the topics still have, and the
    offsets of these records."""
    node = from_instant(bind(WholeQuery(this=statement.select), catalog, environment.check_read), start)
    check_plan(node, environment.limits)
    first = first_offsets(node, reads_of(statement, catalog), environment)
    return first, reading_from(node, first)


def _divided(draft: _Draft, fragments: int, catalog: Catalog, environment: Environment) -> _Draft:
    """The query assigned to its number of fragments. Raises UserError if it cannot be divided as declared."""
    if draft.query.fragments_by_load:
        check_divisible(draft.query, draft.node)
    if fragments > 1:
        return replace(draft, query=divided_among(fragments, draft.query, draft.node, catalog, environment))
    return draft


def _check_result(statement: st.ContinuousQuery, query: Query, catalog: Catalog, environment: Environment) -> None:
    if statement.fills is None:
        check_result(query.topic, catalog, environment.may_read)
    environment.limits.check("partitions", query.partitions, "the result would have {} partitions")


def _pinned(declared: _Declared, environment: Environment) -> str | None:
    """The fragment that the statement names; None if it names none. Raises UserError if there is no such fragment."""
    wanted: str | None = declared.settings.get("fragment")
    if wanted is not None:
        check_fragment(wanted, environment, divided=declared.fragments > 1)
    return wanted


def _placed_among_others(
    draft: _Draft, pinned: str | None, catalog: Catalog, environment: Environment
) -> tuple[Query, list[str]]:
    """The query with its family, the queries from whose rows it is computed, and its fragment, `pinned` if that is
    given; and the names of those queries. Raises an error if the query cannot run."""
    plan = PlannedQuery(draft.query.id, draft.query.name, draft.node, draft.query)
    over, views = over_views(plan, _in_family(plan, draft.query, catalog), catalog)
    wider, merged = merged_with(plan, over, catalog, environment)
    if merged and pinned in (None, wider.fragment):
        over, pinned = wider, wider.fragment
    else:
        merged = []
    query = placed(over, planned(over, catalog, plan).optimized, catalog, environment, pinned)
    _check_compiles(planned(query, catalog, plan))
    return query, merged or views


def _check_compiles(query: PlannedQuery) -> None:
    """Compiles the query, and raises the error if that fails. Later it would fail in an executor, where it would stop
    all queries of a fragment.

    The lane is not kept: executors compile the query together with others, in processes of their own. This takes a
    quarter of the time of a registration, 2 of 9 ms. `divided_among` has already compiled a divided query.
    """
    assert query.sink is not None
    if not query.sink.shares:
        compile_lane(query.id, [query])


def resolved_settings(statement: st.ContinuousQuery, catalog: Catalog, environment: Environment) -> dict[str, Any]:
    """The settings of the clauses, with START 'latest' resolved to an instant."""
    settings = result_settings(statement.clauses)
    if "max_loss" in settings or ("max_error" in settings and "memory" not in settings):
        settings.setdefault("deadline", DEFAULT_DEADLINE_MS)
    if settings.get("start") == LATEST:
        node = bind(WholeQuery(this=statement.select), catalog, environment.check_read)
        settings["start"] = environment.instant_after(
            [source for source in properties.sources(node) if not source.table]
        )
    return settings


def draft_of(statement: st.ContinuousQuery, name: st.Name, settings: dict[str, Any], catalog: Catalog) -> Query:
    """The query that a statement describes, with its settings by field name."""
    fields = {
        "type": "query",
        "name": name.text,
        "id": catalog.next_id(),
        "sql": statement.sql,
        "kind": statement.kind,
        "select": statement.select_sql,
        "topic": RESULT_PREFIX + name.text,
        "stream": statement.stream,
        "fills": statement.fills,
        "preference": value_preference(statement),
        "fields_named": True,
        "streams_united": True,
    }
    return msgspec.convert({**fields, **settings}, Query)


def _in_family(planned: PlannedQuery, draft: Query, catalog: Catalog) -> Query:
    """Assigns the query to its family. The first `MAX_SEPARATE` queries of a family run separately, and queries equal
    to one of them share its operators. Later ones become members: they run as one plan with an index over their
    constants."""
    if planned.template is None or not draft.shared:
        return draft
    family, constants = planned.template.family, fingerprint(planned.template.constants)
    family_members = [other for other in catalog.running() if other.family == family]
    alone = {other.constants for other in family_members if not other.grouped}
    grouped = constants not in alone and len({other.constants for other in family_members}) >= MAX_SEPARATE
    return msgspec.structs.replace(draft, family=family, constants=constants, grouped=grouped)


def _partitions(node: logical.Node) -> int:
    return max((source.partitions for source in properties.sources(node)), default=1)


def default_output(node: logical.Node) -> st.Output:
    """CQL's default output: Istream if the result is monotonic. Otherwise no stream is derived from it (section 6.2.2):
    the result is a relation, whose changes are published."""
    return "istream" if properties.append_only(node) else "streamed"


def _clock_view(statement: st.ContinuousQuery, view: ClockView, name: st.Name, catalog: Catalog) -> Applied:
    if statement.kind == "query":
        raise points_alone(statement.select)
    check_free(catalog, name)
    if any(clause.name == "start" for clause in statement.clauses):
        raise error_at(statement.select, "START is not supported in a view over the clock, which covers all instants")
    draft = draft_of(statement, name, {"output": "streamed", **result_settings(statement.clauses)}, catalog)
    query = msgspec.structs.replace(draft, periodic=(view.points.period, view.points.residues))
    message = f'view "{name.text}" created over {CLOCK}; its points are computed without running a query'
    notices = (f"points: t mod {view.points.period} in {{{', '.join(map(str, view.points.residues))}}}",)
    return catalog.with_object(query), StatementResult(_label(query), message, notices=notices, name=name.text)


def _label(query: Query) -> str:
    if query.kind == "query":
        return "SELECT COMPLETE" if query.output == "complete" else "SELECT STREAMED"
    return "CREATE COMPLETE VIEW" if query.output == "complete" else "CREATE STREAMED VIEW"


def _notices(node: logical.Node, query: Query, given: Mapping[str, object]) -> tuple[str, ...]:
    keys = properties.keys(node)
    key = f"key: {', '.join(keys)}" if keys else "no key: a deletion carries the whole row"
    start = [] if query.start is None else [f"start: instants from {query.start} on"]
    form = [] if "format" in given else [f"FORMAT {query.format.upper()}"]
    shares = [f"fragments: {', '.join(query.shares)}, each of which runs a shard of the keys"] if query.shares else []
    shares += ["fragments: more are added when the query falls behind"] if query.fragments_by_load else []
    shares += [_link_notice(subplan) for subplan in query.links]
    return (key, f"output: {query.output.upper()}", *form, *start, *shares, *_quality_notices(query))


def _link_notice(subplan: SharedSubplan) -> str:
    return (
        f"reads shared subplan {subplan.id} from fragment {subplan.fragment}, which computes it for other queries too"
    )


def _deleted_records_notices(node: logical.Node, first: FirstOffsets) -> Iterator[str]:
    for source in properties.sources(node):
        if source.id in first:
            at = ", ".join(f"offset {offset} of partition {part}" for part, offset in sorted(first[source.id].items()))
            yield f'earlier records of topic "{source.topic}" were deleted: the topic is read from {at} on'


def _quality_notices(query: Query) -> tuple[str, ...]:
    if query.sketch_error is not None:
        return (f"sketches: an error of at most {query.sketch_error:g}, within {query.memory:,} bytes for each group",)
    if query.memory is not None:
        return (f"its windows are as large as {query.memory:,} bytes of state allow",)
    if query.max_loss is not None:
        part = f"at most {query.max_loss:g} of each stream"
        return (f"input may be shed: {part}, DEADLINE {query.deadline} MS{_first(query)}",)
    if query.max_error is None:
        return ()
    return (f"input may be shed: relative error at most {query.max_error:g}, DEADLINE {query.deadline} MS",)


def _first(query: Query) -> str:
    """Which values are kept first when input of a query is shed."""
    if query.preference is None:
        return ""
    direction, column = query.preference
    return f"; {'frequent' if direction == 'desc' else 'rare'} values of {column} are kept first"


def _cql_notices(statement: st.ContinuousQuery, query: Query) -> tuple[str, ...]:
    if statement.output is not None:
        return ()
    if query.output == "istream":
        return ("Istream is applied by default: rows never leave the result",)
    return ("no Istream is applied by default: rows can leave the result, which is a relation",)


def _family_notices(query: Query, catalog: Catalog) -> tuple[str, ...]:
    if not query.grouped:
        return ()
    family_members = sum(other.grouped and other.family == query.family for other in catalog.running())
    word = "query that differs" if family_members == 1 else "queries that differ"
    return (f"shares one plan with {family_members} {word} only in constants",) if family_members else ()


def _computed_from_notices(query: Query, views: Iterable[str]) -> tuple[str, ...]:
    if any(former.merged for former in query.over):
        return tuple(f'shares operators with "{view}", which get the columns of both' for view in views)
    return tuple(f'computed from "{view}", whose operators it shares' for view in views)


def _moved_notices(moved: Sequence[Query]) -> tuple[str, ...]:
    words = "1 running query moves" if len(moved) == 1 else f"{len(moved)} running queries move"
    return (f"{words} onto its operators; results stay the same",) if moved else ()


def _expanded_text_notice(
    statement: st.ContinuousQuery, original: str, query: Query, catalog: Catalog
) -> tuple[str, ...]:
    """The text of the query with its defaults written out, if that differs from the original text."""
    as_istream = statement.output is None and query.output == "istream"
    expanded = written_out(statement.select, catalog, as_istream=as_istream).sql(dialect=Dsms)
    return () if expanded == original else (f"expanded: {expanded}",)


def _named(statement: st.ContinuousQuery, catalog: Catalog) -> tuple[st.Name, Query | None]:
    """The name of a new query; and, if the statement has none, the query that the same SELECT created before.

    The name is then derived from the SELECT. Another query may have it, or have had it, so that its topic has it: if a
    stream was renamed, the text of its readers changed, and they themselves may have been renamed."""
    if statement.name is not None:
        return statement.name, None
    name = generated_name(statement.select)
    alike = [each for each in catalog.queries() if each.name.startswith(name) or each.first_name.startswith(name)]
    equal = next((each for each in alike if generated_name(query_of(each.select)) == name), None)
    taken = {known for each in alike for known in (each.name, each.first_name)}
    numbered = (f"{name}_{number}" for number in range(2, 2 + len(taken)))
    return st.Name(next(free for free in (name, *numbered) if free not in taken)), equal
