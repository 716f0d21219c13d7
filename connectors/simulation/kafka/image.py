"""The metadata of a cluster, as an immutable value: every broker has the version that it has learned last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from uuid import UUID

#: The settings of topics, with the brokers' defaults.
DEFAULTS = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "delete.retention.ms": "86400000",
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "min.insync.replicas": "1",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.ms": "604800000",
}


def broker_name(number: int) -> str:
    """The name of a broker: its host, and the target of its faults."""
    return f"kafka-{number}"


@dataclass(frozen=True, slots=True)
class Leader:
    """The broker that leads a partition (-1: none), and how often leaders have changed."""

    broker: int
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic. A topic that is created again under the same name has another id."""

    name: str
    id: UUID
    leaders: tuple[Leader, ...]
    settings: Mapping[str, str] = field(default_factory=dict)

    def setting(self, name: str) -> str:
        """The value of a setting, or its default."""
        return self.settings.get(name, DEFAULTS[name])

    @property
    def compacted(self) -> bool:
        """Whether only the last record of each key is kept."""
        return "compact" in self.setting("cleanup.policy")


@dataclass(frozen=True, slots=True)
class Image:
    """The topics, the brokers that are alive, and the coordinators of transactions."""

    version: int = 0
    topics: Mapping[str, Topic] = field(default_factory=dict)
    alive: frozenset[int] = frozenset()
    #: The leaders of the partitions of the log of transactions, which are the coordinators.
    coordinators: tuple[Leader, ...] = ()

    def with_topic(self, topic: Topic) -> Image:
        """The image with a topic added or replaced."""
        return replace(self, version=self.version + 1, topics={**self.topics, topic.name: topic})

    def without_topic(self, name: str) -> Image:
        """The image without a topic."""
        left = {key: topic for key, topic in self.topics.items() if key != name}
        return replace(self, version=self.version + 1, topics=left)

    def led_without(self, broker: int, others: tuple[int, ...]) -> Image:
        """The image after the partitions that a broker leads have moved to other brokers, in turn."""

        def moved(leaders: tuple[Leader, ...]) -> tuple[Leader, ...]:
            return tuple(
                Leader(others[at % len(others)], leader.epoch + 1) if leader.broker == broker else leader
                for at, leader in enumerate(leaders)
            )

        topics = {name: replace(topic, leaders=moved(topic.leaders)) for name, topic in self.topics.items()}
        return replace(self, version=self.version + 1, topics=topics, coordinators=moved(self.coordinators))

    def with_alive(self, alive: frozenset[int]) -> Image:
        """The image with other brokers alive."""
        return replace(self, version=self.version + 1, alive=alive)

    def leader(self, topic: str, partition: int) -> Leader | None:
        """The leader of a partition; None if it does not exist."""
        known = self.topics.get(topic)
        return known.leaders[partition] if known and 0 <= partition < len(known.leaders) else None
