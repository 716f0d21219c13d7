"""A stand-in for confluent-kafka's Consumer, with the methods that this project uses: partitions are assigned
manually, and only committed records are read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from kafka.errors import KafkaError as ClientError
from kafka.future import Future
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest

from connectors.simulation.kafka.batches import Batch, batches_of
from connectors.simulation.kafka.connections import SimulatedConnections
from operators.core.errors import ExternalError

_COMMITTED = 1
_LATEST, _EARLIEST = -1, -2
_LAST_VERSION_WITH_NAMES = 12
#: The pause after a failed request.
_AGAIN_S = 0.1
#: The time after which an unknown topic is an error; until then, it may be new.
_UNKNOWN_S = 30.0
_MOVING = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
}


@dataclass(eq=False)
class _Partition:
    """An assigned partition, and the request for it that is in flight."""

    topic: str
    number: int
    #: The next offset to fetch; OFFSET_BEGINNING or OFFSET_END until it is looked up.
    offset: int
    pending: Future | None = None
    #: What to do with the answer.
    take: Callable[[Any], None] | None = None
    again_at: float = 0.0
    unknown_since: float | None = None
    ended_at: int | None = None
    failed: bool = False
    messages: deque[Message] = field(default_factory=deque)


class SimulatedConsumer:
    """A consumer of a simulated process. It has no thread in the background: requests are sent during calls."""

    def __init__(
        self,
        connections: SimulatedConnections,
        *,
        auto_offset_reset: str = "error",
        fetch_wait_max_ms: int = 20,
        fetch_message_max_bytes: int = 1 << 20,
        isolation_level: str = "read_committed",
        **_: object,
    ) -> None:
        self._connections, self._scheduler = connections, connections.scheduler
        self._reset, self._wait_ms, self._most_bytes = auto_offset_reset, fetch_wait_max_ms, fetch_message_max_bytes
        self._isolation = _COMMITTED if isolation_level == "read_committed" else 0
        self._assigned: list[_Partition] = []
        self._events: deque[Message] = deque()
        self._watermarks: dict[tuple[str, int], tuple[int, int]] = {}

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Reads these partitions from now on, from their offsets."""
        self.unassign()
        self._assigned = [_Partition(each.topic, each.partition, each.offset) for each in partitions]
        self._advance()

    def unassign(self) -> None:
        """Reads nothing any more."""
        self._assigned = []
        self._events.clear()

    def poll(self, timeout: float = -1) -> Message | None:
        """The next record or event; None if none comes in time."""
        return self._next(self._scheduler.now + (timeout if timeout >= 0 else float("inf")))

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        """As many records and events as come in time."""
        deadline = self._scheduler.now + (timeout if timeout >= 0 else float("inf"))
        found: list[Message] = []
        while len(found) < num_messages and (message := self._next(deadline)) is not None:
            found.append(message)
        return found

    def get_watermark_offsets(
        self, partition: TopicPartition, timeout: float = -1, cached: bool = False
    ) -> tuple[int, int]:
        """The first offset of a partition and the offset after the last record; as last fetched, if `cached`."""
        place = (partition.topic, partition.partition)
        if cached:
            return self._watermarks.get(place, (OFFSET_INVALID, OFFSET_INVALID))
        limit = 60.0 if timeout < 0 else timeout
        first, last = (self._asked(place, wanted, limit) for wanted in (_EARLIEST, _LATEST))
        return first, last

    def offsets_for_times(self, partitions: Iterable[TopicPartition], timeout: float = -1) -> list[TopicPartition]:
        """The offsets for instants, which are given in place of offsets; OFFSET_END asks for the end of a partition."""
        limit = 60.0 if timeout < 0 else timeout
        return [
            TopicPartition(each.topic, each.partition, self._asked((each.topic, each.partition), each.offset, limit))
            for each in partitions
        ]

    def close(self) -> None:
        """Closes the connections."""
        self.unassign()
        self._connections.close()

    def _next(self, deadline: float) -> Message | None:
        while True:
            self._advance()
            if self._events:
                return self._events.popleft()
            for partition in self._assigned:
                if partition.messages:
                    return partition.messages.popleft()
            if self._scheduler.now >= deadline:
                return None
            times = [each.again_at for each in self._assigned if each.pending is None and not each.failed]
            until = min([deadline, *(max(at, self._scheduler.now) for at in times)])
            forever = until == float("inf")
            self._scheduler.wait(self._connections.changed, None if forever else until - self._scheduler.now)

    def _advance(self) -> None:
        """Takes the answers that have come, and sends the next request for each partition that needs one."""
        for partition in self._assigned:
            pending, take = partition.pending, partition.take
            if pending is not None and pending.is_done:
                partition.pending = None
                if pending.exception is not None or take is None:
                    self._later(partition)
                    self._ask_for_leader(partition)
                else:
                    take(pending.value)
            ready = partition.pending is None and partition.again_at <= self._scheduler.now
            if ready and not partition.messages and not partition.failed:
                self._ask(partition)

    def _ask(self, partition: _Partition) -> None:
        leader = self._connections.known_leader(partition.topic, partition.number)
        if leader is None:
            self._ask_for_leader(partition)
        elif partition.offset in (OFFSET_BEGINNING, OFFSET_END):
            wanted = _EARLIEST if partition.offset == OFFSET_BEGINNING else _LATEST
            request = _offset_request(partition.topic, partition.number, wanted)
            partition.pending = self._connections.send(leader, request)
            partition.take = lambda answer: self._take_offset(partition, answer.topics[0].partitions[0])
        else:
            partition.pending = self._connections.send(leader, self._fetch_request(partition))
            partition.take = lambda answer: self._take_records(partition, answer.responses[0].partitions[0])

    def _ask_for_leader(self, partition: _Partition) -> None:
        request = self._connections.metadata_request([partition.topic])
        partition.pending = self._connections.send_nowait(request)
        partition.take = lambda answer: self._take_leader(partition, answer)

    def _take_leader(self, partition: _Partition, answer: Any) -> None:
        self._connections.learn(answer)
        if self._connections.known_leader(partition.topic, partition.number) is not None:
            partition.unknown_since = None
            return
        self._later(partition)
        now = self._scheduler.now
        partition.unknown_since = now if partition.unknown_since is None else partition.unknown_since
        if now - partition.unknown_since > _UNKNOWN_S:
            self._fail(partition, KafkaError.UNKNOWN_TOPIC_OR_PART)

    def _take_offset(self, partition: _Partition, answer: Any) -> None:
        if answer.error_code:
            self._moved(partition)
        else:
            partition.offset = answer.offset

    def _take_records(self, partition: _Partition, answer: Any) -> None:
        code = answer.error_code
        if code == KafkaError.OFFSET_OUT_OF_RANGE:
            self._out_of_range(partition)
        elif code in _MOVING:
            self._moved(partition)
        elif code:
            self._fail(partition, code)
        else:
            self._watermarks[partition.topic, partition.number] = answer.log_start_offset, answer.high_watermark
            self._decode(partition, answer)

    def _out_of_range(self, partition: _Partition) -> None:
        if self._reset == "earliest":
            partition.offset = OFFSET_BEGINNING
        else:
            self._fail(partition, KafkaError._AUTO_OFFSET_RESET)

    def _decode(self, partition: _Partition, answer: Any) -> None:
        """Adds the committed records, or the event that the end is reached."""
        batches = list(batches_of(bytes(answer.records or b"")))
        if not batches:
            if partition.offset == answer.last_stable_offset != partition.ended_at:
                partition.ended_at = partition.offset
                self._event(partition, KafkaError._PARTITION_EOF)
            return
        for batch in committed(batches, answer.aborted_transactions or ()):
            for record in batch.records():
                if record.offset >= partition.offset:
                    partition.messages.append(_message(partition, record))
        partition.offset = max(partition.offset, batches[-1].last_offset + 1)

    def _moved(self, partition: _Partition) -> None:
        self._ask_for_leader(partition)
        self._later(partition)

    def _later(self, partition: _Partition) -> None:
        partition.again_at = self._scheduler.now + _AGAIN_S

    def _fail(self, partition: _Partition, code: int) -> None:
        partition.failed = True
        self._event(partition, code)

    def _event(self, partition: _Partition, code: int) -> None:
        self._events.append(
            Message(topic=partition.topic, partition=partition.number, offset=partition.offset, error=KafkaError(code))
        )

    def _fetch_request(self, partition: _Partition) -> FetchRequest:
        kind = FetchRequest.FetchTopic
        place = kind.FetchPartition(
            partition=partition.number,
            current_leader_epoch=-1,
            fetch_offset=partition.offset,
            last_fetched_epoch=-1,
            log_start_offset=-1,
            partition_max_bytes=self._most_bytes,
        )
        return FetchRequest(
            replica_id=-1,
            max_wait_ms=self._wait_ms,
            min_bytes=1,
            max_bytes=max(self._most_bytes, 50 << 20),
            isolation_level=_COMMITTED,
            session_id=0,
            session_epoch=-1,
            topics=[kind(topic=partition.topic, partitions=[place])],
            forgotten_topics_data=[],
            rack_id="",
            max_version=_LAST_VERSION_WITH_NAMES,
        )

    def _asked(self, place: tuple[str, int], wanted: int, timeout_s: float) -> int:
        """An offset of a partition, from its leader."""
        connections = self._connections
        try:
            leader = connections.leader(*place)
            if leader is None:
                raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))
            answer = connections.wait(
                connections.send(leader, _offset_request(*place, wanted, self._isolation)), timeout_s
            )
        except ClientError as error:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT)) from error
        except ExternalError as error:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from error
        part = answer.topics[0].partitions[0]
        if part.error_code:
            raise KafkaException(KafkaError(part.error_code))
        return int(part.offset)


