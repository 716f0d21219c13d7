"""Group-by: γ(A) at τ has, for each group of A at τ, a row of the keys and the aggregates over the group's rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import polars as pl
import pyarrow as pa

from operators.aggregates.aggregate import Aggregate
from operators.core.delta import BEGINNING, FOREVER, FROM, ORDER, TO, WEIGHT, Delta
from operators.core.json_rows import json_rows
from operators.core.operator import FAULT, FAULT_ROW, Move, Step
from operators.expressions.arrow_types import polars_type
from operators.grouping.group_plan import BOUND, EXISTS, FAULTY, GroupPlan
from operators.kernels.canonical_zero import with_canonical_zero
from operators.kernels.phases import Phases, cancel_within_instants
from operators.state.accumulators import Accumulators
from operators.state.sorted_trace import SortedTrace
from operators.state.trace import Trace

State = Accumulators | SortedTrace | Trace


@dataclass(frozen=True, slots=True)
class GroupBy:
    """For each instant t at which a group's result row changes, emits `-old` and `+new` from t on.

    A group is the rows that agree in `keys`, NULLs being equal; without keys all rows are a single group, which exists
    at every instant, even when it is empty. `schema` has the keys and the arguments. A step costs O(|Δ| log |state|)
    for linear aggregates and for aggregates of the best row of a group. For holistic ones it costs the size of each
    changed group at each of its changes. While an exact sum of a group is out of range, the group has no result row;
    the fault is reported when this begins.

    `bound` names a key column: a group with `bound ≤ frontier` never changes again and is dropped from the state.
    `append_only` promises that no row is ever retracted: then only the best row of each aggregate is kept.

    >>> count = Aggregate("n", "count", (), pa.int64(), nullable=False)
    >>> group = GroupBy(("k",), (count,), pa.schema([("k", pa.string())]))
    >>> step = group.step(Delta.of([("+", {"k": "a"}, 5), ("+", {"k": "a"}, 7)]), group.traces(), Move(0, 9))
    >>> step.delta.frame.select("k", "n", FROM, WEIGHT).sort(FROM, WEIGHT).rows()
    [('a', 1, 5, 1), ('a', 1, 7, -1), ('a', 2, 7, 1)]
    """

    keys: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]
    schema: pa.Schema
    bound: str | None = None
    append_only: bool = False

    @property
    def operator_version(self) -> int:
        """1; plus 1 if aggregates with different filters share the state of distinct values, as they did not in earlier
        releases; plus twice the version of the running sums."""
        plan = _plan(self)
        together = any(len(source.filters) > 1 for source in plan.sources if source.distinct)
        return 1 + int(together) + 2 * plan.parts_version

    def traces(self) -> tuple[State, ...]:
        """The accumulators by group, then the states of distinct, ordered and holistic aggregates."""
        return _plan(self).states()

    def step(self, delta: Delta, traces: tuple[State, ...], move: Move) -> Step:
        """The changes of the groups at the instants of the move."""
        new = not self.keys and move.start == BEGINNING < move.end
        if not new and not len(delta):
            return Step(self._empty(), traces)
        plan = _plan(self)
        rows = self._rows(delta, new=new)
        if not rows.height:
            return Step(self._empty(), traces)
        phases = Phases.of(rows, self.keys, [BOUND] if self.bound else [])
        stages, after = plan.run(phases, traces, move.end, new=new)
        return Step(self._changes(phases, stages), after, self._faults(phases, stages))

    def _rows(self, delta: Delta, *, new: bool) -> pl.DataFrame:
        """The changes, with only the columns needed. If `new`, adds the change of weight 0 with which the group without
        keys begins."""
        rows = cancel_within_instants(with_canonical_zero(delta)).select(*self.schema.names, FROM, WEIGHT, ORDER)
        if new:
            begin = pl.DataFrame({FROM: [BEGINNING], WEIGHT: [0], ORDER: [0]})
            rows = pl.concat([rows, begin], how="diagonal")
        return rows.with_columns(_bound(self.bound, self.schema).alias(BOUND)) if self.bound else rows

    def _changes(self, phases: Phases, stages: pl.DataFrame) -> Delta:
        """The changes of result rows. `stages` has the results of each group before the step, then those in each phase
        (from a change to the next). For phases [a a b] of two groups, the stages are [a b | a a b], `now` is [2 3 4]
        and `old` is [0 2 1]."""
        now = np.arange(phases.group_count, stages.height)
        old = np.where(phases.leads, phases.group, now - 1)
        present = stages[EXISTS].to_numpy()
        results = stages.select(aggregate.name for aggregate in self.aggregates)
        changed = present[old] != present[now]
        earlier = results.select(pl.all().gather(old)).get_columns()
        for now_column, before_column in zip(results[phases.group_count :].get_columns(), earlier, strict=True):
            changed |= now_column.ne_missing(before_column).to_numpy()
        leaving, entering = np.flatnonzero(changed & present[old]), np.flatnonzero(changed & present[now])
        phase, stage = np.concatenate([leaving, entering]), np.concatenate([old[leaving], now[entering]])
        keys = phases.groups.select(self.keys)
        columns = [*_gathered(keys, phases.group[phase]), *_gathered(results, stage)]
        sides = np.repeat([-1, 1], [len(leaving), len(entering)])
        return Delta(pl.DataFrame([*columns, *_elements(phases.instant[phase], sides, phases.order[phase])]))

    def _faults(self, phases: Phases, stages: pl.DataFrame) -> pl.DataFrame | None:
        faults = stages[FAULTY]
        if faults.null_count() == len(faults):
            return None
        now = np.arange(phases.group_count, stages.height)
        old = np.where(phases.leads, phases.group, now - 1)
        at = np.flatnonzero(faults[now].is_not_null() & faults[old].is_null())
        keys = phases.groups.select(pl.all().gather(phases.group[at])).select(self.keys)
        rows = json_rows(keys, self.keys) if self.keys else ["{}"] * len(at)
        columns = {FROM: phases.instant[at], ORDER: phases.order[at], FAULT: faults[now[at]], FAULT_ROW: rows}
        return pl.DataFrame(columns) if len(at) else None

    def _empty(self) -> Delta:
        columns = {name: polars_type(self.schema.field(name).type) for name in self.keys}
        return Delta.empty(columns | {aggregate.name: polars_type(aggregate.type) for aggregate in self.aggregates})


def _gathered(frame: pl.DataFrame, rows: np.ndarray) -> list[pl.Series]:
    return frame.select(pl.all().gather(rows)).get_columns() if frame.width else []


def _elements(instants: np.ndarray, weights: np.ndarray, orders: np.ndarray) -> list[pl.Series]:
    return [
        pl.Series(FROM, instants, pl.Int64),
        pl.repeat(FOREVER, len(instants), dtype=pl.Int64, eager=True).alias(TO),
        pl.Series(WEIGHT, weights, pl.Int64),
        pl.Series(ORDER, orders, pl.Int64),
    ]


def _bound(column: str, schema: pa.Schema) -> pl.Expr:
    """The bound column as Int64; a time in ms, rounded up."""
    type_ = schema.field(column).type
    if pa.types.is_timestamp(type_):
        return -((-pl.col(column).cast(pl.Datetime("us")).to_physical()) // 1000)
    if pa.types.is_date(type_):
        return pl.col(column).to_physical().cast(pl.Int64) * 86_400_000
    return pl.col(column).cast(pl.Int64)


@lru_cache(maxsize=1024)
def _plan(group_by: GroupBy) -> GroupPlan:
    return GroupPlan.of(group_by.keys, group_by.aggregates, group_by.schema, group_by.bound, group_by.append_only)
