"""Aggregates with a tenth of their memory, and ten minutes of worst-case input: `python -m benchmarks.sketches`.

Counts of distinct values and percentiles of groups run once exactly, and once with MEMORY set to a tenth of the exact
state's size. After each batch each result is compared with NumPy's. Then sketches alone read values that are all
different, from the whole range of floats, for `--minutes`. The benchmark drives the operators of compiled plans
directly, so that neither Kafka nor a log takes memory. Writes `benchmarks/out/sketches.json` and a plot.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import polars as pl
from matplotlib.figure import Figure

from benchmarks.report import Result, write_report
from benchmarks.usage import resident_bytes
from dsms.testing import LocalSession
from operators.core.delta import BEGINNING, FOREVER, FROM, ORDER, TO, WEIGHT, Delta
from operators.core.operator import Move
from operators.grouping.group_by import GroupBy
from operators.relational.project import Project

OUT = Path(__file__).parent / "out" / "sketches.json"
SOURCE = "REGISTER SOURCE Rows (g INT, u BIGINT, v BIGINT, x DOUBLE) FROM t; CREATE STREAM S OVER Rows KEY NULL;"
SELECT = (
    "SELECT STREAMED g, COUNT(DISTINCT u) AS n, percentile_disc(0.9) WITHIN GROUP (ORDER BY v) AS p FROM S GROUP BY g"
)
WORST = "SELECT STREAMED COUNT(DISTINCT u) AS n, MEDIAN(x) AS m FROM S"
GROUPS, BATCHES, ROWS = 10, 40, 50_000


@dataclass
class Driven:
    """The operators of a query, driven batch by batch, with an instant for each batch."""

    operators: list[Any]
    states: list[Any]
    at: int = 0
    seconds: float = 0.0

    @staticmethod
    def of(select: str, options: str = "") -> Driven:
        session = LocalSession()
        session.execute(f"{SOURCE} CREATE QUERY q {options} AS {select}")
        (lane,) = (lane for lane in session.runtime.revision.lanes.values() if "q" in [o.name for o in lane.outputs])
        operators = [v.operator for v in lane.flow.vertices if isinstance(v.operator, Project | GroupBy)]
        return Driven(operators, [operator.traces() for operator in operators])

    def read(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The results after a batch of rows."""
        start, count = time.perf_counter(), rows.height
        elements = rows.with_columns(
            pl.lit(self.at, pl.Int64).alias(FROM),
            pl.lit(FOREVER, pl.Int64).alias(TO),
            pl.lit(1, pl.Int64).alias(WEIGHT),
            pl.int_range(count).alias(ORDER),
        )
        delta = Delta(elements)
        for number, operator in enumerate(self.operators):
            step = operator.step(delta, self.states[number], Move(self.at or BEGINNING, self.at + 1))
            delta, self.states[number] = step.delta, step.traces
        self.at += 1
        self.seconds += time.perf_counter() - start
        return delta.frame.filter(pl.col(WEIGHT) > 0)

    @property
    def state_bytes(self) -> int:
        """The bytes of all runs of its states."""
        return sum(int(run.frame.estimated_size()) for state in self.states for trace in state for run in trace.runs)


def batches(rng: np.random.Generator) -> Iterator[pl.DataFrame]:
    """Users, a few of whom are frequent, and prices that span six powers of ten."""
    for _ in range(BATCHES):
        group = rng.integers(GROUPS, size=ROWS)
        users = rng.zipf(1.05, ROWS) % 2_000_000
        prices = np.exp(rng.normal(9, 2.5, ROWS)).astype(np.int64)
        yield pl.DataFrame({"g": group.astype(np.int32), "u": users + group * 10**9, "v": prices, "x": 0.0})


def a_tenth(seed: int) -> dict[str, Any]:
    """Runs exactly and with a tenth of the memory; returns the errors of all results, relative to the bound, and the
    states."""
    logs = list(batches(np.random.default_rng(seed)))
    exact = Driven.of(SELECT)
    for log in logs:
        exact.read(log)
    memory = exact.state_bytes // 10 // GROUPS
    about = Driven.of(SELECT, f"WITH (memory = '{memory}', max_error = 0.5)")
    bound = _bound(SELECT, memory)
    counts, percentiles, sizes, seen = [], [], [], pl.DataFrame()
    for log in logs:
        found = about.read(log)
        seen = pl.concat([seen, log]) if seen.height else log
        wanted = seen.group_by("g").agg(
            n=pl.col("u").n_unique(), p=pl.col("v").sort().get((pl.len() * 0.9).ceil().cast(pl.Int64) - 1)
        )
        both = found.join(wanted, on="g", suffix="_exact")
        counts += ((both["n"] - both["n_exact"]) / both["n_exact"]).to_list()
        percentiles += ((both["p"] - both["p_exact"]) / both["p_exact"]).to_list()
        sizes.append(about.state_bytes)
    return {
        "memory": memory * GROUPS, "bound": bound, "counts": counts, "percentiles": percentiles, "sizes": sizes,
        "exact_bytes": exact.state_bytes, "exact_seconds": exact.seconds, "seconds": about.seconds,
    }  # fmt: skip


