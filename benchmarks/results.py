"""Reads committed results and compares them with those that Polars computes from the generated bids.

The benchmark has its own decoder, for records of integers only, because the measured code must not verify itself.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl
from confluent_kafka import KafkaError, TopicPartition
from numpy.typing import NDArray

from benchmarks.bids import all_bids
from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.errors import translate
from connectors.kafka.records.pieces import decided_ranges
from operators.core.errors import InternalError

_CONSUME = 50_000
_POLL_S = 0.2
_MORE = 0x80


def integers(bodies: bytes, width: int) -> NDArray[np.int64]:
    """Decodes a block of Avro records that consist of `width` longs each; one row per record.

    >>> integers(bytes([2, 4, 0x80, 1, 1]), 2).tolist()
    [[1, 2], [64, -1]]
    """
    octets = np.frombuffer(bodies, np.uint8)
    ends = np.flatnonzero(octets < _MORE)
    starts = np.concatenate(([0], ends[:-1] + 1))
    shifts = (np.arange(len(octets)) - np.repeat(starts, ends - starts + 1)).astype(np.uint64) * np.uint64(7)
    parts = (octets & 0x7F).astype(np.uint64) << shifts
    values = np.add.reduceat(parts, starts)
    signed = (values >> np.uint64(1)).astype(np.int64) ^ -(values & np.uint64(1)).astype(np.int64)
    return signed.reshape(-1, width)


def committed(kafka: KafkaSettings, topic: str, columns: Sequence[str], prefix: int) -> pl.DataFrame:
    """All committed results of a topic; `prefix` is the number of bytes before each Avro body."""
    parts = [
        integers(b"".join(message.value()[prefix:] for message in messages), len(columns))
        for messages in committed_messages(kafka, topic)
    ]
    matrix = np.concatenate(parts) if parts else np.empty((0, len(columns)), np.int64)
    return pl.DataFrame(matrix, schema=dict.fromkeys(columns, pl.Int64))


def committed_messages(kafka: KafkaSettings, topic: str) -> Iterator[list[Any]]:
    """All committed records of a topic, in order within each partition. Waits for the end of open transactions."""
    ranges = decided_ranges(kafka.admin(), topic)
    waiting = {offsets.partition for offsets in ranges}
    consumer = kafka.consumer()
    consumer.assign([TopicPartition(topic, offsets.partition, offsets.start) for offsets in ranges])
    try:
        while waiting:
            records = []
            for message in consumer.consume(_CONSUME, _POLL_S):
                error = message.error()
                if error is None:
                    records.append(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    waiting.discard(int(message.partition()))
                else:
                    raise translate(error, f'reading topic "{topic}"')
            if records:
                yield records
    finally:
        consumer.close()


def expected(records: int, query: Callable[[pl.DataFrame], pl.DataFrame]) -> pl.DataFrame:
    """The answer of a query over the generated bids."""
    return pl.concat([query(frame) for frame in all_bids(records)])


def verify(results: pl.DataFrame, wanted: pl.DataFrame, name: str) -> None:
    """Raises InternalError unless both have the same rows equally often."""
    if results.height != wanted.height:
        raise InternalError(f'"{name}" gave {results.height} results, not {wanted.height}')
    columns = wanted.columns
    if not results.sort(columns).equals(wanted.sort(columns)):
        raise InternalError(f'"{name}" gave wrong results')
