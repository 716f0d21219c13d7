"""Rows in queues under each scheduling policy, simulated: `python -m benchmarks.scheduling_simulated`.

The real scheduler decides what one simulated processor does next. Three paths share the processor, each with its own
bursts; each policy gets the same inputs. The benchmark measures the peak and the mean of the queued rows, the peak in %
of FIFO's, and the median and longest latency (ms). Each figure is the median over several seeds. Writes
`benchmarks/out/scheduling_simulated.json` and a plot of the first seed.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.report import Result, write_report
from benchmarks.scheduling.inputs import Bursts, Input
from benchmarks.scheduling.simulate import Outcome, Setup, simulate
from dsms.measurements import progress_chart as progress
from dsms.scheduling.policies import SteepestChain
from dsms.scheduling.ready import Moment, Past, ReadyQueue
from dsms.scheduling.registry import parse_policy

OUT = Path(__file__).parent / "out" / "scheduling_simulated.json"
POLICIES = ("chain", "greedy", "chain(latency = 15 s)", "round_robin", "weighted_fair", "fifo")
#: Chain scheduling in each path separately, as if each were a fragment to which the operating system gives a fair
#: part of the processor.
APART = "chain, each path by itself"
#: The number of rows that arrive at once.
ROWS = 1_000
#: The operators of each path: the milliseconds for the rest of `ROWS` rows, and the selectivity.
CHARTS = (
    ((10, 0.9), (10, 0.1), (60, 0)),
    ((10, 0.4), (20, 0.9), (30, 0)),
    ((20, 0.8), (20, 0.5), (20, 0.1), (20, 0)),
)  # fmt: skip
#: The average utilisation of the processor, and the mean seconds of bursts and of pauses of each path.
LOAD, ON_S, OFF_S = 0.7, 4.4, 13.2
BATCH_S = 0.01


@dataclass(frozen=True)
class ChainOfEach:
    """Serves the path that has received the least service, and within it the steepest chain."""

    def order(self, ready: Sequence[ReadyQueue], past: Past, moment: Moment) -> list[ReadyQueue]:
        """By the service of the path so far, then by the slope of the chain."""
        return sorted(SteepestChain().order(ready, past, moment), key=lambda queue: past.tag(queue.owner))


def path(chart: Sequence[tuple[float, float]]) -> progress.Path:
    """The operators that have this progress chart for `ROWS` rows."""
    rows, operators = float(ROWS), []
    for milliseconds, selectivity in chart:
        operators.append(progress.PathOperator(milliseconds / 1_000 / rows, selectivity))
        rows *= selectivity
    return tuple(operators)


def arrivals(seed: int, seconds: float) -> list[Input]:
    """The inputs of all paths, with independent bursts."""
    work_s = sum(milliseconds for chart in CHARTS for milliseconds, _ in chart) / 1_000
    bursts = Bursts(LOAD / work_s * (ON_S + OFF_S) / ON_S, ON_S, OFF_S)
    by_path = (bursts.inputs(100 * seed + at, seconds, size=ROWS, path=at) for at in range(len(CHARTS)))
    return [arrival for inputs in by_path for arrival in inputs]


def simulated(seed: int, seconds: float, policies: Sequence[str] = POLICIES) -> dict[str, Outcome]:
    """The outcome of the same inputs under each policy."""
    inputs, setup = arrivals(seed, seconds), Setup(tuple(path(chart) for chart in CHARTS), BATCH_S)
    outcomes = {name: simulate(parse_policy(name), setup, inputs) for name in policies}
    return {**outcomes, APART: simulate(ChainOfEach(), setup, inputs)}


def main() -> None:
    """Simulates and writes the report and the plot."""
    options = _options()
    runs = [simulated(seed, options.seconds) for seed in range(options.seeds)]
    write_report(options.out, list(_results(runs)))
    _plot(options.out.with_suffix(".svg"), runs[0], options.seconds)


def _results(runs: Sequence[Mapping[str, Outcome]]) -> Iterator[Result]:
    for name in runs[0]:
        outcomes = [run[name] for run in runs]
        yield Result(f"{name}: peak", median(outcome.peak for outcome in outcomes), "rows", "lower")
        shares = [100 * run[name].peak / run["fifo"].peak for run in runs]
        aim = 60 if name == "chain" else None
        yield Result(f"{name}: peak, of FIFO's, median", median(shares), "%", "lower", aim)
        yield Result(f"{name}: peak, of FIFO's, most", max(shares), "%", "lower", aim)
        yield Result(f"{name}: mean", median(outcome.mean for outcome in outcomes), "rows", "lower")
        yield Result(f"{name}: latency, median", 1_000 * median(median(o.latencies_s) for o in outcomes), "ms", "lower")
        yield Result(f"{name}: latency, longest", 1_000 * median(max(o.latencies_s) for o in outcomes), "ms", "lower")


def _plot(path: Path, outcomes: Mapping[str, Outcome], seconds: float) -> None:
    """Plots queued rows over time."""
    mpl.rcParams["svg.hashsalt"] = "scheduling"
    figure = Figure(figsize=(9, 4), layout="constrained")
    axes = figure.add_subplot()
    axes.set(title="queues of three paths under bursts, simulated", xlabel="s", ylabel="rows in queues")
    times = [at * seconds / 1_000 for at in range(1_001)]
    for name, outcome in outcomes.items():
        axes.plot(times, [outcome.memory_at(time) for time in times], linewidth=1, label=name)
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    figure.savefig(path, format="svg", metadata={"Date": None})


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scheduling_simulated", description=__doc__)
    parser.add_argument("--seeds", type=int, default=10, help="how many times, each with other inputs")
    parser.add_argument("--seconds", type=float, default=220.0, help="how long inputs arrive")
    parser.add_argument("--out", type=Path, default=OUT, help="where the report goes")
    return parser.parse_args()


if __name__ == "__main__":
    main()
