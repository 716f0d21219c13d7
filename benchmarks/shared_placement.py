"""Where the planner places 200 queries with common operators: `python -m benchmarks.shared_placement`.

The queries have 20 shapes, which contain each other: joins of windows, joins of such a join, groups over these, and
windows of rows. They are created in random order. Three ways to place them are compared: queries that share operators
together in one fragment, as before there were links; dealt out in turn, without links; and as the coordinator does,
with links (`dsms/registration/placement.py`). For each way and number of fragments, the report has the operators with
state in the cluster, and the queries and operators of the busiest fragment in % of the mean. Nothing runs: the plans of
the fragments are compiled and counted. Writes `benchmarks/out/shared_placement.json` and a plot.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import NamedTuple
from unittest import mock

import matplotlib as mpl
import msgspec
from matplotlib.figure import Figure

from benchmarks.report import Result, write_report
from dsms.model.catalog import Catalog
from dsms.planner.physical.fragment_plan import compile_lane, plan_fragment
from dsms.registration import placement
from dsms.registration.environment import Environment
from dsms.statements.registry import apply, parse

OUT = Path(__file__).parent / "out" / "shared_placement.json"
SOURCES = "".join(
    f"REGISTER SOURCE T{name} (k INT, v INT) FROM t{name}; CREATE STREAM {name} OVER T{name} KEY NULL;"
    for name in "ABCD"
)
PAIRS = [
    f"SELECT X.k, X.v, Y.v AS w FROM {left} [Range 9] AS X JOIN {right} [Range 9] AS Y ON X.k = Y.k"
    for left, right in ("AB", "AC", "BD", "CD")
]
TRIPLES = [f"SELECT P.k, P.v, P.w, Z.v AS z FROM ({pairs}) AS P JOIN D [Range 5] AS Z ON Z.k = P.k" for pairs in PAIRS]
GROUPS = [f"SELECT k, COUNT(*) AS n, MAX(v) AS m, MIN(w) AS l FROM ({pairs}) GROUP BY k" for pairs in PAIRS]
WINDOWS = [f"SELECT k, v FROM {name} [Rows 100]" for name in "ABCD"]
COUNTS = [f"SELECT k, v, COUNT(*) AS n FROM ({window}) GROUP BY k, v" for window in WINDOWS]
SHAPES = [*PAIRS, *TRIPLES, *GROUPS, *WINDOWS, *COUNTS]
WAYS = ("together", "dealt out", "with links")
#: The operators with state that are counted.
KINDS = frozenset({"Join", "GroupBy", "RowWindow"})


class Placed(NamedTuple):
    """What a way of placing queries leads to: the operators with state, and the unevenness in % of the mean."""

    operators: int
    queries: float
    busiest: float


def placed(way: str, shapes: Sequence[str], fragments: int) -> Placed:
    """The plans of all fragments after a query was created for each shape."""
    environment = Environment(utilization=lambda: {str(number): 0.0 for number in range(fragments)}, cluster="main")
    catalog = Catalog()
    for statement in parse(SOURCES):
        catalog, _ = apply(statement, catalog, environment)
    for at, shape in enumerate(shapes):
        pinned = f"WITH (fragment = '{at % fragments}') " if way == "dealt out" else ""
        (created,) = parse(f"CREATE QUERY q{at} {pinned}AS SELECT STREAMED *, k + {at} AS c{at} FROM ({shape})")
        with mock.patch.object(placement, "_IMBALANCE", float("inf") if way == "together" else placement._IMBALANCE):
            catalog, _ = apply(created, catalog, environment)
        if way != "with links":
            catalog = _without_links(catalog)
    operators = [_operators(catalog, name) for name in environment.utilization()]
    queries = Counter(query.fragment for query in catalog.queries())
    counts = [queries[name] for name in environment.utilization()]
    return Placed(sum(operators), 100 * max(counts) / mean(counts), 100 * max(operators) / mean(operators))


def _without_links(catalog: Catalog) -> Catalog:
    bare = [msgspec.structs.replace(query, links=()) for query in catalog.queries() if query.links]
    return catalog.with_changed(*bare) if bare else catalog


def _operators(catalog: Catalog, fragment: str) -> int:
    """The operators with state in the plan of a fragment."""
    queries = plan_fragment(catalog, 1, fragment=fragment).queries.values()
    return sum(vertex.kind in KINDS for vertex in compile_lane("all", queries).flow.vertices)


def main() -> None:
    """Places, counts, prints the figures, and writes the report and the plot."""
    asked = _options()
    shapes = SHAPES * (asked.queries // len(SHAPES))
    random.Random(asked.seed).shuffle(shapes)
    found = {(way, count): placed(way, shapes, count) for count in asked.fragments for way in WAYS}
    results = [
        Result(f"{way}, {count} fragments: {what}", value, unit, "lower")
        for (way, count), figures in found.items()
        for what, value, unit in zip(
            ("operators with state", "queries of the busiest", "operators of the busiest"),
            figures,
            ("", "% of the mean", "% of the mean"),
            strict=True,
        )
    ]
    write_report(asked.out, results)
    _plot(asked.out.with_suffix(".svg"), found, asked.fragments)


def _plot(path: Path, found: dict[tuple[str, int], Placed], fragments: Sequence[int]) -> None:
    mpl.rcParams["svg.hashsalt"] = "shared_placement"
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    titles = "operators with state", "queries of the busiest fragment, % of the mean"
    for at, (title, axes) in enumerate(zip(titles, figure.subplots(1, 2), strict=True)):
        for number, way in enumerate(WAYS):
            places = [index + (number - 1) / 4 for index in range(len(fragments))]
            axes.bar(places, [found[way, count][at] for count in fragments], width=0.22, label=way)
        axes.set_xticks(range(len(fragments)), [f"{count} fragments" for count in fragments])
        axes.set_title(title, fontsize=9)
        axes.legend(fontsize=8)
    figure.savefig(path, format="svg", metadata={"Date": None})


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shared_placement", description=__doc__)
    parser.add_argument("--queries", type=int, default=200, help="how many queries")
    parser.add_argument("--fragments", type=_numbers, default=[2, 4], help="such as 2,4")
    parser.add_argument("--seed", type=int, default=1, help="of the order of the queries")
    parser.add_argument("--out", type=Path, default=OUT, help="where the report goes")
    return parser.parse_args()


if __name__ == "__main__":
    main()
