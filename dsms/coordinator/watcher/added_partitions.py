"""A duty of the watcher: adopts partitions that were added to the topics of sources, without waiting in a turn.

First the catalog marks the source as held, and executors stop reading it. When all executors follow that version of the
catalog, their reports are final: how far queries have read the source, and what they have published. Then the catalog
gets the partitions, with the instant at which their frontier starts, and the hold ends. Each step is a change of the
catalog, so a coordinator that starts in between continues with the next step.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from functools import partial

import msgspec
import structlog

from dsms.coordinator.catalog.catalog_store import CatalogStore
from dsms.coordinator.catalog.system_objects import is_system
from dsms.coordinator.watcher.executors import follow_version
from dsms.model.catalog import Catalog
from dsms.model.objects import Source
from dsms.placement.leases import ExecutorStatus
from dsms.planner.physical.parts.links import query_of
from dsms.registration.added_partitions import (
    sources_with_added_partitions,
    with_partitions,
    with_reading_suspended,
    with_source,
)
from operators.core.delta import BEGINNING

log = structlog.get_logger()
_LOOK_S, _HOLD_S, _AGAIN_S = 2.0, 60.0, 300.0


class AddedPartitions:
    """Looks for added partitions every two seconds. `published` returns, by query id, the greatest instant below which
    any part of the query has published its results."""

    def __init__(
        self,
        store: CatalogStore,
        counts: Callable[[], Mapping[str, int]],
        ids: Callable[[], Mapping[str, str]],
        published: Callable[[Collection[str]], Mapping[str, int]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._counts, self._ids, self._published, self._clock = store, counts, ids, published, clock
        self._looked_at = -_LOOK_S
        #: When this process first saw a source as held, and from when a source may be held again after a failure.
        self._since: dict[str, float] = {}
        self._not_before: dict[str, float] = {}
        #: The catalog versions at which statements began to hold sources, and when this process saw that.
        self._skipping: dict[str, tuple[int | None, float]] = {}

    def turn(self, alive: Mapping[str, ExecutorStatus]) -> None:
        """Makes one step for each source that needs one."""
        sources = [source for source in self._store.catalog.source_versions() if not is_system(source)]
        for source in sources:
            if source.adding_partitions_since is not None:
                self._take_in(source, alive)
            elif source.skipping is not None and self._clock() - self._held_since(source) > _HOLD_S:
                log.warning("a statement that skips a record has not ended; its source is read again", name=source.name)
                self._change(source, _unskipped)
            elif source.skipping is None:
                self._skipping.pop(source.id, None)
        if self._clock() - self._looked_at >= _LOOK_S:
            self._looked_at = self._clock()
            free = (source for source in sources if source.adding_partitions_since is None and source.skipping is None)
            for source in sources_with_added_partitions(free, self._counts(), self._ids()):
                if self._not_before.get(source.id, 0.0) <= self._clock():
                    log.info("partitions were added", source=source.name, topic=source.topic)
                    self._change(source, with_reading_suspended)

    def _held_since(self, source: Source) -> float:
        """The time at which this process first saw that a statement holds the source."""
        known = self._skipping.get(source.id)
        if known is None or known[0] != source.skipping:
            known = self._skipping[source.id] = (source.skipping, self._clock())
        return known[1]

    def _take_in(self, source: Source, alive: Mapping[str, ExecutorStatus]) -> None:
        readers = {query.id for query in self._store.catalog.running() if source.id in query.reads}
        reported = {query for status in alive.values() for query in status.lanes}
        followed = source.adding_partitions_since is not None and follow_version(
            source.adding_partitions_since, alive.values(), starting=True
        )
        if followed and readers <= reported:
            count = self._counts().get(source.topic, 0)
            instant = passed(source.id, alive, self._published(readers | _senders(source, self._store.catalog)))
            self._change(source, partial(_joined, count=max(count, source.partitions), instant=instant))
            self._since.pop(source.id, None)
        elif self._clock() - self._since.setdefault(source.id, self._clock()) > _HOLD_S:
            log.warning(
                "executors do not follow the catalog; added partitions will be adopted later", source=source.name
            )
            self._not_before[source.id] = self._clock() + _AGAIN_S
            self._since.pop(source.id, None)
            self._change(source, _released)

    def _change(self, source: Source, change: Callable[[Catalog, Source], Catalog]) -> None:
        """Changes the source, unless it has changed meanwhile. While a statement is being decided, does nothing: a
        later turn tries again."""

        def decide(catalog: Catalog) -> tuple[Catalog, None]:
            return (change(catalog, source) if source in catalog.source_versions() else catalog), None

        self._store.try_change(decide)


def _senders(source: Source, catalog: Catalog) -> set[str]:
    """The ids of the queries after which the shared subplans and links over a source are named; they may have been
    dropped."""
    readers = (query for query in catalog.running() if source.id in query.reads)
    return {query_of(link.id) for query in readers for link in query.held_links}


def passed(source: str, alive: Mapping[str, ExecutorStatus], published: Mapping[str, int]) -> int | None:
    """The greatest instant that a reader of a source has passed in the source, or below which a reader has published;
    None if no reader has read anything."""
    lanes = (lane for status in alive.values() for lane in status.lanes.values())
    reached = (lane.reached[source] for lane in lanes if source in lane.reached)
    greatest = max((*reached, *published.values()), default=BEGINNING)
    return None if greatest == BEGINNING else greatest


def _joined(catalog: Catalog, source: Source, *, count: int, instant: int | None) -> Catalog:
    return with_partitions(catalog, source, count, instant)


def _released(catalog: Catalog, source: Source) -> Catalog:
    return with_source(catalog, msgspec.structs.replace(source, adding_partitions_since=None))


def _unskipped(catalog: Catalog, source: Source) -> Catalog:
    return with_source(catalog, msgspec.structs.replace(source, skipping=None))
