"""A process that sends bids at a steady rate: `python -m benchmarks.feed KAFKA TOPIC SCHEMA_ID RATE SECONDS [...]`.

RATE is in records a second; several pairs of RATE and SECONDS follow one another without a gap. Every 20 ms it sends
the bids that are due, with instants spread evenly over the time since the last tick. At the end it prints a summary as
JSON (see `Fed` in `benchmarks.latency`).
"""

import json
import sys
import time
from collections.abc import Iterator, Sequence

import polars as pl

from benchmarks.bids import PARTITIONS, bids, encoder, heartbeat, send
from connectors.kafka.client.config import KafkaSettings

TICK_S = 0.02
_POOL = 400_000


def main() -> None:
    """Sends all bids, then a heartbeat after the last one."""
    bootstrap, topic, schema_id, *phases = sys.argv[1:]
    sizes = list(_sizes([float(argument) for argument in phases]))
    producer = KafkaSettings(bootstrap).producer()
    encode = encoder(int(schema_id))
    pool = bids(0, max(_POOL, *sizes))
    started, kept, late_s, at = time.monotonic(), 0, 0.0, 0
    began_ms = now = _now_ms()
    for tick, size in enumerate(sizes):
        due = started + tick * TICK_S
        late_s = max(late_s, time.monotonic() - due)
        while (left := due - time.monotonic()) > 0:
            producer.poll(left)
        at = at if at + size <= pool.height else 0
        frame = pool.slice(at, size)
        at += size
        kept += int((frame["auction"] % 10 == 0).sum())
        before, now = now, max(_now_ms(), now)
        made = before + pl.int_range(1, size + 1) * (now - before) // size
        stamped = frame.with_columns(made.alias("dateTime"))
        send(producer, topic, encode.encode(stamped).to_list())
    spent = time.monotonic() - started
    ended_ms, sent = _now_ms() + 1, sum(sizes)
    heartbeat(producer, topic, PARTITIONS, ended_ms)
    producer.flush()
    summary = {"sent": sent, "kept": kept, "rate": sent / spent, "late_s": late_s}
    print(json.dumps({**summary, "began_ms": began_ms, "ended_ms": ended_ms}))


def _sizes(phases: Sequence[float]) -> Iterator[int]:
    """The number of bids of each tick."""
    for rate, seconds in zip(phases[::2], phases[1::2], strict=True):
        yield from [max(int(rate * TICK_S), 1)] * int(seconds / TICK_S)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


if __name__ == "__main__":
    main()
