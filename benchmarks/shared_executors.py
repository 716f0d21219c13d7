"""CPU of queries that share operators, on one and on two executors: `python -m benchmarks.shared_executors`.

Twenty queries over bids in five groups: the queries of a group select from one group-by over windows of time, each with
another condition. The coordinator places them; with two executors, some read the group-by of the other one through a
link. A million bids become visible in one transaction, and another million each time that all results are final; the
clusters with one and with two executors alternate, so that the machine is equally fast for both. After a warm-up, the
medians of five turns are reported: throughput (records/s) and CPU (s, of coordinator and executors). The group-bys
are counted in both clusters, and the rows of one result are compared with Polars. Writes
`benchmarks/out/shared_executors.json`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
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
AIM, LIMIT_S, ROUNDS = 1.2, 300.0, 5
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
    """The queries in a cluster, and the seconds and CPU seconds of each turn."""

    def __init__(self, cluster: Cluster) -> None:
        self.seconds, self.cpu_s = list[float](), list[float]()
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
        with Usage(self._cluster.pids(ours=True)) as usage:
            started = self._bids.send(records)
            ended = self._frontiers.wait(self._topics, self._bids.end_ms, LIMIT_S, lambda _: None)
        self.seconds.append(ended - started)
        self.cpu_s.append(usage.cpu_s)

    def operators(self) -> int:
        """How many group-bys run in the cluster."""
        (shown,) = self._cluster.api.execute("SHOW OPERATORS")
        return sum(row[1] == "GroupBy" for row in shown.rows)

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


def measure(records: int) -> list[Result]:
    """The figures of both clusters."""
    with ExitStack() as stack:
        runs = [
            stack.enter_context(closing(Run(stack.enter_context(running_cluster(executors=count))))) for count in (1, 2)
        ]
        for number in range(1 + ROUNDS):
            for run in runs:
                run.turn(records)
            report(f"turn {number}: {', '.join(f'{run.seconds[-1]:.2f} s, {run.cpu_s[-1]:.1f} CPU s' for run in runs)}")
        for run in runs:
            run.verify()
        return list(_results(runs, records))


def _results(runs: Sequence[Run], records: int) -> Iterator[Result]:
    for number, run in enumerate(runs, 1):
        name = f"{number} executor{'s' * (number > 1)}"
        yield Result(f"{name}: throughput", records / median(run.seconds[1:]), "records/s")
        yield Result(f"{name}: CPU per million records", median(run.cpu_s[1:]) * 1e6 / records, "s", "lower")
        yield Result(f"{name}: group-bys in the cluster", run.operators(), "", "lower")
    ratios = [two / one for one, two in zip(runs[0].cpu_s[1:], runs[1].cpu_s[1:], strict=True)]
    yield Result("CPU: two executors relative to one", median(ratios), "", "lower", AIM)


def main() -> None:
    """Measures and writes the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shared_executors", description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    write_report(OUT, measure(parser.parse_args().records))


if __name__ == "__main__":
    main()
