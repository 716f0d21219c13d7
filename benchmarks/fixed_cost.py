"""The duration of an almost empty batch, and the time from a single record to its result, in seconds."""

import threading
import time
from dataclasses import dataclass

import numpy as np

from benchmarks.bids import WRITER, bids, encoder, heartbeat
from benchmarks.cluster import Cluster
from benchmarks.progress import FrontierWatch
from benchmarks.throughput import register
from connectors.kafka.client.topics import KEPT, ensure_topic
from connectors.kafka.schema_registry.registry import register_schema
from operators.core.errors import ExternalError

BATCHES = 20
_EVERY_S = 0.02
_WAIT_S = 30.0


@dataclass(frozen=True)
class FixedCost:
    """Medians in seconds: between two commits under a trickle of records, and from one record to its visible result."""

    batch_s: float
    record_s: float


def measure_fixed_cost(cluster: Cluster) -> FixedCost:
    """Measures a query that passes all records through, over a topic with one partition."""
    pulse = Pulse(cluster)
    watch = FrontierWatch(cluster.kafka, cluster.state.cluster, "dsms.pulses")
    try:
        alone = [lonely(pulse, watch) for _ in range(BATCHES + 2)][2:]
        return FixedCost(float(np.median(gaps(pulse, watch))), float(np.median(alone)))
    finally:
        watch.close()
        cluster.api.execute("DROP QUERY pulses")


class Pulse:
    """Sends bids one at a time, with ascending instants."""

    def __init__(self, cluster: Cluster) -> None:
        schema_id = register_schema(cluster.url, "pulse-value", WRITER)
        ensure_topic(cluster.kafka.admin(), "pulse", 1, KEPT)
        register(cluster, "Pulse", "pulse")
        cluster.api.execute(
            'CREATE QUERY pulses WITH (FORMAT = AVRO) AS SELECT STREAMED auction, "dateTime" FROM Pulse'
        )
        self._producer = cluster.kafka.producer(linger_ms=0)
        self._value = encoder(schema_id)
        self._bid = bids(0, 1)
        self._instant = int(self._bid["dateTime"][0])

    def send(self) -> int:
        """Sends one record, and the heartbeat that makes its instant final; returns the instant."""
        self._instant += 2
        column = self._bid["dateTime"] * 0 + self._instant
        self._producer.produce("pulse", self._value.encode(self._bid.with_columns(column))[0], partition=0)
        heartbeat(self._producer, "pulse", 1, self._instant + 1)
        self._producer.flush()
        return self._instant


def lonely(pulse: Pulse, watch: FrontierWatch) -> float:
    """Seconds from the acknowledgement of a record to the commit of its result, without other load."""
    instant = pulse.send()
    started = time.monotonic()
    while moved := watch.next(_WAIT_S):
        if moved.frontier > instant:
            return moved.seen_s - started
    raise ExternalError(f"a single record had no result after {_WAIT_S:g} s")


def gaps(pulse: Pulse, watch: FrontierWatch) -> list[float]:
    """Seconds between commits while records trickle in, so that each batch starts when the previous one ends."""
    ended = threading.Event()

    def trickle() -> None:
        while not ended.wait(_EVERY_S):
            pulse.send()

    feeder = threading.Thread(target=trickle, name="trickle", daemon=True)
    feeder.start()
    try:
        seen = [moved.seen_s for _ in range(BATCHES + 3) if (moved := watch.next(_WAIT_S))]
    finally:
        ended.set()
        feeder.join()
    if len(seen) < BATCHES:
        raise ExternalError(f"only {len(seen)} batches were committed")
    return [later - earlier for earlier, later in zip(seen[2:], seen[3:], strict=False)]
