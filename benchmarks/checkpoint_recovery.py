"""Recovery of a fragment with large state from its checkpoint: `python -m benchmarks.checkpoint_recovery --gb 2`.

The state of a query over a keyed stream has the given number of gigabytes of text. A checkpoint copies it to a
directory; then a tenth of the keys change, and another checkpoint copies the changes. The executor is killed, Redis
loses everything, and the source loses the records that the checkpoint has read. The benchmark measures how long a new
executor takes to restore the state and to publish the result of a record written then. For comparison it measures the
start of an executor without state. Starts its own services in a temporary directory, which it removes; writes
`benchmarks/out/checkpoint_recovery.json`.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import random
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import redis
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from benchmarks.cluster import report
from benchmarks.report import Result, write_report
from connectors.objects.store import ObjectStore
from dsms.local.installed import local_broker, local_redis
from dsms.local.waiting import wait_until
from dsms.runtime.checkpoints.checkpoint import Checkpoint
from dsms.runtime.checkpoints.store import CheckpointStore

from integration.cluster import Cluster, kill_9, log_of, running  # isort: skip
from integration.kafka_log import advance, changes  # isort: skip
from integration.kafka_topics import create_topic  # isort: skip

OUT = Path(__file__).parent / "out" / "checkpoint_recovery.json"
AIM_S = 30.0
PARTITIONS, TEXT = 2, 3_000
#: The seconds between automatic checkpoints: no automatic checkpoint happens during the benchmark.
SELDOM = "100000"
DEADLINE_S = 3_000.0
SQL = """
    REGISTER SOURCE Texts (k BIGINT NOT NULL, v VARCHAR) FROM "{topic}" IDLE NEVER;
    CREATE STREAM Text OVER Texts KEY k;
    CREATE STREAMED VIEW Few WITH (topic = '{topic}-few') AS
        SELECT k, MAX(v) AS v FROM R(Text) GROUP BY k HAVING MAX(v) < '0'
