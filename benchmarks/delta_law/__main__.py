"""The delta law: `python -m benchmarks.delta_law` measures the cost of a change of fixed size while the state grows.

For each operator and size of the state it measures the median step, the mean over all steps including the merges of
runs that they cause, and the longest step, in ms of wall and CPU time; and the bytes of the state of a sliding count.
`--largest 1000000` gives a quick overview. Writes `benchmarks/out/delta_law.json` and a plot of each operator next to
it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.delta_law.flow import Subject
from benchmarks.delta_law.measuring import Point, measure
from benchmarks.delta_law.memory import SLIDES, Footprint, footprint
from benchmarks.delta_law.plots import plot_costs, plot_memory
from benchmarks.delta_law.subjects import SUBJECTS
from benchmarks.delta_law.table import CHANGE
from benchmarks.delta_law.windows import RATE, STEP, WindowedGroups, WindowedLeast, WindowedPairs
from benchmarks.report import Result, write_report

OUT = Path(__file__).parent.parent / "out" / "delta_law.json"
SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
#: The largest quotient of costs, or of bytes in proportion to slides, that satisfies the law.
AIM = 2.0
LOWER = "lower"
WINDOWS: dict[str, Callable[[int], Subject]] = {
    "window, group-by": WindowedGroups,
    "window, min of ascending": WindowedLeast,
    "window, join": WindowedPairs,
}


def main() -> None:
    """Measures and writes the report and the plots."""
    options = _options()
    results: list[Result] = []
    for name, subject in SUBJECTS.items():
        points = [_point(name, subject(size), size) for size in SIZES if size <= options.largest]
        plot_costs(_plot(options.out, name), name, points, "rows in the relation")
        results += _figures(name, points, "rows")
    for name, window in WINDOWS.items():
        lengths = [100, *(size // RATE for size in SIZES if size <= options.largest)]
        points = [_point(name, window(length), length) for length in lengths]
        plot_costs(_plot(options.out, name), name, points, "instants in the window")
        results += _figures(name, points, "instants") + _by_element(name, points)
    footprints = [footprint(slide) for slide in SLIDES]
    plot_memory(_plot(options.out, "memory"), footprints)
    write_report(options.out, results + _memory(footprints))


def _point(name: str, subject: Subject, size: int) -> Point:
    point = measure(subject, size)
    print(
        f"{name} of {size:,}: median {point.median_ms:.1f} ms, mean of {point.steps} steps {point.mean_ms:.1f} ms, "
        f"longest {point.worst_ms:.0f} ms; CPU {point.cpu_ms:.1f}, {point.cpu_mean_ms:.1f}, {point.cpu_worst_ms:.0f} "
        f"ms; {point.effect:.0f} elements out" + ("" if point.merged else ", the largest run was not merged"),
        flush=True,
    )
    return point


def _figures(name: str, points: Sequence[Point], unit: str) -> list[Result]:
    """The costs at each size, and the quotients of the costs at the largest and the smallest size."""
    results = []
    for point in points:
        at = f"{name}, {point.size} {unit}"
        results.append(Result(f"{at}: median", point.median_ms, "ms", LOWER))
        results.append(Result(f"{at}: mean of {point.steps} steps with merges", point.mean_ms, "ms", LOWER))
        results.append(Result(f"{at}: longest step", point.worst_ms, "ms", LOWER))
        results.append(Result(f"{at}: CPU, median", point.cpu_ms, "ms", LOWER))
        results.append(Result(f"{at}: CPU, mean with merges", point.cpu_mean_ms, "ms", LOWER))
        results.append(Result(f"{at}: CPU, longest step", point.cpu_worst_ms, "ms", LOWER))
    return results + _growth(name, points[0], points[-1])


def _growth(name: str, first: Point, last: Point) -> list[Result]:
    ratios = {
        "median": last.median_ms / first.median_ms,
        "mean with merges": last.mean_ms / first.mean_ms,
        "CPU, median": last.cpu_ms / first.cpu_ms,
        "CPU, mean with merges": last.cpu_mean_ms / first.cpu_mean_ms,
    }
    return [Result(f"{name}: largest to smallest, {what}", ratio, "x", LOWER, AIM) for what, ratio in ratios.items()]


def _by_element(name: str, points: Sequence[Point]) -> list[Result]:
    arriving = STEP * RATE
    return [
        Result(f"{name}, {point.size} instants: an element", point.median_ms * 1_000 / arriving, "µs", LOWER)
        for point in points
    ]


def _memory(footprints: Sequence[Footprint]) -> list[Result]:
    shares = [measured.at_slide / measured.slides for measured in footprints]
    results = []
    for measured in footprints:
        results.append(Result(f"memory, window/slide {measured.slides}: at a slide", measured.at_slide, "bytes", LOWER))
        results.append(
            Result(f"memory, window/slide {measured.slides}: before the next", measured.between, "bytes", LOWER)
        )
    spread = max(shares) / min(shares)
    return [*results, Result("memory over window/slide: greatest to least", spread, "x", LOWER, AIM)]


def _plot(out: Path, name: str) -> Path:
    plain = name.replace(", ", "_").replace("/", "_").replace("-", "_").replace(" ", "_")
    return out.with_name(f"{out.stem}_{plain}.svg")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.delta_law", description=__doc__)
    parser.add_argument("--largest", type=int, default=SIZES[-1], help=f"rows; a change has {CHANGE:,} elements")
    parser.add_argument("--out", type=Path, default=OUT, help="where the report goes, with the plots beside it")
    return parser.parse_args()


if __name__ == "__main__":
    main()
