"""Publishing records to a source topic: each is sent once, in order per partition, and counted when it has arrived."""

from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from connectors.kafka.client_errors import kafka_failure, translated
from operators.errors import UserError

OP_HEADER = "dsms-op"
TS_HEADER = "dsms-ts"
HEARTBEAT_HEADER = "dsms-heartbeat"
TIMEOUT_S = 30.0
_ANY_PARTITION = -1

Headers = list[tuple[str, bytes]]


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One record to send."""

    key: bytes | None
    value: bytes | None
    op: str | None = None
    ts: int | None = None

    def headers(self) -> Headers:
        """`dsms-op` and `dsms-ts`, as far as they are known.

        >>> Outgoing(None, b"{}", op="u", ts=7).headers()
        [('dsms-op', b'u'), ('dsms-ts', b'7')]
        """
        known = ((OP_HEADER, self.op), (TS_HEADER, self.ts))
        return [(name, str(value).encode()) for name, value in known if value is not None]


def create_topic(client: Mapping[str, str], topic: str, partitions: int) -> None:
    """Creates the topic with the broker's default replication."""
    with translated(f'topic "{topic}"'):
        created = AdminClient(dict(client)).create_topics([NewTopic(topic, partitions)], request_timeout=TIMEOUT_S)
        created[topic].result(TIMEOUT_S)


def partitions_of(client: Mapping[str, str], topic: str) -> list[int]:
    """The partitions of a topic, or an error with the topics there are."""
    with translated("kafka"):
        metadata = AdminClient(dict(client)).list_topics(timeout=TIMEOUT_S)
    if topic not in metadata.topics:
        have = ", ".join(sorted(name for name in metadata.topics if not name.startswith("_")))
        raise UserError(f'topic "{topic}" not found', hint=f"have: {have}" if have else "there is none yet")
    return sorted(metadata.topics[topic].partitions)


class Publisher:
    """Sends to one topic. The client retries without duplicating; the first failure ends the sending.

    `delivered` counts the records the broker has acknowledged. Keys go to the partitions JVM clients choose.
    """

    def __init__(self, client: Mapping[str, str], topic: str) -> None:
        self._topic = topic
        self._partitions = partitions_of(client, topic)
        self._producer = Producer(
            {**client, "enable.idempotence": True, "partitioner": "murmur2_random", "linger.ms": 20}
        )
        self._failure: KafkaError | None = None
        self.delivered = 0

    def send(self, message: Outgoing) -> None:
        """Queues one record; waits while the queue is full."""
        self._produce(message.key, message.value, message.headers(), _ANY_PARTITION)

    def heartbeat(self, instant: int) -> int:
        """Promises on every partition that no record below the instant will follow; the number of partitions."""
        self.flush()
        for partition in self._partitions:
            self._produce(None, None, [(HEARTBEAT_HEADER, str(instant).encode())], partition)
        self.flush()
        return len(self._partitions)

    def flush(self) -> None:
        """Returns when every record that was sent is acknowledged."""
        while self._failure is None and self._producer.flush(1.0):
            pass
        self._raise_failure()

    def _produce(self, key: bytes | None, value: bytes | None, headers: Headers, partition: int) -> None:
        while True:
            self._raise_failure()
            try:
                self._producer.produce(
                    self._topic, value, key, partition=partition, headers=headers, on_delivery=self._acknowledged
                )
                self._producer.poll(0)
                return
            except BufferError:
                self._producer.poll(0.5)

    def _acknowledged(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failure = self._failure or error
        elif not any(name == HEARTBEAT_HEADER for name, _ in message.headers() or []):
            self.delivered += 1

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise kafka_failure(f'topic "{self._topic}", {self.delivered} records sent', self._failure)
