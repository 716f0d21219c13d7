"""FRAGMENTS = AUTO: a query that falls behind gets more fragments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dsms.coordinator.statements.changes_by_load import Remedy, set_by_load
from dsms.coordinator.statements.cluster_parts import ClusterParts
from dsms.model.catalog import Catalog
from dsms.model.objects import Query
from dsms.placement.leases import ExecutorStatus
from dsms.statements.ddl.alter_query import AlterQuery


def more_fragments(parts: ClusterParts) -> Remedy:
    """Doubles the number of fragments of a query. The number is limited by the numbers of executors, of fragments, and
    of partitions of the query's sources and result. The new fragments start from the logs. The number is never reduced;
    an ALTER does that."""

    def chosen(late: Sequence[Query], alive: Mapping[str, ExecutorStatus]) -> AlterQuery | None:
        most = min(len(alive), len(parts.facts.utilization()))
        for query in late:
            count = wider(query, parts.store.catalog, most) if query.fragments_by_load else None
            if count is not None:
                return set_by_load([query.name], "fragments", str(count))
        return None

    return chosen


def wider(query: Query, catalog: Catalog, most: int) -> int | None:
    """The next number of fragments of a query, of `most` that exist; None: the query has as many as it can have, or has
    replaced another one, so that it cannot be divided."""
    if query.replaces_another:
        return None
    partitions = [source.partitions for source in catalog.logs() if source.id in query.reads]
    current = len(query.fragments)
    count = min(2 * current, most, query.partitions, *partitions)
    return count if count > current else None
