"""GroupSource: a set of rows that aggregates of a group-by read, and the state that those aggregates share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import polars as pl

from operators.aggregates.aggregate import Aggregate
from operators.aggregates.collected import Collected
from operators.aggregates.function import FirstRow, Folded, Holistic, Linear, RunningSum, Use
from operators.aggregates.linear import rows_with
from operators.aggregates.running import RunningSums
from operators.aggregates.values import Filter, distinct_changes
from operators.aggregates.winner import PRESENT, Winner, append_changes
from operators.core.delta import WEIGHT, Delta
from operators.core.sort_key import SortKey
from operators.expressions.arrow_types import polars_type
from operators.grouping.group_fold import GroupFold
from operators.kernels.phases import PHASE, Phases
from operators.state.accumulators import Accumulators
from operators.state.arrivals import AT, SEQUENCE, arrivals, with_arrivals
from operators.state.sorted_trace import SortedTrace
from operators.state.trace import Trace

State = Accumulators | SortedTrace | Trace
#: The distinct columns (None: all rows) and the filter column (None: no filter).
Reads = tuple[tuple[str, ...] | None, Filter]
#: The changes of distinct values.
Entries = dict[Reads, pl.DataFrame]
#: The dtype of an accumulator column, and its value for a group without stored accumulators.
Zero = tuple[pl.DataType, int | None]


@dataclass(frozen=True)
class Call:
    """An aggregate with its number, its method, its arguments (`use`), and the number of the source that it reads."""

    number: int
    aggregate: Aggregate
    method: Linear | FirstRow | Holistic | Folded
    use: Use
    source: int

    @property
    def order(self) -> tuple[SortKey, ...]:
        """The order of rows that its method requires."""
        return () if isinstance(self.method, Linear | Folded) else self.method.order(self.use)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that an ordered or holistic aggregate keeps of a row."""
        return tuple(dict.fromkeys((*(key.column for key in self.order), *self.use.columns)))


def part_column(source: int, part: str) -> str:
    """The accumulator column of a running sum of a source."""
    return f"__sum_{source}_{part}"


def held_column(call: int, column: str) -> str:
    """The accumulator column for a column of an aggregate's best row, or for a holistic or folded result (`""`)."""
    return f"__held_{call}_{column}"


