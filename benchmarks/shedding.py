"""Load shedding at three times the capacity, simulated: `python -m benchmarks.shedding`.

Three queries aggregate a stream in windows. For a minute records come at three times the capacity, afterwards at a
third of the capacity. The decision about rates and the Shed operator are the system's. The cost of a record is a
constant, so that nothing is timed and the figures do not depend on the machine. The benchmark reports the longest lag
(ms), the rates, and the relative errors compared with the exact answers over all records. Writes
`benchmarks/out/shedding.json`.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles

import numpy as np
import polars as pl

from benchmarks.report import Result, write_report
from dsms.shedding.observed_input import ObservedInput
from dsms.shedding.rates import Demand, Load, cost_per_record, decide
from operators.core.delta import FROM, ORDER, TO, WEIGHT, Delta
from operators.core.operator import Move
from operators.streams.settings import settings_of
from operators.streams.shed import SHARE, Shed, Value

OUT = Path(__file__).parent / "out" / "shedding.json"
BURST_S, CALM_S, STEP_S, WINDOW_S = 60.0, 40.0, 0.5, 5.0
#: The seconds to read a record, in addition to the costs of the queries.
BASE_S = 40e-6
DEADLINE_S = 2.0


@dataclass(frozen=True)
class Query:
    """A sum over `value` (None: a count), by `keys`, in windows; `cost` is in seconds per record."""

    name: str
    value: str | None
    keys: tuple[str, ...]
    cost: float
    max_error: float
    weight: float = 1.0

    @property
    def shed(self) -> Shed:
        """The Shed operator of the query."""
        return Shed(self.name, self.keys, (Value(self.value),))


QUERIES = (
    Query("count", None, (), 600e-6, 0.05),
    Query("count, weight 8", None, (), 60e-6, 0.05, 8.0),
    Query("sum of 4 groups, heavy tail", "v", ("k",), 60e-6, 0.05),
)
CAPACITY = 1 / (BASE_S + sum(query.cost for query in QUERIES))


@dataclass
class Outcome:
    """The lag (s) and the rates after each step, and the relative errors of the results by query."""

    lags: list[float] = field(default_factory=list)
    rates: list[Mapping[str, float]] = field(default_factory=list)
    errors: dict[str, list[float]] = field(default_factory=dict)


def main() -> None:
    """Runs the simulation with several seeds and writes the report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shedding", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="how many times, each with other records")
    parser.add_argument("--out", type=Path, default=OUT, help="where the report goes")
    options = parser.parse_args()
    runs = [(simulated(seed), simulated(seed, even=True)) for seed in range(options.seeds)]
    write_report(options.out, list(_results(runs)))


def simulated(seed: int, *, even: bool = False) -> Outcome:
    """One run. With `even`, all queries have the same rate, the largest that the budget permits, as if records were
    dropped at the source."""
    chance, outcome = np.random.default_rng(seed), Outcome()
    observed = {query.name: ObservedInput() for query in QUERIES}
    steps = [(at * STEP_S, _arrivals(at * STEP_S)) for at in range(int((BURST_S + CALM_S) / STEP_S))]
    log = _records(chance, steps)
    ends = np.searchsorted(log[FROM].to_numpy(), [int(1_000 * (at + STEP_S)) for at, _ in steps])
    kept: dict[str, list[pl.DataFrame]] = {query.name: [] for query in QUERIES}
    rates, read = {query.name: 1.0 for query in QUERIES}, 0
    for (at, arrivals), end in zip(steps, ends, strict=True):
        record_s = BASE_S + sum(query.cost * rates[query.name] for query in QUERIES)
        upto = min(read + int(STEP_S / record_s), int(end))
        _read(log[read:upto], rates, (at, read), observed, kept)
        read = upto
        outcome.lags.append((int(end) - read) * record_s)
        outcome.rates.append(rates)
        rates = _decided(observed, Load(int(end) - read, arrivals, BASE_S), rates, even=even)
    outcome.errors = {query.name: _errors(query, log[:read], kept[query.name]) for query in QUERIES}
    return outcome


def _arrivals(at: float) -> float:
    return CAPACITY * (3 if at < BURST_S else 1 / 3)


