"""Follows a result topic and yields its committed records as changes with their instants."""

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaError, Message, TopicPartition

from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.errors import translate, translated
from connectors.kafka.client.names import OP_HEADER, TS_HEADER
from connectors.kafka.client.topics import Partition, latest
from connectors.kafka.records.publish import existing_partitions
from operators.core.errors import UserError

#: The time that a broker may wait for records before it answers. Fetching a newly assigned partition begins only after
#: a pending answer.
_WAIT_MS = 100
#: Transient errors, after which the client reconnects by itself.
_PASSING = (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._RESOLVE)


class Pause(enum.Enum):
    """No record arrived within the poll interval."""

    IDLE = "idle"


@dataclass(frozen=True, slots=True)
class Arrival:
    """A change with its encoded key and value."""

    op: str
    key: bytes | None
    value: bytes | None
    ts: int | None
    partition: int
    offset: int


class Follower:
    """Reads all partitions of a topic without a consumer group, from the beginning or from their current ends."""

    def __init__(self, settings: KafkaSettings, topic: str, *, from_beginning: bool = True) -> None:
        self._topic = topic
        self._partitions = existing_partitions(settings, topic)
        self._admin = settings.admin()
        self._ended: dict[Partition, int] = {}
        self._consumer = settings.consumer(auto_offset_reset="earliest", fetch_wait_max_ms=_WAIT_MS)
        start = OFFSET_BEGINNING if from_beginning else OFFSET_END
        with translated(self._doing):
            self._consumer.assign([TopicPartition(topic, p, start) for p in self._partitions])

    def __enter__(self) -> "Follower":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()

    def arrivals(self, poll_s: float = 0.2) -> Iterator[Arrival | Pause]:
        """Yields changes as they arrive, and a pause if none has arrived for `poll_s` seconds. It never ends."""
        while True:
            with translated(self._doing):
                message = self._consumer.poll(poll_s)
            if message is None:
                yield Pause.IDLE
            elif message.error() is None:
                yield _arrival(message)
            elif message.error().code() == KafkaError._PARTITION_EOF:
                self._ended[self._topic, message.partition()] = message.offset()
                yield Pause.IDLE
            elif message.error().code() not in _PASSING:
                raise translate(message.error(), self._doing)

    def ends(self) -> dict[Partition, int]:
        """The present committed end of each partition."""
        return latest(self._admin, [(self._topic, p) for p in self._partitions])

    def reached(self, ends: Mapping[Partition, int]) -> bool:
        """Whether `arrivals` has yielded all records below these ends."""
        return all(self._ended.get(partition, -1) >= end for partition, end in ends.items())

    @property
    def _doing(self) -> str:
        return f'following topic "{self._topic}"'


def _arrival(message: Message) -> Arrival:
    headers = dict(message.headers() or [])
    op = headers.get(OP_HEADER, b"-" if message.value() is None else b"+").decode(errors="replace")
    ts = headers.get(TS_HEADER)
    place = (message.partition(), message.offset())
    if ts is not None and not ts.removeprefix(b"-").isdigit():
        raise UserError(
            f'record {place} of topic "{message.topic()}" has the invalid instant {ts!r}',
            hint="an instant is a decimal number",
        )
    return Arrival(op, message.key(), message.value(), None if ts is None else int(ts), *place)
