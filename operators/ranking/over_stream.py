"""OverStream: window functions over the last rows of a stream, or over all its rows so far, in time order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np
import polars as pl

from operators.core.delta import FOREVER, FROM, ORDER, RESERVED, TO, WEIGHT, Delta
from operators.core.operator import FAULT, Move, Step, split_faults
from operators.core.run import key_hash
from operators.expressions.arrow_types import polars_type
from operators.kernels.equal_join import equal_join
from operators.ranking.running_calls import Arrived, is_running, rows_back, running_values
from operators.ranking.window_call import WindowCall
from operators.ranking.window_frames import Segments, frame_bounds
from operators.ranking.window_functions import Frames, window_values
from operators.state.accumulators import Accumulators
from operators.state.copies import first_equal
from operators.state.sorted_trace import same_as_before
from operators.state.trace import Trace

_NUMBER, _COUNT, _GROUP, _TIE = "__over_number", "__over_count", "__over_group", "__over_tie"


@dataclass(frozen=True, slots=True)
class OverStream:
    """over(S) = each row of the stream S, once, with the values of the calls over the rows of its partition up to it.

    All calls have the same partition and order. A call reads a number of rows before the row and none after it, or all
    rows up to the row or its last peer (`rows_back`). The order ascends with the instants: no row precedes a row of an
    earlier instant. Rows that tie in it are sorted by (instant, order), then by a hash of the row. So values never
    change, and the result is that of `Over`. A row with a value outside the type of its call is rejected.

    State: for each partition, the number of its rows and the intermediate values of running calls; and for the last
    rows of each partition, as many as other calls reach back, the columns that these read. The cost of a step is
    proportional to its rows and to the kept rows of their partitions.

    >>> from operators.core.sort_key import SortKey
    >>> import pyarrow as pa
    >>> lag = WindowCall("before", "lag", ("x",), pa.int64(), order=(SortKey("t"),))
    >>> rows = Delta.of([("+", {"t": 3, "x": 7}, 3), ("+", {"t": 4, "x": 5}, 4)])
    >>> OverStream((lag,)).step(rows, OverStream((lag,)).traces(), Move(0, 9)).delta.frame.select("x", "before").rows()
    [(7, None), (5, 7)]
    """

    operator_version: ClassVar[int] = 1
    calls: tuple[WindowCall, ...]

    @property
    def partition(self) -> tuple[str, ...]:
        """The columns of PARTITION BY."""
        return self.calls[0].partition

    @property
    def _running(self) -> list[tuple[int, WindowCall]]:
        """The calls over all rows so far, with their numbers."""
        return [(at, call) for at, call in enumerate(self.calls) if is_running(call)]

    @property
    def _reaching(self) -> list[WindowCall]:
        """The calls that read a number of rows back."""
        return [call for call in self.calls if not is_running(call)]

    @property
    def _back(self) -> int:
        """The number of rows before a row on which its values depend."""
        back = rows_back(self.calls)
        assert back is not None, "a call reads rows after the current one"
        return back

    @property
    def _kept(self) -> list[str]:
        """The columns of a row that are kept in addition to its partition."""
        named = dict.fromkeys(name for call in self._reaching for name in call.arguments)
        return [name for name in named if name not in self.partition]

    def traces(self) -> tuple[Trace, ...]:
        """Returns the empty traces of the partitions' counts and running calls, and of the last rows by number."""
        return cast(tuple[Trace, ...], (Accumulators(self.partition), Accumulators((*self.partition, _NUMBER))))

    def step(self, delta: Delta, traces: tuple[Trace, ...], move: Move) -> Step:
        """Returns the rows of the move with their values."""
        counts, numbered = cast(tuple[Accumulators, Accumulators], traces)
        assert (delta.frame[TO] == FOREVER).all() and (delta.frame[WEIGHT] > 0).all(), "the input is a stream"
        if not len(delta):
            none = [pl.Series(call.name, [], polars_type(call.type)) for call in self.calls]
            return Step(self._output(delta.frame, none, delta.columns), traces)
        arrivals = self._arrivals(delta, counts)
        held = self._held(arrivals, numbered)
        made = self._values(arrivals, held)
        kept = list[pl.Series]()
        for at, call in self._running:
            value, faulty, known = running_values(call, at, arrivals.arrived(call))
            made[call.name] = value, faulty
            kept += known
        values = [made[call.name][0] for call in self.calls]
        outside = [_faults(call, made[call.name][1]) for call in self.calls]
        faults = pl.select(pl.coalesce(*outside)).to_series().alias(FAULT)
        elements = arrivals.rows.with_columns(pl.lit(1, pl.Int64).alias(WEIGHT), pl.Series(ORDER, arrivals.causes))
        result, rejected = split_faults(self._output(elements, values, delta.columns), faults)
        totals = pl.DataFrame(
            [*arrivals.heads.get_columns()[: len(self.partition)], pl.Series(_COUNT, arrivals.total, pl.Int64), *kept]
        )
        counted = counts.upsert(totals, pl.repeat(False, totals.height, eager=True), move.end)
        after = self._after(arrivals, held, numbered, move)
        return Step(result, cast(tuple[Trace, ...], (counted, after)), rejected)

    def _arrivals(self, delta: Delta, counts: Accumulators) -> _Arrivals:
        rows = self._ordered(delta)
        firsts = _starts(rows[_GROUP].to_numpy())
        sizes = np.diff(np.append(firsts, rows.height))
        member = np.repeat(np.arange(len(firsts)), sizes)
        heads = rows[firsts].select(*self.partition, pl.Series(_GROUP, np.arange(len(firsts))))
        known = self._known(heads, counts)
        count = known[_COUNT].fill_null(0).to_numpy()
        number = np.arange(rows.height) - firsts[member] + count[member] + 1
        return _Arrivals(rows, heads, member, number, count, count + sizes, known)

    def _ordered(self, delta: Delta) -> pl.DataFrame:
        """Returns the rows, each copy separately, sorted by partition and then in their order."""
        keys = self.calls[0].order
        ties = key_hash(delta.frame, delta.columns).alias(_TIE)
        grouped = delta.frame.with_columns(first_equal(delta.frame, self.partition).alias(_GROUP), ties)
        ordered = grouped.sort(
            [_GROUP, *(key.column for key in keys), FROM, ORDER, _TIE],
            descending=[False, *(key.descending for key in keys), False, False, False],
            nulls_last=[False, *(key.nulls_last for key in keys), False, False, False],
        )
        return ordered[np.repeat(np.arange(ordered.height), ordered[WEIGHT].to_numpy())]

    def _known(self, heads: pl.DataFrame, counts: Accumulators) -> pl.DataFrame:
        """Returns a row for each partition with its kept values, NULL if it has none."""
        held = counts.lookup(heads)
        if not held.height:
            return pl.DataFrame([pl.repeat(None, heads.height, dtype=pl.Int64, eager=True).alias(_COUNT)])
        return equal_join(heads, held, self.partition, "left") if self.partition else held

    def _held(self, arrivals: _Arrivals, numbered: Accumulators) -> pl.DataFrame:
        """Returns the kept rows of the partitions, with the index of their partition in `_GROUP`."""
        sizes = np.minimum(arrivals.before, self._back)
        place = np.repeat(np.arange(len(sizes)), sizes)
        last = np.cumsum(sizes)[place] - 1
        numbers = arrivals.before[place] - (last - np.arange(len(place)))
        wanted = arrivals.heads[place].with_columns(pl.Series(_NUMBER, numbers, pl.Int64))
        found = numbered.lookup(wanted) if wanted.height else wanted
        if not wanted.height or not found.height:
            return pl.DataFrame()
        return found.join(wanted, on=[*self.partition, _NUMBER], how="inner", nulls_equal=True)

    def _values(self, arrivals: _Arrivals, held: pl.DataFrame) -> dict[str, tuple[pl.Series, np.ndarray]]:
        """Returns the values of the calls that reach back for the rows that arrive, and which rows are in fault."""
        if not self._reaching:
            return {}
        named = {name for call in self._reaching for name in call.arguments}
        rows = arrivals.rows.select(
            *sorted(named), pl.Series(_GROUP, arrivals.member), pl.Series(_NUMBER, arrivals.number)
        )
        if held.height:
            rows = pl.concat([held.select(rows.columns), rows])
        groups, numbers = rows[_GROUP].to_numpy(), rows[_NUMBER].to_numpy()
        sorting = np.lexsort((numbers, groups))
        rows = rows[sorting]
        back = np.argsort(sorting, kind="stable")[held.height :]
        segments = Segments.of(groups[sorting], np.ones(rows.height, np.bool_))
        made = {}
        for call in self._reaching:
            lows, highs = frame_bounds(call, segments, None)
            value, faulty = window_values(Frames(call, segments, lows, highs, tuple(rows[a] for a in call.arguments)))
            made[call.name] = value[back], faulty[back]
        return made

    def _after(self, arrivals: _Arrivals, held: pl.DataFrame, numbered: Accumulators, move: Move) -> Accumulators:
        """Returns the last rows by number after the step, without rows that no later row reaches."""
        least = arrivals.total - self._back
        stays = np.flatnonzero(arrivals.number > least[arrivals.member])
        numbers = pl.Series(_NUMBER, arrivals.number[stays], pl.Int64)
        new = arrivals.rows[stays].select(*self.partition, numbers, *self._kept)
        gone = new.clear()
        if held.height:
            leaves = held[_NUMBER].to_numpy() <= least[held[_GROUP].to_numpy()]
            gone = held.filter(pl.Series(leaves)).select(new.columns)
        deleted = pl.Series([False] * new.height + [True] * gone.height, dtype=pl.Boolean)
        return numbered.upsert(pl.concat([new, gone]), deleted, move.end)

    def _output(self, elements: pl.DataFrame, values: list[pl.Series], row: list[str]) -> Delta:
        return Delta(elements.with_columns(values).select(*row, *(value.name for value in values), *RESERVED))


