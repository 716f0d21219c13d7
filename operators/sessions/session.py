"""Session: SQL's SESSION, which pairs each row with its session window."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import polars as pl

from operators.core.delta import FOREVER, FROM, ORDER, RESERVED, TO, WEIGHT, Delta
from operators.core.operator import Move, Step, split_faults
from operators.ranking.timeline import Timeline
from operators.state.copies import (
    BIRTH,
    DEATH,
    HELD,
    ROW,
    first_equal,
    held_copies,
    match_copies,
    net_changes,
    state_of_partitions,
    updated_state,
)
from operators.state.trace import Trace
from operators.windows.assign import WINDOW_END, WINDOW_START, in_type, instants_of, window_type

_OUTSIDE = "the end of the session window is outside the range of the column's type"
_GROUP, _VALUE, _REACH = "__group", "__value", 2**62


@dataclass(frozen=True, slots=True)
class Session:
    """session(A) at τ = each row of A at τ with its session: `window_start` is the session's first value of `column`,
    `window_end` its last plus `gap`.

    A session is a maximal chain of rows of a partition in which the values of neighbours are at most `gap` apart. A row
    whose column is NULL is in no session and is left out. The gap is in the unit of an integer column, or in ms for
    times. Input and output are changes (elements that end by a retraction): when a session grows, all of its rows are
    retracted and inserted with the new bounds. State: the rows. A step reads the rows of the partitions that change and
    computes the sessions near the changes, for all instants of the step at once.

    >>> rows = Delta.of([("+", {"t": 1}, 1), ("+", {"t": 5}, 5)])
    >>> session = Session("t", 5)
    >>> changes = session.step(rows, session.traces(), Move(0, 9)).delta
    >>> changes.snapshot(4).rows(), sorted(changes.snapshot(5).rows())
    ([(1, 1, 6)], [(1, 1, 10), (5, 1, 10)])
    """

    operator_version: ClassVar[int] = 1
    column: str
    gap: int
    partition: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        assert self.gap >= 0

    def traces(self) -> tuple[Trace, ...]:
        """Returns the empty trace of the rows, by partition."""
        return (state_of_partitions(self.partition),)

    def step(self, delta: Delta, traces: tuple[Trace, ...], move: Move) -> Step:
        """Returns the changes of sessions at the instants of the move."""
        (state,) = traces
        fine, rejected = self.valued(delta)
        changes = net_changes(fine)
        if not changes.height:
            none = np.empty(0, np.int64)
            return Step(self._output(delta.frame.clear(), delta, none, none), traces, rejected)
        held = held_copies(state, changes, self.partition, move.start)
        copies = match_copies(held, changes)
        after = updated_state(state, copies, self.partition, move.end)
        near, values, chains = self._near_changes(copies)
        line = _with_orders_of_partitions(Timeline.of(near, chains), near)
        return Step(self._changes(near.drop(_GROUP), values, line, delta), (after,), rejected)

    def valued(self, delta: Delta) -> tuple[Delta, pl.DataFrame | None]:
        """Returns the elements whose column is not NULL; those whose window is outside the type's range are faults."""
        present = Delta(delta.frame.filter(pl.col(self.column).is_not_null()))
        values, unit = instants_of(present.frame[self.column])
        ends = np.minimum(values, _REACH) + self.gap * unit
        known = in_type(ends, window_type(delta.frame.schema[self.column])).is_not_null() & pl.Series(values < _REACH)
        faults = pl.DataFrame({"fits": known}).select(pl.when(~pl.col("fits")).then(pl.lit(_OUTSIDE))).to_series()
        return split_faults(present, faults)

    def _near_changes(self, copies: pl.DataFrame) -> tuple[pl.DataFrame, np.ndarray, np.ndarray]:
        """Returns the copies that may be in a session with a change, sorted by value; their values; and for each the
        number of its chain.

        Chains are the sessions that would exist if all copies were present at once, so rows of different chains never
        share a session.
        """
        values, unit = instants_of(copies[self.column])
        placed = copies.with_columns(first_equal(copies, self.partition).alias(_GROUP), pl.Series(_VALUE, values))
        ordered = placed.sort(_GROUP, _VALUE)
        group, value = ordered[_GROUP].to_numpy(), ordered[_VALUE].to_numpy()
        chain = np.cumsum(_opens(group, value, self.gap * unit)) - 1
        changing = (ordered[BIRTH] != HELD).to_numpy() | (ordered[DEATH] < FOREVER).to_numpy()
        touched = np.bincount(chain, weights=changing) > 0
        near = touched[chain]
        numbers = np.cumsum(touched) - 1
        return ordered.filter(pl.Series(near)).drop(_VALUE), value[near], numbers[chain[near]]

    def _changes(self, near: pl.DataFrame, values: np.ndarray, line: Timeline, delta: Delta) -> Delta:
        """Returns the changes of the rows with their sessions from each phase to the next."""
        phase, copy = _by_phase(*line.presences(), len(values))
        unit = instants_of(near[self.column].clear())[1]
        firsts = np.flatnonzero(_opens(phase, values[copy], self.gap * unit))
        lengths = np.diff(np.append(firsts, len(phase)))
        starts = np.repeat(values[copy[firsts]], lengths)
        lasts = np.repeat(values[copy[np.append(firsts[1:], len(phase))[: len(firsts)] - 1]], lengths)
        codes = near[ROW].to_numpy()[copy]
        for bound in (starts, lasts):
            known, number = np.unique(bound, return_inverse=True)
            codes = np.unique(codes, return_inverse=True)[1] * len(known) + number
        changed = line.differences(phase, codes, near[WEIGHT].to_numpy()[copy])
        elements = near[copy[changed.examples]].with_columns(
            pl.Series(FROM, line.instants[changed.phases], pl.Int64),
            pl.lit(FOREVER, pl.Int64).alias(TO),
            pl.Series(WEIGHT, changed.weights, pl.Int64),
            pl.Series(ORDER, line.orders[changed.phases], pl.Int64),
        )
        ends = lasts[changed.examples] + self.gap * unit
        return self._output(elements, delta, starts[changed.examples], ends)

    def _output(self, elements: pl.DataFrame, delta: Delta, starts: np.ndarray, ends: np.ndarray) -> Delta:
        type_ = window_type(delta.frame.schema[self.column])
        bounds = in_type(starts, type_).alias(WINDOW_START), in_type(ends, type_).alias(WINDOW_END)
        return Delta(elements.with_columns(*bounds).select(*delta.columns, WINDOW_START, WINDOW_END, *RESERVED))


