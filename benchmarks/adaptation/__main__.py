"""Repeats experiments of Krämer's thesis, chapter 24: `python -m benchmarks.adaptation`.

Views over Poisson streams run to their steady state in one process. The experiments compare: the rows and the state of
each operator, expected by the cost model and measured; the state and processor time of a join over windows of different
sizes; a count at coarser and coarser granularities; halving the memory by halving the window or by dropping half of the
records; and the state of many queries with its bound while queries are added. Writes `benchmarks/out/adaptation.json`
and a plot.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.adaptation import experiments
from benchmarks.adaptation.scalability import scalability
from benchmarks.report import Result, write_report

OUT = Path(__file__).parent.parent / "out" / "adaptation.json"


def _results(figures: dict[str, experiments.Figure]) -> Iterator[Result]:
    accuracy, reduction = figures["accuracy"], figures["reduction"]
    for which in ("rows", "state"):
        errors = experiments.errors(accuracy, which)
        yield Result(f"{which}: median error", 100 * median(errors), "%", "lower")
        yield Result(f"{which}: largest error", 100 * max(errors), "%", "lower")
    for depth, error in figures["plans"]["median error"].items():
        yield Result(f"state of plans {depth} operators deep: median error", 100 * error, "%", "lower")
    for way in ("half the window", "half the records"):
        yield Result(f"{way}: state", reduction["state"][way] / reduction["state"]["whole"], "of the whole", "lower")
        yield Result(f"{way}: pairs", reduction["pairs"][way] / reduction["pairs"]["whole"], "of the whole")

    many = figures["scalability"]
    for level, error in many["median error"].items():
        yield Result(f"many queries: state at level {level}: median error", 100 * error, "%", "lower")
    yield Result("many queries: largest state", many["largest memory"], "of the bound", "lower")
    yield Result("many queries: longest decision", many["decision seconds"], "s", "lower")


def _plot(path: Path, figures: dict[str, experiments.Figure]) -> None:
    mpl.rcParams["svg.hashsalt"] = "dsms"
    figure = Figure(figsize=(17, 8), layout="constrained")
    axes = iter(figure.subplots(2, 5).ravel())
    for which, unit in (("rows", "rows an instant"), ("state", "rows of state")):
        axis = next(axes)
        for name, operator in figures["accuracy"].items():
            pairs = [pair for pair in operator[which] if pair[1]]
            axis.plot([measured for _, measured in pairs], [expected for expected, _ in pairs], ".", label=name)
        _diagonal(axis, f"each operator: {unit}")
    sizes, joins = figures["window sizes"]["sizes"], figures["window sizes"]
    axis = next(axes)
    axis.plot(sizes, [measured for _, measured in joins["state"]], marker=".", label="measured")
    axis.plot(sizes, [expected for expected, _ in joins["state"]], linestyle="--", label="expected")
    axis.set(title="a join: rows of state", xlabel="window")
    axis.legend()
    axis = next(axes)
    axis.plot(sizes, joins["busy"], marker=".")
    axis.set(title="a join: processor seconds", xlabel="window", ylim=(0, None))
    granules, counts = figures["granules"]["granules"], figures["granules"]["rows"]
    axis = next(axes)
    axis.plot(granules, [measured for _, measured in counts], marker=".", label="measured")
    axis.plot(granules, [expected for expected, _ in counts], linestyle="--", label="expected")
    axis.set(title="a count: changes an instant", xlabel="granule", xscale="log", yscale="log")
    axis.legend()
    axis = next(axes)
    axis.plot(granules, figures["granules"]["busy"], marker=".")
    axis.set(title="a count: processor seconds", xlabel="granule", xscale="log", ylim=(0, None))
    axis = next(axes)
    reduction = figures["reduction"]
    for at, (name, kept) in enumerate(reduction["state"].items()):
        parts = kept / reduction["state"]["whole"], reduction["pairs"][name] / reduction["pairs"]["whole"]
        axis.bar([at - 0.2, at + 0.2], parts, width=0.4, color=["tab:blue", "tab:orange"])
    axis.set_xticks(range(3), list(reduction["state"]), fontsize=8)
    axis.set(title="half the memory: state (left), pairs (right)")
    axis = next(axes)
    for depth, errors in figures["plans"]["errors"].items():
        axis.plot([int(depth)] * len(errors), [100 * error for error in errors], ".")
    axis.set(title="plans: error of the state, %", xlabel="operators on a path", xticks=[1, 2, 3])
    axis, many = next(axes), figures["scalability"]
    minutes = [at["minute"] for at in many["trace"]]
    axis.plot(minutes, [at["bytes"] / 1e6 for at in many["trace"]], label="measured")
    axis.plot(minutes, [many["bound"] * at["queries"] / 1e6 for at in many["trace"]], "--", label="bound")
    axis.set(title="many queries: MB of state", xlabel="minute", ylim=(0, None))
    axis.legend()
    axis = next(axes)
    axis.plot(minutes, [at["fraction"] for at in many["trace"]])
    axis.set(title="many queries: mean size of windows", xlabel="minute", ylim=(0, 1))
    figure.savefig(path, metadata={"Date": None})


def _diagonal(axis: Axes, title: str) -> None:
    axis.set(title=title, xlabel="measured", ylabel="expected", xscale="log", yscale="log")
    axis.plot(axis.get_xlim(), axis.get_xlim(), color="grey", linewidth=0.5)
    axis.legend(fontsize=7)


def main() -> None:
    """Runs the experiments and writes the report and the plot."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.adaptation", description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    figures = {
        "accuracy": experiments.accuracy(),
        "window sizes": experiments.window_sizes(),
        "granules": experiments.granules(),
        "reduction": experiments.reduction(),
        "plans": experiments.plans(),
        "scalability": scalability(),
    }
    write_report(options.out, list(_results(figures)), more={"figures": figures})
    _plot(options.out.with_suffix(".svg"), figures)


if __name__ == "__main__":
    main()
