"""Deletes the topics of dropped queries and tables, whatever ends or fails in between.

A drop puts the topics into the catalog in the change that removes their objects, and takes them out in a second change
once they are deleted. If the coordinator ends or Kafka fails between the two, the watcher deletes the topics later.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import structlog

from dsms.coordinator.statements.cluster_parts import ClusterParts
from dsms.coordinator.watcher.background import Background
from dsms.model.catalog import Catalog
from dsms.model.dropped_topics import DroppedTopic
from dsms.model.objects import Query, Table
from dsms.placement.leases import ExecutorStatus
from operators.core.errors import DsmsError

log = structlog.get_logger()


def topics_of_dropped(before: Catalog, after: Catalog) -> list[DroppedTopic]:
    """The topics that belong to queries and tables of the earlier catalog only, and the links that no query reads any
    more. A query that fills a table has no topic of its own."""
    queries = (query for query in before.running() if query.fills is None)
    written: list[Query | Table] = [*queries, *before.tables()]
    links = [each for topic, each in after.dropped_topics.items() if topic not in before.dropped_topics]
    left: list[Query | Table] = [*after.running(), *after.tables()]
    kept = {item.topic for item in left}
    return [*links, *(_topic_of(item) for item in written if item.topic not in kept)]


def _topic_of(item: Query | Table) -> DroppedTopic:
    if isinstance(item, Table):
        return DroppedTopic(item.topic, item.id, item.source.topic_id)
    return DroppedTopic(item.topic, item.id, item.topic_id, linked=bool(item.shares or item.divided_at_version))


def delete_dropped(parts: ClusterParts, topics: Collection[DroppedTopic]) -> None:
    """Deletes topics that the caller has claimed, and takes them out of the catalog. Waits first until no executor
    writes them any more, at most a few seconds. Raises DsmsError if Kafka or the catalog's log fails; the watcher then
    tries again."""
    parts.plans.await_stopped(parts.store.catalog.version)
    for dropped in topics:
        parts.delete_topic(dropped)
    deleted = [dropped.topic for dropped in topics]
    parts.store.change(lambda catalog: (catalog.without_dropped_topics(deleted), None))


@dataclass
class LeftTopics:
    """A duty of the watcher: deletes the topics that the drop of their object has left, because its coordinator ended
    or Kafka failed. It does so in a thread of its own, since it waits for executors and for statements that read."""

    parts: ClusterParts
    background: Background = field(default_factory=lambda: Background("dropped-topics"))

    def __call__(self, alive: Mapping[str, ExecutorStatus]) -> None:
        """Begins to delete the topics that are left, unless that is under way."""
        if self.parts.deletions.free(self.parts.store.catalog.dropped_topics):
            self.background.start(self._delete)

    def _delete(self) -> None:
        dropped = self.parts.store.catalog.dropped_topics
        with self.parts.deletions.claimed(dropped) as left:
            try:
                delete_dropped(self.parts, [dropped[topic] for topic in left])
                log.info("deleted topics of dropped objects", topics=sorted(left))
            except DsmsError as error:
                log.warning("topics of dropped objects will be deleted later", topics=sorted(left), reason=str(error))
