"""Repeats the figures of the paper on promising tuples: `python -m benchmarks.promising`.

Two stores sell items, a few of which are frequent; which items are frequent changes. Joins, selections and aggregates
are answered over parts of the input: promising regions first, or the newest tuples first, both from chunks with the
same encoding. The benchmark measures the part of the output found as a function of the tuples read and of processor
time, and the further values in the paper's figures. Writes `benchmarks/out/promising.json` and a plot.
"""

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.promising.curves import FRACTIONS
from benchmarks.promising.figures import ARRIVALS, WINDOWS, all_figures
from benchmarks.report import Result, write_report

OUT = Path(__file__).parent.parent / "out" / "promising.json"
_TENTH = FRACTIONS.index(0.1)


def _results(figures: Mapping[str, dict[str, Any]]) -> Iterator[Result]:
    """The part of the output that is found in a tenth of the input."""
    for name, figure in figures.items():
        for label in sorted({key.partition(",")[0] for key in figure if key.endswith("by reads")}):
            ours, theirs = (figure[f"{label}, {way}, by reads"][_TENTH] for way in ("promising", "arrival"))
            if ours is not None and theirs is not None:
                yield Result(f"figure {name}: {label} at 10 % read", ours, f"(newest first: {theirs:.3g})")


def _plot(path: Path, figures: Mapping[str, dict[str, Any]]) -> None:
    mpl.rcParams["svg.hashsalt"] = "dsms"
    figure = Figure(figsize=(14, 9), layout="constrained")
    axes = iter(figure.subplots(3, 4).ravel())
    costs, windows = figures["9 and 10a"], figures["10b"]
    for axis, key, unit in ((next(axes), "insertion_us", "µs a tuple"), (next(axes), "hit_us", "µs an output tuple")):
        axis.bar(list(costs[key]), list(costs[key].values()))
        axis.set(title=f"9: {key.removesuffix('_us')}", ylabel=unit)
    for axis, name, xs, found in (
        (next(axes), "10a: µs between tuples", ARRIVALS, costs["outputs_per_input"]),
        (next(axes), "10b: tuples in the window", WINDOWS, windows["outputs_per_input"]),
    ):
        for technique, outputs in found.items():
            axis.plot(xs, outputs, marker=".", label=technique)
        axis.set(title=name, xscale="log", ylabel="outputs an input")
        axis.legend()
    for name in ("11", "12", "13", "14", "15 and 16"):
        for label in sorted({key.partition(",")[0] for key in figures[name] if key.endswith("by reads")}):
            if all(value is None for value in figures[name][f"{label}, promising, by reads"]):
                continue
            axis = next(axes, None)
            if axis is None:
                break
            for way in ("promising", "arrival"):
                axis.plot(FRACTIONS, figures[name][f"{label}, {way}, by reads"], marker=".", label=way)
            axis.set(title=f"{name}: {label}", xlabel="part read")
            axis.legend()
    figure.savefig(path, format="svg", metadata={"Date": None})


def main() -> None:
    """Measures and writes the report and the plot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tuples", type=int, default=50_000, help="of each store")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    figures = all_figures(options.tuples)
    write_report(options.out, list(_results(figures)), more={"figures": dict(figures)})
    _plot(options.out.with_suffix(".svg"), figures)


if __name__ == "__main__":
    main()