def _records(chance: np.random.Generator, steps: Sequence[tuple[float, float]]) -> pl.DataFrame:
    instants = np.concatenate(
        [np.sort(1_000 * (at + STEP_S * chance.random(int(rate * STEP_S)))).astype(np.int64) for at, rate in steps]
    )
    rows = len(instants)
    return pl.DataFrame({
        "k": chance.integers(0, 4, rows), "one": np.ones(rows), "v": chance.lognormal(3.0, 1.0, rows), FROM: instants,
        TO: np.full(rows, 2**62), WEIGHT: np.ones(rows, np.int64), ORDER: np.arange(rows),
    })  # fmt: skip


def _read(
    records: pl.DataFrame, rates: Mapping[str, float], place: tuple[float, int], observed: dict[str, ObservedInput],
    kept: dict[str, list[pl.DataFrame]],
) -> None:  # fmt: skip
    at, start = place
    for query in QUERIES if records.height else ():
        shed = query.shed.under(settings_of(0, [(start, rates[query.name])]))
        stayed = shed.step(Delta(records), (), Move(0, 0)).delta
        kept[query.name].append(stayed.frame)
        statistics = shed.statistics(Delta(records), len(stayed))
        assert statistics is not None
        observed[query.name] = observed[query.name].after(at, 0, statistics)


def _decided(
    observed: Mapping[str, ObservedInput], load: Load, before: Mapping[str, float], *, even: bool
) -> dict[str, float]:  # fmt: skip
    demands = [
        Demand(query.name, query.cost, observed[query.name].spread(int(1_000 * WINDOW_S)), query.max_error,
               query.weight, DEADLINE_S)
        for query in QUERIES
    ]  # fmt: skip
    decision = decide(demands, load, shedding=any(rate < 1 for rate in before.values()))
    if not even:
        return dict(decision.rates)
    same = cost_per_record(demands, decision.rates) / sum(demand.cost for demand in demands)
    return {demand.query: same for demand in demands}


def _errors(query: Query, log: pl.DataFrame, kept: Sequence[pl.DataFrame]) -> list[float]:
    """The relative errors of the results of complete windows."""
    length = int(1_000 * WINDOW_S)
    value = pl.col(query.value or "one")
    keys = [(pl.col(FROM) // length).alias("window"), *query.keys]
    exact = log.group_by(keys).agg(value.sum().alias("exact"))
    estimates = pl.concat(kept).group_by(keys).agg((value * pl.col(SHARE)).sum().alias("estimate"))
    both = exact.join(estimates, on=["window", *query.keys], how="left").filter(
        pl.col("window") < log[FROM].max() // length  # type: ignore[operator]
    )
    return (
        both.select(((pl.col("estimate").fill_null(0.0) - pl.col("exact")) / pl.col("exact")).abs())
        .to_series()
        .to_list()
    )


def _results(runs: Sequence[tuple[Outcome, Outcome]]) -> Iterator[Result]:
    yield Result("longest lag", 1_000 * max(max(ours.lags) for ours, _ in runs), "ms", "lower", 1_000 * DEADLINE_S)
    for query in QUERIES:
        errors = [error for ours, _ in runs for error in ours.errors[query.name]]
        within = 100 * sum(error <= query.max_error for error in errors) / len(errors)
        yield Result(f"{query.name}: results within max_error", within, "%", "higher", 95)
        yield Result(f"{query.name}: error, 95 of 100", 1e4 * quantiles(errors, n=20)[-1], "1/10000", "lower")
        least = min(rates[query.name] for ours, _ in runs for rates in ours.rates)
        yield Result(f"{query.name}: least rate", 1e4 * least, "1/10000")
    last = [rate for ours, _ in runs for rate in ours.rates[-1].values()]
    yield Result("rates after the burst, least", 1e4 * min(last), "1/10000", "higher", 1e4)
    ours, even = ([_worst(run[which]) for run in runs] for which in (0, 1))
    yield Result("largest weighted error, of that of even dropping", 100 * sum(ours) / sum(even), "%", "lower", 50)


def _worst(outcome: Outcome) -> float:
    """The largest of the queries' weighted 95th percentiles of errors."""
    return max(query.weight * quantiles(outcome.errors[query.name], n=20)[-1] for query in QUERIES)


if __name__ == "__main__":
    main()
