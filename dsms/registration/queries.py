"""CREATE VIEW, CREATE QUERY and SELECT STREAMED applied to a catalog."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from dsms.model import logical, properties
from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.fingerprint import fingerprint
from dsms.model.objects import DEFAULT_DEADLINE_MS, FirstOffsets, Query
from dsms.model.position import error_at
from dsms.model.statement_result import StatementResult
from dsms.model.topic_rules import check_result
from dsms.planner.optimizer.first_offsets import reading_from
from dsms.planner.optimizer.sketches import MOST_ERROR, least_error, memory_of
from dsms.planner.optimizer.start_instants import from_instant
from dsms.planner.optimizer.window_ranges import ranged
from dsms.planner.physical.fragment_plan import PlannedQuery, compile_lane, planned
from dsms.registration.clauses import LATEST, result_settings
from dsms.registration.division import check_divisible, divided_among, with_dead_letter_writers
from dsms.registration.environment import Applied, Environment, check_free
from dsms.registration.placement import placed
from dsms.registration.query_limits import check_plan, check_registered
from dsms.registration.removed_records import first_offsets, reads_of
from dsms.registration.view_matching import over_views
from dsms.sql.binder.adjustable import adjustable_plan
from dsms.sql.binder.bind import bind
from dsms.sql.binder.dependencies import names_in
from dsms.sql.binder.expansion import default_windows, written_out
from dsms.sql.binder.streams.clock import CLOCK, ClockView, clock_view
from dsms.sql.parser.dialect import Dsms
from dsms.sql.parser.nodes import WholeQuery
from operators.core.errors import SqlError, UserError
from operators.kernels.near_values import LEAST_ERROR

RESULT_PREFIX = "dsms."
#: The number of queries that differ only in constants and run separately; further ones run together as a family.
ALONE: Final = 2
_QUALITY = ("max_error", "deadline", "error_columns", "shed_where")


def create_query(statement: st.ContinuousQuery, catalog: Catalog, environment: Environment) -> Applied:
    """Adds a view or query, with a result topic. A view over the clock is stored as its points instead."""
    name = statement.name or st.Name(_generated_name(statement))
    if statement.name is None and (known := catalog.get(name.text)):
        return catalog, StatementResult("SELECT STREAMED", f'query "{known.name}" is already running', name=known.name)
    check_registered(names_in(statement.select), catalog, environment.limits)
    view = clock_view(statement.select, catalog)
    if view is not None:
        return _clock(statement, view, name, catalog)
    defaults, written = default_windows(statement.select, catalog), statement.select.sql(dialect=Dsms)
    settings = settled(statement, catalog, environment)
    shares = settings.pop("fragments", 1)
    node = from_instant(bind(WholeQuery(this=statement.select), catalog, environment.check_read), settings.get("start"))
    check_plan(node, environment.limits)
    first = first_offsets(node, reads_of(statement, catalog), environment)
    node = reading_from(node, first)
    if not properties.sources(node):
        raise error_at(
            statement.select,
            "the query reads no stream, so its result never changes",
            hint="use SELECT … to run it once",
        )
    output = statement.output or default_output(statement, node)
    check_free(catalog, name)
    check_quality(statement, settings)
    derived = {"output": output, "partitions": _partitions(node), "first_offsets": first}
    draft = draft_of(statement, name, {**derived, **settings}, catalog)
    draft = with_memory(statement, draft, node)
    node = adjustable_plan(node, draft)
    if draft.fragments_by_load:
        check_divisible(draft, node)
    if shares > 1:
        draft = divided_among(shares, draft, node, catalog, environment)
    if statement.fills is None:
        check_result(draft.topic, catalog, environment.may_read)
    environment.limits.check("partitions", draft.partitions, "the result would have {} partitions")
    plan = PlannedQuery(draft.id, draft.name, node, draft)
    draft, views = over_views(plan, _in_family(plan, draft, catalog), catalog)
    draft = placed(draft, node, catalog, environment.utilization())
    compile_lane(draft.id, [planned(draft, catalog, plan)])  # raises an error for queries that cannot run
    query = environment.result_topic(draft, node) if statement.fills is None else draft
    return with_dead_letter_writers(query, catalog.with_object(query)), StatementResult(
        _label(query),
        f'{statement.kind} "{name.text}" created; results in topic "{query.topic}"',
        notices=(
            *_notices(node, query, result_settings(statement.clauses)),
            *_cql_notices(statement),
            *_family_notices(query, catalog),
            *(f'computed from "{view}", whose operators it shares' for view in views if environment.may_read(view)),
            *_gone_notices(node, first),
            *defaults,
            *_expanded(statement, written, catalog),
        ),
        name=name.text,
    )


def check_quality(statement: st.ContinuousQuery, settings: Mapping[str, Any]) -> None:
    """Raises SqlError for options of load shedding that the statement does not allow or that would have no effect."""
    given = [clause for clause in statement.clauses if clause.name in _QUALITY]
    if given and statement.kind == "view":
        why = "readers of a view expect exact results"
        raise given[0].place.error(f"{given[0].name.upper()} needs a query: {why}", "use CREATE QUERY …")
    if given and "max_error" not in settings:
        raise given[0].place.error(f"{given[0].name.upper()} needs MAX_ERROR: without it no input is shed")
    others = [clause for clause in given if clause.name != "max_error"]
    if others and "memory" in settings:
        raise others[0].place.error(
            f"{others[0].name.upper()} cannot be combined with MEMORY: with MEMORY no input is shed"
        )


def with_memory(statement: st.ContinuousQuery, draft: Query, node: logical.Node) -> Query:
    """The query with the error of its sketches, if it has both MEMORY and MAX_ERROR. Raises SqlError if MEMORY is given
    for a query that has nothing to adjust, or is too small."""
    clause = next((clause for clause in statement.clauses if clause.name == "memory"), None)
    if clause is None or draft.memory is None:
        return draft
    if statement.kind == "view":
        why = "readers of a view expect exact results"
        raise clause.place.error(f"MEMORY needs a query: {why}", "use CREATE QUERY …")
    sized = ranged(node)
    if sized and draft.max_error is not None:
        hint = "omit MAX_ERROR: the sizes of such a window are chosen by MEMORY alone"
        raise clause.place.error("MAX_ERROR cannot be combined with a window with a range of sizes", hint)
    if draft.max_error is not None:
        return _with_sketches(draft, node, draft.memory, draft.max_error, clause.place)
    if not sized:
        hint = "write one such as [Range Min 5 Minutes Max 1 Hour], or add MAX_ERROR; STATE_MEMORY moves state to disk"
        raise clause.place.error("MEMORY needs a window with a range of sizes", hint)
    return draft


def _with_sketches(draft: Query, node: logical.Node, memory: int, most: float, place: st.Place) -> Query:
    if most < LEAST_ERROR:
        raise place.error(f"with MEMORY, MAX_ERROR must be at least {LEAST_ERROR:g}")
    try:
        error = least_error(node, memory)
        if error is None or error > most:
            need = f"MAX_ERROR {most:g} needs {memory_of(node, min(most, MOST_ERROR)):,} bytes for each group"
            reached = "" if error is None else f"; with {memory:,} bytes the error is up to {error:g}"
            raise place.error(f"MEMORY is too small: {need}{reached}", "increase MEMORY or MAX_ERROR")
    except SqlError:
        raise
    except UserError as problem:
        raise place.error(problem.message, problem.hint) from problem
    return msgspec.structs.replace(draft, sketch_error=error)


def settled(statement: st.ContinuousQuery, catalog: Catalog, environment: Environment) -> dict[str, Any]:
    """The settings of the clauses, with START 'latest' resolved to an instant."""
    settings = result_settings(statement.clauses)
    if "max_error" in settings and "memory" not in settings:
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
        "fields_named": True,
        "streams_united": True,
    }
    return msgspec.convert({**fields, **settings}, Query)


def _in_family(planned: PlannedQuery, draft: Query, catalog: Catalog) -> Query:
    """Assigns the query to its family. The first `ALONE` queries of a family run separately, and queries equal to one
    of them share its operators. Later ones become members: they run as one plan with an index over their constants."""
    if planned.template is None or not draft.shared:
        return draft
    family, constants = planned.template.family, fingerprint(planned.template.constants)
    kin = [other for other in catalog.running() if other.family == family]
    alone = {other.constants for other in kin if not other.grouped}
    grouped = constants not in alone and len({other.constants for other in kin}) >= ALONE
    return msgspec.structs.replace(draft, family=family, constants=constants, grouped=grouped)


def _partitions(node: logical.Node) -> int:
    return max((source.partitions for source in properties.sources(node)), default=1)


def default_output(statement: st.ContinuousQuery, node: logical.Node) -> st.Output:
    """CQL's default output: Istream if the result is monotonic (section 6.2.2). Raises SqlError otherwise."""
    if properties.append_only(node):
        return "istream"
    raise error_at(
        statement.select,
        "rows can leave the result, so CQL defines no default output",
        hint="use SELECT STREAMED, SELECT COMPLETE, or Istream(…), Dstream(…), Rstream(…) around the select list",
    )


