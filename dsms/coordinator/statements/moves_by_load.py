"""Moves a query from an executor whose queries fall behind to one with less load."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from dsms.coordinator.statements.changes_by_load import Remedy, set_by_load
from dsms.coordinator.statements.cluster_parts import ClusterParts
from dsms.model.catalog import Catalog
from dsms.model.objects import Query
from dsms.placement.balance import Movable, best_move
from dsms.placement.leases import ExecutorStatus
from dsms.statements.ddl.alter_query import AlterQuery


def to_lighter_executor(parts: ClusterParts) -> Remedy:
    """Moves one query, with its state, from an executor with a query that falls behind to another one, if this
    decreases the load of the busier one of both much (`best_move`). The query that moves need not be the one that falls
    behind."""

    def chosen(late: Sequence[Query], alive: Mapping[str, ExecutorStatus]) -> AlterQuery | None:
        executor_of = {fragment: name for name, status in alive.items() for fragment in status.fragments}
        utilization = {name: load for name, load in parts.facts.utilization().items() if name in executor_of}
        loads: dict[str, float] = defaultdict(float)
        for fragment, load in utilization.items():
            loads[executor_of[fragment]] += load
        late_at = {executor_of[fragment] for query in late for fragment in query.fragments if fragment in utilization}
        own = parts.facts.load_by_query()
        movable = [
            Movable(query.name, executor_of[query.fragment], own.get(query.name, 0.0))
            for query in movable_queries(parts.store.catalog)
            if query.fragment in utilization and executor_of[query.fragment] in late_at
        ]
        move = best_move(loads, movable)
        if move is None:
            return None
        name, executor = move
        theirs = [fragment for fragment in utilization if executor_of[fragment] == executor]
        return set_by_load(name, "fragment", min(theirs, key=utilization.__getitem__))

    return chosen


def movable_queries(catalog: Catalog) -> Iterator[Query]:
    """The queries that the load may move. They run as a whole in one fragment and share no operators with others, and
    their state has no limit, so that it comes along. Other queries of their fragment read the same sources if the
    fragment writes the dead letters of these: else it would go on reading them. Not those that a statement has assigned
    to a fragment, that are paused, that fill a table, that have replaced another query, or whose rates or window sizes
    are chosen at run time."""
    running = list(catalog.running())
    computed: dict[str, int] = defaultdict(int)
    for operators in (*(query.operators for query in running), *(each.operators for each in catalog.subplans())):
        for digest in set(operators):
            computed[digest] += 1
    readers = Counter((fragment, source) for query in running for fragment in query.fragments for source in query.reads)
    homes = {(fragment, source.id) for source in catalog.sources() for fragment in source.writers}
    for query in running:
        shares = query.shares or query.links or query.over or query.grouped
        shares = shares or any(computed[digest] > 1 for digest in query.operators)
        leaves = [(query.fragment, source) for source in query.reads]
        only_reader = any(each in homes and readers[each] == 1 for each in leaves)
        chosen = query.fills or query.adjustable or query.pinned or query.stopped or query.state_memory is not None
        if not (shares or only_reader or query.replaces_another or chosen):
            yield query
