"""The transactional writer of a fragment, which encodes columns. One epoch is one transaction. Needs the native part.

Each partition is added to the transaction before its first batch is written (see `transactions.py`). Every batch
is acknowledged before the commit is requested. A batch that may have been lost is sent again with the same sequence
number, so that the broker recognises a duplicate. Each partition has at most one batch in flight; a request carries
batches of several partitions.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from confluent_kafka import KafkaError
from kafka.future import Future
from kafka.protocol.producer import ProduceRequest

from connectors.kafka.client.attempts import ANSWER_S, AttemptFailed, Attempts
from connectors.kafka.client.broker_connections import connect, supported
from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.errors import topic_refusal, translate
from connectors.kafka.client.topics import Partition
from connectors.kafka.client.transactions import Transactions, by_topic
from connectors.kafka.records.epoch_writer import EpochWriter
from connectors.kafka.records.record_columns import RecordColumns, Records, columns_of
from connectors.kafka.records.record_encoding import RecordEncoder
from connectors.native.library import library
from operators.core.errors import ExternalError

#: The bytes of batches that are collected before they are sent; also the most bytes of a request.
_REQUEST_BYTES = 1_800_000
_ALL_REPLICAS = -1
#: The least and greatest versions of the produce request for `transaction.version` 1 and 2. From request version 12 on,
#: a leader adds the partition to the transaction itself; from 13 on, topics are identified by their ids.
_VERSIONS_TV1, _VERSIONS_TV2 = (3, 9), (12, 12)
_SEQUENCES = 1 << 31
#: Error codes for a partition that moves or has too few replicas in sync, or whose leader waits for the end of the last
#: transaction.
_PARTITION_BUSY = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.NOT_ENOUGH_REPLICAS,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.CONCURRENT_TRANSACTIONS,
}


@dataclass(frozen=True, slots=True, eq=False)
class _Batch:
    """A batch of a partition, as the broker stores it."""

    partition: Partition
    body: bytes


@dataclass(frozen=True, slots=True)
class _Sent:
    """A request in flight, with at most one batch for each partition. `answer` is None if no leader was known to which
    it could be sent.
    """

    batches: tuple[_Batch, ...]
    answer: Future | None


class ColumnWriter:
    """A transactional producer of one thread. Creating one fences all older ones with its id and ends their
    transactions."""

    def __init__(self, settings: KafkaSettings, transactional_id: str) -> None:
        self._connections = connect(settings)
        self._attempts = Attempts(self._connections)
        self._sequences: dict[Partition, int] = {}
        self._pending: list[_Batch] = []
        self._pending_bytes = 0
        self._in_flight: list[_Sent] = []
        self._id, self._open = transactional_id, False
        try:
            self._transactions = Transactions(self._connections, self._attempts, transactional_id)
        except BaseException:
            self.close()
            raise
        self._producer = self._transactions.producer

    @property
    def outcome_unknown(self) -> bool:
        """Whether the answer to a request of the current or last transaction was lost. If so, the owner must read back
        what it wrote before it relies on it.
        """
        return self._attempts.lost

    @property
    def must_be_replaced(self) -> bool:
        """Whether the owner must create a new writer, because a transaction did not begin or was not ended. Lost
        answers do not require a new writer, because `begin` makes late requests harmless.
        """
        return self._open

    def begin(self, topics: Iterable[str] = ()) -> None:
        """Starts a transaction. Looks up the partitions of `topics` together; those of other topics are looked up one
        by one. Raises ExternalError if the writer must be replaced.
        """
        if self.must_be_replaced:
            raise ExternalError(
                "cannot begin a transaction: the last one was not ended", hint="the writer is re-created automatically"
            )
        self._connections.look_up(topics)
        self._open = True
        self._transactions.begin()
        if self._producer != self._transactions.producer:
            self._producer, self._sequences = self._transactions.producer, {}

    def write(self, records: Records | RecordColumns) -> None:
        """Adds records to the transaction, in order; they cannot be read before `commit`."""
        columns = columns_of(records) if isinstance(records, Records) else records
        encoder = RecordEncoder(columns)
        for number, rows in encoder.by_partition(self._partitions(columns.topic)):
            for batch in encoder.batches(rows):
                partition = (columns.topic, number)
                sequence = self._sequences.get(partition, 0)
                self._sequences[partition] = (sequence + batch.count) % _SEQUENCES
                body = batch.sealed(self._producer, sequence, time.time_ns() // 1_000_000)
                self._pending.append(_Batch(partition, body))
                self._pending_bytes += len(body)
                if self._pending_bytes >= _REQUEST_BYTES:
                    self._flush()

    def await_written(self) -> None:
        """Waits until the brokers have acknowledged all records."""
        self._flush()
        while self._in_flight:
            self._await_acknowledged(self._in_flight[0])

    def commit(self) -> None:
        """Makes the transaction visible atomically."""
        self.await_written()
        self._transactions.commit()
        self._open = False

    def close(self) -> None:
        """Closes the connections. The next owner's start aborts an open transaction."""
        self._connections.close()

    # partitions

    def _partitions(self, topic: str) -> int:
        """The number of partitions of a topic."""
        known = self._connections.partitions(topic) or self._attempts.retry(
            lambda last: self._connections.partitions(topic, refreshed=last is not None), f'looking up topic "{topic}"'
        )
        return int(known)

    # batches

    def _flush(self) -> None:
        """Sends pending batches, each once the previous batch of its partition has been acknowledged."""
        pending, self._pending, self._pending_bytes = self._pending, [], 0
        self._transactions.add(batch.partition for batch in pending)
        for group in _groups(pending):
            partitions = {batch.partition for batch in group}
            for sent in [sent for sent in self._in_flight if partitions & {batch.partition for batch in sent.batches}]:
                self._await_acknowledged(sent)
            self._in_flight += self._requests(group)
            self._connections.flush_nowait()

    def _requests(self, batches: Sequence[_Batch]) -> list[_Sent]:
        """Sends batches to the leaders of their partitions, one request for each leader."""
        leaders = {batch: self._connections.leader(*batch.partition) for batch in batches}
        sent = []
        for leader in dict.fromkeys(leaders.values()):
            part = tuple(batch for batch in batches if leaders[batch] == leader)
            answer = None if leader is None else self._connections.send(leader, self._produce(part))
            sent.append(_Sent(part, answer))
        return sent

    def _produce(self, batches: Sequence[_Batch]) -> ProduceRequest:
        kind = ProduceRequest.TopicProduceData
        least, most = _VERSIONS_TV2 if self._transactions.new_epochs else _VERSIONS_TV1
        data = ((b.partition[0], kind.PartitionProduceData(index=b.partition[1], records=b.body)) for b in batches)
        return ProduceRequest(
            transactional_id=self._id,
            acks=_ALL_REPLICAS,
            timeout_ms=int(ANSWER_S * 1000),
            topic_data=[kind(name=topic, partition_data=parts) for topic, parts in by_topic(data).items()],
            min_version=least,
            max_version=most,
        )

    def _await_acknowledged(self, sent: _Sent) -> None:
        """Waits until all batches of a request are acknowledged; resends those that may have been lost."""
        self._in_flight.remove(sent)
        requests = [sent]

        def attempt(last: int | None) -> bool:
            nonlocal requests
            if last is not None:
                left = [batch for request in requests for batch in request.batches]
                for batch in left if last != KafkaError.CONCURRENT_TRANSACTIONS else ():
                    self._connections.leader(*batch.partition, refreshed=True)
                requests = self._requests(left)
            lost = [self._lost(request) for request in requests]
            requests = [_Sent(tuple(batches), None) for batches in lost if batches]
            if requests:
                raise AttemptFailed(next(iter(lost[0].values() if lost[0] else lost[-1].values())))
            return True

        self._attempts.retry(attempt, f'writing to topic "{sent.batches[0].partition[0]}"')

    def _lost(self, sent: _Sent) -> dict[_Batch, int]:
        """The batches of a request that must be sent again, each with Kafka's error code."""
        if sent.answer is None:
            return dict.fromkeys(sent.batches, KafkaError.LEADER_NOT_AVAILABLE)
        try:
            answer = self._attempts.answer(sent.answer)
        except AttemptFailed as failed:
            return dict.fromkeys(sent.batches, failed.code)
        codes = {
            (topic.name, result.index): result.error_code
            for topic in answer.responses
            for result in topic.partition_responses
        }
        for (topic, _), code in codes.items():
            if code and code not in _PARTITION_BUSY | {KafkaError.DUPLICATE_SEQUENCE_NUMBER}:
                error = KafkaError(code)
                raise topic_refusal(topic, error) or translate(error, f'writing to topic "{topic}"', transactional=True)
        return {batch: codes[batch.partition] for batch in sent.batches if codes[batch.partition] in _PARTITION_BUSY}


#: Both classes write the same records. Owners must act on `must_be_replaced` and `outcome_unknown`.
TransactionalWriter = ColumnWriter | EpochWriter


def transactional_writer(settings: KafkaSettings, transactional_id: str, *, native: bool = True) -> TransactionalWriter:
    """A ColumnWriter if `native`, the native part is built and BrokerConnections supports the settings; otherwise an
    EpochWriter.
    """
    if native and library() is not None and supported(settings):
        return ColumnWriter(settings, transactional_id)
    return EpochWriter(settings, transactional_id)


def _groups(batches: Iterable[_Batch]) -> Iterator[list[_Batch]]:
    """Splits the batches, in order, into groups for one request: one batch a partition, and a limited size."""
    group: dict[Partition, _Batch] = {}
    size = 0
    for batch in batches:
        if batch.partition in group or size >= _REQUEST_BYTES:
            yield list(group.values())
            group, size = {}, 0
        group[batch.partition] = batch
        size += len(batch.body)
    if group:
        yield list(group.values())
