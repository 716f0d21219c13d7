"""Copies: the instants at which each copy of a row enters and leaves a relation; the oldest copy leaves first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from operators.core.delta import BEGINNING, FOREVER, FROM, ORDER, RESERVED, TO, WEIGHT, Delta
from operators.core.run import key_hash
from operators.state.trace import Trace

#: The instant at which a copy entered, and the order of the change that inserted it: columns of the state.
SINCE, ARRIVAL = "__since", "__arrival"
#: A hash of the row, to order the rows that one record causes.
TIE = "__tie"
#: The instants of a step at which a copy enters and leaves, and the order of the change that retracts it.
BIRTH, DEATH, DEPARTURE = "__birth", "__death", "__departure"
#: A number that is equal for equal rows.
ROW = "__row"
#: The key of all rows if there is no partition.
ALL = "__all"
#: The birth of copies that were present before the step.
HELD = BEGINNING - 1
_FIRST = "__first_equal"


def held_copies(state: Trace, changes: pl.DataFrame, partition: Sequence[str], frontier: int) -> pl.DataFrame | None:
    """Returns the stored copies of all partitions that change; None if there are none."""
    if not changes.height or not state.runs:
        return None
    copies = state.lookup(with_partition_key(changes, partition).select(partition or [ALL]).unique(), frontier).frame
    return copies if copies.height else None


def state_of_partitions(partition: Sequence[str]) -> Trace:
    """Returns the empty state: copies by partition."""
    return Trace("key", tuple(partition) or (ALL,))


def with_partition_key(frame: pl.DataFrame, partition: Sequence[str]) -> pl.DataFrame:
    """Returns the frame, with a constant key column `ALL` if there are no partition columns."""
    return frame if partition else frame.with_columns(pl.lit(0, pl.Int8).alias(ALL))


def net_changes(delta: Delta) -> pl.DataFrame:
    """Returns the nonzero sums of each row's changes at each instant, with `__from`, `__weight` and `__order`."""
    return delta.consolidate().frame.drop(TO)


def match_copies(held: pl.DataFrame | None, changes: pl.DataFrame) -> pl.DataFrame:
    """Returns the copies `held` before the step and those inserted in it, with `SINCE`, `ARRIVAL`, `TIE`, `BIRTH`,
    `DEATH`, `DEPARTURE`, `ROW` and their number `__weight`.

    A retraction removes the copy of the row that entered first. Copies that stay have `DEATH` FOREVER.

    >>> changes = net_changes(Delta.of([("+", {"a": 1}, 3), ("+", {"a": 1}, 4), ("-", {"a": 1}, 5)]))
    >>> match_copies(None, changes).select("a", BIRTH, DEATH).rows() == [(1, 3, 5), (1, 4, FOREVER)]
    True
    """
    row = [name for name in changes.columns if name not in RESERVED]
    entering = changes.filter(pl.col(WEIGHT) > 0)
    ties = key_hash(entering, row) if row else pl.Series(np.zeros(entering.height, np.uint64))
    born = entering.select(
        *row,
        pl.col(FROM).alias(SINCE),
        pl.col(ORDER).alias(ARRIVAL),
        ties.alias(TIE),
        pl.col(FROM).alias(BIRTH),
        WEIGHT,
    )
    copies = born
    if held is not None:
        before = held.select(*row, SINCE, ARRIVAL, TIE, pl.lit(HELD, pl.Int64).alias(BIRTH), WEIGHT)
        copies = pl.concat([before, born])
    leaving = changes.filter(pl.col(WEIGHT) < 0)
    if leaving.height:
        return _first_in_first_out(copies, leaving, row)
    stays = (pl.lit(FOREVER, pl.Int64).alias(DEATH), pl.lit(0, pl.Int64).alias(DEPARTURE))
    return copies.with_columns(*stays, pl.int_range(pl.len(), dtype=pl.Int64).alias(ROW))


