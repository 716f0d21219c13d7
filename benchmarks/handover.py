"""The pause of a query that moves to another executor with its state: `python -m benchmarks.handover --mb 500`.

The state of a query over a keyed stream has the given number of megabytes, nearly all of it text that cannot be
compressed. A record of each partition, whose row is in the result, is written every 50 ms, while the query moves to the
other executor and back, twice. The pause is the longest time between two results in the topic around a move; for
comparison there is the longest one without a move, and how long it took to write the logs and to read them at the same
time; a move without the state would read them again. The executors share a directory for state, as on one host, or
share none, so that all state moves through Redis. Starts its own services in a temporary directory, which it removes;
writes `benchmarks/out/handover.json`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count, pairwise
from pathlib import Path
from statistics import median

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from benchmarks.checkpoint_recovery import DEADLINE_S, PARTITIONS, SHORT, SQL, TEXT, Feed, cluster_alone
from benchmarks.cluster import report
from benchmarks.report import Result, write_report
from dsms.local.waiting import wait_until

from integration.cluster import Cluster  # isort: skip
from integration.kafka_topics import create_topic  # isort: skip

OUT = Path(__file__).parent / "out" / "handover.json"
AIM_S = 3.0
#: How many times the state holds each text, as measured: the last row of the key, and the group's values and result.
COPIES = 3
#: The seconds between two records of the ticker, and how long it is watched without a move, and after a move.
TICK_S, WATCHED_S = 0.05, 12.0


class Ticker:
    """Writes a record whose row is in the result at short intervals, and notes when results arrive."""

    def __init__(self, kafka: str, topic: str, results: str, instant: int) -> None:
        self._kafka, self._topic, self._results, self._instant = kafka, topic, results, instant
        self._stopping = threading.Event()
        self.arrivals: list[float] = []

    @contextmanager
    def ticking(self) -> Iterator[None]:
        """Writes and reads until the end of the block."""
        threads = [threading.Thread(target=each) for each in (self._write, self._read)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            for thread in threads:
                thread.join()

    def longest_gap(self, since: float) -> float:
        """The longest time between two results after an instant of the monotonic clock."""
        last = max((at for at in self.arrivals if at < since), default=since)
        times = [last, *(at for at in self.arrivals if at >= since), time.monotonic()]
        return max(later - earlier for earlier, later in pairwise(times))

    def _write(self) -> None:
        producer = Producer({"bootstrap.servers": self._kafka, "linger.ms": 0})
        for number in count(1):
            if self._stopping.wait(TICK_S):
                break
            headers = [("dsms-ts", str(self._instant + number).encode())]
            for partition in range(PARTITIONS):
                record = json.dumps({"k": -10 - PARTITIONS * number - partition, "v": SHORT}).encode()
                producer.produce(self._topic, record, partition=partition, headers=headers)
            producer.poll(0)
        producer.flush(30)

    def _read(self) -> None:
        consumer = Consumer(
            {"bootstrap.servers": self._kafka, "group.id": "ticker", "isolation.level": "read_committed"}
        )
        partitions = consumer.list_topics(self._results, 30).topics[self._results].partitions
        consumer.assign([TopicPartition(self._results, each, OFFSET_BEGINNING) for each in partitions])
        while not self._stopping.is_set():
            if any(message.error() is None for message in consumer.consume(1000, 0.05)):
                self.arrivals.append(time.monotonic())
        consumer.close()


def measure(megabytes: int, directory: Path, *, one_host: bool) -> list[Result]:
    """Runs the benchmark once; returns its figures."""
    environment = {"DSMS_STATE_DIR": str(directory / "state")} if one_host else {}
    with cluster_alone(directory, fragments=2) as cluster:
        return _measured(cluster, megabytes, environment)


def _measured(cluster: Cluster, megabytes: int, environment: dict[str, str]) -> list[Result]:
    topic = create_topic(cluster.kafka, "texts", partitions=PARTITIONS)
    few, size = f"{topic}-few", f"{megabytes} MB, {'common directory' if environment else 'separate directories'}"
    for name, both in (("one", {"one": ["0", "1"]}), ("two", {"one": ["0"], "two": ["1"]})):
        cluster.start_executor(name, environment=environment)
        cluster.await_fragments(both)
    cluster.sql(SQL.format(topic=topic))
    first = cluster.get("queries/Few")["fragment"]
    feed, keys = Feed(cluster.kafka, topic), megabytes * 1_000_000 // (COPIES * TEXT)
    began = time.monotonic()
    cluster.await_progress([few], feed.write(range(keys)), DEADLINE_S)
    logs_s = time.monotonic() - began
    report(f"{keys:,} keys in {logs_s:.1f} s")
    ticker = Ticker(cluster.kafka, topic, few, feed.instant + 1)
    with ticker.ticking():
        assert wait_until(lambda: len(ticker.arrivals) > 20, 60)
        begun = time.monotonic()
        time.sleep(WATCHED_S)
        calm_s = ticker.longest_gap(begun)
        other = "1" if first == "0" else "0"
        pauses = [_moved(cluster, ticker, fragment) for fragment in (other, first, other, first)]
    events = [event["event"] for name in "01" for event in cluster.get(f"fragments/{name}/story")]
    assert events.count("state taken over") == len(pauses), events
    held = sum(status["redis_bytes"] for status in cluster.get("status")["executors"].values()) / 1e6
    return [
        Result(f"{size}: state in Redis", held, "MB"),
        Result(f"{size}: longest pause without a move", calm_s, "s", "lower"),
        Result(f"{size}: longest pause during a move, median of {len(pauses)}", median(pauses), "s", "lower", AIM_S),
        Result(f"{size}: longest pause during a move, maximum", max(pauses), "s", "lower", AIM_S),
        Result(f"{size}: writing and reading the logs", logs_s, "s", "lower"),
    ]


def _moved(cluster: Cluster, ticker: Ticker, fragment: str) -> float:
    """Moves the query; returns the longest time without results until some seconds after the move."""
    began = time.monotonic()
    cluster.sql(f"ALTER VIEW Few SET (fragment = '{fragment}')")
    report(f"the statement took {time.monotonic() - began:.1f} s")
    time.sleep(WATCHED_S)
    pause_s = ticker.longest_gap(began)
    report(f"moved to fragment {fragment}: {pause_s:.2f} s without results")
    return pause_s


def main() -> None:
    """Measures and writes the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, nargs="+", default=[500], help="the sizes of the state")
    asked = parser.parse_args()
    results = []
    for megabytes in asked.mb:
        for one_host in (True, False):
            with tempfile.TemporaryDirectory(prefix="dsms-bench-") as temporary:
                results += measure(megabytes, Path(temporary), one_host=one_host)
    write_report(OUT, results)


if __name__ == "__main__":
    main()
