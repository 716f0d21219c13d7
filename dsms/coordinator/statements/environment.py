"""The environment of DDL statements on a cluster: what they need from outside the catalog."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol

import msgspec

from dsms.coordinator.watcher.object_states import States
from dsms.model import logical
from dsms.model.limits import NO_LIMITS, Limits
from dsms.model.objects import FirstOffsets, Query, Source
from dsms.model.principal import Principal
from dsms.model.topic_rules import TopicRules
from dsms.planner.physical.cost.estimate import Statistics
from dsms.registration.environment import Environment
from operators.core.errors import ExternalError


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
    def log_ends(self) -> Ends:
        """Reads the ends of logs."""
        ...

    def utilization(self) -> Mapping[str, float]:
        """The last measured load of each fragment, in busy seconds per second."""
        ...

    def load_by_queries(self) -> Mapping[tuple[str, frozenset[str]], float]:
        """The last measured load of operators, by their fragment and the names of the queries and shared subplans that
        they serve."""
        ...

    def statistics(self) -> Statistics:
        """The last statistics that the executors measured."""
        ...

    def states(self) -> States:
        """The states of objects, read from the cluster once."""
        ...

    @property
    def cluster_name(self) -> str:
        """The name of the cluster."""
        ...

    def cluster_mark(self) -> str | None:
        """The name of the cluster if all records of new results get its mark; None if executors do not write it."""
        ...


def cluster_environment(
    facts: ClusterFacts,
    principal: Principal,
    limits: Limits = NO_LIMITS,
    topic_rules: TopicRules = TopicRules(),  # noqa: B008 frozen
    *,
    halted: bool = False,
    dropped_topics: Collection[str] = (),
) -> Environment:
    """The environment of one statement. It creates topics on demand, if the principal may use them, and reads the
    states of objects at most once. `halted`: the queries to be replaced no longer publish anything, so it is known up
    to which instant they have published."""
    topics, states = PermittedTopics(facts, principal, dropped_topics), cache(facts.states)
    return Environment(
        limits=limits,
        topic_rules=topic_rules,
        caller=principal,
        utilization=facts.utilization,
        statistics=facts.statistics,
        source_topic=topics.source,
        topic_id=facts.topics.topic_id,
        topic_warnings=facts.topics.warnings,
        result_topic=topics.result,
        cluster=facts.cluster_name,
        cluster_mark=facts.cluster_mark,
        instant_after=facts.log_ends.instant_after,
        earliest=facts.log_ends.earliest,
        published=facts.log_ends.published if halted else lambda _: None,
        state_of=lambda item: states().of(item),
    )


@dataclass(frozen=True)
class PermittedTopics:
    """Creates topics that a principal may use. Raises ExternalError while a topic of the name is being deleted."""

    facts: ClusterFacts
    principal: Principal
    #: The topics of dropped objects that are not deleted yet.
    dropped_topics: Collection[str]

    def source(self, name: str, topic: str, partitions: int | None) -> dict[int, int]:
        """The first offset of each partition of a source's topic. Creates the topic if it does not exist and
        `partitions` is given, which needs the right to write it."""
        self.principal.check_write(name)
        self.principal.check_read_topic(topic)
        if partitions is not None:
            self.principal.check_write_topic(topic)
        self._check_not_dropped(topic)
        start = self.facts.topics.make_source_topic(topic, partitions)
        self.facts.topics.make_dead_letter_topic(name)
        return start

    def result(self, query: Query, node: logical.Node) -> Query:
        """Creates the topic and registers the schemas of a query's result; returns the query with them."""
        self.principal.check_write(query.name)
        self.principal.check_write_topic(query.topic)
        self._check_not_dropped(query.topic)
        made = self.facts.topics.make_result_topic(query, node)
        return msgspec.structs.replace(made, marked_by=self.facts.cluster_mark())

    def _check_not_dropped(self, topic: str) -> None:
        if topic in self.dropped_topics:
            raise ExternalError(f'topic "{topic}" is being deleted', hint="try again")
