"""What each shortcut that relies on Spark's internals saves: `python -m benchmarks.spark_shortcuts --turns 2`.

Each configuration runs in its own cluster: with all shortcuts of `dsms/spark/compat`, without each of them in turn, and
without any. For a new executor the benchmark measures the seconds from its start to the first result of a single
record, the CPU seconds of all its processes until then, its memory at rest (MB, proportional set size) and the fixed
cost of a batch (ms), each as the median of the turns. A shortcut saves the difference from the configuration without
it. One that saves less than 5 % of each figure is not worth its risk. Writes `benchmarks/out/spark_shortcuts.json`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import threading
import time
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path

import psutil

from benchmarks.cluster import report, running_cluster
from benchmarks.fixed_cost import Pulse, gaps, lonely
from benchmarks.progress import FrontierWatch
from benchmarks.report import Peer, Result, write_report
from benchmarks.usage import MB, memory_of, trees
from dsms.spark.compat.shortcut import SWITCH
from dsms.spark.compat.shortcuts import SHORTCUTS

OUT = Path(__file__).parent / "out" / "spark_shortcuts.json"
NONE_OFF, ALL_OFF = "", "1"
REST_S = 5.0


@dataclass(frozen=True)
class Figures:
    """Figures of a new executor: seconds to its first result, CPU seconds until then, MB at rest, ms of an idle
    batch."""

    start_s: float
    cpu_s: float
    rest_mb: float
    batch_ms: float


UNITS = (("start to first result", "s"), ("CPU until then", "s"), ("memory at rest", "MB"), ("fixed cost", "ms"))


def main() -> None:
    """Measures all configurations in turns and writes the report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_shortcuts", description=__doc__)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--only", choices=sorted(SHORTCUTS), nargs="*", help="only these")
    options = parser.parse_args()
    names = [NONE_OFF, *(options.only or sorted(SHORTCUTS)), ALL_OFF]
    runs: dict[str, list[Figures]] = {name: [] for name in names}
    for turn in range(options.turns):
        for name in names if turn % 2 == 0 else reversed(names):
            runs[name].append(_measured(name))
            report(f"without {name or 'nothing'}: {runs[name][-1]}")
    medians = {name: [statistics.median(column) for column in _columns(figures)] for name, figures in runs.items()}
    write_report(OUT, [result for name in names for result in _results(name, medians)])


def _columns(figures: list[Figures]) -> list[tuple[float, ...]]:
    return list(zip(*map(astuple, figures), strict=True))


def _results(name: str, medians: dict[str, list[float]]) -> list[Result]:
    """The figures of a configuration, with those of all shortcuts as its peer."""
    label = {NONE_OFF: "all shortcuts", ALL_OFF: "no shortcuts"}.get(name, f"without {name}")
    figures = zip(UNITS, medians[name], medians[NONE_OFF], strict=True)
    return [
        Result(f"{label}: {what}", value, unit, "lower", peer=Peer("all shortcuts", usual) if name else None)
        for (what, unit), value, usual in figures
    ]


def _measured(off: str) -> Figures:
    """Measures a cluster without some shortcuts. The first executor starts at the same time as the other services;
    therefore a second executor is measured."""
    os.environ[SWITCH] = off
    with running_cluster() as cluster:
        pulse = Pulse(cluster)
        watch = FrontierWatch(cluster.kafka, cluster.state.cluster, "dsms.pulses")
        try:
            lonely(pulse, watch)
            started = time.monotonic()
            cluster.renew_executor()
            lonely(pulse, watch)
            start_s, cpu_s = time.monotonic() - started, _cpu_s(cluster.executor())
            batch_ms = statistics.median(gaps(pulse, watch)) * 1000
            threading.Event().wait(REST_S)
            return Figures(start_s, cpu_s, _memory_mb(cluster.executor()), batch_ms)
        finally:
            watch.close()


def _cpu_s(executor: int) -> float:
    """The CPU seconds of a process and its descendants, including those that have ended."""
    spent = 0.0
    for process in trees([executor]):
        with suppress(psutil.NoSuchProcess):
            spent += sum(process.cpu_times()[:4])  # user, system, and those of children that were waited for
    return spent


def _memory_mb(executor: int) -> float:
    return sum(map(memory_of, trees([executor]))) / MB


if __name__ == "__main__":
    main()
