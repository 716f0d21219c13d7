"""Divides a query among several fragments that run it together: checks whether it can be divided, and chooses the
fragments."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from dsms.model import logical, properties
from dsms.model.catalog import Catalog
from dsms.model.field_role import defaults_of
from dsms.model.objects import Object, Query, Source
from dsms.planner.physical.fragment_plan import PlannedQuery, divided, planned
from dsms.planner.physical.parts.cut import DividedQuery
from dsms.registration.environment import Environment
from dsms.registration.placement import least_loaded, placed
from dsms.registration.shared_links import fragments_to_share_with
from dsms.sql.binder.bind import plan_of
from operators.core.errors import UserError

_RESET = defaults_of(Query, lambda role: role.reset_on_division)


def divided_among(count: int, draft: Query, node: logical.Node, catalog: Catalog, environment: Environment) -> Query:
    """The query with `count` fragments assigned, each to run a shard of its keys: those of a query with which it can
    share links, or else the least loaded ones. Raises UserError if it cannot be divided."""
    busy = environment.utilization()
    if count > len(busy):
        have = f"there {'is' if len(busy) == 1 else 'are'} {len(busy)}"
        raise UserError(
            f"the query needs {count} fragments, but {have}",
            hint="start the coordinator with more: dsms coordinator --fragments N, or `fragments` in the chart",
        )
    for source in properties.sources(node):
        _check_partitions(f'{"table" if source.table else "source"} "{source.name}"', source.partitions, count)
    _check_partitions("the result", draft.partitions, count)
    best = least_loaded(catalog, tuple(source.id for source in properties.sources(node)), busy)[:count]
    names = tuple(name for name in busy if name in best)  # in a fixed order, so that all queries divide a source alike
    assigned = msgspec.structs.replace(draft, shares=names, fragment=names[0], shared=False)
    whole = check_divisible(assigned, node)
    if draft.shared and (others := fragments_to_share_with(whole, catalog, busy)) is not None:
        return msgspec.structs.replace(assigned, shares=others, fragment=others[0])
    return assigned


def check_divisible(query: Query, node: logical.Node) -> DividedQuery:
    """The query as several fragments run it. Raises UserError if it cannot be divided, whatever their number."""
    _check_settings(query)
    return divided(PlannedQuery(query.id, query.name, node, query), "")


def with_fragments(count: int, query: Query, catalog: Catalog, environment: Environment) -> Query:
    """The query assigned to `count` fragments, which start from the beginning of the logs. Published results stay.
    Raises UserError if the query has replaced another one, or cannot be divided."""
    if query.replaces_another:
        raise UserError(
            f'{query.kind} "{query.name}" has replaced another one, so only one fragment can run it',
            hint=f"DROP {query.kind.upper()} {query.name} and create it again WITH (fragments = {count})",
        )
    undivided = msgspec.structs.replace(query, **_RESET, shared=False, divided_at_version=catalog.version + 1)
    others = catalog.without([query.name])
    if count == 1:
        return placed(undivided, planned(undivided, catalog).optimized, others, environment)
    return divided_among(count, undivided, plan_of(query.name, catalog), others, environment)


def check_fragment(fragment: str, environment: Environment, *, divided: bool) -> None:
    """Raises UserError if there is no such fragment, or if the statement also asks for a number of fragments."""
    if divided:
        raise UserError("FRAGMENT cannot be combined with FRAGMENTS", hint="several fragments run a divided query")
    if fragment not in (known := environment.utilization()):
        raise UserError(f'there is no fragment "{fragment}"', hint=f"have: {', '.join(known)}")


def with_dead_letter_writers(query: Query, catalog: Catalog) -> Catalog:
    """The catalog in which the fragments of a divided query write the dead letters of the sources that no other query
    reads, each for its own partitions. So no fragment has to read a partition only for its dead letters."""
    if not query.shares:
        return catalog
    others = {source for other in catalog.running() if other.id != query.id for source in other.reads}
    homes = dict[str, Object]()
    for name, source in _exclusive_sources(query, others, catalog):
        current = homes.get(name, catalog.objects[name])
        assert isinstance(current, Source)
        homes[name] = current.with_version(msgspec.structs.replace(source, homes=query.shares))
    return msgspec.structs.replace(catalog, objects={**catalog.objects, **homes}) if homes else catalog


def _exclusive_sources(query: Query, others: set[str], catalog: Catalog) -> Iterator[tuple[str, Source]]:
    """The versions of sources, with the sources' names, that only this query reads, and whose partitions are divided
    among its fragments in the same way as the partitions of its result."""
    for name, item in catalog.objects.items():
        for version in item.versions if isinstance(item, Source) else ():
            if version.id in {*query.reads} - others and _is_divided_like(version, query):
                yield name, version


def _is_divided_like(source: Source, query: Query) -> bool:
    """Whether each partition p of the source is read by shard number p modulo the number of shards."""
    shares = len(query.shares)
    return all(part % query.partitions % shares == part % shares for part in range(source.partitions))


def _check_settings(draft: Query) -> None:
    """Raises UserError for settings that require a single fragment to run the query."""
    given = {
        "MAX_LOSS": draft.max_loss,
        "MAX_ERROR": draft.sheddable,
        "INSERT INTO": draft.fills,
        "STATE_MEMORY": draft.state_memory,
        "MEMORY": draft.has_chosen_window_sizes,
    }
    for name, value in given.items():
        if value:
            raise UserError(
                f"{name} cannot be combined with FRAGMENTS: it needs a single fragment", hint="omit FRAGMENTS"
            )


def _check_partitions(what: str, have: int, wanted: int) -> None:
    if have < wanted:
        raise UserError(
            f"{what} has {have} partition{'' if have == 1 else 's'}, fewer than the {wanted} fragments",
            hint="each fragment reads and writes its own partitions; PARTITIONS sets their number",
        )
