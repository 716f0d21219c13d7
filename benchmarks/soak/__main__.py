"""An hour of steady load: `python -m benchmarks.soak --hours 1`.

NEXMark's q5, q7 and q9, synchronised to seconds, and 100 queries that differ only in constants read auctions and bids
at 70 % of the capacity. The capacity is measured first, in a separate cluster (`--rate` gives the events a second
instead). The benchmark samples the memory of each process (PSS and RSS) and the lag of each result behind the clock all
the time. At the end it compares all results with DuckDB's over the same events, those of q5, q7 and q9 also at instants
within the run. Writes `benchmarks/out/soak.json` and a plot; ends with status 1 if a result is wrong or the run fails.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from benchmarks.cluster import Cluster, report, running_cluster
from benchmarks.nexmark.generator import BLOCK, Events
from benchmarks.nexmark.timeline import Timeline
from benchmarks.report import Result, write_report
from benchmarks.soak.comparing import Comparison, Verdict
from benchmarks.soak.feed import Topics, feed_at_once, last_ms
from benchmarks.soak.samples import RULE, Samples, slope
from benchmarks.soak.workload import Query, declare, start, workload
from dsms.local.waiting import wait_until
from operators.core.errors import ExternalError

OUT = Path(__file__).parent.parent / "out" / "soak.json"
LOAD = 0.7
#: The number of blocks of events that warm the queries up, and of those with which the capacity is measured.
_WARM, _TIMED = 1, 3
#: The seconds at the beginning of a run that are left out of the lags, because queries are still starting.
_WARM_S = 10.0
_LIMIT_S, _TELL_S, _POINTS = 900.0, 60.0, 240


def main() -> int:
    """Runs, compares, and writes the report and the plot; returns the exit status."""
    given = _options()
    asked = workload(given.shared)
    rate = given.rate or int(_capacity(asked) * LOAD)
    count = max(int(rate * given.hours * 3_600), rate)
    report(f"{count:,} events at {rate:,} a second, {len(asked)} queries")
    failures: dict[str, str] = {}
    with (
        tempfile.TemporaryDirectory(prefix="dsms-soak-") as temporary,
        closing(Comparison(Path(temporary))) as compared,
    ):
        with running_cluster(given.keep) as cluster:
            run = _Run(cluster, asked, given)
            try:
                run.go(rate, count)
                compared.read(cluster, asked)
            except Exception as error:  # noqa: BLE001 what was followed so far is reported
                failures["run"] = f"{type(error).__name__}: {error}"
                report(f"failed: {error}")
        verdicts: list[Verdict] = []
        if not failures:
            compared.load(run.events)
            verdicts += compared.verdicts(asked, last_ms(run.events), _instants(run.events, given.instants))
    wrong = {f"{one.query} at {one.instant}": f"{one}" for one in verdicts if not one.right}
    results = [*run.results(), *_compared(verdicts, sum(compared.records.values()))]
    write_report(given.out, results, failures | wrong, run.more(rate, given.hours))
    _plot(given.out.with_suffix(".svg"), run)
    report("failed" if failures or wrong else "all results are right")
    return 1 if failures or wrong else 0


def _capacity(asked: Sequence[Query]) -> float:
    """The events a second at which all queries process a backlog."""
    with running_cluster() as cluster:
        events = Events((_WARM + _TIMED) * BLOCK)
        topics = Topics(cluster.kafka, cluster.url)
        declare(cluster)
        start(cluster, list(asked))
        with Samples(cluster, [query.name for query in asked], _TELL_S) as samples:
            spent_s = 0.0
            for blocks in (range(_WARM), range(_WARM, _WARM + _TIMED)):
                began, end = time.monotonic(), _end(events, blocks)
                feed_at_once(topics, events, blocks)
                _await(cluster, partial(samples.final, end), "the backlog is not done")
                spent_s = time.monotonic() - began
    rate = _TIMED * BLOCK / spent_s
    report(f"capacity: {rate:,.0f} events/s")
    return rate


def _end(events: Events, blocks: range) -> int:
    """The last whole second before the end of some blocks. Queries synchronised to seconds are final up to it."""
    return events.timeline.end_ms(blocks.stop * BLOCK) // 1_000 * 1_000


def _await(cluster: Cluster, done: Any, what: str) -> None:
    if not wait_until(lambda: done() or cluster.failure() is not None, _LIMIT_S, pause_s=0.2) or not done():
        raise ExternalError(f"{what} after {_LIMIT_S:g} s: {cluster.failure() or 'nothing failed'}")


def _instants(events: Events, count: int) -> list[int]:
    """Whole seconds that divide the run evenly."""
    first, last = events.timeline.first_ms, last_ms(events)
    return sorted({(first + (last - first) * at // (count + 1)) // 1_000 * 1_000 for at in range(1, count + 1)})


class _Run:
    """The queries under load, and the samples taken meanwhile."""

    def __init__(self, cluster: Cluster, asked: list[Query], given: argparse.Namespace) -> None:
        self._cluster, self._asked = cluster, asked
        self.samples = Samples(cluster, [query.name for query in asked], given.every)
        self.events, self.fed, self.tail_s = Events(1), dict[str, Any](), float("nan")
        #: From when on lags are reported, and until when events came, in seconds since the start of the samples.
        self.warm_s, self.fed_s = 0.0, 0.0

    def go(self, rate: int, count: int) -> None:
        """Feeds all events and waits until every result is final."""
        topics = Topics(self._cluster.kafka, self._cluster.url)
        declare(self._cluster)
        topics.promise(time.time_ns() // 1_000_000)
        topics.flush()
        start(self._cluster, self._asked)
        with self.samples:
            self._feed(rate, count)
            began = time.monotonic()
            self.fed_s = began - self.samples.began
            _await(self._cluster, lambda: self.samples.final(last_ms(self.events) + 1), "results are not final")
            self.tail_s = time.monotonic() - began
        report(f"everything is final {self.tail_s:.1f} s after the last event")

    def _feed(self, rate: int, count: int) -> None:
        command = [sys.executable, "-m", "benchmarks.soak.feed", self._cluster.kafka.bootstrap, self._cluster.url]
        with subprocess.Popen([*command, str(count), str(rate)], stdout=subprocess.PIPE, text=True) as feed:
            assert feed.stdout is not None
            try:
                self.events = Events(count, Timeline(rate, int(json.loads(feed.stdout.readline())["first_ms"])))
                passed_s = time.time() - self.events.timeline.first_ms / 1_000
                self.warm_s = time.monotonic() - self.samples.began - passed_s + _WARM_S
                self._tell(feed)
            finally:
                feed.kill()
            if feed.returncode:
                raise ExternalError(f"the feed ended with status {feed.returncode}")
            self.fed = json.loads(feed.stdout.read())
        report(f"fed {self.fed['sent']:,} events, at most {self.fed['late_s']:.2f} s late")

    def _tell(self, feed: subprocess.Popen[str]) -> None:
        """Prints lines of progress until the feed ends. Raises ExternalError if a query or the executor fails."""
        while True:
            try:
                feed.wait(_TELL_S)
                return
            except subprocess.TimeoutExpired:
                passed = (time.time() - self.events.timeline.first_ms / 1_000) / 60
                sizes = {role: sizes[-1].pss_mb for role, sizes in self.samples.memory.items()}
                memory = ", ".join(f"{role} {size:,.0f}" for role, size in sorted(sizes.items()))
                report(f"{passed:.1f} min: slowest result {self.samples.lag_ms():,.0f} ms behind; MB: {memory}")
                if failure := self._cluster.failure():
                    raise ExternalError(failure) from None

    def results(self) -> Iterator[Result]:
        """The figures of lags and memory."""
        if not self.samples.lags:
            return
        yield Result("time until all was final", self.tail_s, "s", "lower")
        yield Result("latest tick of the feed", self.fed.get("late_s", float("nan")), "s", "lower")
        for name, lags in self._lags().items():
            for percent in (50, 99, 100):
                yield Result(f"{name}: lag, {percent} of 100", float(np.percentile(lags, percent)), "ms", "lower")
        for role, sizes in self.samples.memory.items():
            trend = slope(sizes)
            yield Result(f"{role}: PSS, mean of the last half", trend.mean_mb, "MB", "lower")
            yield Result(f"{role}: PSS, growth over the last half", trend.growth_mb, "MB", "lower")

    def _lags(self) -> dict[str, list[float]]:
        """The lags while events came, without the first seconds, of each NEXMark query and of the slowest shared
        query."""
        upto = self.fed_s or float("inf")
        found = {
            query.name: [lag for at, lag in self.samples.lags[query.name] if self.warm_s <= at <= upto]
            for query in self._asked
        }
        alone = {query.name: found[query.name] for query in self._asked if query.at_instants and found[query.name]}
        shared = [found[query.name] for query in self._asked if not query.at_instants and found[query.name]]
        slowest = [max(at) for at in zip(*(lags[-min(map(len, shared)) :] for lags in shared), strict=True)]
        return alone | ({"shared, the slowest": slowest} if slowest else {})

    def more(self, rate: int, hours: float) -> dict[str, object]:
        """The parameters of the run, the trends of memory, and some of the samples."""
        trends = {role: slope(sizes) for role, sizes in self.samples.memory.items()}
        return {
            "run": {"hours": hours, "rate": rate, "events": self.events.count, "queries": len(self._asked)},
            "memory": {
                "rule": RULE,
                **{
                    role: {
                        "flat": bool(trend.flat),
                        "mb_per_hour": round(trend.mb_per_hour, 1),
                        "growth_mb": round(trend.growth_mb, 1),
                        "mean_mb": round(trend.mean_mb, 1),
                    }
                    for role, trend in trends.items()
                },
            },
            "samples": {
                role: [[round(one.at_s), round(one.pss_mb, 1), round(one.rss_mb, 1)] for one in _thinned(sizes)]
                for role, sizes in self.samples.memory.items()
            },
            "lags_ms": {name: [round(lag) for lag in _thinned(lags)] for name, lags in self._lags().items()},
        }


def _thinned(samples: Sequence[Any]) -> Sequence[Any]:
    return samples[:: max(len(samples) // _POINTS, 1)]


def _compared(verdicts: Sequence[Verdict], records: int) -> Iterator[Result]:
    yield Result("relations compared with DuckDB", len(verdicts), "relations")
    yield Result("relations that are wrong", sum(not one.right for one in verdicts), "relations", "lower", 0)
    yield Result("rows compared", sum(one.rows for one in verdicts), "rows")
    yield Result("records published", records, "records")


def _plot(path: Path, run: _Run) -> None:
    """Plots the memory of each process and the lags over time."""
    with mpl.rc_context({"svg.hashsalt": "soak"}):
        figure = Figure(figsize=(9, 7), layout="constrained")
        above, below = figure.subplots(2)
        for role, sizes in sorted(run.samples.memory.items()):
            kept = _thinned(sizes)
            above.plot([one.at_s / 60 for one in kept], [one.pss_mb for one in kept], label=role)
        for name, lags in run._lags().items():
            kept = _thinned(lags)
            below.plot([at * len(lags) / len(kept) / 60 for at in range(len(kept))], kept, label=name)
        above.set(ylabel="PSS, MB", ylim=(0, None))
        below.set(xlabel="minutes", ylabel="lag, ms", ylim=(0, None))
        for axes in (above, below):
            axes.legend(fontsize="small")
            axes.grid(visible=True, alpha=0.3)
        figure.savefig(path, metadata={"Date": None})


def _options(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--hours", type=float, default=1.0, help="how long events come")
    parser.add_argument("--rate", type=int, help="events a second; by default 70 %% of the capacity")
    parser.add_argument("--shared", type=int, default=100, help="how many queries share all but their constants")
    parser.add_argument("--instants", type=int, default=5, help="instants within the run to compare q5, q7 and q9 at")
    parser.add_argument("--every", type=float, default=10.0, help="seconds between two looks at memory")
    parser.add_argument("--keep", type=Path, help="a directory for data and logs that stay")
    parser.add_argument("--out", type=Path, default=OUT)
    return parser.parse_args(given)


if __name__ == "__main__":
    sys.exit(main())