def _clock(statement: st.ContinuousQuery, view: ClockView, name: st.Name, catalog: Catalog) -> Applied:
    if statement.kind == "query":
        hint = f"make it a view and read a relation at its points: R[{name.text if statement.name else 'Sync'}](S)"
        raise error_at(statement.select, f"a query over {CLOCK} alone would list every instant", hint=hint)
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


def _notices(node: logical.Node, query: Query, given: dict[str, object]) -> tuple[str, ...]:
    keys = properties.keys(node)
    key = f"key: {', '.join(keys)}" if keys else "no key: a deletion carries the whole row"
    start = [] if query.start is None else [f"start: instants from {query.start} on"]
    form = [] if "format" in given else [f"FORMAT {query.format.upper()}"]
    shares = [f"fragments: {', '.join(query.shares)}, each of which runs a shard of the keys"] if query.shares else []
    shares += ["fragments: more are added when the query falls behind"] if query.fragments_by_load else []
    return (key, f"output: {query.output.upper()}", *form, *start, *shares, *_quality_notices(query))


def _gone_notices(node: logical.Node, first: FirstOffsets) -> Iterator[str]:
    for source in properties.sources(node):
        if source.id in first:
            at = ", ".join(f"offset {offset} of partition {part}" for part, offset in sorted(first[source.id].items()))
            yield f'earlier records of topic "{source.topic}" were deleted: the topic is read from {at} on'