def committed(batches: Iterable[Batch], aborted: Iterable[Any]) -> Iterable[Batch]:
    """The batches that a reader of committed records sees: neither markers nor batches of aborted transactions."""
    waiting = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
    hidden: set[int] = set()
    for batch in batches:
        while waiting and waiting[-1].first_offset <= batch.last_offset:
            hidden.add(waiting.pop().producer_id)
        if batch.control:
            hidden.discard(batch.producer)
        elif not (batch.transactional and batch.producer in hidden):
            yield batch


def _offset_request(topic: str, partition: int, wanted: int, isolation: int = _COMMITTED) -> ListOffsetsRequest:
    kind = ListOffsetsRequest.ListOffsetsTopic
    part = kind.ListOffsetsPartition(partition_index=partition, current_leader_epoch=-1, timestamp=wanted)
    topics = [kind(name=topic, partitions=[part])]
    return ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=topics, timeout_ms=60_000)


def _message(partition: _Partition, record: Any) -> Message:
    stamp = (1 + record.timestamp_type, record.timestamp)
    headers = [(name, value) for name, value in record.headers] or None
    return Message(
        topic=partition.topic,
        partition=partition.number,
        offset=record.offset,
        key=record.key,
        value=record.value,
        headers=headers,
        timestamp=stamp,
    )
