"""Derivations of the rows of a recursive relation: they decide at which layer a row is present.

A row is derived at a layer: at 0 if it is derived from given relations alone, otherwise one above the highest layer of
the rows from which it is derived. It is *present* at the least layer at which it is derived, so it depends only on rows
that are present at lower layers. Rows that derive each other in a circle therefore leave together when the rows that
started the circle leave.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from operators.core.delta import FOREVER, FROM, RESERVED, TO, WEIGHT, Delta
from operators.kernels.equal_join import equal_join
from operators.state.trace import Trace

LAYER = "__layer"
_ROW = "__row"
#: The instant, before all others, of derivations from before the step.
_BEFORE = np.iinfo(np.int64).min


@dataclass
class Derivations:
    """The rows of one relation that a step changes, with all their derivations. `derived` is the state before the step:
    the number of derivations of each row at each layer; `instant` is the start of the step."""

    derived: Trace
    instant: int
    _rows: pl.DataFrame | None = None
    _added: list[pl.DataFrame] = field(default_factory=list)
    _row: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    _layer: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    _at: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    _weight: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    def add(self, derivations: pl.DataFrame) -> None:
        """Adds changes of derivations: rows with LAYER, `__from` and `__weight`."""
        same = [name for name in derivations.columns if name not in RESERVED]
        summed = derivations.group_by(*same, FROM, maintain_order=True).agg(pl.col(WEIGHT).sum())
        summed = summed.filter(pl.col(WEIGHT) != 0)
        if not summed.height:
            return
        self._added.append(summed)
        self._number_rows(summed.select(self.derived.keys).unique(maintain_order=True))
        self._note(summed, summed[FROM].to_numpy())

    def above(self, layer: int) -> int | None:
        """Returns the least layer above `layer` at which a changed row is derived; None if there is none."""
        higher = self._layer[self._layer > layer]
        return int(higher.min()) if len(higher) else None

    def changes(self, layer: int) -> pl.DataFrame | None:
        """Returns the rows that become present or absent at a layer, with LAYER, `__from`, `__to` and `__weight`; None
        if there are none. All derivations up to this layer must have been added."""
        at_layer = np.unique(self._row[self._layer == layer])
        if self._rows is None or not len(at_layer):
            return None
        near = np.flatnonzero((self._layer <= layer) & np.isin(self._row, at_layer))
        row, at = np.append(self._row[near], at_layer), np.append(self._at[near], np.full(len(at_layer), _BEFORE))
        is_here = np.append(self._layer[near] == layer, np.zeros(len(at_layer), np.bool_))
        weight = np.append(self._weight[near], np.zeros(len(at_layer), np.int64))
        row, at, sign = _presence_changes(row, at, np.where(is_here, 0, weight), np.where(is_here, weight, 0))
        if not len(row):
            return None
        ends = pl.Series(TO, np.full(len(row), FOREVER))
        found = [pl.Series(LAYER, np.full(len(row), layer)), pl.Series(FROM, at), ends, pl.Series(WEIGHT, sign)]
        return self._rows[row].with_columns(found)

    def kept(self, frontier: int, ordered: Callable[[pl.DataFrame], pl.DataFrame]) -> Trace:
        """Returns the state after the step, for instants from the frontier on; `ordered` adds the column `__order`."""
        if not self._added:
            return self.derived
        added = ordered(pl.concat(self._added).with_columns(pl.lit(FOREVER, pl.Int64).alias(TO)))
        return self.derived.append(Delta(added.select(*self.derived.keys, LAYER, *RESERVED)), frontier)

    def _number_rows(self, rows: pl.DataFrame) -> None:
        """Numbers the rows that are new in this step, and adds their derivations from before the step."""
        keys = list(self.derived.keys)
        if self._rows is not None:
            rows = rows.join(self._rows, on=keys, how="anti", nulls_equal=True)
        if not rows.height:
            return
        self._rows = rows if self._rows is None else pl.concat([self._rows, rows])
        held = self.derived.lookup(rows, self.instant).frame
        if held.height:
            self._note(held, np.full(held.height, _BEFORE))

    def _note(self, derivations: pl.DataFrame, at: np.ndarray) -> None:
        assert self._rows is not None
        keys = list(self.derived.keys)
        numbered = self._rows.with_row_index(_ROW)
        row = equal_join(derivations.select(keys), numbered, keys, "left")
        self._row = np.append(self._row, row[_ROW].to_numpy().astype(np.int64))
        self._layer = np.append(self._layer, derivations[LAYER].to_numpy())
        self._at = np.append(self._at, at)
        self._weight = np.append(self._weight, derivations[WEIGHT].to_numpy())


def _presence_changes(
    row: np.ndarray, at: np.ndarray, below: np.ndarray, here: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the changes (row, instant, ±1) of presence: whether a row has no derivation `below` a layer and at least
    one at it (`here`). Each row has an entry at the instant before all others.

    >>> changes = _presence_changes(np.array([0, 0]), np.array([_BEFORE, 5]), np.array([0, 0]), np.array([0, 2]))
    >>> [column.tolist() for column in changes]
    [[0], [5], [1]]
    """
    order = np.lexsort((at, row))
    row, at, below, here = row[order], at[order], below[order], here[order]
    starts = np.flatnonzero((np.diff(row, prepend=-1) != 0) | (np.diff(at, prepend=at[:1]) != 0))
    below, here = np.add.reduceat(below, starts), np.add.reduceat(here, starts)
    row, at = row[starts], at[starts]
    first = np.flatnonzero(np.diff(row, prepend=-1))
    counts = np.diff(np.append(first, len(row)))
    below, here = (_running(values, first, counts) for values in (below, here))
    present = ((below <= 0) & (below + here > 0)).astype(np.int64)
    sign = np.diff(present, prepend=0)
    sign[first] = 0
    changed = np.flatnonzero(sign)
    return row[changed], at[changed], sign[changed]


def _running(values: np.ndarray, first: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Returns the running sums of groups that begin at `first`."""
    sums: np.ndarray = np.cumsum(values)
    before = sums[first] - values[first]
    return np.asarray(sums - np.repeat(before, counts))
