"""NEXMark's bids, generated from a seed and loaded into a topic: the input of every throughput benchmark.

Records have NEXMark's sizes. Auctions are drawn uniformly, without hot auctions, so that `auction % 10 = 0` keeps a
tenth.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Producer

from connectors.formats import AvroEncoder
from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.names import HEARTBEAT_HEADER
from connectors.kafka.client.topics import KEPT, ensure_topic

PARTITIONS = 4
EVENTS_PER_MS = 10
FIRST_MS = 1_767_225_600_000
CHUNK = 250_000
_POOL = 8_192
_PREFIX = 5
_TIME = {"type": "long", "logicalType": "timestamp-millis"}
_TYPES = {
    **{name: "long" for name in ("auction", "bidder", "price")},
    **{name: "string" for name in ("channel", "url")},
    "dateTime": _TIME,
    "extra": "string",
}

#: The Avro schema of the records. Instants are in milliseconds, as in NEXMark.
WRITER: dict[str, Any] = {
    "type": "record",
    "name": "Bid",
    "fields": [{"name": name, "type": kind} for name, kind in _TYPES.items()],
}
_STORED = pa.schema(
    [pa.field(name, pa.string() if kind == "string" else pa.int64(), nullable=False) for name, kind in _TYPES.items()]
)


def bids(first: int, records: int, seed: int = 7) -> pl.DataFrame:
    """The bids from number `first` on. `dateTime` is in milliseconds; ten bids have the same.

    >>> bids(0, 20)["dateTime"].to_list() == [FIRST_MS] * 10 + [FIRST_MS + 1] * 10
    True
    """
    rng = np.random.default_rng((seed, first))
    pools = _pools(np.random.default_rng(seed))
    texts = {name: pool.gather(rng.integers(0, len(pool), records)) for name, pool in pools.items()}
    return pl.DataFrame(
        {
            "auction": rng.integers(1_000, 100_000, records),
            "bidder": rng.integers(2_000, 50_000, records),
            "price": np.round(10 ** (6 * rng.random(records)) * 100).astype(np.int64),
            "channel": texts["channel"],
            "url": texts["url"],
            "dateTime": FIRST_MS + (first + np.arange(records)) // EVENTS_PER_MS,
            "extra": texts["extra"],
        }
    )


def _pools(rng: np.random.Generator) -> dict[str, pl.Series]:
    cold = [f"channel-{number}" for number in range(40)]
    letters = rng.integers(97, 123, (_POOL, 59)).astype(np.uint8)
    lengths = rng.integers(30, 59, _POOL)
    return {
        "channel": pl.Series(["Google", "Facebook", "Baidu", "Apple"] * 10 + cold),
        "url": pl.Series([f"https://www.nexmark.com/{number:06d}" for number in range(_POOL)]),
        "extra": pl.Series([row[:size].tobytes().decode() for row, size in zip(letters, lengths, strict=True)]),
    }


def all_bids(records: int) -> Iterator[pl.DataFrame]:
    """All bids of a run, in chunks."""
    for first in range(0, records, CHUNK):
        yield bids(first, min(CHUNK, records - first))


def end_ms(records: int) -> int:
    """The first instant after the last bid."""
    return FIRST_MS + (records - 1) // EVENTS_PER_MS + 1


def encoder(schema_id: int) -> AvroEncoder:
    """Encodes bids in Confluent's wire format."""
    return AvroEncoder(_STORED, schema_id)


def load(kafka: KafkaSettings, topic: str, records: int, schema_id: int | None) -> float:
    """Fills a new topic and returns the mean size of a record in bytes. Bid n goes to partition n modulo 4.

    Without a schema id the values are plain Avro. With one, each partition ends with a heartbeat after the last bid.
    """
    ensure_topic(kafka.admin(), topic, PARTITIONS, KEPT)
    producer = kafka.producer()
    encode = encoder(schema_id or 0)
    size = 0
    for frame in all_bids(records):
        values = encode.encode(frame)
        values = values if schema_id is not None else values.bin.slice(_PREFIX)
        size += int(values.bin.size().sum())
        send(producer, topic, values.to_list())
    if schema_id is not None:
        heartbeat(producer, topic, PARTITIONS, end_ms(records))
    producer.flush()
    return size / records


def send(producer: Producer, topic: str, values: list[bytes], partitions: int = PARTITIONS) -> None:
    """Produces values round robin over the partitions. Waits while the producer's queue is full."""
    for partition in range(partitions):
        left: list[dict[str, Any]] = [{"value": value} for value in values[partition::partitions]]
        while producer.produce_batch(topic, left, partition=partition) < len(left):
            left = [{"value": message["value"]} for message in left if _was_full(message)]
            producer.poll(0.1)
    producer.poll(0)


def _was_full(message: dict[str, Any]) -> bool:
    """Whether the producer's queue had no room for a message. Raises any other error of the message."""
    error = message.get("_error")
    if error is not None and error.code() != KafkaError._QUEUE_FULL:
        raise KafkaException(error)
    return error is not None


def heartbeat(producer: Producer, topic: str, partitions: int, instant: int) -> None:
    """Sends a heartbeat to each partition, which promises that no record below the instant follows."""
    for partition in range(partitions):
        producer.produce(topic, None, partition=partition, headers=[(HEARTBEAT_HEADER, str(instant).encode())])
