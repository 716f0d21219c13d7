"""Moves queries from an executor whose queries fall behind to one with less load."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from dsms.coordinator.statements.changes_by_load import Remedy, set_by_load
from dsms.coordinator.statements.cluster_parts import ClusterParts
from dsms.model.catalog import Catalog
from dsms.model.objects import Query
from dsms.placement.balance import Movable, best_move
from dsms.placement.leases import ExecutorStatus
from dsms.registration.moves import SharingGroup, readers_of_subplans, sharing_groups
from dsms.statements.ddl.alter_query import AlterQuery


def to_lighter_executor(parts: ClusterParts) -> Remedy:
    """Moves a query, or queries that share operators, with their state from an executor with a query that falls behind
    to another one, if this decreases the load of the busier one of both much (`best_move`). The queries that move need
    not be those that fall behind."""

    def chosen(late: Sequence[Query], alive: Mapping[str, ExecutorStatus]) -> AlterQuery | None:
        executor_of = {fragment: name for name, status in alive.items() for fragment in status.fragments}
        utilization = {name: load for name, load in parts.facts.utilization().items() if name in executor_of}
        loads: dict[str, float] = defaultdict(float)
        for fragment, load in utilization.items():
            loads[executor_of[fragment]] += load
        late_at = {executor_of[fragment] for query in late for fragment in query.fragments if fragment in utilization}
        catalog = parts.store.catalog
        groups = [group for group in movable_groups(catalog) if group.fragment in utilization]
        measured = zip(groups, _loads(groups, catalog, parts.facts.load_by_queries()), strict=True)
        movable = [
            Movable(group.names, executor_of[group.fragment], load)
            for group, load in measured
            if executor_of[group.fragment] in late_at
        ]
        move = best_move(loads, movable)
        if move is None:
            return None
        moved, executor = move
        theirs = [fragment for fragment in utilization if executor_of[fragment] == executor]
        return set_by_load(moved.names, "fragment", min(theirs, key=utilization.__getitem__))

    return chosen


def _loads(
    groups: Sequence[SharingGroup], catalog: Catalog, measured: Mapping[tuple[str, frozenset[str]], float]
) -> list[float]:
    """For each group, the load of the operators that serve only this group: its queries, its subplans, and the reports
    for readers of these in other fragments."""
    readers, group_of = readers_of_subplans(catalog), dict[tuple[str, str], int]()
    for at, group in enumerate(groups):
        reading = (query for subplan in group.subplans for query in readers[subplan.id])
        others = (query.name for query in reading if query.fragment != group.fragment)
        for name in (*group.names, *(subplan.name for subplan in group.subplans), *others):
            group_of[group.fragment, name] = at
    loads = [0.0] * len(groups)
    for (fragment, served), load in measured.items():
        found = {group_of.get((fragment, name)) for name in served}
        only = found.pop() if len(found) == 1 else None
        if only is not None:
            loads[only] += load
    return loads


def movable_groups(catalog: Catalog) -> Iterator[SharingGroup]:
    """The queries that the load may move, in groups that share operators, with the shared subplans that move along.
    Their state has no limit, so that it comes along. If their fragment writes the dead letters of a source, other
    queries of the fragment read the source as well: without these, it would have to go on reading it. Not queries that
    a statement has assigned to a fragment, that are paused, that fill a table, that have replaced another query, or
    whose rates or window sizes are chosen at run time."""
    running = list(catalog.running())
    readers = Counter((fragment, source) for query in running for fragment in query.fragments for source in query.reads)
    homes = {(fragment, source.id) for source in catalog.source_versions() for fragment in source.writers}
    for group in sharing_groups(catalog):
        read = Counter((query.fragment, source) for query in group.queries for source in query.reads)
        only_readers = any(place in homes and readers[place] == count for place, count in read.items())
        if group.queries and not only_readers and all(map(_may_move, group.queries)):
            yield group


def _may_move(query: Query) -> bool:
    chosen = query.fills or query.adjustable or query.pinned or query.stopped or query.state_memory is not None
    return not (chosen or query.shares or query.grouped or query.replaces_another)
