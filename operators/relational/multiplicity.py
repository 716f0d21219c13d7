"""Functions of multiplicities: a row's multiplicity in the output is a function of its multiplicities in the inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import polars as pl

from operators.core.delta import FOREVER, FROM, ORDER, RESERVED, TO, WEIGHT, Delta
from operators.core.operator import Move, Step
from operators.core.run import HASH, arranged
from operators.kernels.canonical_zero import canonical_zeros
from operators.kernels.equal_join import equal_join
from operators.state.accumulators import Accumulators
from operators.state.trace import Trace

#: Maps an array for each input, of multiplicities at many points, to the array of multiplicities in the output.
Rule = Callable[..., np.ndarray]
_INPUT = "__input"
_COUNT = "__count{}"


def no_multiplicities() -> tuple[Trace, ...]:
    """Returns the empty state of `step_by_multiplicity`: a map from rows to their multiplicities in each input."""
    return (cast(Trace, Accumulators(())),)


def step_by_multiplicity(rule: Rule, inputs: Sequence[Delta], traces: tuple[Trace, ...], move: Move) -> Step:
    """Returns the changes of the relation that contains row r `rule(n_1(r), n_2(r), …)` times, where n_i(r) is the
    multiplicity of r in input i.

    Inputs are changes of the same schema; NULLs are equal, and -0.0 equals 0.0. The order of an output element is the
    greatest one of the row's changes at its instant.

    >>> once, twice = Delta.of([("+", {"a": 1}, 5)]), Delta.of([("+", {"a": 1}, 5), ("+", {"a": 1}, 7)])
    >>> step = step_by_multiplicity(lambda n, m: n * m, [once, twice], no_multiplicities(), Move(0, 9))
    >>> step.delta.frame.select("a", "__from", "__weight").rows()
    [(1, 5, 1), (1, 7, 1)]
    """
    if not any(len(delta) for delta in inputs):
        return Step(inputs[0], traces)
    row = inputs[0].columns
    held = replace(cast(Accumulators, traces[0]), keys=tuple(row))
    counts = [_COUNT.format(number) for number in range(len(inputs))]
    rows, changes = _by_row(inputs, row)
    before = _stored(rows, held, counts)
    points = _points(changes, before)
    last = points.last(before)
    counted = pl.DataFrame(dict(zip(counts, last, strict=True)), schema=dict.fromkeys(counts, pl.Int64))
    kept = _keep(held, rows, counted, (before != last).any(axis=0), move)
    return Step(_output(rule, rows, points), (cast(Trace, kept),))


@dataclass(frozen=True, slots=True)
class _Changes:
    """Changes of rows: the index of the row, the instant, the order, and the weights, an array (inputs, changes)."""

    row: np.ndarray
    at: np.ndarray
    order: np.ndarray
    weights: np.ndarray


@dataclass(frozen=True, slots=True)
class _Points:
    """The points (row, instant), sorted, with the multiplicities before and after each in every input, as arrays
    (inputs, points)."""

    row: np.ndarray
    at: np.ndarray
    order: np.ndarray
    before: np.ndarray
    after: np.ndarray

    def last(self, before: np.ndarray) -> np.ndarray:
        """Returns the multiplicities after the last point of each row; every row has a point."""
        ends = np.flatnonzero(np.diff(self.row, append=-1))
        result = before.copy()
        result[:, self.row[ends]] = self.after[:, ends]
        return result


def _by_row(inputs: Sequence[Delta], row: list[str]) -> tuple[pl.DataFrame, _Changes]:
    """Returns the distinct rows that change, and their changes."""
    frames = [delta.frame.with_columns(pl.lit(number).alias(_INPUT)) for number, delta in enumerate(inputs)]
    changes = arranged(pl.concat(frames).with_columns(canonical_zeros(frames[0].select(row))), row)
    row_of, firsts = _numbered(changes, row)
    at, order, weight, number = (changes[name].to_numpy() for name in (FROM, ORDER, WEIGHT, _INPUT))
    weights = np.where(number == np.arange(len(inputs))[:, None], weight, 0)
    return changes.drop(*RESERVED, _INPUT, HASH)[firsts], _Changes(row_of, at, order, weights)


def _numbered(ordered: pl.DataFrame, row: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the number of each change's row in a frame sorted by hash, and the first index of each row."""
    known = np.diff(ordered[HASH].to_numpy(), prepend=~ordered[HASH].to_numpy()[:1]) == 0
    same = ordered.select(pl.all_horizontal(pl.lit(True), pl.col(row).eq_missing(pl.col(row).shift()))).to_series()
    if (known & ~same.to_numpy()).any():  # rows with the same hash may alternate
        numbers = ordered.select(pl.struct(row).rank("dense")).to_series().to_numpy()
        _, firsts, row_of = np.unique(numbers, return_index=True, return_inverse=True)
        return row_of, firsts
    return np.cumsum(~known) - 1, np.flatnonzero(~known)


def _stored(rows: pl.DataFrame, held: Accumulators, counts: list[str]) -> np.ndarray:
    """Returns the multiplicities of the rows before the step, as an array (inputs, rows)."""
    none = np.zeros((len(counts), rows.height), np.int64)
    stored = held.lookup(rows) if held.runs else rows.clear()
    if not stored.height:
        return none
    if not rows.width:
        return stored.to_numpy().T
    joined = equal_join(rows, stored, rows.columns, "left")
    return np.stack([joined[count].fill_null(0).to_numpy() for count in counts])


def _points(changes: _Changes, before: np.ndarray) -> _Points:
    by_time = np.lexsort((changes.at, changes.row))
    row, at = changes.row[by_time], changes.at[by_time]
    starts = np.flatnonzero((np.diff(row, prepend=-1) != 0) | (np.diff(at, prepend=FOREVER) != 0))
    if not len(starts):
        return _Points(row, at, changes.order, changes.weights, changes.weights)
    weights = np.add.reduceat(changes.weights[:, by_time], starts, axis=1)
    orders = np.maximum.reduceat(changes.order[by_time], starts)
    sums = np.cumsum(weights, axis=1)
    first = np.flatnonzero(np.diff(row[starts], prepend=-1))
    # The running sum at the start of a row is the sum of the rows before it: weights [1 1 | 1] of two rows have the
    # sums [1 2 3] and the foreign parts [0 0 2].
    foreign = (sums - weights)[:, first][:, row[starts]]
    after = before[:, row[starts]] + sums - foreign
    return _Points(row[starts], at[starts], orders, after - weights, after)


def _output(rule: Rule, rows: pl.DataFrame, points: _Points) -> Delta:
    weight = rule(*points.after).astype(np.int64) - rule(*points.before).astype(np.int64)
    changed = np.flatnonzero(weight)
    reserved = {FROM: points.at[changed], WEIGHT: weight[changed], ORDER: points.order[changed]}
    ends = pl.lit(FOREVER, pl.Int64).alias(TO)
    elements = pl.DataFrame(reserved, schema=dict.fromkeys(reserved, pl.Int64)).with_columns(ends)
    return Delta(pl.concat([rows[points.row[changed]], elements.select(RESERVED)], how="horizontal"))


def _keep(
    held: Accumulators, rows: pl.DataFrame, counts: pl.DataFrame, changed: np.ndarray, move: Move
) -> Accumulators:
    counted = pl.concat([rows, counts], how="horizontal")[np.flatnonzero(changed)]
    absent = counted.select(pl.all_horizontal(pl.col(counts.columns) == 0)).to_series()
    return held.upsert(counted, absent, move.end)
