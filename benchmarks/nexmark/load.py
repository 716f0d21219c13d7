"""Loads events into topics: a topic for each stream, row n of a stream in partition n modulo 4."""

from benchmarks.bids import PARTITIONS, heartbeat, send
from benchmarks.nexmark.generator import Events
from benchmarks.nexmark.streams import STREAMS, Stream
from connectors.formats import AvroEncoder
from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.topics import KEPT, ensure_topic
from connectors.kafka.schema_registry.registry import register_schema

_PREFIX = 5
#: How much later than the last event the final heartbeats are.
QUIET_MS = 60_000


def final_ms(events: Events) -> int:
    """The instant below which everything is final once all events are loaded."""
    return events.end_ms + QUIET_MS


def load_tagged(kafka: KafkaSettings, registry_url: str, events: Events, prefix: str = "") -> int:
    """Fills the topics of all streams for this system, with Confluent Avro and final heartbeats. Returns the total size
    of the values."""
    size = 0
    for stream in STREAMS.values():
        topic = prefix + stream.topic
        schema_id = register_schema(registry_url, f"{topic}-value", stream.writer())
        size += _load(kafka, topic, stream, events, schema_id)
    return size


def load_plain(kafka: KafkaSettings, events: Events, prefix: str = "") -> int:
    """Fills the topics of all streams for a peer, with plain Avro. Returns the total size of the values."""
    return sum(_load(kafka, prefix + stream.topic, stream, events, None) for stream in STREAMS.values())


def _load(kafka: KafkaSettings, topic: str, stream: Stream, events: Events, schema_id: int | None) -> int:
    ensure_topic(kafka.admin(), topic, PARTITIONS, KEPT)
    producer = kafka.producer()
    encoder, size = AvroEncoder(stream.stored(), schema_id or 0), 0
    for frame in stream.chunks(events):
        values = encoder.encode(frame)
        values = values if schema_id is not None else values.bin.slice(_PREFIX)
        size += int(values.bin.size().sum())
        send(producer, topic, values.to_list())
    if schema_id is not None:
        heartbeat(producer, topic, PARTITIONS, final_ms(events))
    producer.flush()
    return size