@dataclass(frozen=True)
class GroupSource:
    """The changes of the rows for which a filter is TRUE, or of their distinct values, and the aggregates over them.

    Sources that differ only in their filters share the state of distinct values, which the first of them keeps. It has
    all their filters in `filters`; in the others `filters` is empty.
    """

    number: int
    keys: tuple[str, ...]
    distinct: tuple[str, ...] | None
    filter: Filter
    filters: tuple[Filter, ...]
    calls: tuple[Call, ...]
    types: tuple[tuple[str, pl.DataType], ...]
    bound: str | None
    append_only: bool

    @cached_property
    def parts(self) -> tuple[RunningSum, ...]:
        """The running sums, named by their accumulator columns; aggregates share equal ones. The first source also
        counts all rows."""
        linear = [(call.method, call.use) for call in self.calls if isinstance(call.method, Linear)]
        every = [part for method, use in linear for part in method.parts(use)]
        known = {part.name: part for part in ([rows_with(())] if self.number == 0 else []) + every}
        return tuple(self._own(part) for part in known.values())

    def _own(self, part: RunningSum) -> RunningSum:
        counted = part.counted and part_column(self.number, part.counted)
        # The rows behind distinct values are filtered before their distinct values are taken.
        filter = self.filter if self.distinct is None else None
        return replace(part, name=part_column(self.number, part.name), counted=counted, filter=filter)

    @cached_property
    def _sums(self) -> RunningSums:
        return RunningSums(self.parts)

    @cached_property
    def best(self) -> tuple[Call, ...]:
        """The aggregates whose result is a column of the best row of a group."""
        return tuple(call for call in self.calls if isinstance(call.method, FirstRow))

    @cached_property
    def holistic(self) -> tuple[tuple[Use, Holistic], ...]:
        """The aggregates that read all rows of a group."""
        return tuple((call.use, call.method) for call in self.calls if isinstance(call.method, Holistic))

    @cached_property
    def folds(self) -> tuple[GroupFold, ...]:
        """The user-defined aggregates whose state is updated by the changes of rows."""
        return tuple(
            GroupFold(call.number, self.keys, call.method.definition, call.use.columns, self.bound, call.use.order_by)
            for call in self.calls
            if isinstance(call.method, Folded)
        )

    @cached_property
    def collected(self) -> tuple[str, ...]:
        """The columns that holistic aggregates need of each row."""
        calls = [call for call in self.calls if isinstance(call.method, Holistic)]
        return tuple(dict.fromkeys(column for call in calls for column in call.columns))

    @cached_property
    def identity(self) -> tuple[str, ...]:
        """The columns that identify a row, if an aggregate depends on the order of arrival; else none.

        These are all columns, not only those of the aggregate, because a retraction removes a copy of its own row.
        """
        if not any(AT in call.columns for call in self.calls):
            return ()
        every = self.distinct if self.distinct is not None else (name for name, _ in self.types)
        return tuple(dict.fromkeys((*self.keys, *(name for name in every if name not in (AT, SEQUENCE)))))

    def states(self) -> tuple[State, ...]:
        """The empty states, each only if needed: the distinct values of all filters, the arrivals, a trace for each
        aggregate of a best row, the rows of holistic aggregates, and the states of user-defined aggregates."""
        states: list[State] = []
        if self.distinct is not None and self.filters:
            states.append(Accumulators(tuple(dict.fromkeys((*self.keys, *self.distinct))), self.bound))
        if not self.append_only:
            states += [arrivals(self.identity, self.bound)] if self.identity else []
            states += [SortedTrace(self.keys, call.order, bound=self.bound) for call in self.best]
        states += [SortedTrace(self.keys, (), bound=self.bound)] if self.holistic else []
        states += [state for fold in self.folds for state in fold.states()]
        return tuple(states)

    def zeros(self) -> Iterator[tuple[str, Zero]]:
        """The accumulator columns of this source, each with its dtype and empty value."""
        for part in self.parts:
            yield part.name, (part.dtype, 0)
        types = dict(self.types)
        for call in self.best:
            for column in call.columns:
                yield held_column(call.number, column), (types[column], None)
            yield held_column(call.number, PRESENT), (pl.Boolean(), False)
        for call in self.calls:
            if isinstance(call.method, Holistic | Folded):
                yield held_column(call.number, ""), (polars_type(call.use.result), None)

    def run(
        self, phases: Phases, stored: pl.DataFrame, states: tuple[State, ...], frontier: int, entries: Entries
    ) -> tuple[dict[str, pl.Series], tuple[State, ...]]:
        """Returns the accumulator columns at every phase, and the states after the step. The columns do not include
        sums over rows that are not distinct, which the plan computes. The first of the sources that share distinct
        values adds the changes of these values to `entries`, for the others."""
        if self.distinct is None and not (self.best or self.holistic or self.folds):
            return {}, ()
        remaining = list(states)
        after: list[State] = []
        if self.distinct is not None and self.filters:
            values = remaining.pop(0)
            assert isinstance(values, Accumulators)
            changes, values = distinct_changes(phases, self.distinct, self.filters, values, frontier)
            entries |= {(self.distinct, name): rows for name, rows in zip(self.filters, changes, strict=True)}
            after.append(values)
        rows = self._rows(phases, entries)
        columns = self._sums.at_phases(phases, rows, stored) if self.distinct is not None and self.parts else {}
        kept_apart = sum(len(fold.states()) for fold in self.folds)
        remaining, folded = remaining[: len(remaining) - kept_apart], remaining[len(remaining) - kept_apart :]
        traces = [state for state in remaining if isinstance(state, SortedTrace)]
        unfolded = rows
        if self.best or self.holistic:
            rows = rows.filter(pl.col(WEIGHT) != 0)
            if self.identity:
                rows, arrived = self._with_arrivals(rows, traces, frontier)
                after += arrived
            for call in self.best:
                best_columns, kept = self._winner(call, phases, rows, stored, traces, frontier)
                columns, after = columns | best_columns, after + kept
        if self.holistic:
            results = Collected(self.collected).at_phases(phases, rows, self.holistic, traces[0])
            numbers = [call.number for call in self.calls if isinstance(call.method, Holistic)]
            columns |= {held_column(number, ""): result for number, result in zip(numbers, results, strict=True)}
            after.append(append_changes(traces[0], phases, rows.select(*self.collected, PHASE, WEIGHT), frontier))
        for fold in self.folds:
            own, folded = folded[: len(fold.states())], folded[len(fold.states()) :]
            held = stored[held_column(fold.number, "")]
            columns[held_column(fold.number, "")], states_after = fold.at_phases(phases, unfolded, held, own, frontier)
            after += states_after
        return columns, tuple(after)

    def _rows(self, phases: Phases, entries: Entries) -> pl.DataFrame:
        """The changes that the aggregates of this source read."""
        if self.distinct is not None:
            return entries[self.distinct, self.filter]
        return phases.rows if self.filter is None else phases.rows.filter(pl.col(self.filter))

    def _with_arrivals(
        self, rows: pl.DataFrame, traces: list[SortedTrace], frontier: int
    ) -> tuple[pl.DataFrame, list[State]]:
        """The changes with the arrivals of the rows that they insert or retract, sorted by phase, and the new state."""
        if self.append_only:
            return with_arrivals(rows, arrivals(self.identity)), []
        present = traces.pop(0)
        arrived = with_arrivals(rows, present)
        kept = [*self.identity, AT, SEQUENCE, WEIGHT, *([self.bound] if self.bound else [])]
        return arrived.sort(PHASE, maintain_order=True), [present.append(Delta(arrived.select(kept)), frontier)]

    def _winner(
        self,
        call: Call,
        phases: Phases,
        rows: pl.DataFrame,
        stored: pl.DataFrame,
        traces: list[SortedTrace],
        frontier: int,
    ) -> tuple[dict[str, pl.Series], list[State]]:
        assert isinstance(call.method, FirstRow)
        required = call.method.required(call.use)
        rows = rows.filter(pl.all_horizontal(pl.col(required).is_not_null())) if required else rows
        names = {column: held_column(call.number, column) for column in (*call.columns, PRESENT)}
        known = stored.select(pl.col(held).alias(column) for column, held in names.items())
        trace = SortedTrace(self.keys, call.order) if self.append_only else traces.pop(0)
        winners = Winner(call.order, call.columns).at_phases(phases, rows, known, trace)
        after: list[State] = (
            []
            if self.append_only
            else [append_changes(trace, phases, rows.select(*call.columns, PHASE, WEIGHT), frontier)]
        )
        return {held: winners[column] for column, held in names.items()}, after