@dataclass(frozen=True)
class _Arrivals:
    """The rows that arrive, sorted by partition, and their partitions (`heads`). For each row: the index of its
    partition (`member`) and its row `number` in it. For each partition: its number of rows `before` the step and after
    it (`total`), and its kept values (`known`)."""

    rows: pl.DataFrame
    heads: pl.DataFrame
    member: np.ndarray
    number: np.ndarray
    before: np.ndarray
    total: np.ndarray
    known: pl.DataFrame

    def arrived(self, call: WindowCall) -> Arrived:
        """Returns the rows in the form that a running call takes."""
        differs = ~same_as_before(self.rows, [key.column for key in call.order])
        segments = Segments.of(self.member, differs)
        return Arrived(self.rows, segments, self.member, self.number, self.before, self.known)

    @property
    def causes(self) -> np.ndarray:
        """For each row, the greatest order of the rows of its partition and instant."""
        phases = np.append(_starts(self.member, self.rows[FROM].to_numpy()), self.rows.height)
        return np.repeat(np.maximum.reduceat(self.rows[ORDER].to_numpy(), phases[:-1]), np.diff(phases))


def _faults(call: WindowCall, faulty: np.ndarray) -> pl.Series:
    text = pl.lit(f'the value of "{call.function}" is outside the range of its type')
    return pl.DataFrame({FAULT: faulty}).select(pl.when(FAULT).then(text)).to_series()


def _starts(*columns: np.ndarray) -> np.ndarray:
    """Returns the indices at which one of the columns differs from its previous value."""
    opens = np.ones(len(columns[0]), np.bool_)
    opens[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return np.flatnonzero(opens)
