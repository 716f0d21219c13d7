"""The transactions of the stand-in for librdkafka's producer, in the older protocol: all have one producer epoch.

An error makes the producer unusable (fatal: it is fenced), or means that the transaction must be aborted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from kafka.errors import KafkaError as ClientError
from kafka.protocol.metadata import FindCoordinatorRequest
from kafka.protocol.producer import AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest

from connectors.kafka.client.transactions import by_topic
from connectors.simulation.kafka.connections import SimulatedConnections
from operators.core.errors import ExternalError

_OF_TRANSACTIONS = 1
_AGAIN_S = 0.1
_ANSWER_S = 60.0
_FENCED = {KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}
_TRY_AGAIN = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.CONCURRENT_TRANSACTIONS,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.OPERATION_NOT_ATTEMPTED,
    KafkaError._TRANSPORT,
}
_ABORTABLE = {KafkaError.UNKNOWN_PRODUCER_ID, KafkaError.INVALID_PRODUCER_ID_MAPPING}


class ProducerTransactions:
    """The transactions of one transactional id."""

    def __init__(self, connections: SimulatedConnections, transactional_id: str, timeout_ms: int) -> None:
        self._connections, self._scheduler = connections, connections.scheduler
        self.id, self._timeout_ms = transactional_id, timeout_ms
        self.producer: tuple[int, int] | None = None
        self._open = False
        self._coordinator: int | None = None
        self._added: set[tuple[str, int]] = set()
        self._fatal: KafkaError | None = None
        #: Why the open transaction must be aborted.
        self.abortable: KafkaError | None = None
        #: Whether the producer needs a new epoch after the abort, because sequence numbers are missing.
        self.bump = False

    def start(self, timeout_s: float, before: tuple[int, int] = (-1, -1)) -> None:
        """Gets a producer id and a new epoch: for a new owner, or for the owner with the id and epoch `before`."""

        def request() -> InitProducerIdRequest:
            return InitProducerIdRequest(
                transactional_id=self.id,
                transaction_timeout_ms=self._timeout_ms,
                producer_id=before[0],
                producer_epoch=before[1],
                max_version=4,
            )

        answer = self._asked(request, lambda answer: [answer.error_code], timeout_s)
        self.producer = (answer.producer_id, answer.producer_epoch)

    def begin(self) -> None:
        """Begins a transaction."""
        self.check_fatal()
        if self.producer is None or self._open:
            raise KafkaException(KafkaError(KafkaError._STATE))
        self._open, self._added, self.abortable = True, set(), None

    def check_open(self) -> None:
        """Raises the error if no transaction is open, or the producer is fenced."""
        self.check_fatal()
        if not self._open:
            raise KafkaException(KafkaError(KafkaError._STATE))

    def check_fatal(self) -> None:
        """Raises the error if the producer is fenced."""
        if self._fatal is not None:
            raise KafkaException(self._fatal)

    def fail(self, error: KafkaError) -> None:
        """A record was refused: the producer is fenced, or the transaction must be aborted."""
        if error.code() in _FENCED | {KafkaError.INVALID_PRODUCER_ID_MAPPING, KafkaError._FENCED}:
            self._fatal = self._fatal or KafkaError(KafkaError._FENCED, error.str(), fatal=True)
        else:
            self.abortable = self.abortable or error

    def add(self, places: Iterable[tuple[str, int]]) -> None:
        """Adds partitions to the transaction, before records are sent to them."""
        new = sorted(set(places) - self._added)
        if not new:
            return
        assert self.producer is not None
        producer, kind = self.producer, AddPartitionsToTxnRequest.AddPartitionsToTxnTopic

        def request() -> AddPartitionsToTxnRequest:
            return AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.id,
                v3_and_below_producer_id=producer[0],
                v3_and_below_producer_epoch=producer[1],
                v3_and_below_topics=[kind(name=name, partitions=parts) for name, parts in by_topic(new).items()],
                max_version=0,
            )

        self._asked(request, _codes_of_places, _ANSWER_S)
        self._added.update(new)

    def check_committable(self) -> None:
        """Raises the error if the transaction can only be aborted."""
        self.check_open()
        if self.abortable is not None:
            error = self.abortable
            raise KafkaException(KafkaError(error.code(), error.str(), txn_requires_abort=True))

    def end(self, timeout_s: float, *, commit: bool) -> None:
        """Commits or aborts the transaction."""
        if commit:
            self.check_committable()
        self.check_open()
        if self._added:
            assert self.producer is not None
            producer = self.producer

            def request() -> EndTxnRequest:
                return EndTxnRequest(
                    transactional_id=self.id,
                    producer_id=producer[0],
                    producer_epoch=producer[1],
                    committed=commit,
                    max_version=1,
                )

            self._asked(request, lambda answer: [answer.error_code], timeout_s)
        self._open, self._added, self.abortable = False, set(), None
        if self.bump and self.producer is not None:
            self.start(timeout_s, self.producer)
            self.bump = False

    def _asked(self, request: Callable[[], Any], codes: Callable[[Any], list[int]], timeout_s: float) -> Any:
        """The coordinator's answer, for which it is asked again while it moves or is busy."""
        deadline = self._scheduler.now + timeout_s
        while True:
            code, answer = self._attempt(request(), codes, deadline - self._scheduler.now)
            if not code:
                return answer
            if code not in _TRY_AGAIN:
                raise KafkaException(self._refused(code))
            if code not in (KafkaError.CONCURRENT_TRANSACTIONS, KafkaError.UNKNOWN_TOPIC_OR_PART):
                self._coordinator = None
            if self._scheduler.now + _AGAIN_S > deadline:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, retriable=True))
            self._scheduler.sleep(_AGAIN_S)

    def _refused(self, code: int) -> KafkaError:
        if code in _FENCED:
            self._fatal = KafkaError(KafkaError._FENCED, fatal=True)
            return self._fatal
        if code in _ABORTABLE:
            self.abortable = KafkaError(code, txn_requires_abort=True)
            return self.abortable
        self._fatal = KafkaError(code, fatal=True)
        return self._fatal

    def _attempt(self, request: Any, codes: Callable[[Any], list[int]], timeout_s: float) -> tuple[int, Any]:
        """The first error code of an answer, and the answer."""
        connections = self._connections
        try:
            if self._coordinator is None:
                found = connections.wait(connections.send_nowait(self._find()), timeout_s)
                if found.error_code:
                    return found.error_code, None
                self._coordinator = found.node_id
            answer = connections.wait(connections.send(self._coordinator, request), timeout_s)
        except ClientError:
            return KafkaError._TRANSPORT, None
        except ExternalError as error:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, retriable=True)) from error
        return next((code for code in codes(answer) if code), 0), answer

    def _find(self) -> FindCoordinatorRequest:
        return FindCoordinatorRequest(key=self.id, key_type=_OF_TRANSACTIONS, coordinator_keys=[self.id], max_version=3)


def _codes_of_places(answer: Any) -> list[int]:
    return [
        part.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for part in topic.results_by_partition
    ]
