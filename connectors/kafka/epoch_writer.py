"""The transactional writer of a fragment: one epoch is one transaction."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from itertools import repeat
from operator import length_hint

from confluent_kafka import KafkaError, KafkaException, Message

from connectors.kafka.config import KafkaSettings
from connectors.kafka.errors import TopicRefuses, refusal, translate, translated
from connectors.kafka.record_columns import RecordColumns, Records

_INIT_TIMEOUT_S = 30.0
_COMMIT_TIMEOUT_S = 60.0
POLL_EVERY = 10_000
#: The limits of the producer's queue, and how long to wait for room in it.
_QUEUE = {"queue_buffering_max_messages": 30_000, "queue_buffering_max_kbytes": 32_768}
_FULL_S = 0.05


class EpochWriter:
    """A long-lived producer with a transactional id. Creating one fences all older ones and ends their transactions."""

    def __init__(self, settings: KafkaSettings, transactional_id: str) -> None:
        self._refusal: TopicRefuses | None = None
        self._producer = settings.producer(
            transactional_id=transactional_id,
            transaction_timeout_ms=60_000,
            delivery_report_only_error=True,
            on_delivery=self._note_refusal,
            **_QUEUE,
        )
        with translated("starting the transactional producer", transactional=True):
            self._producer.init_transactions(_INIT_TIMEOUT_S)

    def begin(self, topics: Iterable[str] = ()) -> None:
        """Starts the epoch's transaction. The client looks up `topics` by itself."""
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

    def commit(self) -> None:
        """Makes the epoch visible atomically. A retriable failure is retried once; TopicRefuses, and nothing is
        visible, where one topic does not take its records."""
        try:
            self._producer.commit_transaction(_COMMIT_TIMEOUT_S)
        except KafkaException as error:
            cause = error.args[0]
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