def _with_orders_of_partitions(line: Timeline, copies: pl.DataFrame) -> Timeline:
    """Returns the timeline with the greatest order of the partition's changes at each instant. Which rows are near a
    change may depend on where a step ends, but the order must not."""
    owner = np.zeros(line.size, np.int64)
    group, left = copies[_GROUP].to_numpy(), (copies[DEATH] < FOREVER).to_numpy()
    owner[line.starts] = group
    owner[line.ends[left]] = group[left]
    ranked = np.unique(line.instants, return_inverse=True)[1]
    moment = np.unique(owner * line.size + ranked, return_inverse=True)[1]
    greatest = np.full(line.size, np.iinfo(np.int64).min)
    np.maximum.at(greatest, moment, line.orders)
    return replace(line, orders=greatest[moment])


def _opens(group: np.ndarray, value: np.ndarray, gap: int) -> np.ndarray:
    """Returns, for each of the values sorted by (group, value), whether a session begins there."""
    opens = np.ones(len(group), np.bool_)
    opens[1:] = (group[1:] != group[:-1]) | (value[1:] > value[:-1] + gap)
    return opens


def _by_phase(phase: np.ndarray, copy: np.ndarray, copies: int) -> tuple[np.ndarray, np.ndarray]:
    """Sorts presences by (phase, copy)."""
    shift = max(int(copies).bit_length(), 1)
    ordered = np.sort((phase << shift) | copy)
    return ordered >> shift, ordered & ((1 << shift) - 1)
