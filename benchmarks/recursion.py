"""The cost of a change of a recursive relation, compared with computing it again: `python -m benchmarks.recursion`.

The relation has a row for each node of a random forest and each of its ancestors; in the largest forest it has about
twelve times as many rows as edges. The parent of a node is a random earlier node. The benchmark measures the median
step (ms) that adds a leaf, removes a leaf, and moves a node with its descendants to another parent, and the time in
which DuckDB computes the closure of the same edges again. The last relation is compared with DuckDB's, row by row.
Writes `benchmarks/out/recursion.json`.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from benchmarks.report import Peer, Result, write_report
from operators.core.delta import FOREVER, FROM, ORDER, TO, WEIGHT, Delta, union_all
from operators.core.errors import ExternalError
from operators.core.operator import Move
from operators.expressions import Column
from operators.recursion.recursion import Recursion
from operators.recursion.term import Given, Paired, Projected, Recurred, Rule, Term

OUT = Path(__file__).parent / "out" / "recursion.json"
_NODE = pa.int64()
_CLOSURE = "WITH RECURSIVE p AS (SELECT c, d FROM e UNION SELECT p.c, e.d FROM p JOIN e ON p.d = e.c) SELECT * FROM p"
_STEPS = 60


def ancestors() -> Recursion:
    """The pairs of a node and an ancestor, over edges (c, d) from a node to its parent."""
    base = Rule(0, _named(Given(0), a="c", b="d"))
    step = Rule(0, _named(Paired(Recurred(0), Given(0), ("b",), ("c",)), a="a", b="d"))
    return Recursion("ancestors", (pa.schema([("a", _NODE), ("b", _NODE)]),), (base, step), 0)


def _named(term: Term, **names: str) -> Projected:
    return Projected(term, tuple((name, Column(of, _NODE, nullable=False)) for name, of in names.items()))


class Forest:
    """The operator over a forest, one change after another."""

    def __init__(self, nodes: int) -> None:
        rng = np.random.default_rng(5)
        self.parents = {node: int(rng.integers(max(0, node - 1 - nodes // 3), node)) for node in range(1, nodes)}
        self._operator, self._at = ancestors(), 0
        self._traces = self._operator.traces()
        self._rng, self.rows = rng, 0
        self._step(np.array([*self.parents.items()]), 1)

    def changes(self, kind: str) -> Iterator[float]:
        """Makes changes of a kind; yields the seconds that each takes."""
        for _ in range(_STEPS):
            yield self._timed(getattr(self, f"_{kind}"))

    def _timed(self, change: object) -> float:
        assert callable(change)
        began = time.perf_counter()
        change()
        return time.perf_counter() - began

    def _add(self) -> None:
        node = len(self.parents) + 1
        self.parents[node] = int(self._rng.integers(node))
        self._step(np.array([(node, self.parents[node])]), 1)

    def _remove(self) -> None:
        node = max(self.parents)
        self._step(np.array([(node, self.parents.pop(node))]), -1)

    def _move(self) -> None:
        node = int(self._rng.integers(len(self.parents) // 2, len(self.parents)))
        before, self.parents[node] = self.parents[node], int(self._rng.integers(node))
        self._step(np.array([(node, before), (node, self.parents[node])]), np.array([-1, 1]))

    def _step(self, edges: np.ndarray, weights: int | np.ndarray) -> None:
        self._at += 1
        columns = {"c": edges[:, 0], "d": edges[:, 1], FROM: self._at, TO: FOREVER, WEIGHT: weights, ORDER: self._at}
        frame = pl.DataFrame({name: np.broadcast_to(value, len(edges)) for name, value in columns.items()})
        step = self._operator.step(Delta(frame.cast(pl.Int64)), self._traces, Move(self._at, self._at + 1))
        self._traces = step.traces
        self.rows += int(step.delta.frame[WEIGHT].sum())
        self._seen = union_all([self._seen, step.delta]) if self._at > 1 else step.delta

    def verify(self) -> float:
        """Compares the relation with DuckDB's; returns the seconds that DuckDB took."""
        edges = pl.DataFrame({"c": list(self.parents), "d": list(self.parents.values())})
        database = duckdb.connect()
        database.register("e", edges.to_arrow())
        began = time.perf_counter()
        wanted = pl.DataFrame(database.sql(_CLOSURE).to_arrow_table()).rename({"c": "a", "d": "b"})
        seconds = time.perf_counter() - began
        found = self._seen.frame.group_by("a", "b").agg(pl.col(WEIGHT).sum()).filter(pl.col(WEIGHT) != 0)
        same = found.select("a", "b").sort("a", "b").equals(wanted.sort("a", "b"))
        if not same or (found[WEIGHT] != 1).any():
            raise ExternalError(f"{found.height} rows, not the {wanted.height} of DuckDB", retryable=False)
        return seconds


def measure(nodes: int) -> Iterator[Result]:
    """The medians of each kind of change."""
    forest = Forest(nodes)
    medians = {kind: statistics.median(forest.changes(kind)) for kind in ("add", "remove", "move")}
    anew = forest.verify()
    for kind, seconds in medians.items():
        name = f"{kind} with {nodes:,} edges, {forest.rows:,} rows"
        yield Result(name, seconds * 1_000, "ms", "lower", peer=Peer("DuckDB, anew", anew * 1_000))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures and writes the report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recursion", description=__doc__)
    parser.add_argument("--edges", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args(arguments)
    write_report(options.out, [result for nodes in options.edges for result in measure(nodes)])


if __name__ == "__main__":
    main()
