"""Publishes records to a topic. Each is written once, in order within its partition, and counted when acknowledged."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient

from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.errors import translate, translated
from connectors.kafka.client.names import HEARTBEAT_HEADER, OP_HEADER, TS_HEADER
from connectors.kafka.client.topics import TIMEOUT_S, partitions_of
from operators.core.delta import BEGINNING, is_instant
from operators.core.errors import DsmsError, UserError

DELIVERY_TIMEOUT_MS = 60_000
_APPEARS_S = 2.0
_ANY_PARTITION = -1

Headers = list[tuple[str, bytes]]
#: Key, value, headers and partition; -1: the key determines the partition.
Record = tuple[bytes | None, bytes | None, Headers, int]
#: The client calls it when a record is acknowledged, or has finally failed.
Delivered = Callable[[KafkaError | None, Message], None]


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A record to send."""

    key: bytes | None
    value: bytes | None
    op: str | None = None
    ts: int | None = None

    def headers(self) -> Headers:
        """The headers `dsms-op` and `dsms-ts`, if they are set.

        >>> Outgoing(None, b"{}", op="u", ts=7).headers()
        [('dsms-op', b'u'), ('dsms-ts', b'7')]
        """
        known = ((OP_HEADER, self.op), (TS_HEADER, self.ts))
        return [(name, str(value).encode()) for name, value in known if value is not None]

    def record(self) -> Record:
        """The record, in the partition that JVM clients choose for its key."""
        return self.key, self.value, self.headers(), _ANY_PARTITION


def heartbeats(partitions: Iterable[int], instant: int) -> list[Record]:
    """A heartbeat for each partition: no record below the instant will follow. Raises UserError if `instant` is out of
    range.

    >>> heartbeats([0], 7)
    [(None, None, [('dsms-heartbeat', b'7')], 0)]
    """
    if not is_instant(instant):
        raise UserError(
            f'"advance" is {instant}, which is not an instant', hint=f"instants lie within ±{-BEGINNING - 1}"
        )
    return [(None, None, [(HEARTBEAT_HEADER, str(instant).encode())], partition) for partition in partitions]


def queue(
    producer: Producer, topic: str, record: Record, delivered: Delivered, check: Callable[[], None] = lambda: None
) -> None:
    """Queues a record; waits while the queue is full, unless `check` raises."""
    key, value, headers, partition = record
    while True:
        check()
        try:
            producer.produce(topic, value, key, partition=partition, headers=headers, on_delivery=delivered)
            return
        except BufferError:
            producer.poll(0.5)


def existing_partitions(settings: KafkaSettings, topic: str) -> list[int]:
    """The partitions of a topic. Raises UserError, with the existing topics, if it does not exist.

    Brokers learn of a new topic with a delay, so a missing one is looked up again for 2 s.
    """
    admin = settings.admin()
    deadline = time.monotonic() + _APPEARS_S
    while not (partitions := partitions_of(admin, topic)):
        if time.monotonic() > deadline:
            raise _not_found(admin, topic)
        admin.poll(0.1)
    return partitions


def _not_found(admin: AdminClient, topic: str) -> UserError:
    with translated("listing the topics"):
        topics = admin.list_topics(timeout=TIMEOUT_S).topics
    have = ", ".join(sorted(name for name in topics if not name.startswith("_")))
    return UserError(f'topic "{topic}" not found', hint=f"have: {have}" if have else "there are no topics yet")


class Publisher:
    """Sends records to a topic. The client retries without duplicates; after the first failure, it sends nothing more.

    `delivered` counts the records that the broker has acknowledged. Keys determine partitions as in JVM clients.
    """

    def __init__(self, settings: KafkaSettings, topic: str) -> None:
        self._topic = topic
        self._partitions = existing_partitions(settings, topic)
        self._producer = settings.producer(message_timeout_ms=DELIVERY_TIMEOUT_MS)
        self._failure: DsmsError | None = None
        self.delivered = 0

    def send(self, message: Outgoing) -> None:
        """Queues a record; waits while the queue is full."""
        self._queue(message.record())

    def heartbeat(self, instant: int) -> int:
        """Writes a heartbeat to each partition: no record below the instant will follow. Returns the number of
        partitions.
        """
        self.flush()
        for record in heartbeats(self._partitions, instant):
            self._queue(record)
        self.flush()
        return len(self._partitions)

    def flush(self) -> None:
        """Waits until all sent records are acknowledged; raises the first failure."""
        self.settle()
        self._raise_failure()

    def settle(self) -> None:
        """Waits until all sent records are acknowledged or have finally failed."""
        while self._producer.flush(1.0):
            pass

    def _queue(self, record: Record) -> None:
        try:
            queue(self._producer, self._topic, record, self._acknowledged, self._raise_failure)
        except KafkaException as error:
            raise _failure(self._topic, error.args[0]) from error
        self._producer.poll(0)

    def _acknowledged(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failure = self._failure or _failure(self._topic, error)
        elif not any(name == HEARTBEAT_HEADER for name, _ in message.headers() or []):
            self.delivered += 1

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure


def _failure(topic: str, error: KafkaError) -> DsmsError:
    if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
        return UserError(f'a record is too large for topic "{topic}"', hint='see its "max.message.bytes"')
    return translate(error, f'publishing to topic "{topic}"')
