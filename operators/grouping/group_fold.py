"""GroupFold: a user-defined aggregate whose state is updated by the rows that enter and leave a group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import polars as pl

from operators.aggregates.user_defined import result_type
from operators.core.delta import ORDER, WEIGHT
from operators.core.sort_key import SortKey
from operators.kernels.phases import PHASE, Phases
from operators.kernels.random_fraction import random_fractions
from operators.state.accumulators import Accumulators
from operators.state.trace import Trace
from operators.user_aggregates.columns import series
from operators.user_aggregates.definition import Definition
from operators.user_aggregates.evaluate import Events, run
from operators.user_aggregates.fold_events import Ordered, restarts
from operators.user_aggregates.fold_state import WHOLE, load, state_keys, store, store_tables, table_traces
from operators.user_aggregates.generate import COME, END, LEAVE


@dataclass(frozen=True)
class GroupFold:
    """Aggregate number `number`: in each phase (from one change of a group to its next), the result of TERMINATE.

    Within a phase, rows leave before others enter, each sorted by `order`. A group without rows has no value, and its
    state starts over with its next row. State: the values of single-row tables with the numbers of rows that entered
    and left, and a trace for each other table. A step costs O(|Δ|) calls, and reads the tables of the groups that
    change.
    """

    number: int
    keys: tuple[str, ...]
    definition: Definition
    columns: tuple[str, ...]
    bound: str | None
    order: tuple[SortKey, ...] = ()

    def states(self) -> tuple[Accumulators | Trace, ...]:
        """The empty states."""
        keys = state_keys(self.keys)
        return (Accumulators(keys, self.bound), *table_traces(self.definition, keys, self.bound))

    def at_phases(
        self, phases: Phases, rows: pl.DataFrame, stored: pl.Series, states: Sequence[Any], frontier: int
    ) -> tuple[pl.Series, list[Accumulators | Trace]]:
        """Returns the values at every phase, and the states after the step. `stored` has the value of each group before
        the step."""
        changes = rows.filter(pl.col(WEIGHT) != 0)
        if not changes.height:
            return stored.gather(phases.group), list(states)
        held, tables = cast(Accumulators, states[0]), cast(Sequence[Trace], states[1:])
        keys = state_keys(self.keys)
        heads = phases.groups if self.keys else phases.groups.with_columns(pl.lit(0, pl.Int64).alias(WHOLE))
        heads = heads if heads.height else pl.DataFrame({WHOLE: [0]})
        kept = (*keys, self.bound) if self.bound else keys
        loaded = load(heads, keys, [self.definition], held, [tables], frontier)
        phase, ordered = self._events(phases, changes)
        ordered = restarts(ordered, loaded.arrived - loaded.departed)
        returned = run(self.definition, ordered.events, loaded.groups[0])
        group = phases.group[phase]
        leaves = (ordered.events.code & LEAVE) > 0
        loaded.arrived = loaded.arrived + np.bincount(group[~leaves], minlength=heads.height)
        loaded.departed = loaded.departed + np.bincount(group[leaves], minlength=heads.height)
        gone = loaded.arrived == loaded.departed
        for at in np.flatnonzero(gone).tolist():
            for table in loaded.groups[0].tables[at]:
                table.clear()
        after = store_tables(loaded, 0, self.definition, kept, tables, frontier)
        values = self._values(phases, phase, phase[np.array(returned.at, np.int64)], returned.values, stored)
        return values, [store(loaded, kept, [self.definition], held, frontier, gone), *after]

    def _events(self, phases: Phases, changes: pl.DataFrame) -> tuple[np.ndarray, Ordered]:
        """The phase of each event, and the events: in each phase, rows leave, then others come, then TERMINATE runs."""
        weight = changes[WEIGHT].to_numpy()
        at = np.repeat(np.arange(changes.height), np.abs(weight))
        phase, leaves = changes[PHASE].to_numpy()[at], weight[at] < 0
        sorting = np.lexsort((self._ranks(changes)[at], ~leaves, phase))
        at, phase, leaves = at[sorting], phase[sorting], leaves[sorting]
        code = np.where(leaves, LEAVE, COME)
        code[np.append(phase[1:] != phase[:-1], True)[: len(phase)]] |= END
        sizes = np.bincount(phases.group[phase], minlength=phases.group_count)
        instants = phases.instant[phase]
        arguments = tuple(changes[name][at] for name in self.columns)
        random = random_fractions(changes[ORDER].to_numpy()[at], 0)
        events = Events(sizes, code, arguments, instant=instants, random=random)
        return phase, Ordered(events, phase)

    def _ranks(self, changes: pl.DataFrame) -> np.ndarray:
        """The rank of each change in the given order; changes that tie keep their order."""
        ranks = np.arange(changes.height)
        if self.order:
            names = [key.column for key in self.order]
            ordered = (
                changes.select(names)
                .with_row_index(PHASE)
                .sort(
                    names,
                    descending=[key.descending for key in self.order],
                    nulls_last=[key.nulls_last for key in self.order],
                    maintain_order=True,
                )
            )
            ranks[ordered[PHASE].to_numpy()] = np.arange(changes.height)
        return ranks

    def _values(
        self, phases: Phases, touched: np.ndarray, at: np.ndarray, values: list[object], stored: pl.Series
    ) -> pl.Series:
        """The value at every phase: the one returned there or, if no row came or left, that of the phase before."""
        ended = np.unique(touched)
        place = np.searchsorted(ended, at)
        if self.definition.returns_many:
            lists: list[list[object]] = [[] for _ in ended]
            for where, value in zip(place.tolist(), values, strict=True):
                lists[where].append(value)
            made: list[object] = list(lists)
        else:
            made = [None] * len(ended)
            for where, value in zip(place.tolist(), values, strict=True):
                made[where] = value
        column = series("value", made, result_type(self.definition))
        last = np.full(phases.size, -1)
        last[ended] = np.arange(len(ended))
        last = np.maximum.accumulate(last)
        own = last >= 0
        own[own] = phases.group[ended[last[own]]] == phases.group[own]
        places = np.where(own, last + len(stored), phases.group)
        return pl.concat([stored.rename("value").cast(column.dtype), column])[places]
