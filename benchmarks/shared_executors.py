"""Cost of queries that share operators, on one and on several executors: `python -m benchmarks.shared_executors`.

Twenty queries over bids in five groups: the queries of a group select from one group-by over windows of time, each with
another condition. The coordinator places them; with two executors, some read the group-by of the other one through a
link. A million bids become visible in one transaction, and another million each time that all results are final; the
clusters with one and with several executors alternate, so that the machine is equally fast for both. After a warm-up,
the medians of five turns are reported: throughput (records/s), CPU (s, of coordinator and executors), and the CPU of
the busiest executor relative to the mean of all. At the end, the group-bys and the rows and bytes of state are counted
in both clusters, and the rows of one result are compared with Polars. Writes `benchmarks/out/shared_executors.json`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from statistics import median

import polars as pl

from benchmarks.cluster import Cluster, report, running_cluster
from benchmarks.progress import Frontiers, ProgressReader
from benchmarks.report import Result, write_report
from benchmarks.sharing import Bids
from benchmarks.throughput import register
from benchmarks.usage import Usage
from operators.core.errors import ExternalError

from integration.kafka_log import changes  # isort: skip

OUT = Path(__file__).parent / "out" / "shared_executors.json"
LIMIT_S, ROUNDS = 300.0, 5
#: The aims for CPU and for state, relative to one executor, and for the busiest executor, relative to the mean.
CPU_AIM, STATE_AIM, BUSIEST_AIM = 1.2, 1.1, 1.3
#: The keys of the groups, of a thousand values each, and the conditions of the queries over each of them.
KEYS = ("auction % 1000", "bidder % 1000", "(auction + bidder) % 1000", "price % 1000", "(price + auction) % 1000")
CONDITIONS = ("n > 20", "n < 5", "m > 99000000", "m < 100000")
WINDOW_MS = 10_000
#: The query whose result is compared.
VERIFIED = "q0x0"


def queries() -> Iterator[tuple[str, str]]:
    """The names and texts of all queries, those of one group not one after the other."""
    for at, condition in enumerate(CONDITIONS):
        for number, key in enumerate(KEYS):
            groups = (
                f"SELECT {key} AS k, window_start AS w, COUNT(*) AS n, MAX(price) AS m FROM TABLE(TUMBLE(TABLE Bids, "
                f"DESCRIPTOR(TS), INTERVAL '{WINDOW_MS // 1000}' SECOND)) GROUP BY {key}, window_start"
            )
            yield f"q{at}x{number}", f"SELECT STREAMED k, w, n, m FROM ({groups}) WHERE {condition}"


class Run:
    """The queries in a cluster. For each turn: the seconds, the CPU seconds, and the CPU seconds of the busiest
    executor relative to the mean."""

    def __init__(self, cluster: Cluster) -> None:
        self.seconds, self.cpu_s, self.busiest = list[float](), list[float](), list[float]()
        self._cluster, self._bids = cluster, Bids(cluster)
        register(cluster, "Bids", "bid")
        for name, text in queries():
            form = "JSON" if name == VERIFIED else "AVRO"
            cluster.api.execute(f"CREATE VIEW {name} WITH (FORMAT = {form}, PARTITIONS = 1) AS {text}")
        self._topics = [f"dsms.{name}" for name, _ in queries()]
        self._frontiers = Frontiers(ProgressReader(cluster.kafka, cluster.state.cluster))

    def close(self) -> None:
        """Closes the connections to the cluster."""
        self._frontiers.close()

    def turn(self, records: int) -> None:
        """Sends more bids, and measures until all results are final."""
        executors = [pid for name, pid in self._cluster.pids_by_name().items() if name.startswith("executor")]
        with ExitStack() as stack:
            usage = stack.enter_context(Usage(self._cluster.pids(ours=True)))
            by_executor = [stack.enter_context(Usage([pid])) for pid in executors]
            started = self._bids.send(records)
            ended = self._frontiers.wait(self._topics, self._bids.end_ms, LIMIT_S, lambda _: None)
        self.seconds.append(ended - started)
        self.cpu_s.append(usage.cpu_s)
        spent = [each.cpu_s for each in by_executor]
        self.busiest.append(max(spent) * len(spent) / sum(spent))

    def operators(self) -> tuple[int, int, int]:
        """How many group-bys run in the cluster, and the rows and bytes of state of all operators."""
        (shown,) = self._cluster.api.execute("SHOW OPERATORS")
        rows, sizes = (shown.columns.index(heading) for heading in ("state rows", "state bytes"))
        groups = sum(row[1] == "GroupBy" for row in shown.rows)
        return groups, sum(row[rows] or 0 for row in shown.rows), sum(row[sizes] or 0 for row in shown.rows)

    def verify(self) -> None:
        """Compares the final windows of one query with Polars."""
        rows = {change.key: change.value for change in changes(self._cluster.state.kafka, f"dsms.{VERIFIED}")}
        found = [json.loads(value) for value in rows.values() if value is not None]
        bids = pl.concat(list(self._bids.all()))
        window = (pl.col("dateTime") // WINDOW_MS * WINDOW_MS).alias("w")
        groups = bids.group_by((pl.col("auction") % 1000).alias("k"), window).agg(
            pl.len().cast(pl.Int64).alias("n"), pl.col("price").max().alias("m")
        )
        wanted = groups.filter(pl.col("n") > 20)
        if sorted((row["k"], row["n"], row["m"]) for row in found) != sorted(wanted.select("k", "n", "m").rows()):
            raise ExternalError(f"{VERIFIED} is wrong: {len(found)} groups, not {wanted.height}", retryable=False)


def measure(records: int, executors: int) -> list[Result]:
    """The figures of both clusters."""
    with ExitStack() as stack:
        runs = [
            stack.enter_context(closing(Run(stack.enter_context(running_cluster(executors=count)))))
            for count in (1, executors)
        ]
        for number in range(1 + ROUNDS):
            for run in runs:
                run.turn(records)
            report(f"turn {number}: {', '.join(f'{run.seconds[-1]:.2f} s, {run.cpu_s[-1]:.1f} CPU s' for run in runs)}")
        for run in runs:
            run.verify()
        return list(_results(dict(zip((1, executors), runs, strict=True)), records))


def _results(runs: Mapping[int, Run], records: int) -> Iterator[Result]:
    state: list[int] = []
    for number, run in runs.items():
        name = f"{number} executor{'s' * (number > 1)}"
        groups, rows, size = run.operators()
        state.append(size)
        yield Result(f"{name}: throughput", records / median(run.seconds[1:]), "records/s")
        yield Result(f"{name}: CPU per million records", median(run.cpu_s[1:]) * 1e6 / records, "s", "lower")
        yield Result(f"{name}: group-bys in the cluster", groups, "", "lower")
        yield Result(f"{name}: rows of state", rows, "", "lower")
        yield Result(f"{name}: bytes of state", size, "", "lower")
    one, several = runs.values()
    ratios = [after / before for before, after in zip(one.cpu_s[1:], several.cpu_s[1:], strict=True)]
    yield Result("CPU: several executors relative to one", median(ratios), "", "lower", CPU_AIM)
    yield Result("bytes of state: several executors relative to one", state[1] / state[0], "", "lower", STATE_AIM)
    yield Result(
        "CPU of the busiest executor relative to the mean", median(several.busiest[1:]), "", "lower", BUSIEST_AIM
    )


def main() -> None:
    """Measures and writes the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shared_executors", description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000, help="bids in each turn")
    parser.add_argument("--executors", type=int, default=2, help="executors of the larger cluster")
    given = parser.parse_args()
    write_report(OUT, measure(given.records, given.executors))


if __name__ == "__main__":
    main()
