"""A duty of the watcher: lets a fragment remove the state of a query that has moved to another fragment, once that one
runs it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

import msgspec

from dsms.coordinator.statements.cluster_parts import ClusterParts
from dsms.model.catalog import Catalog
from dsms.model.objects import Query
from dsms.placement.leases import RUNNING, ExecutorStatus


def end_handovers(parts: ClusterParts, executors: Mapping[str, ExecutorStatus]) -> None:
    """Changes the catalog if a query runs in its new fragment."""
    decide = partial(_ended, tuple(executors.values()))
    if decide(parts.store.catalog)[0] is not parts.store.catalog:
        parts.store.try_change(decide)


def _ended(executors: Iterable[ExecutorStatus], catalog: Catalog) -> tuple[Catalog, None]:
    moved = (query for query in catalog.running() if query.former_fragment is not None)
    ended = [
        msgspec.structs.replace(query, former_fragment=None)
        for query in moved
        if any(_runs(query, status) for status in executors)
    ]
    return catalog.with_changed(*ended) if ended else catalog, None


def _runs(query: Query, executor: ExecutorStatus) -> bool:
    """Whether an executor runs a query in the fragment that the query has moved to. From the version of the move on,
    the former fragment does not report the query."""
    there = executor.fragments.get(query.fragment) == RUNNING and query.id in executor.lanes
    return there and executor.plan_version >= query.divided_at_version
