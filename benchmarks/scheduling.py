"""Bytes in queues under each scheduling policy, on a real cluster: `python -m benchmarks.scheduling`.

Bids come in bursts with which the executor cannot keep up. The first stage of the query drops most of them at little
cost; the second stage needs much time for the rest. The executor changes its policy while it runs; each policy gets the
same bursts. The benchmark measures the peak and the mean of the queued bytes (in MB, and the peak in % of FIFO's): the
unread records in Kafka and the elements between the stages. Writes `benchmarks/out/scheduling.json` and a plot.
"""

import argparse
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any

import httpx
import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.bids import PARTITIONS, WRITER
from benchmarks.cluster import Cluster, report, running_cluster
from benchmarks.report import Result, write_report
from benchmarks.throughput import register
from connectors.kafka.client.topics import KEPT, Partition, ensure_topic, latest
from connectors.kafka.schema_registry.registry import register_schema
from dsms.local.waiting import wait_until
from operators.core.errors import ExternalError

OUT = Path(__file__).parent / "out" / "scheduling.json"
TOPIC = "burst"
POLICIES = ("fifo", "round_robin", "chain", "greedy")
_QUANTILES = ", ".join(f"QUANTILE_CONT(price, {at / 100}) AS q{at}" for at in range(1, 100))
QUERY = f"""CREATE QUERY busy AS SELECT bidder, {_QUANTILES} FROM Bids
WHERE auction % 10 < 2 GROUP BY bidder"""
_PERIOD_S, _DRAIN_S = 0.25, 600.0


@dataclass
class Watch:
    """Samples (seconds, bytes in all queues of the query) while the block runs."""

    cluster: Cluster
    samples: list[tuple[float, float]] = field(default_factory=list)
    _leaving: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> "Watch":
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._leaving.set()
        self._thread.join()

    def let_pass(self, seconds: float) -> None:
        """Continues sampling for some seconds."""
        self._leaving.wait(seconds)

    def _run(self) -> None:
        began = time.monotonic()
        while not self._leaving.wait(_PERIOD_S):
            self.samples.append((time.monotonic() - began, queued(self.cluster)))

    @property
    def peak(self) -> float:
        """The largest sample."""
        return max(size for _, size in self.samples)

    @property
    def average(self) -> float:
        """The mean of the samples."""
        return mean(size for _, size in self.samples)


def queued(cluster: Cluster) -> float:
    """The bytes in the queues of the query."""
    return float(sum(queue["bytes"] or 0 for queue in _queues(cluster)))


def _queues(cluster: Cluster) -> list[dict[str, Any]]:
    response = httpx.get(f"{cluster.url}/v1/control/queues", params={"query": "busy"}, trust_env=False)
    return list(response.raise_for_status().json())


def _drained(cluster: Cluster, ends: Mapping[Partition, int]) -> bool:
    """Whether all records up to the ends of the log have been read and processed."""
    queues = _queues(cluster)
    read = {queue["partition"]: queue["next_offset"] for queue in queues if queue["source"] is not None}
    all_read = all(read.get(partition, 0) >= end for (_, partition), end in ends.items())
    return all_read and all(queue["rows"] == 0 for queue in queues)


def main() -> None:
    """Measures and writes the report and the plot."""
    given = _options()
    with running_cluster(given.keep) as cluster:
        schema_id = register_schema(cluster.url, f"{TOPIC}-value", WRITER)
        ensure_topic(cluster.kafka.admin(), TOPIC, PARTITIONS, KEPT)
        register(cluster, "Bids", TOPIC)
        cluster.api.execute(QUERY)
        _burst(cluster, schema_id, given.rate, given.on)
        _drain(cluster)
        watches = {policy: _measured(cluster, schema_id, policy, given) for policy in given.policies}
        if why := cluster.failure():
            raise ExternalError(why)
    write_report(given.out, list(_results(watches)))
    _plot(given.out.with_suffix(".svg"), watches)


def _measured(cluster: Cluster, schema_id: int, policy: str, given: argparse.Namespace) -> Watch:
    """Sends bursts under one policy, and samples until all of their records are processed."""
    executor = next(iter(cluster.api.status()["executors"]))
    change = {"policy": policy, "target_batch_seconds": 0.5}
    httpx.patch(f"{cluster.url}/v1/control/executors/{executor}", json=change, trust_env=False).raise_for_status()
    with Watch(cluster) as watch:
        for _ in range(given.bursts):
            _burst(cluster, schema_id, given.rate, given.on)
            watch.let_pass(given.off)
        _drain(cluster)
    report(f"{policy}: at most {watch.peak / 1e6:.1f} MB queued, {watch.average / 1e6:.1f} MB on average")
    return watch


def _burst(cluster: Cluster, schema_id: int, rate: float, seconds: float) -> None:
    command = [sys.executable, "-m", "benchmarks.feed", cluster.kafka.bootstrap, TOPIC, str(schema_id), str(rate)]
    subprocess.run([*command, str(seconds)], check=True, stdout=subprocess.DEVNULL)


def _drain(cluster: Cluster) -> None:
    ends = latest(cluster.kafka.admin(), [(TOPIC, partition) for partition in range(PARTITIONS)])
    if not wait_until(lambda: _drained(cluster, ends), _DRAIN_S, pause_s=0.5):
        raise ExternalError(f"{queued(cluster) / 1e6:.1f} MB are still queued after {_DRAIN_S:g} s")


def _results(watches: dict[str, Watch]) -> Iterator[Result]:
    for policy, watch in watches.items():
        yield Result(f"{policy}: peak", round(watch.peak / 1e6, 2), "MB", "lower")
        yield Result(f"{policy}: mean", round(watch.average / 1e6, 2), "MB", "lower")
        aim = 60 if policy == "chain" else None
        share = 100 * watch.peak / next(iter(watches.values())).peak
        yield Result(f"{policy}: peak, of FIFO's", round(share, 1), "%", "lower", aim)


def _plot(path: Path, watches: dict[str, Watch]) -> None:
    """Plots queued bytes over time."""
    with mpl.rc_context({"svg.hashsalt": "dsms"}):
        figure = Figure(figsize=(9, 4), layout="constrained")
        axes = figure.subplots()
        for policy, watch in watches.items():
            axes.plot(*zip(*[(at, size / 1e6) for at, size in watch.samples], strict=True), label=policy)
        axes.set(xlabel="seconds", ylabel="MB in queues")
        axes.legend()
        figure.savefig(path, metadata={"Date": None})


def _options(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, default=150_000.0, help="bids a second in a burst")
    parser.add_argument("--on", type=float, default=10.0, help="seconds of a burst")
    parser.add_argument("--off", type=float, default=15.0, help="seconds between bursts")
    parser.add_argument("--bursts", type=int, default=2)
    parser.add_argument("--policies", nargs="+", default=POLICIES, help="the first should be fifo")
    parser.add_argument("--keep", type=Path, help="a directory for data and logs that stay")
    parser.add_argument("--out", type=Path, default=OUT)
    return parser.parse_args(given)


if __name__ == "__main__":
    main()
