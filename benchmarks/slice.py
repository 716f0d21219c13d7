"""The first slice end to end: `python -m benchmarks.slice --records 300000` runs filter and pass-through over Kafka.

A cluster of its own reads bids from a topic of four partitions and writes Avro results exactly once.
"""

import argparse
from pathlib import Path

from benchmarks.cluster import report, running_cluster
from benchmarks.jobs import JOBS
from benchmarks.report import Result, write_report
from benchmarks.throughput import Run, measure, prepare

OUT = Path(__file__).parent / "out" / "slice.json"


def main() -> None:
    """Measures and writes the report."""
    options = _options()
    results: list[Result] = []
    with running_cluster(options.data_dir) as cluster:
        report(f"cluster in {cluster.state.data_dir}, coordinator {cluster.url}")
        prepare(cluster, options.records)
        for job in [job for job in JOBS if options.job in (None, job.name)]:
            runs = measure(cluster, job, options.records, options.runs)
            best = min(runs, key=lambda run: run.seconds)
            results += figures(job.name, job.aim, best, options.records)
    write_report(OUT, results)


def figures(name: str, aim: float, run: Run, records: int) -> list[Result]:
    """The figures of the best run."""
    millions = records / 1e6
    lower = "lower"
    return [
        Result(f"{name}: throughput", records / run.seconds, "records/s", aim=aim),
        Result(f"{name}: CPU", run.cpu_s / millions, "CPU s/million records", lower),
        Result(f"{name}: CPU of Kafka and Redis", run.services_cpu_s / millions, "CPU s/million records", lower),
        Result(f"{name}: peak memory", run.peak_mb, "MB", lower),
        Result(f"{name}: peak memory of Kafka and Redis", run.services_peak_mb, "MB", lower),
    ]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--runs", type=int, default=2, help="runs of every job; the best is reported")
    parser.add_argument("--job", choices=[job.name for job in JOBS], help="only this one")
    parser.add_argument("--data-dir", type=Path, help="an empty directory for data and logs, which stay there")
    return parser.parse_args()


if __name__ == "__main__":
    main()
