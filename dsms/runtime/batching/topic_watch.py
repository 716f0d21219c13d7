"""Detects source topics that were deleted and created again: their records do not continue those read before."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.topics import topic_ids
from dsms.model.objects import Source

_CACHE_S = 1.0


class TopicWatch:
    """Asks Kafka for the ids of topics. If an id is unchanged, all records read before the request are those of the
    registered topic, because a topic that was deleted never gets the same id again."""

    def __init__(self, kafka: KafkaSettings) -> None:
        self._kafka = kafka
        self._ids: Callable[[Iterable[str]], dict[str, str]] | None = None
        self._last: dict[str, str] = {}
        self._asked_at = -_CACHE_S

    def recreated(self, sources: Iterable[Source]) -> dict[str, str]:
        """Why sources cannot be read, by source id, because their topics were deleted and created again."""
        known = [source for source in sources if source.topic_id is not None]
        self._ids = self._ids or partial(topic_ids, self._kafka.admin())
        self._last = recreated(known, self._ids(source.topic for source in known))
        self._asked_at = time.monotonic()
        return self._last

    def recreated_cached(self, sources: Iterable[Source]) -> dict[str, str]:
        """The same, from an answer of Kafka that is at most a second old."""
        return self.recreated(sources) if time.monotonic() - self._asked_at >= _CACHE_S else self._last


def recreated(sources: Iterable[Source], ids: Mapping[str, str]) -> dict[str, str]:
    """Why sources cannot be read any more, by source id: the ids of their topics differ from those at registration.

    >>> source = Source(name="s", id="o1", sql="", columns=(), topic="t", topic_id="a")
    >>> recreated([source], {"t": "a"}), recreated([source], {}), list(recreated([source], {"t": "b"}))
    ({}, {}, ['o1'])
    """
    return {
        source.id: f'topic "{source.topic}" was deleted and created again: its records do not continue those that '
        f'source "{source.name}" has read; drop its queries and the source, then register the source again'
        for source in sources
        if source.topic_id is not None and ids.get(source.topic, source.topic_id) != source.topic_id
    }
