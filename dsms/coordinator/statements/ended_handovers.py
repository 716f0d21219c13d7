"""A duty of the watcher: lets a fragment remove the state of queries and shared subplans that have moved to another
fragment, once that one runs them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import msgspec

from dsms.coordinator.statements.cluster_parts import ClusterParts
from dsms.model.catalog import Catalog
from dsms.model.objects import Query
from dsms.model.subplans import SharedSubplan, reads_any, with_subplans
from dsms.placement.leases import RUNNING, ExecutorStatus


def end_handovers(parts: ClusterParts, executors: Mapping[str, ExecutorStatus]) -> None:
    """Changes the catalog if a query or subplan runs in its new fragment."""
    decide = partial(_ended, tuple(executors.values()))
    if decide(parts.store.catalog)[0] is not parts.store.catalog:
        parts.store.try_change(decide)


def _ended(executors: Sequence[ExecutorStatus], catalog: Catalog) -> tuple[Catalog, None]:
    subplans = {
        subplan.id: msgspec.structs.replace(subplan, former_fragment=None)
        for subplan in catalog.subplans()
        if subplan.former_fragment is not None and any(_computes(subplan, status) for status in executors)
    }
    ended = ((query, _with_ended(query, subplans, executors)) for query in catalog.running())
    changed = [after for before, after in ended if after is not before]
    return catalog.with_changed(*changed) if changed else catalog, None


def _with_ended(query: Query, subplans: Mapping[str, SharedSubplan], executors: Iterable[ExecutorStatus]) -> Query:
    """The query without the former fragments that are not needed any more."""
    if query.former_fragment is not None and any(_runs(query, status) for status in executors):
        query = msgspec.structs.replace(query, former_fragment=None)
    if reads_any(query.links, subplans):
        query = msgspec.structs.replace(query, links=with_subplans(query.links, subplans))
    return query


def _runs(query: Query, executor: ExecutorStatus) -> bool:
    """Whether an executor runs a query in the fragment that the query has moved to. From the version of the move on,
    the former fragment does not report the query."""
    there = executor.fragments.get(query.fragment) == RUNNING and query.id in executor.lanes
    return there and executor.plan_version >= query.divided_at_version


def _computes(subplan: SharedSubplan, executor: ExecutorStatus) -> bool:
    """Whether an executor computes a subplan in the fragment that the subplan has moved to. Since queries move with it,
    the fragment starts again, and takes the subplan over, before it reports the version of the move."""
    there = executor.fragments.get(subplan.fragment) == RUNNING
    return there and executor.plan_version >= subplan.moved_at_version
