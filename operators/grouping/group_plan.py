"""GroupPlan: the plan of a group-by: which rows its aggregates read, and which state they share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
import pyarrow as pa

from operators.aggregates.aggregate import Aggregate
from operators.aggregates.function import Columns, FirstRow, Holistic, Linear, Use
from operators.aggregates.linear import rows_with
from operators.aggregates.running import RunningSums
from operators.aggregates.user_defined import folded, function_of
from operators.aggregates.values import Filter
from operators.expressions.arrow_types import floating, polars_type
from operators.grouping.group_source import Call, Entries, GroupSource, Reads, held_column, part_column
from operators.kernels.canonical_zero import canonical_zero
from operators.kernels.equal_join import equal_join
from operators.kernels.phases import Phases
from operators.state.accumulators import Accumulators
from operators.state.arrivals import AT, SEQUENCE
from operators.state.sorted_trace import SortedTrace
from operators.state.trace import Trace

BOUND, EXISTS, FAULTY = "__group_bound", "__group_exists", "__group_fault"
ROWS = rows_with(())
State = Accumulators | SortedTrace | Trace


@dataclass(frozen=True)
class GroupPlan:
    """The sources of a group-by: one for each set of rows that aggregates read. The first source is all rows."""

    keys: tuple[str, ...]
    bound: str | None
    sources: tuple[GroupSource, ...]
    calls: tuple[Call, ...]

    @staticmethod
    def of(
        keys: tuple[str, ...],
        aggregates: tuple[Aggregate, ...],
        schema: pa.Schema,
        bound: str | None,
        append_only: bool,
    ) -> GroupPlan:
        """The plan of a `GroupBy` with these fields."""
        kept = None if bound is None else BOUND
        types = (*((field.name, polars_type(field.type)) for field in schema), (AT, pl.Int64()), (SEQUENCE, pl.Int64()))
        numbers: dict[Reads, int] = {(None, None): 0}
        for aggregate in aggregates:
            numbers.setdefault(_reads(aggregate), len(numbers))
        calls = tuple(
            _call(number, aggregate, schema, numbers[_reads(aggregate)], append_only=append_only)
            for number, aggregate in enumerate(aggregates)
        )
        filters: dict[tuple[str, ...] | None, list[Filter]] = {}
        for columns, filter_ in numbers:
            filters.setdefault(columns, []).append(filter_)
        sources = tuple(
            GroupSource(
                number=number,
                keys=keys,
                distinct=columns,
                filter=filter_,
                filters=tuple(filters[columns] if filters[columns][0] == filter_ else ()),
                calls=tuple(call for call in calls if call.source == number),
                types=types,
                bound=kept,
                append_only=append_only,
            )
            for (columns, filter_), number in numbers.items()
        )
        return GroupPlan(keys, kept, sources, calls)

    def states(self) -> tuple[State, ...]:
        """The empty states: the accumulators, then the states of each source."""
        own = (state for source in self.sources for state in source.states())
        return (Accumulators(self.keys, self.bound), *own)

    def run(
        self, phases: Phases, states: tuple[State, ...], frontier: int, *, new: bool
    ) -> tuple[pl.DataFrame, tuple[State, ...]]:
        """Returns the results of every group before the step, followed by those in every phase, and the states after.

        `new` says that the group without keys begins in this step.
        """
        accumulators, *others = states
        assert isinstance(accumulators, Accumulators)
        stored = self._stored(phases, accumulators)
        columns = self._sums.at_phases(phases, phases.rows, stored)
        after: list[State] = []
        entries: Entries = {}
        for source in self.sources:
            own, others = others[: len(source.states())], others[len(source.states()) :]
            values, state = source.run(phases, stored, tuple(own), frontier, entries)
            columns |= values
            after += state
        at_phases = pl.DataFrame([column.alias(name) for name, column in columns.items()]).select(stored.columns)
        last = pl.DataFrame(
            [*phases.groups.get_columns(), *at_phases.select(pl.all().gather(phases.last)).get_columns()]
        )
        empty = (last[part_column(0, ROWS.name)] == 0) if self.keys else pl.Series([False])
        results = self.results(pl.concat([stored, at_phases]), new)
        return results, (accumulators.upsert(last, empty, frontier), *after)

    def _stored(self, phases: Phases, accumulators: Accumulators) -> pl.DataFrame:
        """The accumulators of every group before the step; if none are stored, the accumulators of an empty group."""
        stored = accumulators.lookup(phases.groups)
        if not stored.height:
            return self._zeros.select(pl.all().gather(np.zeros(phases.group_count, np.int64)))
        if self.keys:
            keys = phases.groups.select(self.keys)
            stored = equal_join(keys, stored, self.keys, "left")
        return stored.select(self._filled)

    def results(self, columns: pl.DataFrame, new: bool) -> pl.DataFrame:
        """The aggregates computed from accumulators, with EXISTS (whether the group has a result row) and FAULTY (the
        fault because of which it has none, else NULL)."""
        present = pl.col(part_column(0, ROWS.name)) > 0
        if not self.keys:
            present = pl.int_range(pl.len()) >= int(new)
        faulty = pl.when(present).then(self._faulty)
        results = columns.select(*self._aggregates, present.alias(EXISTS), faulty.alias(FAULTY))
        return results.with_columns(pl.col(EXISTS) & pl.col(FAULTY).is_null())

    @property
    def parts_version(self) -> int:
        """The version of the running sums."""
        return max((part.version for source in self.sources for part in source.parts), default=0)

    # The expressions below are built once: with many aggregates, building them takes longer than evaluating a few rows.

    @cached_property
    def _sums(self) -> RunningSums:
        """The sums over rows, not over distinct values."""
        return RunningSums(tuple(part for source in self.sources if source.distinct is None for part in source.parts))

    @cached_property
    def _zeros(self) -> pl.DataFrame:
        """The accumulators of an empty group, as a single row."""
        zeros = (zero for source in self.sources for zero in source.zeros())
        return pl.DataFrame([pl.Series(name, [value], dtype) for name, (dtype, value) in zeros])

    @cached_property
    def _filled(self) -> tuple[pl.Expr, ...]:
        zeros = (zero for source in self.sources for zero in source.zeros())
        return tuple(pl.col(name) if value is None else pl.col(name).fill_null(value) for name, (_, value) in zeros)

    @cached_property
    def _aggregates(self) -> tuple[pl.Expr, ...]:
        return tuple(_result(call).alias(call.aggregate.name) for call in self.calls)

    @cached_property
    def _faulty(self) -> pl.Expr:
        faults = [fault for call in self.calls if (fault := _fault(call)) is not None]
        return pl.coalesce(faults) if faults else pl.lit(None, pl.String)


def _reads(aggregate: Aggregate) -> Reads:
    repeats = function_of(aggregate).repeats
    dropped = repeats == "never count" or (aggregate.distinct and repeats == "count")
    values = tuple(dict.fromkeys((*aggregate.arguments, *(key.column for key in aggregate.order_by))))
    return (values if dropped else None, aggregate.filter)


def _call(number: int, aggregate: Aggregate, schema: pa.Schema, source: int, *, append_only: bool) -> Call:
    types = tuple(schema.field(name).type for name in aggregate.arguments)
    use = Use(aggregate.arguments, types, aggregate.type, aggregate.order_by, aggregate.parameters)
    method = folded(aggregate, append_only=append_only) or function_of(aggregate).method
    return Call(number, aggregate, method, use, source)


def _columns(call: Call) -> Columns:
    return lambda name: pl.col(part_column(call.source, name))


def _result(call: Call) -> pl.Expr:
    method = call.method
    if isinstance(method, Linear):
        value = method.result(call.use, _columns(call))
        # Rows excluded by a filter add 0, and 0 - 0 is -0 in Polars if one side is constant.
        value = canonical_zero(value) if floating(call.aggregate.type) else value
    else:
        value = pl.col(held_column(call.number, call.use.columns[0] if isinstance(method, FirstRow) else ""))
    return value.cast(polars_type(call.aggregate.type))


def _fault(call: Call) -> pl.Expr | None:
    method = call.method
    if not isinstance(method, Linear | Holistic) or method.fault is None:
        return None
    problem = pl.lit(f'{method.problem} in "{call.aggregate.name}"')
    if isinstance(method, Holistic):
        return pl.when(method.fault(call.use, pl.col(held_column(call.number, "")))).then(problem)
    return pl.when(method.fault(call.use, _columns(call))).then(problem)
