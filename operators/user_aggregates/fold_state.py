"""Loads and stores the state of aggregates over a stream: the values of single-row tables, the other tables, and the
rows of windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
import pyarrow as pa

from operators.core.delta import FOREVER, FROM, ORDER, TO, WEIGHT, Delta
from operators.kernels.equal_join import equal_join
from operators.state.accumulators import Accumulators
from operators.state.trace import Trace
from operators.user_aggregates.columns import listed, series
from operators.user_aggregates.definition import WINDOW_TABLE, Definition, LocalTable
from operators.user_aggregates.evaluate import Groups, indexes
from operators.user_aggregates.rows import Rows

#: Columns: the key of a state without PARTITION BY or GROUP BY; the number of a row in its group; how many rows have
#: entered a group; how many have left it; the instant of a row in a window.
WHOLE, NUMBER, ARRIVED, DEPARTED, AT = "__whole", "__number", "__count", "__first", "__at"
_GROUP, _ROW = "__group", "__row"


def state_keys(partition: tuple[str, ...]) -> tuple[str, ...]:
    """The columns by which the state is looked up."""
    return partition or (WHOLE,)


def table_traces(definition: Definition, keys: tuple[str, ...], bound: str | None = None) -> tuple[Trace, ...]:
    """The empty traces of the tables that may have any number of rows, the window last."""
    return tuple(Trace("key", keys, bound=bound) for _ in tables_of(definition))


def tables_of(definition: Definition) -> tuple[LocalTable, ...]:
    """The tables with a trace."""
    if not definition.reads_window:
        return definition.stored
    window = definition.table(WINDOW_TABLE)
    return (*definition.stored, replace(window, columns=(*window.columns, (AT, pa.int64()))))


@dataclass
class Loaded:
    """The groups of a step: `heads` has their keys, `arrived` and `departed` the numbers of rows that have entered and
    left each group so far, and `groups` the states by call."""

    heads: pl.DataFrame
    arrived: np.ndarray
    departed: np.ndarray
    groups: list[Groups]


def load(
    heads: pl.DataFrame,
    keys: tuple[str, ...],
    definitions: Sequence[Definition],
    held: Accumulators,
    traces: Sequence[Sequence[Trace]],
    frontier: int,
) -> Loaded:
    """The states of the groups whose keys are in `heads`."""
    known = _known(heads, keys, held)
    arrived, departed = (
        known[name].fill_null(0).to_numpy() if name in known.columns else np.zeros(heads.height, np.int64)
        for name in (ARRIVED, DEPARTED)
    )
    groups = [
        _groups(at, definition, known, keys, own, frontier)
        for at, (definition, own) in enumerate(zip(definitions, traces, strict=True))
    ]
    return Loaded(heads, arrived, departed, groups)


def _known(heads: pl.DataFrame, keys: tuple[str, ...], held: Accumulators) -> pl.DataFrame:
    """The groups with their stored columns, NULL for new groups; `_GROUP` numbers them."""
    numbered = heads.select(keys).with_row_index(_GROUP)
    stored = held.lookup(heads)
    if not stored.height:
        return numbered
    return equal_join(numbered, stored, keys, "left")


def _groups(
    at: int, definition: Definition, known: pl.DataFrame, keys: tuple[str, ...], traces: Sequence[Trace], frontier: int
) -> Groups:
    size = known.height
    live = known[f"__live{at}"].fill_null(False).to_list() if f"__live{at}" in known.columns else [False] * size
    names = [_variable(at, number) for number in range(len(definition.variables))]
    nulls = False
    states: list[tuple[object, ...] | None] = [None] * size
    if any(live):
        present = known.filter(pl.Series(live)) if names else known
        nulls = any(present[name].null_count() for name in names)
        columns = [listed(known[name], type_) for name, (_, type_) in zip(names, definition.variables, strict=True)]
        states = [tuple(column[group] for column in columns) if alive else None for group, alive in enumerate(live)]
    indexed = {table.name: indexes(definition, table.name) for table in definition.stored}
    tables = [[Rows(indexed[table.name]) for _ in range(size)] for table in definition.stored]
    windows = [Rows() for _ in range(size)] if definition.reads_window else []
    for place, (table, trace) in enumerate(zip(tables_of(definition), traces, strict=True)):
        found, has_nulls = _load_rows(table, known.select(_GROUP, *keys), keys, trace, frontier)
        nulls = nulls or has_nulls
        made = windows if table.name == WINDOW_TABLE else tables[place]
        for group, rows in found.items():
            made[group] = Rows(indexed.get(table.name, ()), rows)
    by_group = [tuple(table[group] for table in tables) for group in range(size)]
    return Groups(states, by_group, windows, nulls)


def _load_rows(
    table: LocalTable, heads: pl.DataFrame, keys: tuple[str, ...], trace: Trace, frontier: int
) -> tuple[dict[int, list[tuple[int, list[object]]]], bool]:
    """The rows of a table by group, and whether any value is NULL."""
    frame = trace.lookup(heads, frontier).frame
    if not frame.height:
        return {}, False
    joined = equal_join(frame, heads, keys, "inner").sort(_GROUP, _ROW)
    names = [_cell(at) for at in range(len(table.columns))]
    columns = [listed(joined[name], type_) for name, (_, type_) in zip(names, table.columns, strict=True)]
    found: dict[int, list[tuple[int, list[object]]]] = {}
    for group, number, *values in zip(joined[_GROUP].to_list(), joined[_ROW].to_list(), *columns, strict=True):
        found.setdefault(group, []).append((number, values))
    return found, any(joined[name].null_count() for name in names)


def store(
    loaded: Loaded,
    keys: tuple[str, ...],
    definitions: Sequence[Definition],
    held: Accumulators,
    end: int,
    gone: np.ndarray | None = None,
) -> Accumulators:
    """Stores the state of groups after a step, except tables with any number of rows; deletes groups that are `gone`.

    `keys` may include further columns that depend on the group.
    """
    columns = [
        *loaded.heads.select(keys).get_columns(),
        pl.Series(ARRIVED, loaded.arrived, pl.Int64),
        pl.Series(DEPARTED, loaded.departed, pl.Int64),
    ]
    for at, (definition, groups) in enumerate(zip(definitions, loaded.groups, strict=True)):
        columns.append(pl.Series(f"__live{at}", [state is not None for state in groups.states], pl.Boolean))
        for number, (_, type_) in enumerate(definition.variables):
            values = [None if state is None else state[number] for state in groups.states]
            columns.append(series(_variable(at, number), values, type_))
    frame = pl.DataFrame(columns)
    deleted = np.zeros(frame.height, np.bool_) if gone is None else gone
    return held.upsert(frame, pl.Series(deleted, dtype=pl.Boolean), end)


def store_tables(
    loaded: Loaded, at: int, definition: Definition, keys: tuple[str, ...], traces: Sequence[Trace], end: int
) -> tuple[Trace, ...]:
    """The traces of a call's tables after a step: old versions of changed rows are retracted, new ones inserted."""
    after = []
    groups = loaded.groups[at]
    for place, (table, trace) in enumerate(zip(tables_of(definition), traces, strict=True)):
        window = table.name == WINDOW_TABLE
        rows = groups.windows if window else [tables[place] for tables in groups.tables]
        after.append(trace.append(_changed(table, loaded.heads.select(keys), rows, end), end))
    return tuple(after)


def _changed(table: LocalTable, heads: pl.DataFrame, tables: Sequence[Rows], end: int) -> Delta:
    group: list[int] = []
    number: list[int] = []
    values: list[Sequence[object]] = []
    weights: list[int] = []
    for at, rows in enumerate(tables):
        for row, before in rows.before.items():
            now = rows.rows.get(row)
            if now is not None and before is not None and list(before) == now:
                continue
            for weight, content in ((-1, before), (1, now)):
                if content is not None:
                    group.append(at)
                    number.append(row)
                    values.append(content)
                    weights.append(weight)
    columns = [
        *heads[group].get_columns(),
        pl.Series(_ROW, number, pl.Int64),
        *(series(_cell(at), [row[at] for row in values], type_) for at, (_, type_) in enumerate(table.columns)),
        pl.Series(FROM, [end] * len(group), pl.Int64),
        pl.Series(TO, [FOREVER] * len(group), pl.Int64),
        pl.Series(WEIGHT, weights, pl.Int64),
        pl.Series(ORDER, [0] * len(group), pl.Int64),
    ]
    return Delta(pl.DataFrame(columns))


def _variable(call: int, number: int) -> str:
    return f"__v{call}_{number}"


def _cell(at: int) -> str:
    return f"__c{at}"