def _first_in_first_out(copies: pl.DataFrame, retractions: pl.DataFrame, row: list[str]) -> pl.DataFrame:
    """Pairs copy number n of a row, in the order of arrival, with retraction number n of the row."""
    assert copies.height, "retraction of a row that is not present"
    ids = first_equal(pl.concat([copies.select(row), retractions.select(row)]), row)
    entering = copies.with_columns(ids[: copies.height].alias(ROW)).sort(ROW, SINCE, ARRIVAL)
    leaving = retractions.with_columns(ids[copies.height :].alias(ROW)).sort(ROW, FROM)
    # A code `row · span + n` is copy number n of a row, from 1. Insertions and retractions end at the codes `ins` and
    # `outs`, which together cut the copies into pieces that enter and leave as one: with span 10, row 0 with weights
    # 2 and 1, and a retraction of 1, ins = [2, 3] and outs = [1] give the pieces 1, 2 and 3 of one copy each.
    span = 1 + max(_total(entering), _total(leaving))
    ins = _numbers(entering[ROW].to_numpy(), entering[WEIGHT].to_numpy(), span)
    outs = _numbers(leaving[ROW].to_numpy(), -leaving[WEIGHT].to_numpy(), span)
    bounds = np.unique(np.concatenate([ins, outs]))
    first = np.concatenate([[True], bounds[1:] // span != bounds[:-1] // span])
    weights = np.where(first, bounds % span, np.diff(bounds, prepend=0))
    entry, departure = np.searchsorted(ins, bounds), np.searchsorted(outs, bounds)
    entered = _same_row(ins, entry, bounds, span)
    exited = _same_row(outs, departure, bounds, span)
    matched, leaves = entering[entry[entered]], leaving[np.minimum(departure, leaving.height - 1)[entered]]
    alive = ~exited[entered]
    spans: pl.DataFrame = matched.with_columns(
        pl.Series(WEIGHT, weights[entered], pl.Int64),
        pl.Series(DEATH, np.where(alive, FOREVER, leaves[FROM].to_numpy()), pl.Int64),
        pl.Series(DEPARTURE, np.where(alive, 0, leaves[ORDER].to_numpy()), pl.Int64),
    )
    return spans


def first_equal(rows: pl.DataFrame, columns: Sequence[str]) -> pl.Series:
    """Returns, for each row, the index of the first row that equals it in the columns.

    >>> first_equal(pl.DataFrame({"a": [7, 8, 7]}), ["a"]).to_list()
    [0, 1, 0]
    """
    if not columns:
        return pl.Series(ROW, np.zeros(rows.height, np.int64))
    places = rows.select(columns).with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias(_FIRST))
    return places.select(pl.col(_FIRST).min().over(list(columns))).to_series()


def _total(frame: pl.DataFrame) -> int:
    return int(frame[WEIGHT].abs().sum())


def _numbers(rows: np.ndarray, weights: np.ndarray, span: int) -> np.ndarray:
    """Returns, for rows sorted by id, id · span + the running number of copies of the row."""
    running = np.cumsum(weights)
    starts = np.flatnonzero(np.concatenate([[True], rows[1:] != rows[:-1]]))
    before = np.repeat(running[starts] - weights[starts], np.diff(np.append(starts, len(rows))))
    numbered: np.ndarray = rows * span + running - before
    return numbered


def _same_row(numbers: np.ndarray, places: np.ndarray, bounds: np.ndarray, span: int) -> np.ndarray:
    """Whether the code at each index belongs to the row of the bound; an index may be after the last code."""
    inside = np.minimum(places, len(numbers) - 1)
    same: np.ndarray = (places < len(numbers)) & (numbers[inside] // span == bounds // span)
    return same


def updated_state(state: Trace, copies: pl.DataFrame, partition: Sequence[str], frontier: int) -> Trace:
    """Returns the state with the new copies that stay, and without the copies that left."""
    return state.append(state_changes(copies, partition, frontier), frontier)


def state_changes(copies: pl.DataFrame, partition: Sequence[str], frontier: int) -> Delta:
    """Returns the changes of the state in a step: the new copies that stay, and the held copies that left, negated."""
    stay = copies.filter((pl.col(BIRTH) != HELD) & (pl.col(DEATH) == FOREVER))
    left = copies.filter((pl.col(BIRTH) == HELD) & (pl.col(DEATH) < FOREVER)).with_columns(-pl.col(WEIGHT))
    moved = with_partition_key(pl.concat([stay, left]), partition).drop(BIRTH, DEATH, DEPARTURE, ROW)
    elements = moved.drop(WEIGHT).with_columns(
        pl.lit(frontier, pl.Int64).alias(FROM),
        pl.lit(FOREVER, pl.Int64).alias(TO),
        moved[WEIGHT],
        pl.lit(0, pl.Int64).alias(ORDER),
    )
    return Delta(elements)


def ordered_by(copies: pl.DataFrame, by: Sequence[tuple[str, bool, bool]]) -> pl.DataFrame:
    """Returns the copies sorted by keys (column, descending, NULLs last), then by arrival, the oldest first, then by
    row."""
    columns = [*(column for column, _, _ in by), SINCE, ARRIVAL, TIE]
    descending = [*(down for _, down, _ in by), False, False, False]
    nulls_last = [*(late for _, _, late in by), False, False, False]
    return copies.sort(columns, descending=descending, nulls_last=nulls_last, maintain_order=True)
