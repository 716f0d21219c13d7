"""Feeds NEXMark's auctions and bids at a steady rate, in a separate process: `python -m benchmarks.soak.feed`.

Event n happens n / rate seconds after the first event, and is sent then. Ten times a second, a heartbeat to each
partition promises that no earlier event follows. The process prints, as JSON, the time of the first event, and at the
end how many events were sent and how late the latest tick was.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from queue import Queue

import numpy as np
import polars as pl
from confluent_kafka import Producer

from benchmarks.bids import PARTITIONS, heartbeat, send
from benchmarks.nexmark.generator import BLOCK, Events
from benchmarks.nexmark.timeline import Ints, Timeline
from benchmarks.soak.workload import FED
from connectors.formats import AvroEncoder
from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.topics import KEPT, ensure_topic
from connectors.kafka.schema_registry.registry import register_schema

TICK_S, _BEAT_TICKS = 0.02, 5
#: How long to wait at the end until all records are sent.
_FLUSH_S = 60.0
_LEAD_MS = 4_000


@dataclass(frozen=True)
class Encoded:
    """The events of a kind in a block: their instants and records."""

    instants: Ints
    values: list[bytes]


class Topics:
    """The topics that are fed. Records and heartbeats are sent by one thread."""

    def __init__(self, kafka: KafkaSettings, registry_url: str) -> None:
        self._encoders: dict[str, AvroEncoder] = {}
        for kind, stream in FED.items():
            ensure_topic(kafka.admin(), stream.topic, PARTITIONS, KEPT)
            schema_id = register_schema(registry_url, f"{stream.topic}-value", stream.writer())
            self._encoders[kind] = AvroEncoder(stream.stored(), schema_id)
        self._producer: Producer = kafka.producer()

    def encoded(self, events: Events, block: int, kind: str) -> Encoded:
        """The events of a kind in a block."""
        frame = events.block(kind, block)
        return Encoded(frame["dateTime"].cast(pl.Int64).to_numpy(), self._encoders[kind].encode(frame).to_list())

    def send(self, kind: str, values: list[bytes]) -> None:
        """Sends records, in order within each partition."""
        send(self._producer, FED[kind].topic, values)

    def promise(self, instant: int) -> None:
        """Promises that no record below the instant follows."""
        for stream in FED.values():
            heartbeat(self._producer, stream.topic, PARTITIONS, instant)

    def flush(self) -> None:
        """Waits until everything is sent."""
        left = self._producer.flush(_FLUSH_S)
        if left:
            raise SystemExit(f"{left} records were not sent")


def last_ms(events: Events) -> int:
    """The first whole second after all events."""
    return -(-events.end_ms // 1_000) * 1_000


def feed_at_once(topics: Topics, events: Events, blocks: range) -> None:
    """Sends some blocks as fast as possible, then promises the first instant after them."""
    end = 0
    for block in blocks:
        for kind in FED:
            encoded = topics.encoded(events, block, kind)
            topics.send(kind, encoded.values)
            end = max(end, int(encoded.instants[-1]) + 1)
    topics.promise(end)
    topics.flush()


def feed_steadily(topics: Topics, events: Events) -> float:
    """Sends each event when it happens; returns the greatest delay in seconds."""
    pending, late_s, tick = {kind: _Pending(iter(_blocks(topics, events, kind))) for kind in FED}, 0.0, 0
    while any(one.left for one in pending.values()):
        due_s = events.timeline.first_ms / 1_000 + tick * TICK_S
        if (wait_s := due_s - time.time()) > 0:
            time.sleep(wait_s)
        late_s = max(late_s, -wait_s)
        now = time.time_ns() // 1_000_000
        for kind, one in pending.items():
            topics.send(kind, one.upto(now))
        tick = max(tick + 1, int((now / 1_000 - events.timeline.first_ms / 1_000) / TICK_S))
        if tick % _BEAT_TICKS == 0 or wait_s < 0:
            topics.promise(min(now, events.end_ms) + 1)
    topics.promise(last_ms(events) + 1)
    topics.flush()
    return late_s


class _Pending:
    """The events of a kind that are still to be sent."""

    def __init__(self, blocks: Iterator[Encoded]) -> None:
        self._blocks, self._block, self._at = blocks, next(blocks, None), 0

    @property
    def left(self) -> bool:
        """Whether any are left."""
        return self._block is not None

    def upto(self, instant: int) -> list[bytes]:
        """The next events, up to an instant."""
        values: list[bytes] = []
        while self._block is not None:
            end = int(np.searchsorted(self._block.instants, instant, side="right"))
            values += self._block.values[self._at : end]
            self._at = end
            if end < len(self._block.values):
                break
            self._block, self._at = next(self._blocks, None), 0
        return values


def _blocks(topics: Topics, events: Events, kind: str) -> Iterator[Encoded]:
    """The blocks of a kind. A thread encodes one block ahead."""
    made: Queue[Encoded | None] = Queue(1)

    def make() -> None:
        for block in range(events.blocks):
            made.put(topics.encoded(events, block, kind))
        made.put(None)

    threading.Thread(target=make, name=f"make-{kind}", daemon=True).start()
    while (block := made.get()) is not None:
        yield block


def main() -> None:
    """Feeds events. The arguments are the bootstrap address, the registry, the number of events, and their rate."""
    bootstrap, registry_url, count, rate = sys.argv[1:]
    topics = Topics(KafkaSettings(bootstrap), registry_url)
    for kind in FED:  # generates the pools in advance
        topics.encoded(Events(BLOCK), 0, kind)
    first_ms = (time.time_ns() // 1_000_000 + _LEAD_MS) // 1_000 * 1_000
    print(json.dumps({"first_ms": first_ms}), flush=True)
    events = Events(int(count), Timeline(int(rate), first_ms))
    print(json.dumps({"sent": events.count, "late_s": feed_steadily(topics, events)}))


if __name__ == "__main__":
    main()
