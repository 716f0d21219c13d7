"""A duty of the watcher: assigns queries with FRAGMENTS = AUTO that fall behind to more fragments."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping

import structlog

from dsms.coordinator.statements.catalog_changes import apply_to_catalog
from dsms.coordinator.statements.cluster_parts import ClusterParts
from dsms.coordinator.watcher.progress import Progress
from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import Query
from dsms.placement.leases import ExecutorStatus
from dsms.statements.ddl.alter_query import AlterQuery
from operators.core.errors import DsmsError

log = structlog.get_logger()
#: How long a query has to fall behind without interruption before it changes, and the pause after a change, in seconds.
BEHIND_S, REST_S = 60.0, 300.0
_HERE = st.TextLocation()


class FragmentsByLoad:
    """Doubles the number of fragments of a query that has been falling further behind its sources for a minute. The
    number is limited by the numbers of executors, of fragments, and of partitions of the query's sources and result.

    The new fragments start from the logs, so a query that catches up, however slowly, is never changed. The number is
    never reduced; an ALTER does that. One query is changed at a time, in a thread of its own, since the change waits
    for executors.
    """

    def __init__(
        self,
        parts: ClusterParts,
        progress: Callable[[], Mapping[str, Progress]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._parts, self._progress, self._clock = parts, progress, clock
        #: The times since when queries have been falling behind, by id.
        self._since: dict[str, float] = {}
        self._not_before = 0.0
        self._changing: threading.Thread | None = None

    def turn(self, alive: Mapping[str, ExecutorStatus]) -> None:
        """Begins a change if one is due and none is under way."""
        now, catalog = self._clock(), self._parts.store.catalog
        progress = self._progress()
        known = ((query, progress.get(query.id)) for query in _by_load(catalog))
        behind = {query.id: query for query, at in known if at is not None and at.falls_behind}
        self._since = {id: self._since.get(id, now) for id in behind}
        if now < self._not_before or (self._changing is not None and self._changing.is_alive()):
            return
        for id, since in self._since.items():
            count = wider(behind[id], catalog, min(len(alive), len(self._parts.facts.utilization())))
            if now - since >= BEHIND_S and count is not None:
                self._begin(behind[id], count)
                return

    def await_change(self) -> None:
        """Waits until no change is under way."""
        if self._changing is not None:
            self._changing.join()

    def _begin(self, query: Query, count: int) -> None:
        self._since.pop(query.id)
        self._not_before = self._clock() + REST_S
        self._changing = threading.Thread(target=self._change, args=(query, count), daemon=True)
        self._changing.start()

    def _change(self, query: Query, count: int) -> None:
        clauses = tuple(st.Clause("fragments", (word,), _HERE) for word in (str(count), "AUTO"))
        statement = AlterQuery(st.Name(query.name, _HERE), clauses, f"ALTER QUERY {query.name}")
        try:
            result = apply_to_catalog(statement, self._parts)
        except DsmsError as error:
            log.warning("a query that falls behind keeps its fragments", query=query.name, reason=str(error))
        else:
            log.info("a query that fell behind has more fragments", query=query.name, result=result.message)


def wider(query: Query, catalog: Catalog, most: int) -> int | None:
    """The next number of fragments of a query, of `most` that exist; None: the query has as many as it can have."""
    sources = [*catalog.sources(), *(table.source for table in catalog.tables())]
    partitions = [source.partitions for source in sources if source.id in query.reads]
    current = len(query.fragments)
    count = min(2 * current, most, query.partitions, *partitions)
    return count if count > current else None


def _by_load(catalog: Catalog) -> Iterator[Query]:
    return (query for query in catalog.running() if query.fragments_by_load and not query.halted)
