"""Looks at the topics of a simulated Kafka from outside: what readers of committed records see, and copies of logs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain

from connectors.kafka.client.names import CATALOG, HEARTBEATS, SHED, internal_topic
from connectors.simulation.kafka.batches import StoredRecord
from connectors.simulation.kafka.cluster import SimulatedCluster
from connectors.simulation.kafka.image import Leader, Topic
from connectors.simulation.kafka.log import PartitionLog
from dsms.simulation.verdict import Records, Seen

#: The internal topics that, with those of sources, determine all results.
_DECISIONS = (CATALOG, HEARTBEATS, SHED)
#: What the names of internal topics begin with.
INTERNAL = "_"


@dataclass(frozen=True)
class CopiedTopic:
    """A topic with its id and its logs."""

    topic: Topic
    logs: Mapping[int, PartitionLog]


def published(cluster: SimulatedCluster, written: Collection[str]) -> dict[str, Records]:
    """The records of all topics but those that users write and the internal ones, without empty partitions."""
    topics = (topic for name, topic in cluster.image.topics.items() if name not in written)
    found = {topic.name: _records(cluster, topic) for topic in topics if not topic.name.startswith(INTERNAL)}
    return {name: records for name, records in found.items() if records}


def decisive(cluster: SimulatedCluster, name: str, written: Collection[str]) -> list[CopiedTopic]:
    """Copies of the logs that determine all results, and of all other topics without their records. `written` are the
    topics that users write."""
    decisions = {internal_topic(name, purpose) for purpose in _DECISIONS} | set(written)
    return [
        CopiedTopic(topic, _copies(cluster, topic) if topic.name in decisions else {})
        for topic in cluster.image.topics.values()
    ]


def put(cluster: SimulatedCluster, copied: list[CopiedTopic]) -> None:
    """Creates topics in an empty cluster. They keep their ids and records; the first broker leads them."""
    image = cluster.image
    for each in copied:
        leaders = tuple(Leader(1) for _ in each.topic.leaders)
        image = image.with_topic(replace(each.topic, leaders=leaders))
        cluster.logs |= {(each.topic.id, number): log for number, log in each.logs.items()}
    cluster.publish(image)


def total_offsets(cluster: SimulatedCluster) -> int:
    """The sum of the ends of all logs of topics that exist: it changes with each record."""
    return sum(
        cluster.log(topic, number).end
        for topic in cluster.image.topics.values()
        for number in range(len(topic.leaders))
    )


def visible(log: PartitionLog) -> Iterator[Seen]:
    """The records that readers of committed records see, with those that the broker has removed since: a reader who
    was fast enough has them.
    """
    for record in visible_records(log):
        yield Seen(record.key, record.value, tuple((name, value) for name, value in record.headers))


def visible_records(log: PartitionLog) -> Iterator[StoredRecord]:
    """The same records with their offsets."""
    for batch in log.committed(log.history):
        yield from batch.records()


def records_of(cluster: SimulatedCluster, topics: Iterable[str]) -> Iterator[Seen]:
    """The records of some topics that readers of committed records see, without those of topics that do not exist."""
    for name in topics:
        if (topic := cluster.image.topics.get(name)) is not None:
            yield from chain.from_iterable(_records(cluster, topic).values())


def _records(cluster: SimulatedCluster, topic: Topic) -> dict[int, list[Seen]]:
    partitions = {number: list(visible(cluster.log(topic, number))) for number in range(len(topic.leaders))}
    return {number: records for number, records in partitions.items() if records}


def _copies(cluster: SimulatedCluster, topic: Topic) -> dict[int, PartitionLog]:
    return {number: _copy(cluster.log(topic, number)) for number in range(len(topic.leaders))}


def _copy(log: PartitionLog) -> PartitionLog:
    """The part of a log in which all transactions have ended. Its producers are forgotten: others will write to it."""
    copy = PartitionLog()
    copy.replace([batch for batch in log.batches if batch.last_offset < log.stable])
    copy.history = list(copy.batches)
    copy.start, copy.end, copy.aborted = log.start, log.stable, list(log.aborted)
    return copy
