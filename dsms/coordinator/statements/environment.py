"""The outside world of registration on a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Protocol

from dsms.coordinator.statements.log_ends import LogEnds
from dsms.coordinator.statements.topics import Topics
from dsms.coordinator.watcher.object_states import States
from dsms.model import logical
from dsms.model.objects import Object, Query, Source


class Known(Protocol):
    """What a coordinator knows of its cluster."""

    topics: Topics
    log_ends: LogEnds

    def busy(self) -> Mapping[str, float]:
        """How busy its fragments were last measured to be."""
        ...

    def states(self) -> States:
        """How objects fare, by one look."""
        ...


class ClusterEnvironment:
    """The environment of one statement. Topics are made as they are needed. With `settled` the query that is replaced
    has been halted, so what it has published is known."""

    def __init__(self, known: Known, *, settled: bool = False) -> None:
        self._known, self._settled = known, settled

    def busy(self) -> Mapping[str, float]:
        """The fragments that queries are dealt out to, and how busy each was measured to be."""
        return self._known.busy()

    def source_topic(self, name: str, topic: str, partitions: int | None) -> dict[int, int]:
        """The first offset of each partition; the topic is made when `partitions` is given."""
        start = self._known.topics.make_source_topic(topic, partitions)
        self._known.topics.make_dead_letter_topic(name)
        return start

    def result_topic(self, query: Query, node: logical.Node) -> Query:
        """The query with topic and schemas ready to be written."""
        return self._known.topics.make_result_topic(query, node)

    def reached(self, sources: Sequence[Source]) -> int | None:
        """An instant after all that the sources hold now."""
        return self._known.log_ends.reached(sources)

    def published(self, query: str) -> int | None:
        """The instant below which a halted query's results are published."""
        return self._known.log_ends.published(query) if self._settled else None

    def state_of(self, found: Object) -> str:
        """How an object fares."""
        return self._states.of(found)

    @cached_property
    def _states(self) -> States:
        return self._known.states()
