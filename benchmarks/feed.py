"""A process that offers bids at a steady rate, each stamped with the wall clock as it is made.

`python -m benchmarks.feed KAFKA TOPIC SCHEMA_ID RATE SECONDS [RATE SECONDS …]` prints, at its end, what it has sent, as
JSON. Several rates follow one another without a gap.
"""

import json
import sys
import time
from collections.abc import Iterator, Sequence

import polars as pl

from benchmarks.bids import PARTITIONS, bids, encoder, heartbeat, send
from connectors.kafka.config import KafkaSettings

TICK_S = 0.02
_POOL = 400_000


def main() -> None:
    """Sends, then promises that nothing more comes."""
    bootstrap, topic, schema_id, *phases = sys.argv[1:]
    sizes = list(_sizes([float(one) for one in phases]))
    producer = KafkaSettings(bootstrap).producer()
    encode = encoder(int(schema_id))
    pool = bids(0, max(_POOL, *sizes))
    started, began_ms, kept, late_s, at = time.monotonic(), _now_ms(), 0, 0.0, 0
    for tick, size in enumerate(sizes):
        due = started + tick * TICK_S
        late_s = max(late_s, time.monotonic() - due)
        while (left := due - time.monotonic()) > 0:
            producer.poll(left)
        at = at if at + size <= pool.height else 0
        frame = pool.slice(at, size)
        at += size
        kept += int((frame["auction"] % 10 == 0).sum())
        stamped = frame.with_columns(pl.lit(_now_ms()).alias("dateTime"))
        send(producer, topic, encode.encode(stamped).to_list())
    spent = time.monotonic() - started
    heartbeat(producer, topic, PARTITIONS, _now_ms() + 1)
    producer.flush()
    sent = sum(sizes)
    print(json.dumps({"sent": sent, "kept": kept, "rate": sent / spent, "late_s": late_s, "began_ms": began_ms}))


def _sizes(phases: Sequence[float]) -> Iterator[int]:
    """How many bids each tick sends."""
    for rate, seconds in zip(phases[::2], phases[1::2], strict=True):
        yield from [max(int(rate * TICK_S), 1)] * int(seconds / TICK_S)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


if __name__ == "__main__":
    main()
