"""Cells: the pairs (group, instant) at which groups change, sorted by group and then by instant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from operators.core.delta import FROM, ORDER, WEIGHT, Delta
from operators.core.row_differences import all_differ

CELL = "__cell"
_GROUP, _AT = "__cell_group", "__cell_at"


@dataclass(frozen=True)
class Cells:
    """The changes of a step with the cell that each belongs to in CELL, sorted by (cell, order, other columns).

    >>> Cells.of(Delta.of([("+", {"k": "a"}, 5), ("+", {"k": "b"}, 5), ("-", {"k": "a"}, 6)]).frame, ["k"]).instant
    array([5, 6, 5])
    """

    rows: pl.DataFrame
    #: A row for each group: the key columns, and those that depend on them.
    groups: pl.DataFrame
    #: For each cell its group, its instant and the greatest order of its changes.
    group: np.ndarray
    instant: np.ndarray
    order: np.ndarray

    @staticmethod
    def of(frame: pl.DataFrame, keys: Sequence[str], also: Sequence[str] = ()) -> Cells:
        """The cells of a frame of elements grouped by `keys`. Rows with the same instant and order are sorted by their
        values, so that the order of rows in the frame has no influence.

        `also` are columns that depend on the keys, kept with them in `groups`.
        """
        frame = frame.with_row_index(_AT)
        leader = pl.col(_AT).min().over(list(keys)) if keys else pl.lit(0, pl.UInt32)
        sorting = frame.select(leader.alias(_GROUP), FROM, ORDER, _AT).sort(_GROUP, FROM, ORDER)
        ordered = frame[_untied(sorting, frame.drop(_AT), keys)]
        group, instant = sorting[_GROUP].to_numpy(), sorting[FROM].to_numpy()
        # A cell opens where the group or the instant differs from the row before:
        #   group [a a a b], instant [5 5 6 5] -> opens [1 0 1 1], starts [0 2 3], ends [1 2 3], leads [1 0 1].
        opens = np.concatenate([[True], (group[1:] != group[:-1]) | (instant[1:] != instant[:-1])])[: len(group)]
        starts = np.flatnonzero(opens)
        ends = np.concatenate([starts[1:], [len(group)]]).astype(np.int64) - 1
        members = group[starts]
        leads = np.concatenate([[True], members[1:] != members[:-1]])[: len(members)]
        cell = pl.Series(CELL, np.cumsum(opens) - 1, pl.Int64)
        orders = sorting[ORDER].to_numpy()[ends[: len(starts)]]
        groups = ordered[starts[leads]].select(*keys, *also)
        return Cells(ordered.drop(_AT).with_columns(cell), groups, np.cumsum(leads) - 1, instant[starts], orders)

    @property
    def size(self) -> int:
        """How many cells there are."""
        return len(self.group)

    @property
    def members(self) -> int:
        """How many groups change."""
        return len(self.first)

    @cached_property
    def leads(self) -> np.ndarray:
        """For each cell, whether it is the first of its group."""
        return np.concatenate([[True], self.group[1:] != self.group[:-1]])[: self.size]

    @cached_property
    def first(self) -> np.ndarray:
        """The first cell of each group."""
        return np.flatnonzero(self.leads)

    @cached_property
    def last(self) -> np.ndarray:
        """The last cell of each group."""
        return np.append(self.first[1:], self.size).astype(np.int64)[: len(self.first)] - 1


def _untied(sorting: pl.DataFrame, frame: pl.DataFrame, keys: Sequence[str]) -> np.ndarray:
    """The places of the rows in sorted order, where rows that tie are sorted by their values."""
    at = sorting[_AT].to_numpy().copy()
    same = sorting.select(pl.all_horizontal(pl.col(_GROUP, FROM, ORDER).eq(pl.col(_GROUP, FROM, ORDER).shift(1))))
    tied = same.to_series().fill_null(False).to_numpy()
    if not tied.any():
        return at
    members = np.flatnonzero(tied | np.append(tied[1:], False))
    blocks = pl.Series(_GROUP, np.cumsum(~tied)[members])
    values = [name for name in frame.columns if name not in (*keys, FROM, ORDER)]
    rows = frame[at[members]].select(values).with_columns(blocks).with_row_index(_AT)
    at[members] = at[members][rows.sort(_GROUP, *(name for name in values if name != WEIGHT), WEIGHT)[_AT].to_numpy()]
    return at


def cancel_within_instants(delta: Delta) -> pl.DataFrame:
    """The elements without those that cancel within an instant; duplicates that do not cancel stay apart.

    An upstream operator may emit `+row` and `-row` at the same instant or neither: both are the same delta.
    """
    frame = delta.frame.filter(pl.col(WEIGHT) != 0)
    negative = frame[WEIGHT] < 0
    if not negative.any() or all_differ(frame.drop(WEIGHT, ORDER)):
        return frame
    hashes = frame.drop(WEIGHT, ORDER).hash_rows()
    suspects = hashes.filter(negative).unique()
    twins = hashes.is_duplicated() & hashes.is_in(suspects.implode())
    if not twins.any():
        return frame
    return pl.concat([frame.filter(~twins), Delta(frame.filter(twins)).consolidate().frame])
