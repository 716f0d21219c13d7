"""The outside world of registration on a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Protocol

import msgspec

from dsms.coordinator.statements.topics_being_deleted import TopicsBeingDeleted
from dsms.coordinator.watcher.object_states import States
from dsms.model import logical
from dsms.model.limits import NO_LIMITS, Limits
from dsms.model.objects import FirstOffsets, Object, Query, Source
from dsms.model.principal import Principal
from dsms.model.topic_rules import TopicRules
from dsms.physical.cost.estimate import Statistics


class TopicMaker(Protocol):
    """Makes topics and registers the schemas of their records; `Topics` does it in Kafka."""

    def make_source_topic(self, topic: str, partitions: int | None) -> dict[int, int]:
        """The first offset of each partition; the topic is made when `partitions` is given."""
        ...

    def topic_id(self, topic: str) -> str | None:
        """Kafka's id of an existing topic; None from brokers that give none."""
        ...

    def warnings(self, topic: str) -> tuple[str, ...]:
        """What a source over an existing topic may lose."""
        ...

    def make_dead_letter_topic(self, source: str) -> None:
        """Makes the topic of a source's dead letters."""
        ...

    def make_result_topic(self, query: Query, node: logical.Node) -> Query:
        """The query with its topic and schemas ready to be written."""
        ...

    def offer_schema(self, source: Source) -> None:
        """Registers the schema of an Avro source, unless its producers have registered theirs."""
        ...


class Ends(Protocol):
    """The ends of logs; `LogEnds` reads them from Kafka."""

    def published(self, query: str) -> int | None:
        """The instant below which the results of a query, by id, are in its topic; None: it has published nothing."""
        ...

    def reached(self, sources: Sequence[Source]) -> int | None:
        """An instant after all that some sources hold now; None when they hold nothing."""
        ...

    def earliest(self, sources: Sequence[Source]) -> FirstOffsets:
        """The first offsets of some sources, by id and partition."""
        ...


class ClusterFacts(Protocol):
    """What statements ask of the cluster."""

    @property
    def topics(self) -> TopicMaker:
        """Makes topics."""
        ...

    @property
    def topics_being_deleted(self) -> TopicsBeingDeleted:
        """The topics of dropped objects that are still being written."""
        ...

    @property
    def log_ends(self) -> Ends:
        """Reads the ends of logs."""
        ...

    def busy(self) -> Mapping[str, float]:
        """How busy each fragment was last measured to be, in seconds a second."""
        ...

    def statistics(self) -> Statistics:
        """What executors last measured."""
        ...

    def states(self) -> States:
        """The states of objects, from one look at the cluster."""
        ...

    def mark(self) -> str | None:
        """The cluster whose mark all records of new results have; None where executors do not write it."""
        ...


class ClusterEnvironment:
    """The environment of one statement. Topics are made as they are needed, if whoever runs it may use them. With
    `halted` the queries that are to be replaced publish nothing any more, so what they have published is known."""

    def __init__(
        self,
        facts: ClusterFacts,
        principal: Principal,
        limits: Limits = NO_LIMITS,
        topic_rules: TopicRules = TopicRules(),  # noqa: B008 frozen
        *,
        halted: bool = False,
    ) -> None:
        self.limits, self.topic_rules = limits, topic_rules
        self._facts, self._principal, self._halted = facts, principal, halted

    def busy(self) -> Mapping[str, float]:
        """The fragments that queries are dealt out to, and how busy each was measured to be."""
        return self._facts.busy()

    def statistics(self) -> Statistics:
        """What executors last measured."""
        return self._facts.statistics()

    def source_topic(self, name: str, topic: str, partitions: int | None) -> dict[int, int]:
        """The first offset of each partition; the topic is made when `partitions` is given, which takes the right to
        write it. ExternalError while it is being deleted."""
        self._principal.check_write(name)
        self._principal.check_read_topic(topic)
        if partitions is not None:
            self._principal.check_write_topic(topic)
        self._facts.topics_being_deleted.check(topic)
        start = self._facts.topics.make_source_topic(topic, partitions)
        self._facts.topics.make_dead_letter_topic(name)
        return start

    def topic_id(self, topic: str) -> str | None:
        """Kafka's id of an existing topic."""
        return self._facts.topics.topic_id(topic)

    def topic_warnings(self, topic: str) -> tuple[str, ...]:
        """What a source over an existing topic may lose."""
        return self._facts.topics.warnings(topic)

    def result_topic(self, query: Query, node: logical.Node) -> Query:
        """The query with its topic and schemas ready to be written; ExternalError while the topic is being deleted."""
        self._principal.check_write(query.name)
        self._principal.check_write_topic(query.topic)
        self._facts.topics_being_deleted.check(query.topic)
        made = self._facts.topics.make_result_topic(query, node)
        return msgspec.structs.replace(made, marked_by=self.mark())

    def mark(self) -> str | None:
        """The cluster whose mark all records of new results and tables have."""
        return self._facts.mark()

    def reached(self, sources: Sequence[Source]) -> int | None:
        """An instant after all that the sources hold now."""
        return self._facts.log_ends.reached(sources)

    def earliest(self, sources: Sequence[Source]) -> FirstOffsets:
        """The first offset that the topic of each source has, by the source's id and partition."""
        return self._facts.log_ends.earliest(sources)

    def published(self, query: str) -> int | None:
        """The instant below which a halted query's results are published."""
        return self._facts.log_ends.published(query) if self._halted else None

    def state_of(self, item: Object) -> str:
        """The state of an object, for SHOW and DESCRIBE."""
        return self._states.of(item)

    def may_read(self, name: str) -> bool:
        """Whether whoever runs the statement may read the object of a name."""
        return self._principal.may_read(name)

    def reads(self, name: str) -> None:
        """Raises Forbidden unless he may read it."""
        self._principal.check_read(name)

    @cached_property
    def _states(self) -> States:
        return self._facts.states()
