"""A stand-in for confluent-kafka's Producer, with the methods that this project uses.

A task sends the queued records, as librdkafka's thread does. When an answer is lost, it sends the same batch again,
with the same sequence number and under the same producer epoch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message

from connectors.simulation.kafka.connections import SimulatedConnections
from connectors.simulation.kafka.sending import Outgoing, Sender
from connectors.simulation.kafka.transacting import ProducerTransactions
from connectors.simulation.scheduler import Signal
from connectors.simulation.threads import Clock

Delivered = Callable[[KafkaError | None, Message], None]
_INFO = 6
_MAX_SECONDS = 1e9


@dataclass(frozen=True, slots=True)
class _Report:
    """A delivery report that waits for `poll`."""

    delivered: Delivered
    error: KafkaError | None
    message: Message


class SimulatedProducer:
    """An idempotent, possibly transactional, producer of a simulated process."""

    def __init__(  # noqa: PLR0913 librdkafka's settings
        self,
        connections: SimulatedConnections,
        *,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60_000,
        message_timeout_ms: int | None = None,
        linger_ms: float = 20,
        on_delivery: Delivered | None = None,
        delivery_report_only_error: bool = False,
        queue_buffering_max_messages: int = 2_000_000,
        logger: Any = None,
        **_: object,
    ) -> None:
        self._connections, self._scheduler = connections, connections.scheduler
        self._clock = Clock(self._scheduler)
        self._on_delivery, self._only_errors = on_delivery, delivery_report_only_error
        self._most, self._logger = queue_buffering_max_messages, logger
        self._reports: deque[_Report] = deque()
        self._lost = deque[str]()
        #: The number of records without a delivery report, and the signal for each change of it.
        self._left, self._changed, self._queued = 0, Signal(), Signal()
        self._closed, self._linger_s = False, linger_ms / 1000
        self._transactions = (
            ProducerTransactions(connections, transactional_id, transaction_timeout_ms) if transactional_id else None
        )
        timeout_ms = message_timeout_ms or (transaction_timeout_ms if transactional_id else 300_000)
        self._sender = Sender(connections, self._transactions, timeout_ms / 1000, self._sent)
        self._scheduler.spawn(self._run, "producer", connections.process)

    # records

    def produce(  # noqa: PLR0913 confluent-kafka's signature
        self,
        topic: str,
        value: bytes | str | None = None,
        key: bytes | str | None = None,
        partition: int = -1,
        callback: Delivered | None = None,
        on_delivery: Delivered | None = None,
        timestamp: int = 0,
        headers: list[tuple[str, bytes | None]] | dict[str, bytes | None] | None = None,
    ) -> None:
        """Queues a record. Raises BufferError if the queue is full."""
        if self._left >= self._most:
            raise BufferError(KafkaError(KafkaError._QUEUE_FULL).str())
        if self._transactions is not None:
            self._transactions.check_open()
        named = list(headers.items()) if isinstance(headers, dict) else list(headers or ())
        record = Outgoing(
            topic,
            partition,
            _bytes(key),
            _bytes(value),
            named,
            timestamp or int(self._clock.time() * 1000),
            self._scheduler.now,
            callback or on_delivery or self._on_delivery,
        )
        self._left += 1
        self._sender.add(record)
        self._scheduler.send(self._queued)

    def poll(self, timeout: float = 0.0) -> int:
        """Calls the callbacks of the reports that have come; waits for the first one."""
        deadline = self._scheduler.now + (timeout if timeout >= 0 else _MAX_SECONDS)
        self._log_lost_connections()
        while not self._reports and self._scheduler.now < deadline:
            self._scheduler.wait(self._changed, deadline - self._scheduler.now)
        return self._report()

    def flush(self, timeout: float = -1) -> int:
        """Waits until all records are delivered or have failed; returns how many are left."""
        deadline = self._scheduler.now + (timeout if timeout >= 0 else _MAX_SECONDS)
        self._report()
        while self._left and self._scheduler.now < deadline:
            self._scheduler.send(self._queued)
            self._scheduler.wait(self._changed, deadline - self._scheduler.now)
            self._report()
        return self._left

    def __len__(self) -> int:
        return self._left

    def close(self) -> None:
        """Ends the producer. Raises the error if it is fenced."""
        self._closed = True
        self._scheduler.send(self._queued)
        self._connections.close()
        if self._transactions is not None:
            self._transactions.check_fatal()

    # transactions

    def init_transactions(self, timeout: float = -1) -> None:
        """Fences older producers with the transactional id."""
        self._of_transactions().start(_limit(timeout))

    def begin_transaction(self) -> None:
        """Begins a transaction."""
        self._of_transactions().begin()

    def commit_transaction(self, timeout: float = -1) -> None:
        """Sends all records, and commits the transaction."""
        deadline = self._scheduler.now + _limit(timeout)
        self._of_transactions().check_committable()
        if self.flush(_limit(timeout)):
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, retriable=True))
        self._of_transactions().end(deadline - self._scheduler.now, commit=True)

    def abort_transaction(self, timeout: float = -1) -> None:
        """Drops the queued records, and aborts the transaction."""
        deadline = self._scheduler.now + _limit(timeout)
        self._sender.purge()
        self.flush(_limit(timeout))
        self._of_transactions().end(deadline - self._scheduler.now, commit=False)

    def _of_transactions(self) -> ProducerTransactions:
        if self._transactions is None:
            raise KafkaException(KafkaError(KafkaError._NOT_CONFIGURED))
        return self._transactions

    # the task that sends

    def _run(self) -> None:
        while not self._closed:
            if not self._sender.waiting:
                self._scheduler.wait(self._queued)
                self._scheduler.sleep(self._linger_s)
            self._sender.send_all()

    def _sent(self, record: Outgoing, error: KafkaError | None, partition: int, offset: int) -> None:
        """A record is delivered, or has finally failed."""
        self._left -= 1
        if record.delivered is not None and (error is not None or not self._only_errors):
            message = Message(
                topic=record.topic,
                partition=partition,
                offset=offset,
                key=record.key,
                value=record.value,
                headers=record.headers or None,
                error=error,
                timestamp=(1, record.time_ms),
            )
            self._reports.append(_Report(record.delivered, error, message))
        self._scheduler.send(self._changed)

    def _report(self) -> int:
        self._log_lost_connections()
        count = 0
        while self._reports:
            report = self._reports.popleft()
            report.delivered(report.error, report.message)
            count += 1
        return count

    def _log_lost_connections(self) -> None:
        """Logs lost connections in librdkafka's words, which are the only sign of them."""
        if self._connections.any_cut() and self._logger is not None:
            self._logger.log(_INFO, "%s", "FAIL: Disconnected (after 1000ms in state UP)")


def _bytes(value: bytes | str | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _limit(timeout_s: float) -> float:
    return timeout_s if timeout_s >= 0 else _MAX_SECONDS
