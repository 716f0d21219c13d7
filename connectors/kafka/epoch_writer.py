"""The transactional writer of a fragment: one epoch is one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from confluent_kafka import KafkaException

from connectors.kafka.config import KafkaSettings
from connectors.kafka.errors import translate, translated

_INIT_TIMEOUT_S = 30.0
_COMMIT_TIMEOUT_S = 60.0
_POLL_EVERY = 20_000

Headers = list[tuple[str, bytes]]


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
        produce, poll, topic = self._producer.produce, self._producer.poll, records.topic
        headers: Sequence[Headers | None] = records.headers or [None] * len(records.values)
        partitions = records.partitions or [-1] * len(records.values)
        with translated(f'writing to topic "{topic}"'):
            for count, (key, value, header, partition) in enumerate(
                zip(records.keys, records.values, headers, partitions, strict=True), 1
            ):
                while True:
                    try:
                        produce(topic, value, key, partition, headers=header)
                        break
                    except BufferError:
                        poll(0.1)
                if count % _POLL_EVERY == 0:
                    poll(0)

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

    def abort(self) -> None:
        """Gives the transaction up, as far as the broker can be reached; a new writer's start ends it in any case."""
        with translated("aborting a transaction"):
            self._producer.abort_transaction(5.0)


def tombstones(topic: str, keys: Iterable[bytes]) -> Records:
    """Deletions of keys in a compacted topic."""
    listed = list(keys)
    return Records(topic, listed, [None] * len(listed))
