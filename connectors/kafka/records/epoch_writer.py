"""The transactional writer of a fragment, based on librdkafka. One epoch is one transaction.

It is used without the native part, and with settings that the writer in `column_writer.py` does not support.

When an answer is lost, librdkafka resends the request under the same producer epoch (a number of Kafka's, which is not
the epoch of the fragment). The first request may arrive late and end the next transaction, or a part of it (KIP-890). A
greater producer epoch for each transaction would prevent this, but librdkafka gets one only by creating a producer, and
that also fences an owner that has taken over in the meantime. Therefore a writer that has lost a connection finishes
its transaction; then its owner replaces it by a new writer, as after a crash.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Iterable
from itertools import repeat
from operator import length_hint

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.errors import TopicRefusedRecords, kafka_error, topic_refusal, translate, translated
from connectors.kafka.records.record_columns import RecordColumns, Records
from operators.core.errors import ExternalError

_INIT_TIMEOUT_S = 30.0
_COMMIT_TIMEOUT_S = 60.0
#: The number of records after which the writer polls; polling reports refused records and lost connections.
POLL_EVERY = 10_000
#: The limits of the producer's queue, and how long to wait for room in it.
_QUEUE = {"queue_buffering_max_messages": 30_000, "queue_buffering_max_kbytes": 32_768}
_QUEUE_WAIT_S = 0.05
#: Makes the client log every lost connection on which a request may have been sent.
_LOG_LOST_CONNECTIONS = {"socket_max_fails": 1, "log_connection_close": True, "log_level": 6}
#: The connection states in which requests of a transaction are sent.
_SENDING = re.compile(r"in state (UP|REAUTH)\b")


class EpochWriter:
    """A long-lived producer with a transactional id. Creating one fences all older ones and ends their transactions."""

    def __init__(self, settings: KafkaSettings, transactional_id: str) -> None:
        self._refusal: TopicRefusedRecords | None = None
        self._lost_connections = _LostConnections()
        self._producer = settings.producer(
            transactional_id=transactional_id,
            transaction_timeout_ms=60_000,
            delivery_report_only_error=True,
            on_delivery=self._note_refusal,
            logger=self._lost_connections,
            **_QUEUE,
            **_LOG_LOST_CONNECTIONS,
        )
        with translated("starting the transactional producer", transactional=True):
            self._producer.init_transactions(_INIT_TIMEOUT_S)

    @property
    def outcome_unknown(self) -> bool:
        """Whether the answer to a request may have been lost. If so, the owner must check how the last transaction
        ended.
        """
        self._producer.poll(0)
        return self._lost_connections.any

    @property
    def must_be_replaced(self) -> bool:
        """Whether the owner must create a new writer before the next transaction."""
        return self.outcome_unknown

    def begin(self, topics: Iterable[str] = ()) -> None:
        """Starts the epoch's transaction. `topics`, which ColumnWriter looks up first, is ignored, because librdkafka
        looks up topics itself. Raises ExternalError if the writer must be replaced.
        """
        if self.must_be_replaced:
            raise ExternalError(
                "the connection to kafka was lost, and a delayed request could end the next transaction",
                hint="the writer is re-created automatically",
            )
        with translated("beginning a transaction", transactional=True):
            self._producer.begin_transaction()

    def write(self, given: Records | RecordColumns) -> None:
        """Adds records to the transaction, in order; they cannot be read before `commit`."""
        records = given.rows() if isinstance(given, RecordColumns) else given
        written = 0
        with translated(f'writing to topic "{records.topic}"', transactional=True):
            while written < len(records.values):
                upto = min(written + POLL_EVERY, len(records.values))
                written += self._produce(records, written, upto)
                self._producer.poll(0 if written == upto else _QUEUE_WAIT_S)

    def _produce(self, records: Records, start: int, end: int) -> int:
        """Passes rows to the producer until its queue is full; returns how many it accepted. The loop runs in C."""
        rows = slice(start, end)
        values = iter(records.values[rows])
        partitions = repeat(-1) if records.partitions is None else records.partitions[rows]
        headers = repeat(None) if records.headers is None else records.headers[rows]
        produced = map(
            self._producer.produce,
            repeat(records.topic),
            values,
            records.keys[rows],
            partitions,
            repeat(None),
            repeat(None),
            repeat(0),
            headers,
        )
        try:
            deque(produced, maxlen=0)
        except BufferError:  # the refused row was taken from the iterator, too
            return end - start - length_hint(values) - 1
        return end - start

    def await_written(self) -> None:
        """Waits until the brokers have acknowledged all records, or refused some, which makes the commit fail."""
        with translated("writing records", transactional=True):
            left = self._producer.flush(_COMMIT_TIMEOUT_S)
        if left:
            raise ExternalError(
                f"kafka has not acknowledged {left} records within {_COMMIT_TIMEOUT_S:g} s", retryable=True
            )

    def commit(self) -> None:
        """Makes the epoch visible atomically. A retriable failure is retried once. Raises TopicRefusedRecords, and
        makes nothing visible, if a topic refuses its records.
        """
        try:
            self._producer.commit_transaction(_COMMIT_TIMEOUT_S)
        except (KafkaException, SystemError) as error:
            if (cause := kafka_error(error)) is None:
                raise
            with translated("committing a transaction", transactional=True):
                self._producer.poll(0)  # reports why records were not delivered
            if self._refusal is not None:
                raise self._refusal from error
            if cause.retriable():
                with translated("committing a transaction", transactional=True):
                    self._producer.commit_transaction(_COMMIT_TIMEOUT_S)
                return
            raise translate(cause, "committing a transaction", transactional=True) from error

    def abort(self) -> None:
        """Aborts the open transaction. Otherwise, readers of its topics would wait until it times out."""
        with translated("aborting a transaction", transactional=True):
            self._producer.abort_transaction(_COMMIT_TIMEOUT_S)

    def _note_refusal(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and self._refusal is None:
            self._refusal = topic_refusal(message.topic(), error)

    def close(self) -> None:
        """Closes the producer in the background: this takes long while the broker is unavailable, and the next owner's
        start aborts an open transaction anyway."""
        threading.Thread(target=_close, args=(self._producer,), name="closing-producer", daemon=True).start()


def _close(producer: Producer) -> None:
    """Closes a producer. A fenced one raises its fatal error here, too, which its owner has seen already."""
    try:
        producer.close()
    except (KafkaException, SystemError) as error:
        if kafka_error(error) is None:
            raise


class _LostConnections:
    """Detects lost connections from the client's log; the client reports them in no other way."""

    def __init__(self) -> None:
        #: Whether a connection was lost on which a request may have been sent.
        self.any = False

    def log(self, level: int, format: str, *arguments: object) -> None:
        """Examines a line of the log."""
        self.any = self.any or _SENDING.search(format % arguments) is not None
