"""StreamFold: user-defined aggregates over a stream, row by row, with or without windows (ESL)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pyarrow as pa

from operators.core.delta import FOREVER, FROM, ORDER, RESERVED, TO, WEIGHT, Delta, polars_schema
from operators.core.operator import Move, State, Step
from operators.core.run import key_hash
from operators.core.stored_names import ADDED_LATER
from operators.kernels.points import first_at_least
from operators.state.accumulators import Accumulators
from operators.state.copies import first_equal
from operators.state.trace import Trace
from operators.user_aggregates.columns import series
from operators.user_aggregates.empty_windows import leaves_silently
from operators.user_aggregates.evaluate import Returned, run
from operators.user_aggregates.fold_events import (
    Batch,
    Leaving,
    Ordered,
    restarts,
    with_expiry,
    with_leaving,
    without_leaving,
    without_unseen,
)
from operators.user_aggregates.fold_plan import FoldCall, Frame
from operators.user_aggregates.fold_state import (
    AT,
    NUMBER,
    WHOLE,
    Loaded,
    load,
    state_keys,
    store,
    store_tables,
    table_traces,
)
from operators.user_aggregates.partitions_to_drop import PartitionsToDrop
from operators.user_aggregates.rows import Rows

_GROUP, _TIES = "__fold_group", "__fold_ties"


@dataclass(frozen=True, slots=True)
class StreamFold:
    """fold(S) = each row of the stream S, once for each row that the calls return for it, joined with that row.

    Rows of a partition are processed by (from, order). With a frame, a call sees the window that ends with the row. If
    the frame is `active`, each row that leaves the window is also an event, one instant after it was last in the
    window. If calls return different numbers of rows at one event, those that return fewer are padded with NULL. Input
    and output are insertions that are never retracted.

    State: the values of single-row tables by partition, a trace for each other table, and the rows that may leave: by
    number or, if active, by the instant of their expiry. A partition is dropped once its RANGE window is empty, if the
    calls then start over (`starts_over`). The cost of a step is the number of rows that enter and leave, plus the rows
    of local tables in the touched partitions; definitions that read `inwindow` also read its rows.
    """

    replaces_columns: ClassVar[bool] = False
    ends_elements: ClassVar[bool] = False
    group_by: tuple[str, ...]
    calls: tuple[FoldCall, ...]
    frame: Frame | None
    schema: pa.Schema
    #: Each row is output once, with lists of the rows that the calls return.
    listed: bool = field(default=False, metadata={ADDED_LATER: True})

    @property
    def operator_version(self) -> int:
        """2 if the ends of windows are kept in a separate trace."""
        return 1 + int(self._buffers and self._partitions_to_drop is not None)

    # --- properties for the planner

    @property
    def partition(self) -> tuple[str, ...]:
        """The columns by which rows are distributed over targets, the parallel instances of the operator."""
        return self.group_by

    @property
    def added(self) -> Sequence[pa.Field[Any]]:
        """The columns of the calls."""
        types = [pa.list_(call.type) if self.listed else call.type for call in self.calls]
        return [pa.field(call.name, type_) for call, type_ in zip(self.calls, types, strict=True)]

    @property
    def append_only(self) -> bool:
        """True: results are never retracted."""
        return True

    def keys(self, below: tuple[str, ...]) -> tuple[str, ...]:
        """(): a row may have several results."""
        return ()

    def describe(self) -> str:
        """A description such as `Fold x := avg(price) delta of each seller over rows 9 preceding`."""
        calls = ", ".join(
            f"{call.name} := {call.definition.name}({', '.join(call.arguments)}) {call.mode}" for call in self.calls
        )
        by = f" of each {', '.join(self.group_by)}" if self.group_by else ""
        return f"Fold {calls}{by}" + ("" if self.frame is None else f" over {self.frame}")

    # --- state

    @property
    def _keys(self) -> tuple[str, ...]:
        return state_keys(self.group_by)

    @property
    def _buffers(self) -> bool:
        """Whether rows wait for the end of their slot of SLIDE in time."""
        return self.frame is not None and self.frame.kind == "range" and self.frame.slide is not None

    @property
    def _keeps_rows(self) -> bool:
        """Whether rows are kept by number until they leave."""
        plain = any(call.mode == "delta" and not call.definition.reads_window for call in self.calls)
        return plain and self.frame is not None and not self.frame.active

    @property
    def _partitions_to_drop(self) -> PartitionsToDrop | None:
        """The partitions that are dropped from the state when their window is empty; None if no partition is
        dropped."""
        return PartitionsToDrop.of(self.group_by, self.calls, self.frame)

    def _span(self, move: Move) -> tuple[int, int]:
        """The instants [start, end) of the rows that a move processes. If rows wait for the end of their slot, these
        are the rows of slots that end in the move."""
        if not self._buffers:
            return move.start, move.end
        assert self.frame is not None and self.frame.slide is not None
        slide = self.frame.slide
        return (move.start - 1) // slide * slide + 1, (move.end - 1) // slide * slide + 1

    def traces(self) -> tuple[State, ...]:
        """The groups; the rows by number; the rows by time, until they expire or their slot ends; the ends of windows
        by time, in the trace of rows by time if it has no rows; then the tables."""
        tables = [trace for call in self.calls for trace in table_traces(call.definition, self._keys)]
        times = [Trace("time")] * (2 if self._buffers and self._partitions_to_drop is not None else 1)
        return (Accumulators(self._keys), Accumulators((*self._keys, NUMBER)), *times, *tables)

    # --- the step

    def step(self, delta: Delta, traces: tuple[Any, ...], move: Move) -> Step:
        """The rows that the calls return at the instants of the move."""
        held, numbered, *times = traces[: len(traces) - self._table_count]
        tables = self._split(traces[len(traces) - self._table_count :])
        frame, times[0] = self._due(delta.frame, times[0], move)
        expiring = self._expiring(times[0], move)
        partitions = self._partitions_to_drop
        idle = pl.DataFrame() if partitions is None else partitions.due(times[-1], held, *self._span(move))
        if not frame.height and not expiring.height and not idle.height:
            return Step(self._nothing(), (held, numbered, *times, *(trace for own in tables for trace in own)))
        rows, heads, group, expired_group = self._grouped(frame, expiring, idle)
        definitions = [call.definition for call in self.calls]
        loaded = load(heads, self._keys, definitions, held, tables, move.start)
        batch = self._batch(rows, group, loaded)
        leavers = self._leavers(expiring, expired_group, batch, move)
        work = _Work(batch, loaded, leavers, move)
        ordered, numbered, times[0] = self._ordered(work, numbered, times[0])
        returned = [
            run(call.definition, own.events, groups)
            for call, own, groups in zip(self.calls, ordered, loaded.groups, strict=True)
        ]
        output = self._output(work, ordered, returned)
        loaded.arrived = loaded.arrived + (batch.ends - batch.starts)
        gone = np.zeros(len(loaded.arrived), np.bool_)
        if partitions is not None:
            gone, times[-1] = partitions.drop(batch, loaded, times[-1], *self._span(move))
        numbered = self._without(gone, loaded, numbered, move)
        after = [
            trace
            for at, (definition, own) in enumerate(zip(definitions, tables, strict=True))
            for trace in store_tables(loaded, at, definition, self._keys, own, move.end)
        ]
        held = store(loaded, self._keys, definitions, held, move.end, gone)
        return Step(output, (held, numbered, *times, *after))

    @property
    def _table_count(self) -> int:
        return sum(len(table_traces(call.definition, self._keys)) for call in self.calls)

    def _split(self, traces: Sequence[Any]) -> list[Sequence[Trace]]:
        found, at = [], 0
        for call in self.calls:
            count = len(table_traces(call.definition, self._keys))
            found.append(traces[at : at + count])
            at += count
        return found

    def _due(self, frame: pl.DataFrame, timed: Trace, move: Move) -> tuple[pl.DataFrame, Trace]:
        """The rows to process now: all, or those of the slots that end in this move."""
        assert not frame.height or ((frame[TO] == FOREVER).all() and (frame[WEIGHT] > 0).all()), "the input is a stream"
        if not self._buffers:
            return frame, timed
        start, end = self._span(move)
        waiting = timed.append(Delta(frame), start)
        due = [part.frame for part in waiting.between(start, end)]
        return pl.concat(due) if due else frame.clear(), waiting.forget(end)

    def _expiring(self, timed: Trace, move: Move) -> pl.DataFrame:
        """The stored rows that expire in this move."""
        if self.frame is None or not self.frame.active:
            return pl.DataFrame()
        found = [part.frame for part in timed.between(move.start, move.end)]
        return pl.concat(found) if found else pl.DataFrame()

    def _grouped(
        self, frame: pl.DataFrame, expiring: pl.DataFrame, idle: pl.DataFrame
    ) -> tuple[pl.DataFrame, pl.DataFrame, np.ndarray, np.ndarray]:
        """Returns the rows that enter, one for each copy, sorted by group and time; the groups; the group of each of
        these rows; and the group of each row that expires."""
        names = [name for name in frame.columns if name not in RESERVED]
        ties = key_hash(frame, names) if names and frame.height else pl.Series([0] * frame.height, dtype=pl.UInt64)
        keyed = frame.with_columns(ties.alias(_TIES), *self._whole())
        older = [part.with_columns(*self._whole()) for part in (expiring, idle) if part.height]
        every = pl.concat([part.select(self._keys) for part in (keyed, *older)])
        leaders = first_equal(every, self._keys).to_numpy()
        heads, group = np.unique(leaders, return_inverse=True)
        come = keyed.with_columns(pl.Series(_GROUP, group[: frame.height], pl.Int64)).sort(_GROUP, FROM, ORDER, _TIES)
        come = come[np.repeat(np.arange(come.height), come[WEIGHT].to_numpy())]
        expired = group[frame.height : frame.height + expiring.height]
        return come, every[heads], come[_GROUP].to_numpy(), expired

    def _whole(self) -> list[pl.Expr]:
        return [] if self.group_by else [pl.lit(0, pl.Int64).alias(WHOLE)]

    def _batch(self, rows: pl.DataFrame, group: np.ndarray, loaded: Loaded) -> Batch:
        count = loaded.heads.height
        sizes = np.bincount(group, minlength=count)
        ends = np.cumsum(sizes)
        starts = ends - sizes
        number = np.arange(len(group)) - starts[group] + loaded.arrived[group] + 1
        return Batch(rows, group, number, starts, ends, self._shown(rows, group, number))

    def _shown(self, rows: pl.DataFrame, group: np.ndarray, number: np.ndarray) -> np.ndarray:
        """Which rows have a result: all, or with SLIDE the last row of each slot."""
        slide = None if self.frame is None else self.frame.slide
        if slide is None:
            return np.ones(len(group), np.bool_)
        if self.frame is not None and self.frame.kind == "rows":
            yields: np.ndarray = number % slide == 0
            return yields
        slot = -(-rows[FROM].to_numpy() // slide)
        last: np.ndarray = np.append((group[1:] != group[:-1]) | (slot[1:] != slot[:-1]), True)[: len(group)]
        return last

    def _ordered(self, work: _Work, numbered: Accumulators, timed: Trace) -> tuple[list[Ordered], Accumulators, Trace]:
        """The events of each call, and the traces of the rows that may leave later."""
        frame, batch, loaded = self.frame, work.batch, work.loaded
        if frame is None or all(call.mode != "delta" for call in self.calls):
            return [without_leaving(call, frame, batch) for call in self.calls], numbered, timed
        if frame.active:
            return self._active(work), numbered, self._waiting(work, timed)
        alive = loaded.arrived - loaded.departed
        stored = self._stored(batch, loaded, numbered) if self._keeps_rows else None
        ordered: list[Ordered] = []
        left: Leaving | None = None
        for call, groups in zip(self.calls, loaded.groups, strict=True):
            reads = call.definition.reads_window
            leaving, trigger = self._triggered(batch, _held_in(groups.windows, call) if reads else stored, loaded)
            own = with_leaving(call, batch, leaving, trigger)
            left = left if reads else leaving
            own = restarts(own, alive) if call.ends and not reads else own
            ordered.append(without_unseen(own) if leaves_silently(call.definition) else own)
        if left is not None:
            numbered = self._kept(batch, left, loaded, numbered, work.move)
        return ordered, numbered, timed

    def _stored(self, batch: Batch, loaded: Loaded, numbered: Accumulators) -> Leaving:
        """The stored rows that may leave: for ROWS exactly the rows that leave, for RANGE the oldest rows, read until
        one of them stays."""
        assert self.frame is not None and self.frame.length is not None
        size = batch.ends - batch.starts
        if self.frame.kind == "rows":
            low = np.maximum(loaded.departed, loaded.arrived - self.frame.length)
            high = np.minimum(loaded.arrived, loaded.arrived + size - self.frame.length)
            return self._numbered(loaded, low, np.where(size > 0, np.maximum(high, low), low), numbered)
        last = np.zeros(len(size), np.int64)
        last[size > 0] = batch.instants[batch.ends[size > 0] - 1]
        parts: list[Leaving] = []
        low, step = loaded.departed.copy(), np.maximum(2 * size, 64)
        hungry = size > 0
        while hungry.any():
            high = np.where(hungry, np.minimum(loaded.arrived, low + step), low)
            part = self._numbered(loaded, low, high, numbered)
            parts.append(part)
            youngest = np.full(len(size), np.iinfo(np.int64).max)
            found = np.lexsort((part.number, part.group))
            youngest[part.group[found]] = part.instants[found]
            hungry = hungry & (high < loaded.arrived) & (youngest + self.frame.length < last)
            low, step = high, step * 2
        return _joined(parts) if parts else _none(batch.rows)

    def _numbered(self, loaded: Loaded, low: np.ndarray, high: np.ndarray, numbered: Accumulators) -> Leaving:
        """The stored rows with the numbers in (low, high] of each group."""
        sizes = np.maximum(high - low, 0)
        group = np.repeat(np.arange(len(sizes)), sizes)
        number = np.arange(len(group)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + low[group] + 1
        wanted = (
            loaded.heads[group]
            .select(self._keys)
            .with_columns(pl.Series(NUMBER, number, pl.Int64), pl.Series(_GROUP, group, pl.Int64))
        )
        found = numbered.lookup(wanted) if wanted.height else wanted
        if not wanted.height or not found.height:
            return _none(pl.DataFrame())
        rows = found.join(wanted, on=[*self._keys, NUMBER], how="inner", nulls_equal=True)
        return Leaving(rows, rows[_GROUP].to_numpy(), rows[NUMBER].to_numpy(), rows[AT].to_numpy())

    def _triggered(self, batch: Batch, stored: Leaving | None, loaded: Loaded) -> tuple[Leaving, np.ndarray]:
        """The rows that leave, whether stored or new in this step, and for each the row before which it leaves."""
        assert self.frame is not None and self.frame.length is not None
        parts = [] if stored is None or not len(stored.group) else [stored]
        parts.append(Leaving(batch.rows, batch.group, batch.number, batch.instants))
        every = _joined(parts)
        if self.frame.kind == "rows":
            trigger = batch.starts[every.group] + (every.number + self.frame.length - loaded.arrived[every.group] - 1)
            trigger = np.maximum(trigger, batch.starts[every.group])
        else:
            expiry = every.instants + self.frame.length + 1
            trigger = first_at_least(batch.instants, batch.starts[every.group], batch.ends[every.group], expiry)
        leaving = np.flatnonzero(trigger < batch.ends[every.group])
        left = Leaving(every.rows[leaving], every.group[leaving], every.number[leaving], every.instants[leaving])
        return left, trigger[leaving]

    def _kept(self, batch: Batch, left: Leaving, loaded: Loaded, numbered: Accumulators, move: Move) -> Accumulators:
        """The rows by number after the step."""
        arguments = self._arguments
        gone = np.bincount(left.group, minlength=len(batch.starts))
        loaded.departed = loaded.departed + gone
        before = batch.number <= loaded.departed[batch.group]
        stays = np.flatnonzero(~before)
        rows = batch.rows[stays].select(*self._keys, *arguments, ORDER, pl.col(FROM).alias(AT))
        new = rows.with_columns(pl.Series(NUMBER, batch.number[stays], pl.Int64))
        was = left.number <= loaded.arrived[left.group]
        old = (
            loaded.heads[left.group[was]].select(self._keys).with_columns(pl.Series(NUMBER, left.number[was], pl.Int64))
        )
        changed = pl.concat([new, old], how="diagonal")
        deleted = pl.Series([False] * new.height + [True] * old.height, dtype=pl.Boolean)
        return numbered.upsert(changed, deleted, move.end)

    @property
    def _arguments(self) -> list[str]:
        named = dict.fromkeys(name for call in self.calls for name in call.arguments)
        return [name for name in named if name not in self._keys]

    def _leavers(self, expiring: pl.DataFrame, expired_group: np.ndarray, batch: Batch, move: Move) -> Leaving | None:
        """The rows that expire in this move, with the instants of their expiry: first the stored ones, then those that
        also enter in it."""
        if self.frame is None or not self.frame.active:
            return None
        assert self.frame.length is not None
        expiry = batch.instants + self.frame.length + 1
        soon = np.flatnonzero(expiry < move.end)
        shown = [*self.schema.names, NUMBER, FROM, ORDER]
        coming = batch.rows.with_columns(pl.Series(NUMBER, batch.number, pl.Int64), pl.Series(FROM, expiry, pl.Int64))
        rows = pl.concat([*([expiring.select(shown)] if expiring.height else []), coming[soon].select(shown)])
        group = np.concatenate([expired_group, batch.group[soon]]).astype(np.int64)
        return Leaving(rows, group, rows[NUMBER].to_numpy(), rows[FROM].to_numpy())

    def _active(self, work: _Work) -> list[Ordered]:
        """The events of each call, including those of rows that expire."""
        loaded, leavers = work.loaded, work.leavers
        assert leavers is not None
        alive = loaded.arrived - loaded.departed
        ordered = [with_expiry(call, work.batch, leavers) for call in self.calls]
        loaded.departed = loaded.departed + np.bincount(leavers.group, minlength=len(alive))
        return [restarts(own, alive) if call.ends else own for call, own in zip(self.calls, ordered, strict=True)]

    def _waiting(self, work: _Work, timed: Trace) -> Trace:
        """The rows by the instants of their expiry, after the step."""
        assert self.frame is not None and self.frame.length is not None
        batch = work.batch
        expiry = batch.instants + self.frame.length + 1
        later = np.flatnonzero(expiry >= work.move.end)
        if len(later):
            rows = batch.rows[later].with_columns(
                pl.Series(NUMBER, batch.number[later], pl.Int64),
                pl.Series(FROM, expiry[later], pl.Int64),
                pl.lit(1, pl.Int64).alias(WEIGHT),
            )
            timed = timed.append(Delta(rows.select(*self.schema.names, NUMBER, *RESERVED)), work.move.start)
        return timed.forget(work.move.end)

    def _without(self, gone: np.ndarray, loaded: Loaded, numbered: Accumulators, move: Move) -> Accumulators:
        """The rows by number without those of the partitions that are dropped."""
        if not gone.any() or not self._keeps_rows:
            return numbered
        kept = self._numbered(loaded, loaded.departed, np.where(gone, loaded.arrived, loaded.departed), numbered).rows
        if not kept.height:
            return numbered
        return numbered.upsert(kept.drop(_GROUP), pl.repeat(True, kept.height, eager=True), move.end)

    # --- output

    def _nothing(self) -> Delta:
        return Delta.empty({**polars_schema(self.schema), **polars_schema(pa.schema(list(self.added)))})

    def _output(self, work: _Work, ordered: Sequence[Ordered], returned: Sequence[Returned]) -> Delta:
        """The rows of the events that returned values, with these values."""
        batch, leavers = work.batch, work.leavers
        coming = len(batch.group)
        shown = np.concatenate([batch.shown, np.ones(0 if leavers is None else len(leavers.group), np.bool_)])
        places, values = _paired(
            [
                _seen(own.row_index[np.array(made.at, np.int64)], made.values, shown)
                for own, made in zip(ordered, returned, strict=True)
            ]
        )
        instants = batch.instants
        if self._buffers:
            assert self.frame is not None and self.frame.slide is not None
            instants = -(-instants // self.frame.slide) * self.frame.slide
        rows = batch.rows.with_columns(pl.Series(FROM, instants, pl.Int64)).select(*self.schema.names, FROM, ORDER)
        if leavers is not None:
            rows = pl.concat([rows, leavers.rows.select(rows.columns)])
        assert coming <= rows.height
        if self.listed:
            assert shown.all() and leavers is None, "each row that comes has a result"
            values, places = [_by_place(places, own, coming) for own in values], np.arange(coming)
        made_columns = [series(made.name, own, made.type) for made, own in zip(self.added, values, strict=True)]
        frame = rows[places].with_columns(
            *made_columns, pl.lit(FOREVER, pl.Int64).alias(TO), pl.lit(1, pl.Int64).alias(WEIGHT)
        )
        return Delta(frame.select(*self.schema.names, *(call.name for call in self.calls), *RESERVED))


@dataclass(frozen=True)
class _Work:
    """The data of a step: the rows that enter, the states of their groups, and the rows that expire as events."""

    batch: Batch
    loaded: Loaded
    leavers: Leaving | None
    move: Move


def _seen(places: np.ndarray, values: list[object], shown: np.ndarray) -> tuple[np.ndarray, list[object]]:
    """Drops the results of events whose rows are not shown."""
    kept = shown[places]
    if kept.all():
        return places, values
    return places[kept], [values[at] for at in np.flatnonzero(kept).tolist()]


def _paired(made: list[tuple[np.ndarray, list[object]]]) -> tuple[np.ndarray, list[list[object]]]:
    """The results of several calls side by side: at each event, the i-th result of each call in the i-th row."""
    if len(made) == 1:
        return made[0][0], [made[0][1]]
    if all(np.array_equal(places, made[0][0]) for places, _ in made):
        return made[0][0], [values for _, values in made]
    found: dict[tuple[int, int], list[object]] = {}
    for at, (places, values) in enumerate(made):
        seen: dict[int, int] = {}
        for place, value in zip(places.tolist(), values, strict=True):
            seen[place] = seen.get(place, 0) + 1
            found.setdefault((place, seen[place]), [None] * len(made))[at] = value
    ordered = sorted(found)
    columns = [[found[key][at] for key in ordered] for at in range(len(made))]
    return np.array([place for place, _ in ordered], np.int64), columns


def _by_place(places: np.ndarray, values: list[object], count: int) -> list[object]:
    """The values as one list for each row index."""
    lists: list[list[object]] = [[] for _ in range(count)]
    for place, value in zip(places.tolist(), values, strict=True):
        lists[place].append(value)
    return list(lists)


def _joined(parts: Sequence[Leaving]) -> Leaving:
    """The rows of all parts, with the columns that all parts have."""
    filled = [part for part in parts if len(part.group)] or list(parts[:1])
    if len(filled) == 1:
        return filled[0]
    names = [name for name in filled[0].rows.columns if all(name in part.rows.columns for part in filled)]
    return Leaving(
        pl.concat([part.rows.select(names) for part in filled]),
        np.concatenate([part.group for part in filled]),
        np.concatenate([part.number for part in filled]),
        np.concatenate([part.instants for part in filled]),
    )


def _none(rows: pl.DataFrame) -> Leaving:
    none = np.zeros(0, np.int64)
    return Leaving(rows.clear(), none, none, none)


def _held_in(windows: Sequence[Rows], call: FoldCall) -> Leaving:
    """The rows of the windows of a call."""
    group = [at for at, window in enumerate(windows) for _ in window.rows]
    number = [number for window in windows for number in window.rows]
    rows = [row for window in windows for row in window.rows.values()]
    columns = {
        name: series(name, [row[at] for row in rows], type_)
        for at, (name, (_, type_)) in enumerate(zip(call.arguments, call.definition.parameters, strict=True))
    }
    frame = pl.DataFrame([*columns.values(), pl.Series(ORDER, [0] * len(rows), pl.Int64)])
    instants = np.array([row[-1] for row in rows], np.int64)
    return Leaving(frame, np.array(group, np.int64), np.array(number, np.int64), instants)
