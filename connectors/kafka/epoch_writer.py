"""The transactional writer of a fragment: one epoch is one transaction."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from confluent_kafka import KafkaException

from connectors.kafka.config import KafkaSettings
from connectors.kafka.errors import translate, translated

_INIT_TIMEOUT_S = 30.0
_COMMIT_TIMEOUT_S = 60.0
_POLL_EVERY = 10_000

Headers = list[tuple[str, bytes]]
_Row = tuple[bytes | None, bytes | None, int, Headers | None]


@dataclass(frozen=True)
class Records:
    """Records of one topic, column by column. `partitions` is None where the key decides."""

    topic: str
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[Headers] | None = None
    partitions: Sequence[int] | None = None


class EpochWriter:
    """A long-lived producer with a transactional id. Making one fences every older one and ends its transaction."""

    def __init__(self, settings: KafkaSettings, transactional_id: str) -> None:
        self._producer = settings.producer(
            transactional_id=transactional_id, transaction_timeout_ms=60_000, delivery_report_only_error=True
        )
        with translated("starting the transactional producer"):
            self._producer.init_transactions(_INIT_TIMEOUT_S)

    def begin(self) -> None:
        """Starts the epoch's transaction."""
        with translated("beginning a transaction"):
            self._producer.begin_transaction()

    def write(self, records: Records) -> None:
        """Adds records to the transaction, in order; nobody can read them before `commit`."""
        headers: Sequence[Headers | None] = records.headers or [None] * len(records.values)
        partitions = records.partitions or [-1] * len(records.values)
        rows = zip(records.values, records.keys, partitions, headers, strict=True)
        with translated(f'writing to topic "{records.topic}"'):
            while left := list(islice(rows, _POLL_EVERY)):
                while left := self._produce(records.topic, left):
                    self._producer.poll(0.1)
                self._producer.poll(0)

    def _produce(self, topic: str, rows: list[_Row]) -> list[_Row]:
        """Hands rows to the producer until its queue is full; gives those that did not fit."""
        produce = self._producer.produce
        done = 0
        try:
            for value, key, partition, headers in rows:
                produce(topic, value, key, partition, None, None, 0, headers)
                done += 1
        except BufferError:
            return rows[done:]
        return []

    def commit(self) -> None:
        """Makes the epoch visible as a whole. A retriable failure is retried until it is decided."""
        try:
            self._producer.commit_transaction(_COMMIT_TIMEOUT_S)
        except KafkaException as error:
            cause = error.args[0]
            if cause.retriable():
                with translated("committing a transaction"):
                    self._producer.commit_transaction(_COMMIT_TIMEOUT_S)
                return
            raise translate(cause, "committing a transaction") from error

    def close(self) -> None:
        """Ends the producer in the background: while the broker is away that takes long, and the next owner's start
        ends an open transaction in any case."""
        threading.Thread(target=self._producer.close, name="closing-producer", daemon=True).start()
