"""The transactional writer of a fragment, from columns: one epoch is one transaction. Needs the native part.

The order of a transaction: its coordinator is told each partition before the first batch goes there, every batch is
acknowledged before the end is asked for, and a batch that may have been lost is sent again with the same sequence
number, so that the broker knows it. One batch a partition is on its way at a time, in a request with those of others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import KafkaError
from kafka.errors import KafkaError as ClientError
from kafka.future import Future
from kafka.protocol.metadata import FindCoordinatorRequest
from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ProduceRequest,
)

from connectors.kafka.broker_connections import BrokerConnections, supported
from connectors.kafka.config import KafkaSettings
from connectors.kafka.epoch_writer import EpochWriter
from connectors.kafka.errors import refusal, translate
from connectors.kafka.native.library import library
from connectors.kafka.record_columns import RecordColumns, Records, columns_of
from connectors.kafka.record_encoding import Producer, RecordEncoder
from connectors.kafka.topics import Partition

_TRANSACTION_MS = 60_000
_DEADLINE_S, _ANSWER_S = 60.0, 30.0
#: The bytes of batches that are kept until they are sent, and of a request.
_REQUEST_BYTES = 1_800_000
#: Until an attempt is repeated; the markers of the last transaction are written soon.
_PAUSE_MS, _BUSY_MS = 50, 4
_ALL_REPLICAS, _OF_TRANSACTIONS = -1, 1
_SEQUENCES = 1 << 31
_Part = TypeVar("_Part")
#: The coordinator moves, or is still ending the last transaction.
_COORDINATOR_BUSY = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.CONCURRENT_TRANSACTIONS,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NETWORK_EXCEPTION,
}
#: A partition moves, or too few of its replicas are there.
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
}


def result_writer(settings: KafkaSettings, transactional_id: str, *, native: bool = True) -> ColumnWriter | EpochWriter:
    """A writer of results: from columns where the native part is there and the connections know the settings, else, and
    with `native` false, as messages."""
    if native and library() is not None and supported(settings):
        return ColumnWriter(settings, transactional_id)
    return EpochWriter(settings, transactional_id)


@dataclass(frozen=True, slots=True, eq=False)
class _Batch:
    """A batch of a partition, as the broker stores it."""

    place: Partition
    body: bytes


@dataclass(frozen=True, slots=True)
class _Sent:
    """A request on its way: at most one batch a partition. The answer is None if there was no leader to send it to."""

    batches: tuple[_Batch, ...]
    answer: Future | None


class ColumnWriter:
    """A transactional producer of one thread. Creating one fences all older ones with its id and ends their
    transactions."""

    def __init__(self, settings: KafkaSettings, transactional_id: str) -> None:
        self._id = transactional_id
        self._connections = BrokerConnections(settings)
        self._coordinator: int | None = None
        self._sequences: dict[Partition, int] = {}
        self._added: set[Partition] = set()
        self._pending: list[_Batch] = []
        self._pending_bytes = 0
        self._in_flight: list[_Sent] = []
        try:
            self._producer = self._started()
        except BaseException:
            self.close()
            raise

    def begin(self, topics: Iterable[str] = ()) -> None:
        """Starts the epoch's transaction. The partitions of `topics` are looked up together, those of others one by
        one."""
        self._connections.look_up(topics)
        self._added, self._pending, self._pending_bytes = set(), [], 0

    def write(self, records: Records | RecordColumns) -> None:
        """Adds records to the transaction, in order; nobody can read them before `commit`."""
        columns = columns_of(records) if isinstance(records, Records) else records
        encoder = RecordEncoder(columns)
        for partition, places in encoder.by_partition(self._partitions(columns.topic)):
            for batch in encoder.batches(places):
                place = (columns.topic, partition)
                sequence = self._sequences.get(place, 0)
                self._sequences[place] = (sequence + batch.count) % _SEQUENCES
                body = batch.sealed(self._producer, sequence, time.time_ns() // 1_000_000)
                self._pending.append(_Batch(place, body))
                self._pending_bytes += len(body)
                if self._pending_bytes >= _REQUEST_BYTES:
                    self._flush()

    def commit(self) -> None:
        """Makes the epoch visible atomically."""
        self._flush()
        while self._in_flight:
            self._settle(self._in_flight[0])
        if self._added:
            self._coordinated(
                lambda: EndTxnRequest(
                    transactional_id=self._id,
                    producer_id=self._producer.id,
                    producer_epoch=self._producer.epoch,
                    committed=True,
                    max_version=3,
                ),
                "committing a transaction",
                lambda answer: [answer.error_code],
            )
        self._added = set()

    def close(self) -> None:
        """Closes the connections; the start of the next owner ends an open transaction."""
        self._connections.close()

    def _started(self) -> Producer:
        """The id under which records are written from now on; older ones are fenced."""
        started = self._coordinated(
            lambda: InitProducerIdRequest(
                transactional_id=self._id,
                transaction_timeout_ms=_TRANSACTION_MS,
                producer_id=-1,
                producer_epoch=-1,
                max_version=4,
            ),
            "starting the transactional producer",
            lambda answer: [answer.error_code],
        )
        return Producer(started.producer_id, started.producer_epoch)

    # partitions

    def _partitions(self, topic: str) -> int:
        """How many partitions a topic has."""
        known = self._connections.partitions(topic) or self._until(
            lambda last: self._connections.partitions(topic, refreshed=last is not None), f'looking up topic "{topic}"'
        )
        return int(known)

    def _add(self, places: Iterable[Partition]) -> None:
        """Tells the coordinator partitions that are new in the transaction."""
        new = [place for place in places if place not in self._added]
        if not new:
            return
        topics = _by_topic((topic, partition) for topic, partition in dict.fromkeys(new))
        kind = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
        self._coordinated(
            lambda: AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self._id,
                v3_and_below_producer_id=self._producer.id,
                v3_and_below_producer_epoch=self._producer.epoch,
                v3_and_below_topics=[kind(name=topic, partitions=partitions) for topic, partitions in topics.items()],
                max_version=3,
            ),
            f'adding partitions of topic "{new[0][0]}" to a transaction',
            lambda answer: [
                result.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for result in topic.results_by_partition
            ],
        )
        self._added.update(new)

    # batches

    def _flush(self) -> None:
        """Sends what is pending, when what went to the same partitions before has been acknowledged."""
        pending, self._pending, self._pending_bytes = self._pending, [], 0
        self._add([batch.place for batch in pending])
        for group in _groups(pending):
            places = {batch.place for batch in group}
            for sent in [sent for sent in self._in_flight if places & {batch.place for batch in sent.batches}]:
                self._settle(sent)
            self._in_flight += self._requests(group)
            self._connections.write_on()

    def _requests(self, batches: Sequence[_Batch]) -> list[_Sent]:
        """Sends batches to the leaders of their partitions, a request each."""
        leaders = {batch: self._connections.leader(*batch.place) for batch in batches}
        sent = []
        for leader in dict.fromkeys(leaders.values()):
            part = tuple(batch for batch in batches if leaders[batch] == leader)
            answer = None if leader is None else self._connections.send(leader, self._produce(part))
            sent.append(_Sent(part, answer))
        return sent

    def _produce(self, batches: Sequence[_Batch]) -> ProduceRequest:
        kind = ProduceRequest.TopicProduceData
        data = ((b.place[0], kind.PartitionProduceData(index=b.place[1], records=b.body)) for b in batches)
        return ProduceRequest(
            transactional_id=self._id,
            acks=_ALL_REPLICAS,
            timeout_ms=int(_ANSWER_S * 1000),
            topic_data=[kind(name=topic, partition_data=parts) for topic, parts in _by_topic(data).items()],
            min_version=3,
            max_version=9,
        )

    def _settle(self, sent: _Sent) -> None:
        """Waits until all batches of a request are acknowledged; sends those again that may have been lost."""
        self._in_flight.remove(sent)
        requests = [sent]

        def attempt(last: int | None) -> bool:
            nonlocal requests
            if last is not None:
                left = [batch for request in requests for batch in request.batches]
                for batch in left:
                    self._connections.leader(*batch.place, refreshed=True)
                requests = self._requests(left)
            lost = [self._lost(request) for request in requests]
            requests = [_Sent(tuple(batches), None) for batches in lost if batches]
            if requests:
                raise _Again(next(iter(lost[0].values() if lost[0] else lost[-1].values())))
            return True

        self._until(attempt, f'writing to topic "{sent.batches[0].place[0]}"')

    def _lost(self, sent: _Sent) -> dict[_Batch, int]:
        """The batches of a request that have to be sent again, each with the code of Kafka that says why."""
        if sent.answer is None:
            return dict.fromkeys(sent.batches, KafkaError.LEADER_NOT_AVAILABLE)
        try:
            answer = self._answer(sent.answer)
        except _Again as again:
            return dict.fromkeys(sent.batches, again.code)
        codes = {
            (topic.name, result.index): result.error_code
            for topic in answer.responses
            for result in topic.partition_responses
        }
        for (topic, _), code in codes.items():
            if code and code not in _PARTITION_BUSY | {KafkaError.DUPLICATE_SEQUENCE_NUMBER}:
                error = KafkaError(code)
                raise refusal(topic, error) or translate(error, f'writing to topic "{topic}"', transactional=True)
        return {batch: codes[batch.place] for batch in sent.batches if codes[batch.place] in _PARTITION_BUSY}

    # the coordinator

    def _coordinated(self, request: Callable[[], Any], doing: str, codes: Callable[[Any], list[int]]) -> Any:
        """The coordinator's answer to a request, which is sent again while the coordinator moves or is busy."""

        def attempt(last: int | None) -> Any:
            if self._coordinator is None or last not in (None, KafkaError.CONCURRENT_TRANSACTIONS):
                self._coordinator = self._find_coordinator()
            answer = self._answer(self._connections.send(self._coordinator, request()))
            wrong = [code for code in codes(answer) if code]
            for code in wrong:
                if code not in _COORDINATOR_BUSY | _PARTITION_BUSY | {KafkaError.OPERATION_NOT_ATTEMPTED}:
                    raise translate(KafkaError(code), doing, transactional=True)
            if wrong:
                raise _Again(wrong[0])
            return answer

        return self._until(attempt, doing)

    def _find_coordinator(self) -> int:
        request = FindCoordinatorRequest(
            key=self._id, key_type=_OF_TRANSACTIONS, coordinator_keys=[self._id], max_version=3
        )
        answer = self._answer(self._connections.send_to_any(request))
        if answer.error_code in _COORDINATOR_BUSY:
            raise _Again(answer.error_code)
        if answer.error_code:
            raise translate(KafkaError(answer.error_code), "looking for the coordinator of transactions")
        return int(answer.node_id)

    # waiting

    def _answer(self, future: Future) -> Any:
        try:
            return self._connections.wait(future, _ANSWER_S)
        except ClientError as error:
            raise _Again(KafkaError.NETWORK_EXCEPTION) from error

    def _until(self, attempt: Callable[[int | None], Any], doing: str) -> Any:
        """The result of an attempt, which is told why the last one failed; ExternalError after a minute."""
        deadline, last = time.monotonic() + _DEADLINE_S, None
        while True:
            try:
                result = attempt(last)
            except _Again as again:
                last = again.code
            else:
                if result is not None:
                    return result
                last = KafkaError.UNKNOWN_TOPIC_OR_PART
            if time.monotonic() > deadline:
                raise translate(KafkaError(last), doing, transactional=True)
            self._connections.pause(_BUSY_MS if last == KafkaError.CONCURRENT_TRANSACTIONS else _PAUSE_MS)


def _by_topic(pairs: Iterable[tuple[str, _Part]]) -> dict[str, list[_Part]]:
    """What belongs to each topic, in order.

    >>> _by_topic([("a", 1), ("b", 2), ("a", 3)])
    {'a': [1, 3], 'b': [2]}
    """
    topics: dict[str, list[_Part]] = {}
    for topic, part in pairs:
        topics.setdefault(topic, []).append(part)
    return topics


def _groups(batches: Iterable[_Batch]) -> Iterator[list[_Batch]]:
    """The batches in order, in groups for one request each: a partition once, and not too many bytes."""
    group: dict[Partition, _Batch] = {}
    size = 0
    for batch in batches:
        if batch.place in group or size >= _REQUEST_BYTES:
            yield list(group.values())
            group, size = {}, 0
        group[batch.place] = batch
        size += len(batch.body)
    if group:
        yield list(group.values())


class _Again(Exception):
    """An attempt failed in a way that another one may not; the code is Kafka's."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code
