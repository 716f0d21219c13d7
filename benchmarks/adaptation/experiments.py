"""The experiments of Krämer's thesis, chapter 24, whose settings do not change during a run, and the accuracy of the
cost model for each kind of operator."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from benchmarks.adaptation.measured import arrivals, run

#: The numbers of one experiment, by name.
Figure = dict[str, Any]
_GAP = 10.0
#: By name: a view, the kind of its operator that is measured, and the varied window size or number.
_OPERATORS: Mapping[str, tuple[str, str, tuple[int, ...]]] = {
    "filter": ("SELECT k FROM A WHERE v < {}", "Filter", (10, 25, 75)),
    "union": ("SELECT k FROM A [Range {}] UNION ALL SELECT k FROM B [Range 300]", "StreamOutput", (300, 1000, 3000)),
    "join": ("SELECT x.v, y.v AS w FROM A [Range {}] x, B [Range 300] y WHERE x.k = y.k", "Join", (300, 1000, 3000)),
    "distinct": ("SELECT DISTINCT k FROM A [Range {}]", "Distinct", (100, 300, 1000, 3000)),
    "aggregate": ("SELECT SUM(v) AS s FROM A [Range {}]", "GroupBy", (30, 100, 1000, 3000)),
    "group by": ("SELECT k, SUM(v) AS s FROM A [Range {}] GROUP BY k", "GroupBy", (300, 1000, 3000)),
    "granules": ("SELECT SUM(v) AS s FROM A [Range 1000 Slide {}]", "GroupBy", (10, 50, 200)),
    "rows window": ("SELECT k, v FROM A [Partition By k Rows {}]", "RowWindow", (1, 10, 50)),
}


def accuracy() -> Figure:
    """For each kind of operator: rows out per instant and rows of state, expected and measured."""
    figure: Figure = {}
    for name, (sql, operator, sizes) in _OPERATORS.items():
        logs = {"A": arrivals(_GAP, 50, seed=1)}
        if " B " in sql:
            logs["B"] = arrivals(2 * _GAP, 50, seed=2)
        runs = [run(sql.format(size), logs) for size in sizes]
        found = [made.of(operator) for made in runs]
        figure[name] = {
            "sizes": list(sizes),
            "rows": [vertex.rows for vertex in found],
            "state": [made.state for made in runs],
        }
    return figure


def errors(figure: Figure, which: str) -> list[float]:
    """The relative errors of the expected numbers, without those whose measured value is 0."""
    pairs = (pair for operator in figure.values() for pair in operator[which])
    return [abs(expected - measured) / measured for expected, measured in pairs if measured]


def window_sizes() -> Figure:
    """Experiment 1: state and processor time of a join of two streams over windows of different sizes."""
    sizes = [500, 1000, 2000, 4000, 8000]
    sql = "SELECT x.v, y.v AS w FROM A [Range {0}] x, B [Range {0}] y WHERE x.k = y.k"
    logs = {"A": arrivals(1.0, 2000, seed=3), "B": arrivals(1.0, 2000, seed=4)}
    runs = [run(sql.format(size), logs) for size in sizes]
    return {"sizes": sizes, "state": [made.state for made in runs], "busy": [made.busy for made in runs]}


def granules() -> Figure:
    """Experiment 2: a count over a window, exact at the instants of coarser and coarser granularities."""
    slides = [1, 10, 50, 200, 1000]
    logs = {"A": arrivals(2.0, 50, seed=5)}
    runs = [run(f"SELECT COUNT(*) AS n FROM A [Range 2000 Slide {slide}]", logs) for slide in slides]
    groups = [made.of("GroupBy") for made in runs]
    return {"granules": slides, "rows": [group.rows for group in groups], "busy": [made.busy for made in runs]}


def reduction() -> Figure:
    """Experiment 3: halves the memory by halving the window, or by dropping half of the records at random."""
    sql = "SELECT x.v, y.v AS w FROM A [Range {0}] x, B [Range {0}] y WHERE x.k = y.k"
    logs = {"A": arrivals(_GAP, 50, seed=6), "B": arrivals(_GAP, 50, seed=7)}
    rng = np.random.default_rng(8)
    halved = {name: _half(records, rng) for name, records in logs.items()}
    whole, small, dropped = run(sql.format(999), logs), run(sql.format(499), logs), run(sql.format(999), halved)
    wanted = _pairs(logs, 1000)
    near = [pair for pair in wanted if pair < 500]
    runs = {"whole": whole, "half the window": small, "half the records": dropped}
    return {
        "state": {name: made.state[1] for name, made in runs.items()},
        "join rows": {name: made.of("Join").rows for name, made in runs.items()},
        "pairs": {name: sum(op == "+" for op, _, _ in made.results) for name, made in runs.items()},
        "pairs wanted": len(wanted),
        "pairs nearer than half the window": len(near),
    }


def _half(records: Iterable[dict[str, object]], rng: np.random.Generator) -> list[dict[str, object]]:
    return [record for record in records if rng.random() < 0.5]


def _pairs(logs: Mapping[str, list[dict[str, Any]]], window: int) -> list[int]:
    """The distances in time of all pairs with equal keys that are closer than the window, by brute force."""
    by_key: dict[object, list[int]] = {}
    for record in logs["B"]:
        by_key.setdefault(record["k"], []).append(record["ts"])
    distances = (abs(record["ts"] - other) for record in logs["A"] for other in by_key.get(record["k"], ()))
    return [distance for distance in distances if distance < window]


def plans() -> Figure:
    """Experiment 4, without adaptation: the thesis's mix of plans over random windows and rates. Returns the errors of
    the expected state of queries, by the depth of their plans."""
    rng, figure = np.random.default_rng(9), Counter[str]()
    errors: dict[int, list[float]] = {}
    for sql, depth in _mix(rng):
        made = run(sql, {name: arrivals(rng.uniform(10, 40), 100, int(rng.integers(1 << 30))) for name in "ABCD"})
        expected, measured = made.state
        if measured:
            errors.setdefault(depth, []).append(expected / measured - 1)
        figure[str(depth)] += 1
    return {
        "queries": dict(figure),
        "median error": {str(depth): statistics.median(map(abs, found)) for depth, found in sorted(errors.items())},
        "errors": {str(depth): found for depth, found in sorted(errors.items())},
    }


_PER_PLAN = 3


def _mix(rng: np.random.Generator) -> Iterator[tuple[str, int]]:
    """Plans of the thesis's mix, with the number of joins and aggregates on their longest path."""

    def window(name: str) -> str:
        return f"{name} [Range {int(rng.integers(200, 3000))}]"

    def aggregate(name: str) -> str:
        slide = int(rng.integers(1, 100))
        return f"(SELECT k, MAX(v) AS v FROM {name} [Range {int(rng.integers(200, 3000))} Slide {slide}] GROUP BY k)"

    shapes: tuple[tuple[Callable[[], str], int], ...] = (
        (lambda: f"SELECT a.v, b.v AS w FROM {window('A')} a, {window('B')} b WHERE a.k = b.k", 1),
        (lambda: f"SELECT a.v, c.v AS w FROM {window('A')} a, {window('B')} b, {window('C')} c"
                 " WHERE a.k = b.k AND b.k = c.k", 2),
        (lambda: f"SELECT a.v, d.v AS w FROM {window('A')} a, {window('B')} b, {window('C')} c, {window('D')} d"
                 " WHERE a.k = b.k AND b.k = c.k AND c.k = d.k", 3),
        (lambda: aggregate("A")[1:-1], 1),
        (lambda: f"SELECT a.v, b.v AS w FROM {aggregate('A')} a, {window('B')} b WHERE a.k = b.k", 2),
        (lambda: f"SELECT a.v, b.v AS w FROM {aggregate('A')} a, {aggregate('B')} b WHERE a.k = b.k", 2),
    )  # fmt: skip
    for shape, depth in shapes:
        for _ in range(_PER_PLAN):
            yield shape(), depth
