"""Two stateless queries from topic to topic: `python -m benchmarks --records 300000`.

A filter and a pass-through read bids from a topic with four partitions and write Avro results exactly once, in a
cluster that the benchmark starts. It measures, for each query, the throughput (records/s), CPU (s per million records)
and peak memory (MB), also of Kafka and Redis; the fixed cost of a batch and the time until the result of a single
record is visible (ms); and the latency (p50, p99, maximum, in ms) at half the highest throughput. All results are
verified. `--peers` or PEERS=1 also runs the same queries on Flink SQL. Writes `benchmarks/out/slice.json`.
"""

import argparse
import os
from pathlib import Path

from benchmarks.cluster import Cluster, report, running_cluster
from benchmarks.fixed_cost import measure_fixed_cost
from benchmarks.jobs import JOBS, Job
from benchmarks.latency import measure_latency
from benchmarks.peers.flink import NAME, FlinkRun, run_flink
from benchmarks.report import Peer, Result, write_report
from benchmarks.throughput import Run, measure, prepare

OUT = Path(__file__).parent / "out" / "slice.json"
BATCH_AIM_S, P99_AIM_S = 0.3, 1.2
LOWER = "lower"


def main() -> None:
    """Measures and writes the report. The cluster is stopped before a peer starts; SIGTERM cleans up like Ctrl-C."""
    options = _options()
    jobs = tuple(job for job in JOBS if options.job in (None, job.name))
    with running_cluster(options.data_dir) as cluster:
        report(f"cluster in {cluster.state.data_dir}, coordinator {cluster.url}")
        prepare(cluster, options.records)
        best = {job.name: _best(cluster, job, options) for job in jobs}
        results = [] if options.only_throughput else _times(cluster, best, options)
    peers = run_flink(jobs, options.records) if options.peers else {}
    throughput = [
        figure for job in jobs for figure in _figures(job, best[job.name], peers.get(job.name), options.records)
    ]
    write_report(options.out, [*throughput, *results])


def _best(cluster: Cluster, job: Job, options: argparse.Namespace) -> Run:
    return min(measure(cluster, job, options.records, options.runs), key=lambda run: run.seconds)


def _figures(job: Job, run: Run, peer: FlinkRun | None, records: int) -> list[Result]:
    """The figures of the best run, with those of the peer's warm run."""
    millions, unit = records / 1e6, "CPU s/million records"
    speed = _speed(job, run, peer, records)
    return [
        *speed,
        Result(
            f"{job.name}: CPU", run.cpu_s / millions, unit, LOWER, peer=_peer(peer.cpu_s / millions if peer else None)
        ),
        Result(f"{job.name}: peak memory", run.peak_mb, "MB", LOWER, peer=_peer(peer.peak_mb if peer else None)),
        Result(f"{job.name}: CPU of Kafka and Redis", run.services_cpu_s / millions, unit, LOWER),
        Result(f"{job.name}: peak memory of Kafka and Redis", run.services_peak_mb, "MB", LOWER),
    ]


def _speed(job: Job, run: Run, peer: FlinkRun | None, records: int) -> list[Result]:
    """The throughput, unless there were too few records to distinguish it from start-up."""
    if run.net_s is None:
        report(f"{job.name}: no throughput, {records:,} records are too few")
        return []
    theirs = records / peer.net_s if peer and peer.net_s else None
    if peer and theirs is None:
        report(f"{job.name}: no throughput of the peer, {records:,} records are too few")
    return [Result(f"{job.name}: throughput", records / run.net_s, "records/s", aim=job.aim, peer=_peer(theirs))]


def _peer(value: float | None) -> Peer | None:
    return None if value is None else Peer(NAME, value)


def _times(cluster: Cluster, best: dict[str, Run], options: argparse.Namespace) -> list[Result]:
    cost = measure_fixed_cost(cluster)
    rate = options.rate or max(options.records / (run.net_s or run.seconds) for run in best.values()) / 2
    latency = measure_latency(cluster, JOBS[0], rate, options.latency_seconds)
    at = f"filter at {latency.rate:,.0f} records/s: latency"
    return [
        Result("fixed cost of a batch, median", cost.batch_s * 1_000, "ms", LOWER, BATCH_AIM_S * 1_000),
        Result("a single record until visible, median", cost.record_s * 1_000, "ms", LOWER),
        Result(f"{at} p50", latency.p50_s * 1_000, "ms", LOWER),
        Result(f"{at} p99", latency.p99_s * 1_000, "ms", LOWER, P99_AIM_S * 1_000),
        Result(f"{at} maximum", latency.highest_s * 1_000, "ms", LOWER),
    ]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--runs", type=int, default=2, help="runs of every job; the best is reported")
    parser.add_argument("--job", choices=[job.name for job in JOBS], help="only this one")
    parser.add_argument("--rate", type=float, help="records a second for the latency; default half the highest load")
    parser.add_argument("--latency-seconds", type=int, default=30, help="after a warm-up of 10 s")
    parser.add_argument("--only-throughput", action="store_true", help="without fixed cost and latency")
    parser.add_argument("--peers", action="store_true", default=os.environ.get("PEERS") == "1", help="Flink as well")
    parser.add_argument("--data-dir", type=Path, help="an empty directory for data and logs, which stay there")
    parser.add_argument("--out", type=Path, default=OUT, help="where the report goes")
    return parser.parse_args()


if __name__ == "__main__":
    main()
