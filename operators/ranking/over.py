"""Over: SQL's window functions, which add to each row columns that are functions of its partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl
import pyarrow as pa

from operators.core.delta import FOREVER, FROM, ORDER, RESERVED, TO, WEIGHT, Delta
from operators.core.operator import FAULT, Move, Step, split_faults
from operators.core.sort_key import SortKey
from operators.expressions.arrow_types import polars_type
from operators.ranking.over_reach import Reach, Touched, reach_of
from operators.ranking.timeline import Differences, Timeline
from operators.ranking.top_k import partition_numbers
from operators.ranking.window_call import WindowCall
from operators.ranking.window_frames import Segments, frame_bounds
from operators.ranking.window_functions import Frames, window_values
from operators.state.copies import (
    ROW,
    first_equal,
    held_copies,
    match_copies,
    net_changes,
    ordered_by,
    state_of_partitions,
    updated_state,
)
from operators.state.sorted_trace import same_as_before
from operators.state.trace import Trace

_COPY = "__copy"


@dataclass(frozen=True, slots=True)
class Over:
    """over(A) at τ = each row of A at τ with the values of the calls over its partition of A at τ.

    All calls have the same partition. Rows that tie in the order of a call are sorted by (instant, order) of arrival,
    the oldest first; of several copies of a row, the oldest leaves first. Input and output are changes (elements that
    end by a retraction): a row whose values change is retracted and inserted with the new values. State: the rows.

    A step reads the partitions that change and evaluates them at all of their changed instants together: the work is
    the sum over these instants of the partitions' sizes. If frames are numbers of rows, only the rows within reach of a
    change are evaluated. While a row has a value outside the type of its call, it is missing from the output, and
    reported as a fault.

    >>> from operators.core.sort_key import SortKey
    >>> number = WindowCall("n", "row_number", (), pa.int64(), order=(SortKey("p"),))
    >>> rows = Delta.of([("+", {"p": 7}, 3), ("+", {"p": 5}, 4)])
    >>> numbered = Over((number,)).step(rows, Over((number,)).traces(), Move(0, 9)).delta
    >>> numbered.snapshot(3).rows(), sorted(numbered.snapshot(4).rows())
    ([(7, 1)], [(5, 1), (7, 2)])
    """

    operator_version: ClassVar[int] = 1
    calls: tuple[WindowCall, ...]
    schema: pa.Schema = pa.schema([])

    def __post_init__(self) -> None:
        assert len({call.partition for call in self.calls}) == 1, "the calls of an operator have the same partition"

    def traces(self) -> tuple[Trace, ...]:
        """Returns the empty trace of the copies of rows, by partition."""
        return (state_of_partitions(self.calls[0].partition),)

    def step(self, delta: Delta, traces: tuple[Trace, ...], move: Move) -> Step:
        """Returns the changes of rows and values at the instants of the move."""
        (state,) = traces
        partition, row, changes = self.calls[0].partition, delta.columns, net_changes(delta)
        if not changes.height:
            none = [pl.Series(call.name, [], polars_type(call.type)) for call in self.calls]
            return Step(_output(delta.frame.clear(), none, row), traces)
        held = held_copies(state, changes, partition, move.start)
        copies = match_copies(held, changes)
        line = Timeline.of(copies, partition_numbers(copies, partition))
        after = updated_state(state, copies, partition, move.end)
        delta, faults = self._changes(copies, line, row)
        return Step(delta, (after,), faults)

    def _changes(self, copies: pl.DataFrame, line: Timeline, row: list[str]) -> tuple[Delta, pl.DataFrame | None]:
        """Returns the changes of rows and their values from phase to phase, and the rows whose values become faults."""
        reach = reach_of(self.calls)
        seen = _whole(copies, line) if reach is None else self._touched(copies, line, reach)
        values, outside = self._values(copies, seen.run, seen.copy)
        faults = pl.select(pl.coalesce(*outside)).to_series()
        known = pl.DataFrame([copies[ROW].gather(seen.copy), faults.alias(FAULT), *values])
        changed = seen.differences(first_equal(known, known.columns).to_numpy())
        elements = copies[seen.copy[changed.examples]].with_columns(
            pl.Series(FROM, line.instants[changed.phases], pl.Int64),
            pl.lit(FOREVER, pl.Int64).alias(TO),
            pl.Series(WEIGHT, changed.weights, pl.Int64),
            pl.Series(ORDER, line.orders[changed.phases], pl.Int64),
        )
        every = _output(elements, [value.gather(changed.examples) for value in values], row)
        return split_faults(every, faults.gather(changed.examples))

    def _touched(self, copies: pl.DataFrame, line: Timeline, reach: Reach) -> Touched:
        return Touched.of(line, copies[WEIGHT].to_numpy(), _places(copies, self.calls[0].order), reach)

    def _values(
        self, copies: pl.DataFrame, run: np.ndarray, copy: np.ndarray
    ) -> tuple[list[pl.Series], list[pl.Series]]:
        """Returns the column of each call for the copies of all runs, and the faults of each call."""
        values_by_name: dict[str, pl.Series] = {}
        outside: list[pl.Series] = []
        for order in dict.fromkeys(call.order for call in self.calls):
            places = _places(copies, order)
            sorting = np.argsort((run << copies.height.bit_length()) | places[copy], kind="stable")
            rows = copies[copy[sorting]]
            segments = Segments.of(run[sorting], ~same_as_before(rows, [key.column for key in order]))
            back = np.argsort(sorting)
            for call in (candidate for candidate in self.calls if candidate.order == order):
                value, faulty = _computed(call, rows, segments)
                values_by_name[call.name] = value.gather(back)
                outside.append(_faults(call, faulty[back]))
        return [values_by_name[call.name] for call in self.calls], outside


@dataclass(frozen=True)
class _Whole:
    """All presences, that is, all pairs (phase, copy) of a copy and a phase in which it is present. A run is a whole
    phase. The counterpart of `Touched` for calls without a reach."""

    run: np.ndarray
    copy: np.ndarray
    line: Timeline

    def differences(self, codes: np.ndarray) -> Differences:
        return self.line.differences(self.run, codes, np.ones(len(self.run), np.int64))


def _whole(copies: pl.DataFrame, line: Timeline) -> _Whole:
    phase, copy = line.presences()
    counts = copies[WEIGHT].to_numpy()[copy]
    return _Whole(np.repeat(phase, counts), np.repeat(copy, counts), line)


def _places(copies: pl.DataFrame, order: tuple[SortKey, ...]) -> np.ndarray:
    """Returns the rank of each copy among all copies in an order."""
    keys = [(key.column, key.descending, key.nulls_last) for key in order]
    ordered = ordered_by(copies.with_row_index(_COPY), keys)
    places = np.empty(copies.height, np.int64)
    places[ordered[_COPY].to_numpy()] = np.arange(copies.height)
    return places


def _computed(call: WindowCall, rows: pl.DataFrame, segments: Segments) -> tuple[pl.Series, np.ndarray]:
    by = rows[call.order[0].column] if len(call.order) == 1 else None
    lows, highs = frame_bounds(call, segments, by)
    return window_values(Frames(call, segments, lows, highs, tuple(rows[name] for name in call.arguments)))


def _faults(call: WindowCall, outside: np.ndarray) -> pl.Series:
    text = f'the value of "{call.function}" is outside the range of its type'
    return pl.DataFrame({FAULT: outside}).select(pl.when(FAULT).then(pl.lit(text))).to_series()


def _output(elements: pl.DataFrame, values: list[pl.Series], row: list[str]) -> Delta:
    return Delta(elements.with_columns(values).select(*row, *(value.name for value in values), *RESERVED))
