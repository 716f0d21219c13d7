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
        measured = parts.facts.load_by_queries()
        movable = [
            _measured(group, executor_of[group[0].fragment], measured)
            for group in movable_groups(parts.store.catalog)
            if group[0].fragment in utilization and executor_of[group[0].fragment] in late_at
        ]
        move = best_move(loads, movable)
        if move is None:
            return None
        moved, executor = move
        theirs = [fragment for fragment in utilization if executor_of[fragment] == executor]
        return set_by_load(moved.names, "fragment", min(theirs, key=utilization.__getitem__))

    return chosen


def _measured(group: Sequence[Query], executor: str, loads: Mapping[frozenset[str], float]) -> Movable:
    """A group with the load of the operators that serve no other query."""
    names = tuple(query.name for query in group)
    return Movable(names, executor, sum(load for served, load in loads.items() if served <= {*names}))


def movable_groups(catalog: Catalog) -> Iterator[tuple[Query, ...]]:
    """The queries that the load may move, together with those of their fragment with which they share operators. Their
    state has no limit, so that it comes along; neither they nor others read their operators through links. Other
    queries of their fragment read the same sources if the fragment writes the dead letters of these: else it would go
    on reading them. Not those that a statement has assigned to a fragment, that are paused, that fill a table, that
    have replaced another query, or whose rates or window sizes are chosen at run time."""
    running = list(catalog.running())
    readers = Counter((fragment, source) for query in running for fragment in query.fragments for source in query.reads)
    homes = {(fragment, source.id) for source in catalog.sources() for fragment in source.writers}
    sent = {digest for subplan in catalog.subplans() for digest in subplan.operators}
    for group in _sharing(running):
        read = Counter((query.fragment, source) for query in group for source in query.reads)
        only_readers = any(place in homes and readers[place] == count for place, count in read.items())
        if not only_readers and all(_may_move(query, sent) for query in group):
            yield group


def _may_move(query: Query, sent: set[str]) -> bool:
    chosen = query.fills or query.adjustable or query.pinned or query.stopped or query.state_memory is not None
    runs_with_others = query.shares or query.links or query.grouped or not sent.isdisjoint(query.operators)
    return not (chosen or runs_with_others or query.replaces_another)


def _sharing(queries: Sequence[Query]) -> Iterator[tuple[Query, ...]]:
    """The queries of each fragment, divided into groups that share no operators with each other."""
    groups: list[tuple[set[tuple[str, str]], list[Query]]] = []
    for query in queries:
        operators = {(query.fragment, digest) for digest in query.operators}
        related = [group for group in groups if not operators.isdisjoint(group[0])]
        groups = [group for group in groups if operators.isdisjoint(group[0])]
        members = [member for group in related for member in group[1]]
        groups.append((operators.union(*(group[0] for group in related)), [*members, query]))
    return (tuple(members) for _, members in groups)
