"""Many queries that differ only in constants: `python -m benchmarks.sharing --queries 10,100,1000`.

Queries of ten shapes over bids, each with other constants, are created over an empty topic. Then a million bids become
visible in one transaction, and another million each time that the results of all queries are final. Each number of
queries alternates with ten queries, one of each shape; after a warm-up, the medians of three turns are reported. The
same is measured with `shared = false`, for as many queries as time permits. The benchmark measures the throughput
(records/s, and relative to that of the ten queries), CPU (s), peak memory (MB) and the longest CREATE (ms). The results
of some queries are compared with Polars' over the same bids. Writes `benchmarks/out/sharing.json` and a plot.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
import polars as pl
from matplotlib.figure import Figure

from benchmarks.bids import PARTITIONS, WRITER, bids, encoder, end_ms, heartbeat, send
from benchmarks.cluster import Cluster, report, running_cluster
from benchmarks.progress import Frontiers, ProgressReader
from benchmarks.report import Result, write_report
from benchmarks.results import committed
from benchmarks.throughput import register
from benchmarks.usage import Usage
from connectors.kafka.client.topics import KEPT, ensure_topic
from connectors.kafka.schema_registry.registry import register_schema
from operators.core.errors import DsmsError, ExternalError

OUT = Path(__file__).parent / "out" / "sharing.json"
#: The shapes, with constants in braces. Prices are from 100 to 10^8, with uniformly distributed logarithms.
SHAPES = (
    "SELECT STREAMED auction, bidder, price FROM Bids WHERE auction = {auction}",
    "SELECT STREAMED auction, price, channel FROM Bids WHERE bidder = {bidder}",
    "SELECT STREAMED auction, bidder, price FROM Bids WHERE price BETWEEN {price} AND {more}",
    "SELECT STREAMED bidder, price FROM Bids WHERE channel = 'Apple' AND auction = {auction}",
    "SELECT STREAMED bidder, COUNT(*) AS bids FROM Bids WHERE auction = {auction} GROUP BY bidder",
    "SELECT STREAMED channel, MAX(price) AS highest FROM Bids WHERE bidder = {bidder} GROUP BY channel",
    "SELECT STREAMED channel, SUM(price) AS total, AVG(price) AS mean FROM Bids "
    "WHERE auction = {auction} GROUP BY channel",
    "SELECT STREAMED channel, COUNT(*) AS bids FROM Bids [Range 10 Seconds] WHERE auction = {auction} GROUP BY channel",
    "SELECT STREAMED auction, price FROM Bids WHERE bidder = {bidder} ORDER BY price DESC LIMIT 5",
    "SELECT STREAMED auction, COUNT(*) AS bids FROM Bids GROUP BY auction HAVING COUNT(*) > {many}",
    "SELECT STREAMED bidder, price FROM Bids WHERE auction = {auction} AND price > 5000000",
    "SELECT STREAMED auction, channel FROM Bids WHERE bidder = {bidder} AND channel <> 'Google'",
    "SELECT STREAMED DISTINCT bidder FROM Bids WHERE auction = {auction}",
    "SELECT STREAMED DISTINCT auction, channel FROM Bids WHERE bidder = {bidder}",
    "SELECT STREAMED bidder, MIN(price) AS lowest FROM Bids WHERE auction = {auction} GROUP BY bidder",
    "SELECT STREAMED auction, SUM(price) AS total FROM Bids WHERE bidder = {bidder} GROUP BY auction",
    "SELECT STREAMED channel, COUNT(DISTINCT auction) AS auctions FROM Bids WHERE bidder = {bidder} GROUP BY channel",
    "SELECT STREAMED bidder, MAX(price) AS top FROM Bids [Range 1 Minute] WHERE auction = {auction} GROUP BY bidder",
    "SELECT STREAMED bidder, price FROM Bids WHERE auction = {auction} ORDER BY price LIMIT 3",
    "SELECT STREAMED bidder, COUNT(*) AS bids FROM Bids GROUP BY bidder HAVING COUNT(*) > {many}",
)
_LIMIT_S, _PATIENCE_S = 300.0, 10.0
#: The number of measured turns.
_ROUNDS = 3


@dataclass(frozen=True)
class Constants:
    """The constants of ten queries, one of each shape."""

    number: int

    def of(self, shape: str) -> str:
        """The query of a shape with these constants."""
        rng = np.random.default_rng((11, self.number))
        price = int(10 ** (2 + 6 * rng.random()))
        return shape.format(
            auction=rng.integers(1_000, 100_000), bidder=rng.integers(2_000, 50_000), price=price,
            more=price + price // 500, many=1_000 + self.number,
        )  # fmt: skip


class Round(NamedTuple):
    """A turn: the seconds until all results over another batch of bids were final, CPU seconds, and peak memory."""

    seconds: float
    cpu_s: float
    peak_mb: float


@dataclass(frozen=True)
class Measured:
    """The figures of a number of queries. `beside_first` is their throughput relative to that of the fewest queries,
    `registering_s` has the seconds of each CREATE."""

    queries: int
    shared: bool
    records_per_s: float
    beside_first: float
    cpu_s: float
    peak_mb: float
    registering_s: list[float]


class Bids:
    """The topic of bids, filled by one transaction at a time."""

    def __init__(self, cluster: Cluster) -> None:
        self._schema_id = register_schema(cluster.url, "bid-value", WRITER)
        self._kafka = cluster.kafka
        ensure_topic(cluster.kafka.admin(), "bid", PARTITIONS, KEPT)
        self._producer = cluster.kafka.producer(transactional_id="benchmark-bids")
        self._producer.init_transactions(30)
        self._parts: list[tuple[int, int]] = []

    def send(self, records: int) -> float:
        """Sends more bids in one transaction; returns the time just before its commit."""
        values = encoder(self._schema_id).encode(bids(self.sent, records)).to_list()
        self._parts.append((self.sent, records))
        self._producer.begin_transaction()
        send(self._producer, "bid", values)
        heartbeat(self._producer, "bid", PARTITIONS, self.end_ms)
        self._producer.flush()
        started = time.monotonic()
        self._producer.commit_transaction(60)
        return started

    @property
    def sent(self) -> int:
        """The number of bids so far."""
        return sum(records for _, records in self._parts)

    @property
    def end_ms(self) -> int:
        """The first instant after the last bid."""
        return end_ms(self.sent)

    def all(self) -> Iterator[pl.DataFrame]:
        """All bids that were sent."""
        return (bids(first, records) for first, records in self._parts)


class Asked:
    """`count` queries over bids, in a cluster without others, because a query that is added later has to catch up."""

    def __init__(self, cluster: Cluster, count: int, *, shared: bool) -> None:
        self.count, self.shared, self.rounds = count, shared, list[Round]()
        self._cluster, self._topic = cluster, Bids(cluster)
        register(cluster, "Bids", "bid")
        self._times = _register(cluster, count, shared=shared)
        self._names = [f"dsms.q{number}" for number in range(count)]
        self._frontiers = Frontiers(ProgressReader(cluster.kafka, cluster.state.cluster))

    def close(self) -> None:
        """Closes the connections to the cluster."""
        self._frontiers.close()

    def round(self, records: int) -> None:
        """A turn: sends more bids, and measures until all results are final."""
        with Usage(self._cluster.pids(ours=True)) as usage:
            started = self._topic.send(records)
            ended = self._frontiers.wait(self._names, self._topic.end_ms, _LIMIT_S, self._check)
        self.rounds.append(Round(ended - started, usage.cpu_s, usage.peak_mb))

    def verify(self) -> None:
        """Compares the results of the first and the last query of the first shape, row by row."""
        for number in {0, (self.count - 1) // len(SHAPES) * len(SHAPES)}:
            constant = int(Constants(number // len(SHAPES)).of("{auction}"))
            results = committed(self._cluster.kafka, f"dsms.q{number}", ("auction", "bidder", "price"), 5)
            wanted = pl.concat([frame.filter(pl.col("auction") == constant) for frame in self._topic.all()])
            if sorted(results.rows()) != sorted(wanted.select("auction", "bidder", "price").rows()):
                raise ExternalError(f"q{number} is wrong: {results.height} rows, not {wanted.height}", retryable=False)

    def measured(self, rounds: Sequence[Round], records: int, beside_first: float = 1.0) -> Measured:
        """The medians of several turns, and the greatest peak of memory."""
        seconds, cpu_s = (float(np.median(column)) for column in zip(*(round_[:2] for round_ in rounds), strict=True))
        peak_mb = max(round_.peak_mb for round_ in rounds)
        report(
            f"{self.count} queries{'' if self.shared else ' unshared'}: {seconds:.2f} s (of "
            f"{', '.join(f'{round_.seconds:.2f}' for round_ in rounds)}), {records / seconds:,.0f} records/s, "
            f"{beside_first:.2f} of the first, {cpu_s:.1f} CPU s, {peak_mb:,.0f} MB"
        )
        return Measured(self.count, self.shared, records / seconds, beside_first, cpu_s, peak_mb, self._times)

    def _check(self, passed_s: float) -> None:
        if passed_s > _PATIENCE_S and (failure := self._cluster.failure()):
            raise ExternalError(f"failed: {failure}", retryable=False)


def queries(count: int) -> Iterator[tuple[int, str]]:
    """The numbers and texts of `count` queries, whose shapes alternate."""
    for number in range(count):
        yield number, Constants(number // len(SHAPES)).of(SHAPES[number % len(SHAPES)])


def measure(counts: Sequence[int], records: int, *, shared: bool) -> list[Measured]:
    """Measures each number of queries, alternating with the first number, so that the machine is equally fast for
    both."""
    measured: list[Measured] = []
    with _asked(counts[0], records, shared=shared) as few:
        for _ in range(_ROUNDS if len(counts) == 1 else 0):
            few.round(records)
        for count in counts[1:]:
            try:
                with _asked(count, records, shared=shared) as many:
                    measured.append(_in_turns(few, many, records))
            except DsmsError as error:
                report(f"{count} queries{'' if shared else ' unshared'}: {error}")
                break
        return [few.measured(few.rounds[1:] or few.rounds, records), *measured]


def _in_turns(few: Asked, many: Asked, records: int) -> Measured:
    for _ in range(_ROUNDS):
        few.round(records)
        many.round(records)
    beside = [
        first.seconds / other.seconds for first, other in zip(few.rounds[-_ROUNDS:], many.rounds[1:], strict=True)
    ]
    return many.measured(many.rounds[1:], records, float(np.median(beside)))


@contextmanager
def _asked(count: int, records: int, *, shared: bool) -> Iterator[Asked]:
    """Creates queries and warms them up; verifies their results at the end."""
    with running_cluster() as cluster, closing(Asked(cluster, count, shared=shared)) as asked:
        asked.round(records)
        yield asked
        asked.verify()


def _register(cluster: Cluster, count: int, *, shared: bool) -> list[float]:
    options = "FORMAT = AVRO, PARTITIONS = 1" + ("" if shared else ", SHARED = FALSE")
    times = []
    for number, text in queries(count):
        begun = time.monotonic()
        cluster.api.execute(f"CREATE QUERY q{number} WITH ({options}) AS {text}")
        times.append(time.monotonic() - begun)
    report(f"{count} queries are registered in {sum(times):.1f} s, at most {max(times):.2f} s each")
    return times


def main() -> None:
    """Measures and writes the report and the plot."""
    options = _options()
    together = measure(options.queries, options.records, shared=True)
    apart = measure(options.unshared, options.records, shared=False) if options.unshared else []
    write_report(options.out, [result for measured in (together, apart) for result in _results(measured)])
    _plot(options.out.with_suffix(".svg"), together, apart)


def _results(measured: Sequence[Measured]) -> Iterator[Result]:
    for point in measured:
        name = f"{point.queries} queries{'' if point.shared else ' unshared'}"
        slowest, aimed = max(point.registering_s), point.shared and point is measured[-1]
        yield Result(f"{name}: throughput", point.records_per_s, "records/s")
        yield Result(f"{name}: throughput, of that of the first", point.beside_first, "", aim=0.5 if aimed else None)
        yield Result(f"{name}: CPU", point.cpu_s, "s", "lower")
        yield Result(f"{name}: peak memory", point.peak_mb, "MB", "lower")
        yield Result(f"{name}: longest registration", slowest * 1_000, "ms", "lower", 1_000 if point.shared else None)
    if len(measured) > 1:
        first, last = measured[0], measured[-1]
        more = (last.peak_mb - first.peak_mb) * 1_000 / (last.queries - first.queries)
        aim = 200 if last.shared else None
        kind = "shared" if last.shared else "unshared"
        yield Result(f"memory of one query more, {kind}", more, "kB", "lower", aim)


def _plot(path: Path, together: Sequence[Measured], apart: Sequence[Measured]) -> None:
    """Plots throughput over the number of queries."""
    mpl.rcParams["svg.hashsalt"] = "sharing"
    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.add_subplot()
    axes.set(title="queries that differ in constants", xlabel="queries", ylabel="records/s", xscale="log")
    for measured, label in ((together, "shared"), (apart, "each by itself")):
        axes.plot([point.queries for point in measured], [point.records_per_s for point in measured], "o-", label=label)
    axes.axhline(together[0].records_per_s / 2, linestyle=":", label="half of the shapes alone")
    axes.set_ylim(bottom=0)
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    figure.savefig(path, format="svg", metadata={"Date": None})


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sharing", description=__doc__)
    parser.add_argument("--queries", type=_numbers, default=[10, 100, 1_000], help="how many run at once")
    parser.add_argument("--unshared", type=_numbers, default=[10, 30, 100], help="how many run each by itself")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path, default=OUT, help="where the report goes")
    return parser.parse_args()


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",") if number]


if __name__ == "__main__":
    main()
