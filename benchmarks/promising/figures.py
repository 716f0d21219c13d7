"""Figures 9 to 16 of the paper, over two stores (promising tuples, section 5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from benchmarks.promising.curves import BEST, FRACTIONS, TECHNIQUES, Curve, Row, Summarised, Way, curve, summarised
from benchmarks.promising.streams import ITEMS, store

JOIN = 'SELECT COUNT(*) FROM "s1" JOIN "s2" USING (item)'
#: Budgets of time, as parts of the time of the whole query without a summary.
BUDGETS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
_PART, _BINS, _QUERIES = 0.1, 100, 40
#: Microseconds between two tuples.
ARRIVALS = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
WINDOWS = (500, 1_000, 2_000, 5_000, 10_000, 20_000)
COUNTS = (20, 40, 80, 120, 160, 200)
Figure = dict[str, Any]
Measure = Callable[[list[Row]], float | None]


def stores(tuples: int, technique: Any = BEST, depth: int = 1) -> dict[str, Summarised]:
    """Both stores, with summaries of the same kind."""
    return {f"s{seed}": summarised(store(tuples, seed), technique, depth) for seed in (1, 2)}


def costs(tuples: int) -> Figure:
    """Figure 9: the µs to insert a tuple and to find an output tuple, and the outputs per input with 20 µs between
    tuples. Figure 10a: the outputs per input with other times between tuples."""
    inserted, hit = {}, {}
    for technique in TECHNIQUES:
        both = stores(tuples, technique)
        part = curve(both, JOIN, Way(), fractions=(_PART,))
        inserted[technique.name] = 1e6 * both["s1"].insert_s
        hit[technique.name] = 1e6 * part.seconds[0] / max(part.rows[0][0][0], 1)
    outputs = {name: [max(0.0, gap - inserted[name]) / hit[name] for gap in ARRIVALS] for name in hit}
    return {"insertion_us": inserted, "hit_us": hit, "arrivals_us": ARRIVALS, "outputs_per_input": outputs}


def windows(gap_us: float) -> Figure:
    """Figure 10b: the outputs per input as a function of the length of the window in tuples."""
    found: dict[str, list[float]] = {technique.name: [] for technique in TECHNIQUES}
    for tuples in WINDOWS:
        measured = costs(tuples)
        for name, outputs in found.items():
            hit = measured["hit_us"][name]
            outputs.append(max(0.0, gap_us - measured["insertion_us"][name]) / hit)
    return {"tuples": WINDOWS, "gap_us": gap_us, "outputs_per_input": found}


def compared(curves: Mapping[str, Curve], measures: Mapping[str, Measure]) -> Figure:
    """The measures of the answers, with a summary and in the order of arrival: by the part of the tuples read, and by
    time, as parts of the time of the whole query in the order of arrival."""
    whole_s = curves["arrival"].seconds[-1]
    shown: Figure = {"read": FRACTIONS, "time": BUDGETS}
    for name, found in curves.items():
        for label, measure in measures.items():
            shown[f"{label}, {name}, by reads"] = [measure(rows) for rows in found.rows]
            shown[f"{label}, {name}, by time"] = [measure(found.within(budget * whole_s)) for budget in BUDGETS]
    return shown


def joined(tuples: int, way: Way, column: str, depth: int = 1, beside: Mapping[str, pa.Table] | None = None) -> Figure:
    """A join: the part of the output found in %, and another column of the answer."""
    sql = f'SELECT COUNT(*), {column} FROM "s1" JOIN "s2" USING (item)'
    curves = {
        "promising": curve(stores(tuples, BEST, depth), sql, way, beside),
        "arrival": curve(stores(tuples, TECHNIQUES[0]), sql, way, beside),
    }
    everything = curves["arrival"].rows[-1][0][0]
    return compared(
        curves,
        {
            "output %": lambda rows: 100 * rows[0][0] / everything if rows else 0.0,
            "measure": lambda rows: rows[0][1] if rows and rows[0][0] else None,
        },
    )


def histograms(tuples: int) -> Figure:
    """Figure 13: the part of the output found, and the distance of its histogram of items from the exact one."""
    sql = f'SELECT item // {ITEMS // _BINS}, COUNT(*) FROM "s1" JOIN "s2" USING (item) GROUP BY ALL'
    curves = {
        "promising": curve(stores(tuples), sql, Way("weighted")),
        "arrival": curve(stores(tuples, TECHNIQUES[0]), sql, Way("weighted")),
    }
    exact = _histogram(curves["arrival"].rows[-1])
    return compared(
        curves,
        {
            "output %": lambda rows: 100 * float(_histogram(rows).sum() / exact.sum()),
            "measure": lambda rows: float(((_shares(_histogram(rows)) - _shares(exact)) ** 2).sum()),
        },
    )


def _shares(histogram: np.ndarray) -> np.ndarray:
    return np.asarray(histogram / max(histogram.sum(), 1.0))


def _histogram(rows: Sequence[tuple[float, ...]]) -> np.ndarray:
    counts = np.zeros(_BINS + 1)
    for place, count in rows:
        counts[int(place)] += count
    return counts


def outliers(tuples: int) -> Figure:
    """Figure 14: the part of the output found, and the percentage of output tuples with a rare item. The rare items are
    the least frequent ones that together have 5 % of the tuples."""
    counts = store(tuples, 1)["item"].value_counts().sort("count")
    rare = counts.filter(pl.col("count").cum_sum() <= 0.05 * tuples)["item"]
    column = '100.0 * COUNT(*) FILTER (item IN (SELECT item FROM "rare")) / COUNT(*)'
    return joined(tuples, Way("asc"), column, beside={"rare": pl.DataFrame({"item": rare}).to_arrow()})


def selections(tuples: int) -> Figure:
    """Figures 15 and 16: many selections, each of items that have 5 to 10 % of the tuples. Measures the part of the
    answers that is found, and the squared errors of their averages and sums."""
    rows = store(tuples, 1)
    promising, simple = {"s1": summarised(rows, BEST)}, {"s1": summarised(rows, TECHNIQUES[0])}
    guided, sampled, arrival = list[Curve](), list[Curve](), list[Curve]()
    for wanted in (_predicate(rows, seed) for seed in range(_QUERIES)):
        sql = f'SELECT COUNT(*), AVG(price), SUM(price) FROM "s1" WHERE item IN ({", ".join(map(str, wanted))})'
        guided.append(curve(promising, sql, Way(wanted=wanted)))
        sampled.append(curve(promising, sql, Way("weighted")))
        arrival.append(curve(simple, sql, Way()))
    exact = [each.rows[-1][0] for each in arrival]
    whole_s = float(np.mean([each.seconds[-1] for each in arrival]))
    shown: Figure = {"read": FRACTIONS, "time": BUDGETS, "queries": COUNTS}
    for name, found in (("promising", guided), ("arrival", arrival)):
        shown[f"output %, {name}, by reads"] = [_found(_read(found, at), exact) for at in range(len(FRACTIONS))]
        shown[f"output %, {name}, by time"] = [_found(_within(found, part * whole_s), exact) for part in BUDGETS]
        # half of the queries fit into this time without a summary; it is divided by more and by fewer queries
        budgets = [whole_s * _QUERIES / 2 / count for count in COUNTS]
        shown[f"output %, {name}, by queries"] = [_found(_within(found, budget), exact) for budget in budgets]
    for label, column, best in (("mean", 1, sampled), ("sum", 2, guided)):
        for name, found in (("promising", best), ("arrival", arrival)):
            errors = [_error(_read(found, at), exact, column) for at in range(len(FRACTIONS))]
            shown[f"error of {label}, {name}, by reads"] = errors
    return shown


def _read(curves: Sequence[Curve], at: int) -> list[list[Row]]:
    return [each.rows[at] for each in curves]


def _within(curves: Sequence[Curve], budget_s: float) -> list[list[Row]]:
    return [each.within(budget_s) for each in curves]


def _predicate(rows: pl.DataFrame, seed: int) -> pl.Series:
    """Items that together have up to 5 to 10 % of the tuples; the exact limit is random."""
    rng = np.random.default_rng((seed, 15))
    aim = rng.uniform(0.05, 0.1) * rows.height
    counts = rows["item"].value_counts().sort("item").filter(pl.col("count") <= 0.05 * rows.height)
    shuffled = counts[rng.permutation(counts.height)]
    return shuffled.filter(pl.col("count").cum_sum() <= aim)["item"].sort()


def _found(answers: Sequence[list[Row]], exact: Sequence[Row]) -> float:
    """The mean part of the answers that is found, in %."""
    parts = [(rows[0][0] if rows else 0) / whole[0] for rows, whole in zip(answers, exact, strict=True)]
    return 100 * float(np.mean(parts))


def _error(answers: Sequence[list[Row]], exact: Sequence[Row], column: int) -> float:
    """The mean squared relative error of a column. An empty answer has the value 0."""
    values = [rows[0][column] if rows and rows[0][column] is not None else 0.0 for rows in answers]
    return float(np.mean([(value / whole[column] - 1) ** 2 for value, whole in zip(values, exact, strict=True)]))


def all_figures(tuples: int) -> Mapping[str, Figure]:
    """All figures."""
    freshness = "AVG(ABS(s1.at - s2.at)) / 1000.0"
    return {
        "9 and 10a": costs(tuples),
        "10b": windows(gap_us=20.0),
        "11": joined(tuples, Way(), "NULL"),
        "12": joined(2 * tuples, Way(fade=0.8), freshness, depth=4),
        "13": histograms(tuples),
        "14": outliers(tuples),
        "15 and 16": selections(tuples),
    }
