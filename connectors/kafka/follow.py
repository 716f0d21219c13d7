"""Following a result topic: committed records only, as changes with their instants."""

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from uuid import uuid4

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, Message, TopicPartition

from connectors.kafka.client_errors import kafka_failure, translated
from connectors.kafka.publish import OP_HEADER, TIMEOUT_S, TS_HEADER, partitions_of
from operators.errors import UserError


class Pause(enum.Enum):
    """No record came within the poll interval."""

    IDLE = "idle"


@dataclass(frozen=True, slots=True)
class Arrival:
    """One change as it stands in the topic."""

    op: str
    key: bytes | None
    value: bytes | None
    ts: int | None
    partition: int
    offset: int


class Follower:
    """Reads all partitions of one topic, from the beginning or from their present ends, without a consumer group."""

    def __init__(self, client: Mapping[str, str], topic: str, *, from_beginning: bool = True) -> None:
        self._topic = topic
        self._partitions = partitions_of(client, topic)
        self._ended: dict[int, int] = {}
        self._consumer = Consumer(
            {
                **client,
                "group.id": f"dsms-follow-{uuid4().hex}",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "fetch.queue.backoff.ms": 5,
            }
        )
        start = OFFSET_BEGINNING if from_beginning else OFFSET_END
        with translated(f'topic "{topic}"'):
            self._consumer.assign([TopicPartition(topic, p, start) for p in self._partitions])

    def __enter__(self) -> "Follower":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()

    def arrivals(self, poll_s: float = 0.2) -> Iterator[Arrival | Pause]:
        """Changes as they come, and a pause whenever none has come for a while; never ends by itself."""
        while True:
            with translated(f'topic "{self._topic}"'):
                message = self._consumer.poll(poll_s)
            if message is None:
                yield Pause.IDLE
            elif message.error() is None:
                yield _arrival(message)
            elif message.error().code() == KafkaError._PARTITION_EOF:
                self._ended[message.partition()] = message.offset()
                yield Pause.IDLE
            elif not message.error().retriable():
                raise kafka_failure(f'topic "{self._topic}"', message.error())

    def ends(self) -> dict[int, int]:
        """The end of each partition at this moment."""
        with translated(f'topic "{self._topic}"'):
            return {p: self._end(p) for p in self._partitions}

    def reached(self, ends: Mapping[int, int]) -> bool:
        """Whether all records below these ends have been handed out."""
        return all(self._ended.get(p, -1) >= end for p, end in ends.items())

    def _end(self, partition: int) -> int:
        return int(self._consumer.get_watermark_offsets(TopicPartition(self._topic, partition), TIMEOUT_S)[1])


def _arrival(message: Message) -> Arrival:
    headers = dict(message.headers() or [])
    op = headers.get(OP_HEADER, b"-" if message.value() is None else b"+").decode()
    ts = headers.get(TS_HEADER)
    place = (message.partition(), message.offset())
    if ts is not None and not ts.removeprefix(b"-").isdigit():
        raise UserError(
            f'record {place} of topic "{message.topic()}" has the instant {ts!r}', hint="want decimal digits"
        )
    return Arrival(op, message.key(), message.value(), None if ts is None else int(ts), *place)
