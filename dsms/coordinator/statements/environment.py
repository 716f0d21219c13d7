"""The environment of DDL statements on a cluster: what they need from outside the catalog."""

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
from dsms.planner.physical.cost.estimate import Statistics


class TopicMaker(Protocol):
    """Creates topics and registers the schemas of their records; `Topics` does so in Kafka."""

    def make_source_topic(self, topic: str, partitions: int | None) -> dict[int, int]:
        """The first offset of each partition. Creates the topic if it does not exist and `partitions` is given."""
        ...

    def topic_id(self, topic: str) -> str | None:
        """Kafka's id of an existing topic; None if the brokers give no ids."""
        ...

    def warnings(self, topic: str) -> tuple[str, ...]:
        """Warnings about records that a source over an existing topic may lose."""
        ...

    def make_dead_letter_topic(self, source: str) -> None:
        """Creates the topic of a source's dead letters."""
        ...

    def make_result_topic(self, query: Query, node: logical.Node) -> Query:
        """Creates the topic and registers the schemas of a query's result; returns the query with them."""
        ...

    def offer_schema(self, source: Source) -> None:
        """Registers the schema of an Avro source, unless its producers have registered theirs."""
        ...


class Ends(Protocol):
    """The ends of logs; `LogEnds` reads them from Kafka."""

    def published(self, query: str) -> int | None:
        """The instant below which the results of a query, given by id, are in its topic; None: it has published
        nothing."""
        ...

    def instant_after(self, sources: Sequence[Source]) -> int | None:
        """An instant after all records that the sources have now; None if they have none."""
        ...

    def earliest(self, sources: Sequence[Source]) -> FirstOffsets:
        """The first offsets of some sources, by id and partition."""
        ...


class ClusterFacts(Protocol):
    """What statements need to know about the cluster."""

    @property
    def topics(self) -> TopicMaker:
        """Creates topics."""
        ...

    @property
    def topics_being_deleted(self) -> TopicsBeingDeleted:
        """The topics of dropped objects that are still being written."""
        ...

    @property
    def log_ends(self) -> Ends:
        """Reads the ends of logs."""
        ...

    def utilization(self) -> Mapping[str, float]:
        """The last measured load of each fragment, in busy seconds per second."""
        ...

    def statistics(self) -> Statistics:
        """The last statistics that the executors measured."""
        ...

    def states(self) -> States:
        """The states of objects, read from the cluster once."""
        ...

    def cluster_mark(self) -> str | None:
        """The name of the cluster if all records of new results get its mark; None if executors do not write it."""
        ...


class ClusterEnvironment:
    """The environment of one statement. It creates topics on demand, if the principal may use them. `halted`: the
    queries to be replaced no longer publish anything, so it is known up to which instant they have published."""

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

    def utilization(self) -> Mapping[str, float]:
        """The fragments to which queries are assigned, with the last measured load of each."""
        return self._facts.utilization()

    def statistics(self) -> Statistics:
        """The last statistics that the executors measured."""
        return self._facts.statistics()

    def source_topic(self, name: str, topic: str, partitions: int | None) -> dict[int, int]:
        """The first offset of each partition. Creates the topic if it does not exist and `partitions` is given, which
        needs the right to write it. Raises ExternalError while the topic is being deleted."""
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
        """Warnings about records that a source over an existing topic may lose."""
        return self._facts.topics.warnings(topic)

    def result_topic(self, query: Query, node: logical.Node) -> Query:
        """Creates the topic and registers the schemas of a query's result; returns the query with them. Raises
        ExternalError while the topic is being deleted."""
        self._principal.check_write(query.name)
        self._principal.check_write_topic(query.topic)
        self._facts.topics_being_deleted.check(query.topic)
        made = self._facts.topics.make_result_topic(query, node)
        return msgspec.structs.replace(made, marked_by=self.cluster_mark())

    def cluster_mark(self) -> str | None:
        """The name of the cluster if all records of new results and tables get its mark; else None."""
        return self._facts.cluster_mark()

    def instant_after(self, sources: Sequence[Source]) -> int | None:
        """An instant after all records that the sources have now; None if they have none."""
        return self._facts.log_ends.instant_after(sources)

    def earliest(self, sources: Sequence[Source]) -> FirstOffsets:
        """The first offsets of the sources' topics, by the source's id and partition."""
        return self._facts.log_ends.earliest(sources)

    def published(self, query: str) -> int | None:
        """The instant below which a halted query's results are published; None if queries are not halted."""
        return self._facts.log_ends.published(query) if self._halted else None

    def state_of(self, item: Object) -> str:
        """The state of an object, for SHOW and DESCRIBE."""
        return self._states.of(item)

    def may_read(self, name: str) -> bool:
        """Whether the principal may read the object of this name."""
        return self._principal.may_read(name)

    def check_read(self, name: str) -> None:
        """Raises Forbidden unless the principal may read the object of this name."""
        self._principal.check_read(name)

    @cached_property
    def _states(self) -> States:
        return self._facts.states()