def _quality_notices(query: Query) -> tuple[str, ...]:
    if query.sketch_error is not None:
        return (f"sketches: an error of at most {query.sketch_error:g}, within {query.memory:,} bytes for each group",)
    if query.memory is not None:
        return (f"its windows are as large as {query.memory:,} bytes of state allow",)
    if query.max_error is None:
        return ()
    return (f"input may be shed: relative error at most {query.max_error:g}, DEADLINE {query.deadline} MS",)


def _cql_notices(statement: st.ContinuousQuery) -> tuple[str, ...]:
    return () if statement.output else ("Istream is applied by default: rows never leave the result",)


def _family_notices(query: Query, catalog: Catalog) -> tuple[str, ...]:
    if not query.grouped:
        return ()
    kin = sum(other.grouped and other.family == query.family for other in catalog.running())
    word = "query that differs" if kin == 1 else "queries that differ"
    return (f"shares one plan with {kin} {word} only in constants",) if kin else ()


def _expanded(statement: st.ContinuousQuery, written: str, catalog: Catalog) -> tuple[str, ...]:
    """The text of the query with its defaults written out, if that differs from what was written."""
    text = written_out(statement.select, catalog).sql(dialect=Dsms)
    return () if text == written else (f"expanded: {text}",)


def _generated_name(statement: st.ContinuousQuery) -> str:
    """A name derived from the query, so that the same query is registered only once."""
    return "query_" + hashlib.sha256(statement.select.sql(dialect=Dsms).lower().encode()).hexdigest()[:8]
