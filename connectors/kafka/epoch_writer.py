"""The transactional writer of a fragment: one epoch is one transaction. For settings that `column_writer.py` does not
know, and without the native part.

librdkafka sends a request again when its answer is lost, under the same epoch of the producer, so the first one may
come late and end the next transaction, or a part of it (KIP-890). It cannot ask for a new epoch as the same owner: only
a new producer has one, and that replaces whoever else is the owner meanwhile. So a writer that has lost a connection
finishes its transaction and is spent then; its owner makes a new one, as it does after a crash.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Iterable
from itertools import repeat
from operator import length_hint

from confluent_kafka import KafkaError, KafkaException, Message

from connectors.kafka.config import KafkaSettings
from connectors.kafka.errors import TopicRefuses, refusal, translate, translated
from connectors.kafka.record_columns import RecordColumns, Records
from operators.core.errors import ExternalError

_INIT_TIMEOUT_S = 30.0
_COMMIT_TIMEOUT_S = 60.0
POLL_EVERY = 10_000
#: The limits of the producer's queue, and how long to wait for room in it.
_QUEUE = {"queue_buffering_max_messages": 30_000, "queue_buffering_max_kbytes": 32_768}
_FULL_S = 0.05
#: Every lost connection on which a request may have been sent has to be logged.
_TELLING = {"socket_max_fails": 1, "log_connection_close": True, "log_level": 6}
#: In other states of a connection nothing is sent that belongs to a transaction.
_SENDING = re.compile(r"in state (UP|REAUTH)\b")


class EpochWriter:
    """A long-lived producer with a transactional id. Creating one fences all older ones and ends their transactions."""

    def __init__(self, settings: KafkaSettings, transactional_id: str) -> None:
        self._refusal: TopicRefuses | None = None
        self._losses = _Losses()
        self._producer = settings.producer(
            transactional_id=transactional_id,
            transaction_timeout_ms=60_000,
            delivery_report_only_error=True,
            on_delivery=self._note_refusal,
            logger=self._losses,
            **_QUEUE,
            **_TELLING,
        )
        with translated("starting the transactional producer", transactional=True):
            self._producer.init_transactions(_INIT_TIMEOUT_S)

    @property
    def in_doubt(self) -> bool:
        """Whether the answer to a request may have been lost: how its last transaction ended is worth a look."""
        self._producer.poll(0)
        return self._losses.any

    @property
    def spent(self) -> bool:
        """Whether its owner has to make a new one before the next transaction."""
        return self.in_doubt

    def begin(self, topics: Iterable[str] = ()) -> None:
        """Starts the epoch's transaction. The client looks up `topics` by itself. ExternalError where it is spent."""
        if self.spent:
            raise ExternalError(
                "the connection to kafka was lost, and what is on its way could end the next transaction",
                hint="the writer starts again by itself",
            )
        with translated("beginning a transaction", transactional=True):
            self._producer.begin_transaction()

    def write(self, given: Records | RecordColumns) -> None:
        """Adds records to the transaction, in order; nobody can read them before `commit`."""
        records = given.rows() if isinstance(given, RecordColumns) else given
        written = 0
        with translated(f'writing to topic "{records.topic}"', transactional=True):
            while written < len(records.values):
                upto = min(written + POLL_EVERY, len(records.values))
                written += self._produce(records, written, upto)
                self._producer.poll(0 if written == upto else _FULL_S)

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
        except BufferError:
            return end - start - length_hint(values) - 1
        return end - start

    def await_written(self) -> None:
        """Returns once brokers have taken all records, or have refused some, which fails the commit."""
        with translated("writing records", transactional=True):
            left = self._producer.flush(_COMMIT_TIMEOUT_S)
        if left:
            raise ExternalError(f"kafka has not taken {left} records within {_COMMIT_TIMEOUT_S:g} s", retryable=True)

    def commit(self) -> None:
        """Makes the epoch visible atomically. A retriable failure is retried once; TopicRefuses, and nothing is
        visible, where one topic does not take its records."""
        try:
            self._producer.commit_transaction(_COMMIT_TIMEOUT_S)
        except KafkaException as error:
            cause = error.args[0]
            with translated("committing a transaction", transactional=True):
                self._producer.poll(0)  # passes on why records were not delivered
            if self._refusal is not None:
                raise self._refusal from error
            if cause.retriable():
                with translated("committing a transaction", transactional=True):
                    self._producer.commit_transaction(_COMMIT_TIMEOUT_S)
                return
            raise translate(cause, "committing a transaction", transactional=True) from error

    def abort(self) -> None:
        """Ends a transaction that was begun and not committed, so that readers of its topics need not wait for it to
        time out."""
        with translated("aborting a transaction", transactional=True):
            self._producer.abort_transaction(_COMMIT_TIMEOUT_S)

    def _note_refusal(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and self._refusal is None:
            self._refusal = refusal(message.topic(), error)

    def close(self) -> None:
        """Closes the producer in the background: this takes long while the broker is unavailable, and the start of the
        next owner ends an open transaction in any case."""
        threading.Thread(target=self._producer.close, name="closing-producer", daemon=True).start()


class _Losses:
    """What the client logs, from which connections have been lost; it tells this in no other way."""

    def __init__(self) -> None:
        #: Whether a connection was lost on which a request may have been sent.
        self.any = False

    def log(self, level: int, format: str, *arguments: object) -> None:
        """Takes a line."""
        self.any = self.any or _SENDING.search(format % arguments) is not None
