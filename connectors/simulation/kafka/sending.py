"""How the stand-in for librdkafka's producer sends records: in batches, each partition one batch after another."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import polars as pl
from confluent_kafka import KafkaError, KafkaException, Message
from kafka.errors import KafkaError as ClientError
from kafka.future import Future
from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest

from connectors.kafka.records.key_partitions import key_partitions
from connectors.simulation.kafka.batches import Encoded
from connectors.simulation.kafka.connections import SimulatedConnections
from connectors.simulation.kafka.transacting import ProducerTransactions
from operators.core.errors import ExternalError

Place = tuple[str, int]
_NOWHERE = ("", -1)
#: The version of the produce request that librdkafka sends.
_VERSION = 10
_BATCH_RECORDS, _BATCH_BYTES = 10_000, 1_000_000
_ANSWER_S, _AGAIN_S = 60.0, 0.1
_ALL_REPLICAS = -1
_SEQUENCES = 1 << 31
_TRY_AGAIN = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NOT_ENOUGH_REPLICAS,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError._TRANSPORT,
}


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A record to send; `partition` is -1 if the key determines it."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    time_ms: int
    queued_s: float
    delivered: Callable[[KafkaError | None, Message], None] | None


#: Called for each record with its outcome: the error, or the partition and the offset.
Sent = Callable[[Outgoing, KafkaError | None, int, int], None]


@dataclass(eq=False)
class _Sending:
    """The batch of a partition that is being sent."""

    records: list[Outgoing]
    sequence: int
    #: Whether the broker may have it.
    tried: bool = False


class Sender:
    """The records that wait, and the batches that are being sent."""

    def __init__(
        self,
        connections: SimulatedConnections,
        transactions: ProducerTransactions | None,
        timeout_s: float,
        sent: Sent,
    ) -> None:
        self._connections, self._scheduler = connections, connections.scheduler
        self._transactions, self._timeout_s, self._sent = transactions, timeout_s, sent
        self._new: deque[Outgoing] = deque()
        self._queues: dict[Place, deque[Outgoing]] = {}
        self._sending: dict[Place, _Sending] = {}
        self._sequences: dict[Place, int] = {}
        self._producer: tuple[int, int] | None = None
        #: Whether the sequence numbers of the present producer id have a gap, so that another id is needed.
        self._gap = False
        #: The partitions that refused a batch of the present producer epoch of a transactional producer.
        self._refused: set[Place] = set()

    @property
    def waiting(self) -> bool:
        """Whether there is something to send."""
        return bool(self._new or self._sending or any(self._queues.values()))

    def add(self, record: Outgoing) -> None:
        """Queues a record."""
        self._new.append(record)

    def purge(self) -> None:
        """Drops the records that have not been sent."""
        dropped = [*self._new, *(record for queue in self._queues.values() for record in queue)]
        self._new.clear()
        self._queues.clear()
        for record in dropped:
            self._sent(record, KafkaError(KafkaError._PURGE_QUEUE), -1, -1)

    def send_all(self) -> None:
        """Sends one batch to each partition that has records, and takes the answers. Waits before it is called again
        if one has failed.
        """
        self._expire()
        try:
            producer = self._identity()
            if producer is None or not self._distribute():
                self._scheduler.sleep(_AGAIN_S)
                return
            self._fill()
            if self._transactions is not None:
                self._transactions.add(self._sending)
                self._check_sequences(self._transactions)
        except KafkaException as error:
            self._fail_all(error.args[0])
            return
        if self._transactions is not None and self._transactions.abortable is not None:
            self._fail_all(self._transactions.abortable)
        elif not self._attempt(producer):
            self._scheduler.sleep(_AGAIN_S)
            self._refresh()

    def _check_sequences(self, transactions: ProducerTransactions) -> None:
        """Raises the error that aborts the transaction if sequence numbers are missing, as after a refused batch."""
        if self._refused & self._sending.keys():
            error = KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "skipped sequence numbers")
            transactions.bump = True
            transactions.fail(error)
            sending, self._sending = self._sending, {}
            for batch in sending.values():
                self._queues.setdefault(_NOWHERE, deque()).extend(batch.records)
            self.purge()
            raise KafkaException(error)

    def _identity(self) -> tuple[int, int] | None:
        """The producer id and epoch; None if none can be had now."""
        if self._transactions is not None:
            if self._producer != self._transactions.producer:
                self._producer, self._sequences, self._refused = self._transactions.producer, {}, set()
        elif self._producer is None or (self._gap and not self._sending):
            request = InitProducerIdRequest(
                transactional_id=None, transaction_timeout_ms=-1, producer_id=-1, producer_epoch=-1, max_version=4
            )
            answer = self._asked(self._connections.send_nowait(request))
            if answer is not None and not answer.error_code:
                self._producer, self._sequences = (answer.producer_id, answer.producer_epoch), {}
                self._gap = False
        return self._producer

    def _distribute(self) -> bool:
        """Moves new records to the queues of their partitions; returns whether the partitions are known."""
        unknown = {record.topic for record in self._new if self._connections.known_partitions(record.topic) is None}
        if unknown:
            answer = self._asked(self._connections.send_nowait(self._connections.metadata_request(sorted(unknown))))
            if answer is not None:
                self._connections.learn(answer)
        known = {topic: self._connections.known_partitions(topic) for topic in {each.topic for each in self._new}}
        for _ in range(len(self._new)):
            record = self._new.popleft()
            count = known[record.topic]
            if count is None:
                self._new.append(record)
            else:
                self._queues.setdefault((record.topic, self._partition(record, count)), deque()).append(record)
        return bool(self._sending) or any(self._queues.values()) or not self._new

    def _partition(self, record: Outgoing, count: int) -> int:
        if record.partition >= 0:
            return record.partition
        if record.key is None:
            return self._scheduler.random.randrange(count)
        return int(key_partitions(pl.Series([record.key], dtype=pl.Binary), count)[0])

    def _fill(self) -> None:
        """Makes the next batch of each partition that has none in flight."""
        for place, queue in self._queues.items():
            if not queue or place in self._sending or self._gap:
                continue
            records, size = list[Outgoing](), 0
            while queue and len(records) < _BATCH_RECORDS and (not records or size < _BATCH_BYTES):
                record = queue.popleft()
                size += len(record.key or b"") + len(record.value or b"")
                records.append(record)
            sequence = self._sequences.get(place, 0)
            self._sequences[place] = (sequence + len(records)) % _SEQUENCES
            self._sending[place] = _Sending(records, sequence)

    def _attempt(self, producer: tuple[int, int]) -> bool:
        """Sends all batches, each in a request, and waits for the answers; returns whether all are delivered."""
        asked: dict[Place, Future] = {}
        for place, sending in self._sending.items():
            leader = self._connections.known_leader(*place)
            if leader is not None:
                sending.tried = True
                asked[place] = self._connections.send(leader, self._request(place, sending, producer))
        self._connections.await_done(asked.values(), _ANSWER_S)
        for place, future in asked.items():
            self._take(place, future)
        return not self._sending

    def _take(self, place: Place, future: Future) -> None:
        code, offset = KafkaError._TRANSPORT, -1
        if future.is_done and future.exception is None:
            result = future.value.responses[0].partition_responses[0]
            code, offset = result.error_code, result.base_offset
        if code in _TRY_AGAIN:
            return
        sending = self._sending.pop(place)
        if code in (0, KafkaError.DUPLICATE_SEQUENCE_NUMBER):
            for number, record in enumerate(sending.records):
                self._sent(record, None, place[1], offset + number)
        else:
            self._fail(place, sending, KafkaError(code))

    def _fail(self, place: Place, sending: _Sending, error: KafkaError) -> None:
        """Reports that the records of a batch failed. Its sequence numbers are missing, so an idempotent producer goes
        on under another id; one with transactions aborts them.
        """
        if self._transactions is not None:
            self._transactions.fail(error)
            self._refused.add(place)
        else:
            self._gap = True
        for record in sending.records:
            self._sent(record, error, place[1], -1)

    def _fail_all(self, error: KafkaError) -> None:
        """Reports that all records failed, because the producer cannot write any more in this transaction."""
        if self._transactions is not None:
            self._transactions.fail(error)
        sending, self._sending = self._sending, {}
        for batch in sending.values():
            for record in batch.records:
                self._sent(record, error, -1, -1)
        self.purge()

    def _expire(self) -> None:
        """Reports that records failed which have waited for too long."""
        before, error = self._scheduler.now - self._timeout_s, KafkaError(KafkaError._MSG_TIMED_OUT)
        for place, sending in list(self._sending.items()):
            if sending.records[0].queued_s < before:
                del self._sending[place]
                self._fail(place, sending, error)
        for queue in (self._new, *self._queues.values()):
            while queue and queue[0].queued_s < before:
                record = queue.popleft()
                if self._transactions is not None:
                    self._transactions.fail(error)
                self._sent(record, error, record.partition, -1)

    def _request(self, place: Place, sending: _Sending, producer: tuple[int, int]) -> ProduceRequest:
        encoded = Encoded(tuple((each.key, each.value, each.headers, each.time_ms) for each in sending.records))
        transactional = self._transactions is not None
        body = encoded.sealed(*producer, sending.sequence, transactional=transactional)
        kind = ProduceRequest.TopicProduceData
        part = kind.PartitionProduceData(index=place[1], records=body)
        return ProduceRequest(
            transactional_id=self._transactions.id if self._transactions is not None else None,
            acks=_ALL_REPLICAS,
            timeout_ms=30_000,
            topic_data=[kind(name=place[0], partition_data=[part])],
            max_version=_VERSION,
        )

    def _refresh(self) -> None:
        answer = self._asked(self._connections.send_nowait(self._connections.metadata_request()))
        if answer is not None:
            self._connections.learn(answer)

    def _asked(self, future: Future) -> Any:
        """The answer to a request; None if it is lost."""
        try:
            return self._connections.wait(future, _ANSWER_S)
        except (ClientError, ExternalError):
            return None
