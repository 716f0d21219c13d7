"""Moves a query from an executor whose queries fall behind to one with less load."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from dsms.coordinator.statements.changes_by_load import Remedy, set_by_load
from dsms.coordinator.statements.cluster_parts import ClusterParts
from dsms.model.catalog import Catalog
from dsms.model.objects import Query
from dsms.placement.balance import Movable, best_move
from dsms.placement.leases import ExecutorStatus
from dsms.statements.ddl.alter_query import AlterQuery


def to_lighter_executor(parts: ClusterParts) -> Remedy:
    """Moves one query, with its state, if the loads of two executors differ much and become much more equal by this. It
    does not have to be one of those that fall behind."""

    def chosen(late: Sequence[Query], alive: Mapping[str, ExecutorStatus]) -> AlterQuery | None:
        catalog, utilization = parts.store.catalog, parts.facts.utilization()
        executor_of = {fragment: name for name, status in alive.items() for fragment in status.fragments}
        busy = {executor_of.get(fragment) for query in late for fragment in query.fragments}
        loads: dict[str, float] = defaultdict(float)
        for fragment in utilization.keys() & executor_of.keys():
            loads[executor_of[fragment]] += utilization[fragment]
        own = parts.facts.load_by_query()
        movable = [query for query in movable_queries(catalog) if executor_of.get(query.fragment) in busy]
        measured = [Movable(query.name, executor_of[query.fragment], own.get(query.name, 0.0)) for query in movable]
        move = best_move(loads, [query for query in measured if query.executor in loads])
        if move is None:
            return None
        name, executor = move
        theirs = [fragment for fragment in utilization if executor_of.get(fragment) == executor]
        query = next(query for query in movable if query.name == name)
        return set_by_load(query, "fragment", min(theirs, key=utilization.__getitem__))

    return chosen


def movable_queries(catalog: Catalog) -> Iterator[Query]:
    """The queries that can move with their state, and that no statement has assigned to a fragment: those that run as a
    whole in one fragment and share no operators with others."""
    running = list(catalog.running())
    computed: dict[str, int] = defaultdict(int)
    for operators in (*(query.operators for query in running), *(each.operators for each in catalog.subplans())):
        for digest in set(operators):
            computed[digest] += 1
    for query in running:
        apart = not (query.shares or query.links or query.over or query.grouped or query.fills or query.adjustable)
        replaces = query.since is not None or query.former is not None
        alone = all(computed[digest] == 1 for digest in query.operators)
        if apart and alone and not (replaces or query.pinned or query.stopped):
            yield query