"""
#: The only text whose row is in the result.
SHORT = "!"


class Feed:
    """Writes records with ascending instants."""

    def __init__(self, kafka: str, topic: str) -> None:
        self._kafka, self._topic = kafka, topic
        self._chance = random.Random(1)
        self.instant = 0

    def write(self, keys: range, text: str | None = None) -> int:
        """Writes a record for each key, with a new random text unless one is given; returns an instant after all of
        them."""
        producer = Producer({"bootstrap.servers": self._kafka, "linger.ms": 20, "queue.buffering.max.kbytes": 262_144})
        for key in keys:
            self.instant += 1
            # base64 texts are not less than "0", and those of random bytes cannot be compressed
            body = text or "z" + base64.b64encode(self._chance.randbytes(TEXT * 3 // 4)).decode()
            record = json.dumps({"k": key, "v": body}).encode()
            headers = [("dsms-ts", str(self.instant).encode())]
            while True:
                try:
                    producer.produce(self._topic, record, partition=key % PARTITIONS, headers=headers)
                    break
                except BufferError:
                    producer.poll(0.1)
            producer.poll(0)
        assert producer.flush(300) == 0
        advance(self._kafka, self._topic, self.instant + 1, PARTITIONS)
        return self.instant + 1


@contextmanager
def cluster_alone(directory: Path, fragments: int = 1) -> Iterator[Cluster]:
    """A cluster without executors, over a broker and a Redis of its own."""
    with ExitStack() as services:
        broker, server = local_broker(directory / "kafka", os.environ), local_redis(directory / "redis", os.environ)
        for service in (broker, server):
            services.callback(service.stop)
            service.start()
        (directory / "cluster").mkdir()
        with running(broker.address, server.url, directory / "cluster", fragments=fragments) as cluster:
            yield cluster


def measure(gigabytes: float, directory: Path) -> list[Result]:
    """Runs the benchmark once; returns its figures."""
    (directory / "store").mkdir()
    with cluster_alone(directory) as cluster:
        return _measured(cluster, gigabytes, directory / "store")


def _measured(cluster: Cluster, gigabytes: float, store: Path) -> list[Result]:
    topic, environment = (
        create_topic(cluster.kafka, "texts", partitions=PARTITIONS),
        {"DSMS_CHECKPOINT_SECONDS": SELDOM},
    )
    few, size = f"{topic}-few", f"{gigabytes:g} GB"
    cluster.sql(SQL.format(topic=topic))
    feed = Feed(cluster.kafka, topic)
    with _timed() as empty:
        first = cluster.start_executor(environment={**environment, "DSMS_CHECKPOINTS": str(store)})
        cluster.await_progress([few], feed.write(range(-1, 0), SHORT), DEADLINE_S)
    keys = int(gigabytes * 1e9 / TEXT)
    step = max(keys // 20, 1)
    for at in range(0, keys, step):
        cluster.await_progress([few], feed.write(range(at, min(at + step, keys))), DEADLINE_S)
        report(f"{min(at + step, keys):,} of {keys:,} keys")
    full, full_s = _checkpoint(cluster, store)
    held = full.bytes / 1e9
    report(f"{held:.2f} GB in {len(full.runs)} runs are copied in {full_s:.1f} s")
    cluster.await_progress([few], feed.write(range(keys // 10)), DEADLINE_S)
    more, more_s = _checkpoint(cluster, store)
    new = sum(copy.bytes for run, copy in more.runs.items() if run not in full.runs) / 1e9
    report(f"then {new:.2f} GB of new runs in {more_s:.1f} s")
    kill_9(first)
    shutil.rmtree(cluster.directory / "executor-1-0", ignore_errors=True)
    redis.Redis.from_url(cluster.redis_url).flushall()
    _cut(cluster.kafka, topic, more)
    upto = feed.write(range(-2, -1), SHORT)
    with _timed() as whole:
        last = cluster.start_executor(environment={**environment, "DSMS_CHECKPOINTS": str(store)})
        cluster.await_progress([few], upto, DEADLINE_S)
    published = [json.loads(change.value or b"{}").get("k") for change in changes(cluster.kafka, few)]
    assert published == [-1, -2], published
    restored = re.search(r"state was restored from a checkpoint.*?seconds[\"=: ]+([0-9.]+)", log_of(last))
    assert restored is not None, log_of(last)[-3000:]
    return [
        Result(f"{size}: state in runs", held, "GB"),
        Result(f"{size}: first checkpoint, all runs copied", full_s, "s", "lower"),
        Result(f"{size}: new runs after a tenth of the keys changed", new, "GB", "lower"),
        Result(f"{size}: second checkpoint, these copied", more_s, "s", "lower"),
        Result(f"{size}: state restored to an empty Redis", float(restored[1]), "s", "lower"),
        Result(f"{size}: from the start of an executor to a new result", whole[0], "s", "lower", AIM_S),
        Result(f"{size}: the same before there was state", empty[0], "s", "lower"),
    ]


def _checkpoint(cluster: Cluster, store: Path) -> tuple[Checkpoint, float]:
    """Requests a checkpoint of everything committed; returns it and how long it took."""
    with _timed() as seconds:
        number = cluster._answer(cluster._client.post("/v1/checkpoints"))["request"]

        def served() -> bool:
            made = cluster.get("status")["executors"]["executor-1"]["checkpoints"]["0"]
            assert not made["error"], made
            return made["served"] >= number

        assert wait_until(served, DEADLINE_S)
    return CheckpointStore(ObjectStore(str(store)), cluster.name, "0").find().checkpoints[0], seconds[0]


def _cut(kafka: str, topic: str, checkpoint: Checkpoint) -> None:
    state = checkpoint.state
    assert state is not None
    places = {place: at.offset for lane in state.lanes.values() for place, at in lane.places.items()}
    admin = AdminClient({"bootstrap.servers": kafka})
    wanted = [TopicPartition(topic, partition, offset) for (_, partition), offset in places.items()]
    for future in admin.delete_records(wanted).values():
        future.result(60)


@contextmanager
def _timed() -> Iterator[list[float]]:
    seconds: list[float] = []
    began = time.monotonic()
    yield seconds
    seconds.append(time.monotonic() - began)


def main() -> None:
    """Measures and writes the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gb", type=float, nargs="+", default=[2.0], help="the sizes of the state")
    asked = parser.parse_args()
    results = []
    for gigabytes in asked.gb:
        with tempfile.TemporaryDirectory(prefix="dsms-bench-") as temporary:
            results += measure(gigabytes, Path(temporary))
    write_report(OUT, results)


if __name__ == "__main__":
    main()
