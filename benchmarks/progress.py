"""Watches the frontiers of result topics: when which part of the results became final and visible."""

import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass

import msgspec
from confluent_kafka import OFFSET_BEGINNING, Message, TopicPartition

from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.names import internal_topic
from connectors.kafka.client.topics import latest, partitions_of
from operators.core.errors import ExternalError

_PIECE, _POLL_S = 10_000, 0.1


@dataclass(frozen=True)
class Moved:
    """A new frontier of a result topic, and when this process saw it (monotonic clock)."""

    seen_s: float
    frontier: int
    topic: str
    partition: int = 0


class ProgressReader:
    """Reads committed records of the progress topic, from its current end or (`whole`) from its beginning."""

    def __init__(self, kafka: KafkaSettings, cluster: str, *, whole: bool = False) -> None:
        progress = internal_topic(cluster, "progress")
        admin = kafka.admin()
        ends = latest(admin, [(progress, partition) for partition in partitions_of(admin, progress)])
        self._consumer = kafka.consumer(enable_partition_eof=False)
        self._consumer.assign(
            [TopicPartition(*place, OFFSET_BEGINNING if whole else end) for place, end in ends.items()]
        )

    def read(self, timeout_s: float) -> list[Moved]:
        """The next moves, as soon as there is a record; an empty list if none arrives in time."""
        first = self._consumer.poll(timeout_s)
        if first is None:
            return []
        messages, seen_s = [first, *self._consumer.consume(_PIECE, 0)], time.monotonic()
        return [moved for message in messages if (moved := _moved(message, seen_s)) is not None]

    def close(self) -> None:
        """Closes the consumer."""
        self._consumer.close()


def _moved(message: Message, seen_s: float) -> Moved | None:
    """The move of a partition that a record contains."""
    key, value = (message.key() or b"").decode(), message.value()
    if message.error() is not None or not value or key.count("/") != 1:
        return None
    topic, _, partition = key.partition("/")
    return Moved(seen_s, int(msgspec.json.decode(value)["frontier"]), topic, int(partition))


class FrontierWatch:
    """The moves of the first partition of one result topic, from now on. All partitions move together, unless several
    fragments write them."""

    def __init__(self, kafka: KafkaSettings, cluster: str, topic: str) -> None:
        self._progress, self._topic = ProgressReader(kafka, cluster), topic
        self._moves: deque[Moved] = deque()
        self._read(_POLL_S)

    def next(self, timeout_s: float) -> Moved | None:
        """The next move, or None if there is none in time."""
        deadline = time.monotonic() + timeout_s
        while not self._moves and (left := deadline - time.monotonic()) > 0:
            self._read(min(left, _POLL_S))
        return self._moves.popleft() if self._moves else None

    def close(self) -> None:
        """Closes the consumer."""
        self._progress.close()

    def _read(self, timeout_s: float) -> None:
        moves = self._progress.read(timeout_s)
        self._moves += [moved for moved in moves if moved.topic == self._topic and not moved.partition]


class Frontiers:
    """The frontiers of all results, updated with the records of a reader."""

    def __init__(self, progress: ProgressReader) -> None:
        self._progress = progress
        self._reached: dict[str, int] = {}

    def wait(
        self, topics: Collection[str], instant: int, limit_s: float, check: Callable[[float], None] = lambda _: None
    ) -> float:
        """Waits until all topics are final up to the instant; returns that time of the monotonic clock.

        While no frontier moves, `check` is called with the seconds so far; it may raise. Raises ExternalError after
        `limit_s`.
        """
        begun = seen = time.monotonic()
        while behind := [topic for topic in topics if self._reached.get(topic, -1) < instant]:
            if seen > begun + limit_s:
                raise ExternalError(
                    f"{len(behind)} of {len(topics)} results, such as {behind[0]}, were not final after {limit_s:g} s"
                )
            moves = self._progress.read(_POLL_S)
            seen = time.monotonic()
            self._reached |= {moved.topic: moved.frontier for moved in moves if not moved.partition}
            if not moves:
                check(seen - begun)
        return seen

    def close(self) -> None:
        """Closes the consumer."""
        self._progress.close()
