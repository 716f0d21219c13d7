"""The transactions of one transactional id, as their coordinator sees them: begun, told their partitions, ended.

A request whose answer is lost is sent again, and the first one may arrive much later, in a transaction that it was not
meant for. Two protocols keep that from doing harm:

- Where the cluster has `transaction.version` 2 (KIP-890), each end of a transaction begins a new epoch, and the leaders
  of partitions add them to the transaction themselves. A late request has an old epoch and is refused.
- Elsewhere the epoch stays the same, and the coordinator is told each partition before records go there. Once an answer
  was lost, a new epoch is asked for before the next transaction, under the own id and epoch (KIP-360), so that an owner
  who was replaced meanwhile replaces nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from confluent_kafka import KafkaError
from kafka.protocol.metadata import FindCoordinatorRequest
from kafka.protocol.producer import AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest

from connectors.kafka.attempts import Again, Attempts
from connectors.kafka.broker_connections import BrokerConnections
from connectors.kafka.errors import translate
from connectors.kafka.record_encoding import Producer
from connectors.kafka.topics import Partition

_TRANSACTION_MS = 60_000
_OF_TRANSACTIONS = 1
_FEATURE, _EPOCH_A_TRANSACTION = "transaction.version", 2
_NOBODY = Producer(-1, -1)
_Part = TypeVar("_Part")
#: The coordinator moves, or is still ending the last transaction.
_BUSY = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.CONCURRENT_TRANSACTIONS,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NETWORK_EXCEPTION,
}
#: What a coordinator answers for partitions that it does not know yet, or that it did not look at for others' sake.
_PARTITIONS_BUSY = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.OPERATION_NOT_ATTEMPTED}


class Transactions:
    """Creating them fences older owners of the id and ends their transactions."""

    def __init__(self, connections: BrokerConnections, attempts: Attempts, transactional_id: str) -> None:
        self._connections, self._attempts, self._id = connections, attempts, transactional_id
        self._coordinator: int | None = None
        self._added: set[Partition] = set()
        #: Whether each end of a transaction begins a new epoch.
        self.new_epochs = connections.finalized(_FEATURE) >= _EPOCH_A_TRANSACTION
        #: The id and epoch under which records are written now. Sequences begin at 0 under each.
        self.producer = self._start(_NOBODY)
        attempts.lost = False

    def begin(self) -> None:
        """Begins a transaction, under a new epoch where an answer was lost."""
        self._added = set()
        if self._attempts.lost and not self.new_epochs:
            self.producer = self._start(self.producer)
        self._attempts.lost = False

    def add(self, places: Iterable[Partition]) -> None:
        """Notes partitions that records go to; tells the coordinator where their leaders do not."""
        new = [place for place in dict.fromkeys(places) if place not in self._added]
        if new and not self.new_epochs:
            self._tell(new)
        self._added.update(new)

    def commit(self) -> None:
        """Ends the transaction, if it has any partition."""
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
        """A new epoch: that of a new owner, or of this one if it still is the owner; raises Fenced if not."""
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

    def _tell(self, places: list[Partition]) -> None:
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
        """The coordinator's answer to a request, which is sent again while the coordinator moves or is busy."""

        def attempt(last: int | None) -> Any:
            if self._coordinator is None or last not in (None, KafkaError.CONCURRENT_TRANSACTIONS):
                self._coordinator = self._find()
            answer = self._attempts.answer(self._connections.send(self._coordinator, request()))
            wrong = [code for code in codes(answer) if code]
            for code in wrong:
                if code not in _BUSY | _PARTITIONS_BUSY:
                    raise translate(KafkaError(code), doing, transactional=True)
            if wrong:
                raise Again(wrong[0])
            return answer

        return self._attempts.until(attempt, doing)

    def _find(self) -> int:
        request = FindCoordinatorRequest(
            key=self._id, key_type=_OF_TRANSACTIONS, coordinator_keys=[self._id], max_version=3
        )
        answer = self._attempts.answer(self._connections.send_to_any(request))
        if answer.error_code in _BUSY:
            raise Again(answer.error_code)
        if answer.error_code:
            raise translate(KafkaError(answer.error_code), "looking for the coordinator of transactions")
        return int(answer.node_id)


def by_topic(pairs: Iterable[tuple[str, _Part]]) -> dict[str, list[_Part]]:
    """What belongs to each topic, in order.

    >>> by_topic([("a", 1), ("b", 2), ("a", 3)])
    {'a': [1, 3], 'b': [2]}
    """
    topics: dict[str, list[_Part]] = {}
    for topic, part in pairs:
        topics.setdefault(topic, []).append(part)
    return topics
