"""Begins and commits the transactions of one transactional id, and adds partitions to them.

A request whose answer is lost is sent again, but the first copy may arrive much later, during another transaction. One
of two protocols makes such a late request harmless:

- If the cluster has `transaction.version` 2 (KIP-890), each end of a transaction begins a new producer epoch, so a late
  request has an old epoch and is refused. The leaders of partitions add them to the transaction.
- Otherwise the epoch stays the same, and each partition is added at the transaction coordinator before records are sent
  to it. After a lost answer, the producer requests a new epoch before the next transaction. The request contains the
  present id and epoch (KIP-360); otherwise, an owner that has been fenced in the meantime would fence its successor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from confluent_kafka import KafkaError
from kafka.protocol.metadata import FindCoordinatorRequest
from kafka.protocol.producer import AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest

from connectors.kafka.client.attempts import AttemptFailed, Attempts
from connectors.kafka.client.connections import Connections
from connectors.kafka.client.errors import translate
from connectors.kafka.client.topics import Partition
from connectors.kafka.records.record_encoding import Producer

_TRANSACTION_MS = 60_000
_OF_TRANSACTIONS = 1
_FEATURE, _EPOCH_A_TRANSACTION = "transaction.version", 2
_NOBODY = Producer(-1, -1)
_Part = TypeVar("_Part")
#: Error codes of a transaction coordinator that moves, or is still ending the last transaction.
_BUSY = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.CONCURRENT_TRANSACTIONS,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NETWORK_EXCEPTION,
}
#: A coordinator's answers for a partition that it does not know yet, or that it skipped because another one failed.
_PARTITIONS_BUSY = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.OPERATION_NOT_ATTEMPTED}


class Transactions:
    """The transactions of one transactional id. Creating this object fences older owners of the id and aborts their
    open transactions.
    """

    def __init__(self, connections: Connections, attempts: Attempts, transactional_id: str) -> None:
        self._connections, self._attempts, self._id = connections, attempts, transactional_id
        self._coordinator: int | None = None
        self._added: set[Partition] = set()
        #: Whether each end of a transaction begins a new epoch.
        self.new_epochs = connections.finalized(_FEATURE) >= _EPOCH_A_TRANSACTION
        #: The present id and epoch of the producer. For each new pair, sequence numbers begin at 0.
        self.producer = self._start(_NOBODY)
        attempts.lost = False

    def begin(self) -> None:
        """Begins a transaction, under a new epoch if an answer was lost."""
        self._added = set()
        if self._attempts.lost and not self.new_epochs:
            self.producer = self._start(self.producer)
        self._attempts.lost = False

    def add(self, places: Iterable[Partition]) -> None:
        """Adds partitions to the transaction. It asks the coordinator to add them, unless their leaders do so
        (`new_epochs`).
        """
        new = [place for place in dict.fromkeys(places) if place not in self._added]
        if new and not self.new_epochs:
            self._add_at_coordinator(new)
        self._added.update(new)

    def commit(self) -> None:
        """Commits the transaction, if it has partitions."""
        if not self._added:
            return
        version = 5 if self.new_epochs else 3
        answer = self._asked(
            lambda: EndTxnRequest(
                transactional_id=self._id,
                producer_id=self.producer.id,
                producer_epoch=self.producer.epoch,
                committed=True,
                min_version=version if self.new_epochs else 0,
                max_version=version,
            ),
            "committing a transaction",
            lambda answer: [answer.error_code],
        )
        self._added = set()
        if self.new_epochs:
            self.producer = Producer(answer.producer_id, answer.producer_epoch)

    def _start(self, before: Producer) -> Producer:
        """Requests a new epoch: for a new owner if `before` is _NOBODY, otherwise for this one. Raises Fenced if this
        one is no longer the owner.
        """
        started = self._asked(
            lambda: InitProducerIdRequest(
                transactional_id=self._id,
                transaction_timeout_ms=_TRANSACTION_MS,
                producer_id=before.id,
                producer_epoch=before.epoch,
                min_version=0 if before == _NOBODY else 3,
                max_version=4,
            ),
            "starting the transactional producer",
            lambda answer: [answer.error_code],
        )
        return Producer(started.producer_id, started.producer_epoch)

    def _add_at_coordinator(self, places: list[Partition]) -> None:
        topics = by_topic(places)
        kind = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
        self._asked(
            lambda: AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self._id,
                v3_and_below_producer_id=self.producer.id,
                v3_and_below_producer_epoch=self.producer.epoch,
                v3_and_below_topics=[kind(name=topic, partitions=partitions) for topic, partitions in topics.items()],
                max_version=3,
            ),
            f'adding partitions of topic "{places[0][0]}" to a transaction',
            lambda answer: [
                result.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for result in topic.results_by_partition
            ],
        )

    def _asked(self, request: Callable[[], Any], doing: str, codes: Callable[[Any], list[int]]) -> Any:
        """The coordinator's answer to a request, which is retried while the coordinator moves or is busy."""

        def attempt(last: int | None) -> Any:
            if self._coordinator is None or last not in (None, KafkaError.CONCURRENT_TRANSACTIONS):
                self._coordinator = self._find()
            answer = self._attempts.answer(self._connections.send(self._coordinator, request()))
            wrong = [code for code in codes(answer) if code]
            for code in wrong:
                if code not in _BUSY | _PARTITIONS_BUSY:
                    raise translate(KafkaError(code), doing, transactional=True)
            if wrong:
                raise AttemptFailed(wrong[0])
            return answer

        return self._attempts.retry(attempt, doing)

    def _find(self) -> int:
        request = FindCoordinatorRequest(
            key=self._id, key_type=_OF_TRANSACTIONS, coordinator_keys=[self._id], max_version=3
        )
        answer = self._attempts.answer(self._connections.send_to_any(request))
        if answer.error_code in _BUSY:
            raise AttemptFailed(answer.error_code)
        if answer.error_code:
            raise translate(KafkaError(answer.error_code), "looking for the coordinator of transactions")
        return int(answer.node_id)


def by_topic(pairs: Iterable[tuple[str, _Part]]) -> dict[str, list[_Part]]:
    """Groups pairs by topic, in order.

    >>> by_topic([("a", 1), ("b", 2), ("a", 3)])
    {'a': [1, 3], 'b': [2]}
    """
    topics: dict[str, list[_Part]] = {}
    for topic, part in pairs:
        topics.setdefault(topic, []).append(part)
    return topics
