"""Phases: a phase of a group begins at an instant at which the group changes, and lasts until its next change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from operators.core.delta import FROM, ORDER, WEIGHT, Delta, ascends
from operators.core.row_differences import all_differ

PHASE = "__phase"
_GROUP, _AT = "__phase_group", "__phase_at"


@dataclass(frozen=True)
class Phases:
    """The changes of a step, each with the number of its phase in PHASE, sorted by (phase, order, other columns).

    Phases are numbered by group and then by instant.

    >>> Phases.of(Delta.of([("+", {"k": "a"}, 5), ("+", {"k": "b"}, 5), ("-", {"k": "a"}, 6)]).frame, ["k"]).instant
    array([5, 6, 5])
    """

    rows: pl.DataFrame
    #: A row for each group: the key columns, and the columns that depend on them.
    groups: pl.DataFrame
    #: For each phase: its group, its instant and the greatest order of its changes.
    group: np.ndarray
    instant: np.ndarray
    order: np.ndarray

    @staticmethod
    def of(frame: pl.DataFrame, keys: Sequence[str], also: Sequence[str] = ()) -> Phases:
        """The phases of a frame of elements grouped by `keys`. Rows with the same instant and order are sorted by their
        values, so the result does not depend on the order of rows in the frame.

        `also` are columns that depend on the keys; they are kept with the keys in `groups`.
        """
        leaders, instants, orders = _leaders(frame, keys), frame[FROM].to_numpy(), frame[ORDER].to_numpy()
        at = _by_time(instants, orders)
        at = at[_stable_order(leaders[at])]
        group, instant, order = leaders[at], instants[at], orders[at]
        ordered = frame[_untied(at, group, instant, order, frame, keys)]
        # A phase opens where the group or the instant differs from the row before:
        #   group [a a a b], instant [5 5 6 5] -> opens [1 0 1 1], starts [0 2 3], ends [1 2 3], leads [1 0 1].
        opens = np.concatenate([[True], (group[1:] != group[:-1]) | (instant[1:] != instant[:-1])])[: len(group)]
        starts = np.flatnonzero(opens)
        ends = np.concatenate([starts[1:], [len(group)]]).astype(np.int64) - 1
        members = group[starts]
        leads = np.concatenate([[True], members[1:] != members[:-1]])[: len(members)]
        phase = pl.Series(PHASE, np.cumsum(opens) - 1, pl.Int64)
        groups = ordered[starts[leads]].select(*keys, *also)
        last = order[ends[: len(starts)]]
        return Phases(ordered.with_columns(phase), groups, np.cumsum(leads) - 1, instant[starts], last)

    @property
    def size(self) -> int:
        """How many phases there are."""
        return len(self.group)

    @property
    def group_count(self) -> int:
        """The number of groups that change."""
        return len(self.first)

    @cached_property
    def leads(self) -> np.ndarray:
        """For each phase, whether it is the first of its group."""
        return np.concatenate([[True], self.group[1:] != self.group[:-1]])[: self.size]

    @cached_property
    def first(self) -> np.ndarray:
        """The first phase of each group."""
        return np.flatnonzero(self.leads)

    @cached_property
    def last(self) -> np.ndarray:
        """The last phase of each group."""
        return np.append(self.first[1:], self.size).astype(np.int64)[: len(self.first)] - 1


def _leaders(frame: pl.DataFrame, keys: Sequence[str]) -> np.ndarray:
    """For each row, the index of the first row of its group."""
    if not keys:
        return np.zeros(frame.height, np.uint32)
    return frame.with_row_index(_AT).select(pl.col(_AT).min().over(list(keys))).to_series().to_numpy()


def _by_time(instants: np.ndarray, orders: np.ndarray) -> np.ndarray:
    """The indexes that sort rows by instant and order; does not sort if the rows are sorted already."""
    return np.arange(len(instants)) if ascends(instants, orders) else np.lexsort((orders, instants))


def _stable_order(values: np.ndarray) -> np.ndarray:
    """A stable `argsort` of a uint32 column, by NumPy's radix sort of two bytes at a time.

    >>> _stable_order(np.array([70000, 5, 70000, 0], np.uint32)).tolist()
    [3, 1, 0, 2]
    """
    order = np.argsort(values.astype(np.uint16), kind="stable")
    if len(values) and values.max() > np.iinfo(np.uint16).max:
        order = order[np.argsort((values >> 16).astype(np.uint16)[order], kind="stable")]
    return order


def _untied(
    at: np.ndarray, group: np.ndarray, instant: np.ndarray, order: np.ndarray, frame: pl.DataFrame, keys: Sequence[str]
) -> np.ndarray:
    """The indexes of the rows in sorted order, with rows that tie sorted by their values."""
    tied = np.zeros(len(at), np.bool_)
    tied[1:] = (group[1:] == group[:-1]) & (instant[1:] == instant[:-1]) & (order[1:] == order[:-1])
    if not tied.any():
        return at
    members = np.flatnonzero(tied | np.append(tied[1:], False))
    blocks = pl.Series(_GROUP, np.cumsum(~tied)[members])
    values = [name for name in frame.columns if name not in (*keys, FROM, ORDER)]
    rows = frame[at[members]].select(values).with_columns(blocks).with_row_index(_AT)
    sorted_rows = rows.sort(_GROUP, *(name for name in values if name != WEIGHT), WEIGHT)
    untied = at.copy()
    untied[members] = at[members][sorted_rows[_AT].to_numpy()]
    return untied


def cancel_within_instants(delta: Delta) -> pl.DataFrame:
    """The elements without those that cancel within an instant; duplicates that do not cancel are not merged.

    An upstream operator may emit both `+row` and `-row` at the same instant, or neither: the two deltas are equal.
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
