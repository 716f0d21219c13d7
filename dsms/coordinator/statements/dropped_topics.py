"""Deletes the topics of dropped queries and tables, whatever ends or fails in between.

A drop puts the topics into the catalog in the change that removes their objects, and takes them out in a second change
once they are deleted. If the coordinator ends or Kafka fails between the two, the watcher deletes the topics later.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import structlog

from dsms.coordinator.statements.cluster_parts import ClusterParts
from dsms.model.catalog import Catalog
from dsms.model.dropped_topics import DroppedTopic
from dsms.model.objects import Query, Table
from dsms.placement.leases import ExecutorStatus
from operators.core.errors import DsmsError

log = structlog.get_logger()


def topics_of_dropped(before: Catalog, after: Catalog) -> list[DroppedTopic]:
    """The topics of the queries and tables that only the earlier catalog has. A query that fills a table has no topic
    of its own."""
    queries = (query for query in before.running() if query.fills is None)
    written: list[Query | Table] = [*queries, *before.tables()]
    return [_topic_of(item) for item in written if item.name.lower() not in after.objects]


def _topic_of(item: Query | Table) -> DroppedTopic:
    if isinstance(item, Table):
        return DroppedTopic(item.topic, item.id, item.source.topic_id)
    return DroppedTopic(item.topic, item.id, item.topic_id, linked=bool(item.shares or item.divided))


def delete_dropped(parts: ClusterParts, topics: Collection[str]) -> None:
    """Deletes topics that the catalog lists as dropped. Waits first until no executor writes them any more, at most a
    few seconds. Raises DsmsError if Kafka or the catalog's log fails; the watcher then tries again."""
    with parts.deletions.claimed(topics) as mine:
        parts.plans.await_stopped(parts.store.catalog.version)
        for dropped in [entry for topic, entry in parts.store.catalog.dropped_topics.items() if topic in mine]:
            parts.delete_topic(dropped)
        parts.store.change(lambda catalog: (catalog.without_dropped_topics(mine), None))


@dataclass
class LeftTopics:
    """A duty of the watcher: deletes the topics that the drop of their object has left, because its coordinator ended
    or Kafka failed. It does so in a thread of its own, since it waits for executors and for statements that read."""

    parts: ClusterParts
    _thread: threading.Thread | None = None

    def __call__(self, alive: Mapping[str, ExecutorStatus]) -> None:
        """Begins to delete the topics that are left, unless that is under way."""
        left = self.parts.deletions.free(self.parts.store.catalog.dropped_topics)
        if left and not self.busy:
            self._thread = threading.Thread(target=self._delete, args=(left,), name="dropped-topics", daemon=True)
            self._thread.start()

    @property
    def busy(self) -> bool:
        """Whether topics are being deleted."""
        return self._thread is not None and self._thread.is_alive()

    def _delete(self, left: list[str]) -> None:
        try:
            delete_dropped(self.parts, left)
            log.info("deleted topics of dropped objects", topics=left)
        except DsmsError as error:
            log.warning("topics of dropped objects will be deleted later", topics=left, reason=str(error))
