"""Runs the generated code of aggregates over events, for all operators with user-defined aggregates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import polars as pl

from operators.python import PythonClass
from operators.user_aggregates.columns import listed
from operators.user_aggregates.definition import Definition
from operators.user_aggregates.generate import EVERY_CODE, Generated, generated
from operators.user_aggregates.python_events import fold_values
from operators.user_aggregates.rows import Rows

State = tuple[object, ...] | None


@dataclass
class Groups:
    """The states of the groups of a batch: the values of single-row tables, the other tables, and the windows."""

    states: list[State]
    tables: list[tuple[Rows, ...]]
    windows: list[Rows]
    #: Whether a stored value may be NULL where code without NULLs does not expect it.
    nulls: bool = False


@dataclass(frozen=True)
class Events:
    """The events of a batch, group after group. `sizes` has the number of events of each group, `code` what each event
    does. In the order of events, `arguments` are the columns of their rows, `number` is the row's number in its group,
    `instant` its instant and `random` its random number."""

    sizes: np.ndarray
    code: np.ndarray
    arguments: tuple[pl.Series, ...]
    number: np.ndarray | None = None
    instant: np.ndarray | None = None
    random: np.ndarray | None = None


@dataclass
class Returned:
    """The returned values, and for each the index of the event that returned it."""

    at: list[int] = field(default_factory=list)
    values: list[object] = field(default_factory=list)


def code_for(definition: Definition, events: Events, *, nulls: bool) -> Generated:
    """The generated code that can run these events."""
    found = nulls or any(column.null_count() for column in events.arguments)
    return generated(definition, nulls=found, codes=frozenset(np.unique(events.code).tolist()))


def empty_groups(definition: Definition, count: int) -> Groups:
    """The states of groups without any row so far."""
    indexed = [indexes(definition, table.name) for table in definition.stored]
    tables = [tuple(Rows(columns) for columns in indexed) for _ in range(count)]
    return Groups([None] * count, tables, [Rows() for _ in range(count)] if definition.reads_window else [])


def indexes(definition: Definition, table: str) -> tuple[tuple[int, ...], ...]:
    """The indexes of a table that the statements of a definition use, in any variant of the generated code."""
    every = generated(definition, nulls=True, codes=EVERY_CODE)
    return tuple(every.indexes[table])


def run(definition: Definition, events: Events, groups: Groups) -> Returned:
    """Runs the events and updates `groups` to the states after them."""
    returned = Returned()
    if not len(events.code):
        return returned
    if definition.python is not None:
        return _run_python(definition.python, events, groups)
    count = len(events.code)
    lists = [listed(column, type_) for column, (_, type_) in zip(events.arguments, definition.parameters, strict=True)]
    zeros: Sequence[object] = [0] * count
    columns = [
        range(count),
        events.code.tolist(),
        *(zeros if values is None else values.tolist() for values in (events.number, events.instant, events.random)),
        *lists,
    ]
    code = code_for(definition, events, nulls=groups.nulls)

    def described(at: int) -> str:
        pairs = zip(definition.parameters, lists, strict=True)
        return "the row " + ", ".join(f"{name} = {values[at]!r}" for (name, _), values in pairs)

    code.run(
        events.sizes.tolist(),
        zip(*columns, strict=True),
        groups.states,
        groups.tables,
        groups.windows,
        returned.at.append,
        returned.values.append,
        describe=described,
    )
    return returned


def _run_python(made: PythonClass, events: Events, groups: Groups) -> Returned:
    """Runs the events of an aggregate in Python: the state of a group is the state of an instance."""
    states = [None if state is None else cast(bytes, state[0]) for state in groups.states]
    after, at, values = fold_values(made, events.sizes, events.code, events.arguments, states)
    groups.states[:] = [None if state is None else (state,) for state in after]
    return Returned(at, values)
