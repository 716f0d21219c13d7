"""Writes source topics and reads result topics, as any Kafka client can."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from confluent_kafka import Consumer, IsolationLevel, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec


class Input(NamedTuple):
    """A record to write. Headers contain its instant and operation."""

    value: bytes | None
    ts: int
    partition: int = 0
    op: str = "+"


class Change(NamedTuple):
    """A record of a result topic."""

    partition: int
    key: bytes | None
    value: bytes | None
    op: str
    ts: int


class Letter(NamedTuple):
    """A dead letter: the refused record unchanged, with headers for its origin and the reason."""

    value: bytes | None
    headers: tuple[tuple[str, str], ...]


def write(kafka: str, topic: str, inputs: Iterable[Input]) -> None:
    """Appends records and waits until the broker has acknowledged all of them."""
    refused: list[object] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            refused.append(error)

    with_acks = Producer({"bootstrap.servers": kafka, "enable.idempotence": True, "linger.ms": 1})
    for record in inputs:
        headers = [("dsms-ts", str(record.ts).encode())]
        if record.op != "+":
            headers.append(("dsms-op", record.op.encode()))
        with_acks.produce(topic, record.value, partition=record.partition, headers=headers, on_delivery=delivered)
    assert with_acks.flush(30) == 0 and not refused, refused


def advance(kafka: str, topic: str, instant: int, partitions: int = 1) -> None:
    """Appends a heartbeat to every partition, which promises that no record below the instant follows."""
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})
    for partition in range(partitions):
        producer.produce(topic, None, partition=partition, headers=[("dsms-heartbeat", str(instant).encode())])
    assert producer.flush(30) == 0


def changes(kafka: str, topic: str) -> list[Change]:
    """All committed changes of a result topic, partition by partition, in log order."""
    return changes_of(kafka, [topic])[topic]


def changes_of(kafka: str, topics: Collection[str]) -> dict[str, list[Change]]:
    """All committed changes of several result topics, by topic."""
    changes_by_topic: dict[str, list[Change]] = {topic: [] for topic in topics}
    for message in read_committed(kafka, *topics):
        changes_by_topic[message.topic()].append(_change(message))
    return changes_by_topic


def _change(message: Message) -> Change:
    headers = dict(message.headers() or [])
    op = headers.get("dsms-op", b"+").decode()
    return Change(message.partition(), message.key(), message.value(), op, int(headers["dsms-ts"]))


def letters(kafka: str, source: str) -> list[Letter]:
    """The dead letters of a source, in log order, without the header of the source's id, which differs by cluster."""
    messages = read_committed(kafka, f"dsms.{source}.dead-letters")
    told = [[(name, value.decode()) for name, value in message.headers() or []] for message in messages]
    return [
        Letter(message.value(), tuple(sorted(pair for pair in headers if pair[0] != "dsms-source-id")))
        for message, headers in zip(messages, told, strict=True)
    ]


def last_values(kafka: str, topic: str) -> dict[bytes, bytes]:
    """The last value of each key of a compacted topic."""
    return {message.key(): message.value() for message in read_committed(kafka, topic)}


def settled(kafka: str, topics: Collection[str]) -> bool:
    """Whether no transaction is open on the topics. The end of a transaction reaches the partitions one by one."""
    admin = AdminClient({"bootstrap.servers": kafka, "log_level": 2})
    known = admin.list_topics().topics
    places = [TopicPartition(topic, partition) for topic in topics for partition in known[topic].partitions]
    ends = [
        {place: future.result().offset for place, future in admin.list_offsets(
            {place: OffsetSpec.latest() for place in places}, isolation_level=isolation
        ).items()}
        for isolation in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
    ]  # fmt: skip
    return ends[0] == ends[1]


def read_committed(kafka: str, *topics: str) -> list[Message]:
    """All committed records of topics up to their ends, sorted by topic, partition and offset. A topic that does not
    exist has no records."""
    consumer = _consumer(kafka, wait_ms=10)
    try:
        open_partitions = _assigned(consumer, topics)
        messages, deadline = [], time.monotonic() + 30
        while open_partitions:
            assert time.monotonic() < deadline, f"{topics} cannot be read to their ends"
            for message in consumer.consume(10_000, 0.02):
                if message.error() is None:
                    messages.append(message)
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    open_partitions.discard((message.topic(), message.partition()))
    finally:
        consumer.close()
    return sorted(messages, key=lambda message: (message.topic(), message.partition(), message.offset()))


@contextmanager
def followed(kafka: str, topic: str) -> Iterator[Callable[[], dict[bytes, bytes]]]:
    """Follows a compacted topic: each call waits up to 50 ms for records and returns the last value of each key."""
    consumer = _consumer(kafka, wait_ms=200)
    known: dict[bytes, bytes] = {}

    def look() -> dict[bytes, bytes]:
        if consumer.assignment() or _assigned(consumer, [topic]):
            known.update(
                (message.key(), message.value()) for message in consumer.consume(1_000, 0.05) if message.error() is None
            )
        return known

    try:
        yield look
    finally:
        consumer.close()


def _consumer(kafka: str, wait_ms: int) -> Consumer:
    return Consumer({
        "bootstrap.servers": kafka, "group.id": "reading", "enable.auto.commit": False, "enable.partition.eof": True,
        "isolation.level": "read_committed", "fetch.queue.backoff.ms": 5, "fetch.wait.max.ms": wait_ms, "log_level": 2,
    })  # fmt: skip


def _assigned(consumer: Consumer, topics: Collection[str]) -> set[tuple[str, int]]:
    """Assigns all partitions of the topics that exist, from their beginnings; returns the partitions."""
    known = consumer.list_topics(timeout=20).topics
    places = {(topic, number) for topic in topics if topic in known for number in known[topic].partitions}
    consumer.assign([TopicPartition(topic, number, 0) for topic, number in places])
    return places