def _bound(select: str, memory: int) -> float:
    session = LocalSession()
    session.execute(SOURCE)
    (created,) = session.run(f"CREATE QUERY q WITH (memory = '{memory}', max_error = 0.5) AS {select}")
    (notice,) = (text for text in created.notices if text.startswith("sketches"))
    return float(notice.split("at most ")[1].split(",")[0])


def worst(minutes: float, memory: int) -> dict[str, Any]:
    """Reads values that are all different, from the whole range of floats; returns the state and the resident memory
    every ten seconds."""
    rng, driven = np.random.default_rng(1), Driven.of(WORST, f"WITH (memory = '{memory}', max_error = 0.5)")
    until, values, count, curve = time.monotonic() + 60 * minutes, 0, 0, []
    while (now := time.monotonic()) < until:
        sizes = np.ldexp(rng.uniform(0.5, 1, ROWS), rng.integers(-1021, 1024, ROWS))
        rows = {"g": np.zeros(ROWS, np.int32), "u": np.arange(values, values + ROWS), "v": np.zeros(ROWS, np.int64)}
        changed = driven.read(pl.DataFrame({**rows, "x": sizes * rng.choice([-1, 1], ROWS)}))
        count = changed["n"].last() if changed.height else count
        values += ROWS
        if not curve or now - curve[-1][0] > 10:
            curve.append((now, values, driven.state_bytes, resident_bytes(), count / values - 1))
    begin = curve[0][0]
    bound = _bound(WORST, memory)
    return {"values": values, "memory": memory, "bound": bound, "curve": [(at - begin, *rest) for at, *rest in curve]}


def _results(tenth: dict[str, Any], worst_: dict[str, Any]) -> Iterator[Result]:
    bound, counts, percentiles = tenth["bound"], np.abs(tenth["counts"]), np.abs(tenth["percentiles"])
    yield Result("a tenth: bound on the error", 100 * bound, "%", "lower")
    yield Result("a tenth: counts within it", 100 * float((counts <= bound).mean()), "%", aim=95)
    yield Result("a tenth: percentiles within it", 100 * float((percentiles <= bound).mean()), "%", aim=100)
    yield Result("a tenth: greatest state by the memory", max(tenth["sizes"]) / tenth["memory"], "", "lower", 1)
    yield Result("a tenth: state by the exact state", tenth["sizes"][-1] / tenth["exact_bytes"], "", "lower", 0.1)
    yield Result("a tenth: seconds by the exact seconds", tenth["seconds"] / tenth["exact_seconds"], "", "lower")
    states, residents = ([point[at] for point in worst_["curve"]] for at in (2, 3))
    yield Result("worst: bound on the error", 100 * worst_["bound"], "%", "lower")
    yield Result("worst: values", worst_["values"] / 1e6, "million")
    yield Result("worst: greatest state by the memory", max(states) / worst_["memory"], "", "lower", 1)
    yield Result("worst: resident memory, last by first", residents[-1] / residents[0], "", "lower")
    yield Result(
        "worst: greatest error of a count", 100 * max(abs(point[4]) for point in worst_["curve"]), "%", "lower"
    )


def _plot(path: Path, tenth: dict[str, Any], worst_: dict[str, Any]) -> None:
    mpl.rcParams["svg.hashsalt"] = "dsms"
    figure = Figure(figsize=(12, 4), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    left.hist([tenth["counts"], tenth["percentiles"]], bins=40, label=["counts", "percentiles"])
    for side in (-tenth["bound"], tenth["bound"]):
        left.axvline(side, linestyle="--", color="black")
    left.set(title="a tenth: relative errors, and the bound")
    left.legend()
    middle.plot(np.arange(1, BATCHES + 1) * ROWS / 1e6, np.array(tenth["sizes"]) / 1e6)
    middle.axhline(tenth["memory"] / 1e6, linestyle="--", color="black")
    middle.set(title="a tenth: state, MB", xlabel="million rows")
    times = [point[0] / 60 for point in worst_["curve"]]
    right.plot(times, [point[2] / 1e6 for point in worst_["curve"]], label="state")
    right.axhline(worst_["memory"] / 1e6, linestyle="--", color="black")
    right.set(title="the worst input: state, MB", xlabel="minutes", ylim=(0, None))
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Runs both parts and writes the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="of the worst input (10)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    tenth, worst_ = a_tenth(options.seed), worst(options.minutes, 3_000_000)
    write_report(OUT, list(_results(tenth, worst_)), more={"a tenth": tenth, "worst": worst_})
    _plot(OUT.with_suffix(".svg"), tenth, worst_)


if __name__ == "__main__":
    main()
