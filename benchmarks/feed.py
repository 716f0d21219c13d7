"""A process that offers bids at a steady rate, each stamped with the wall clock as it is made.

`python -m benchmarks.feed KAFKA TOPIC SCHEMA_ID RATE SECONDS` prints, at its end, what it has sent, as JSON.
"""

import json
import sys
import time

import polars as pl

from benchmarks.bids import PARTITIONS, bids, encoder, heartbeat, send
from connectors.kafka.config import KafkaSettings

TICK_S = 0.02
_POOL = 400_000


def main() -> None:
    """Sends, then promises that nothing more comes."""
    bootstrap, topic, schema_id, rate, seconds = sys.argv[1:]
    producer = KafkaSettings(bootstrap).producer()
    encode = encoder(int(schema_id))
    ticks, size = int(float(seconds) / TICK_S), max(int(float(rate) * TICK_S), 1)
    pool = bids(0, max(_POOL, size))
    started, kept, late_s = time.monotonic(), 0, 0.0
    for tick in range(ticks):
        due = started + tick * TICK_S
        late_s = max(late_s, time.monotonic() - due)
        while (left := due - time.monotonic()) > 0:
            producer.poll(left)
        frame = pool.slice((tick * size) % (pool.height - size + 1), size)
        kept += int((frame["auction"] % 10 == 0).sum())
        stamped = frame.with_columns(pl.lit(_now_ms()).alias("dateTime"))
        send(producer, topic, encode.encode(stamped).to_list())
    spent = time.monotonic() - started
    heartbeat(producer, topic, PARTITIONS, _now_ms() + 1)
    producer.flush()
    print(json.dumps({"sent": ticks * size, "kept": kept, "rate": ticks * size / spent, "late_s": late_s}))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


if __name__ == "__main__":
    main()
