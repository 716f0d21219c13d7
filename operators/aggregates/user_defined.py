"""User-defined aggregates over groups. They are evaluated again over all rows of a group whenever the group changes, or
they are folded.

Folding maintains the state of an aggregate under changes; it is in `operators/grouping/group_fold.py`.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import polars as pl
import pyarrow as pa

from operators.aggregates.aggregate import Aggregate
from operators.aggregates.function import AggregateFunction, Folded, Holistic, Parameters, Types, Use
from operators.aggregates.holistic import RESULT, by_arrival
from operators.core.delta import WEIGHT
from operators.kernels.phases import PHASE
from operators.kernels.random_fraction import random_fractions
from operators.state.arrivals import AT, SEQUENCE
from operators.user_aggregates.columns import series
from operators.user_aggregates.definition import Definition
from operators.user_aggregates.evaluate import Events, empty_groups, run
from operators.user_aggregates.generate import COME, END


def result_type(definition: Definition) -> pa.DataType:
    """The type of a group's value: an array of the returned rows if the definition may return any number of them."""
    return pa.list_(definition.result) if definition.returns_many else definition.result


@lru_cache(maxsize=256)
def defined_function(definition: Definition) -> AggregateFunction:
    """A user's aggregate as an `AggregateFunction`, the class of the built-in ones."""

    def rule(types: Types, parameters: Parameters) -> pa.DataType:
        return result_type(definition)

    def evaluate(use: Use, rows: pl.DataFrame) -> pl.DataFrame:
        return _evaluated(definition, use, rows)

    count = len(definition.parameters)
    method = Holistic(by_arrival, lambda use: (), evaluate)
    return AggregateFunction(definition.name, "A user-defined aggregate.", (count, count), rule, method)


def _evaluated(definition: Definition, use: Use, rows: pl.DataFrame) -> pl.DataFrame:
    weights = rows[WEIGHT].to_numpy()
    rows = rows[np.repeat(np.arange(rows.height), weights)] if (weights != 1).any() else rows
    phase = rows[PHASE].to_numpy()
    starts = np.flatnonzero(np.concatenate([[True], phase[1:] != phase[:-1]])[: len(phase)])
    ends = np.append(starts[1:], len(phase)).astype(np.int64)[: len(starts)]
    code = np.full(len(phase), COME)
    code[ends - 1] |= END
    events = Events(
        ends - starts,
        code,
        tuple(rows[name] for name in use.columns),
        instant=rows[AT].to_numpy(),
        random=random_fractions(rows[SEQUENCE].to_numpy(), 0),
    )
    returned = run(definition, events, empty_groups(definition, len(starts)))
    return pl.DataFrame([pl.Series(PHASE, phase[starts]), _by_group(definition, returned.at, returned.values, starts)])


def _by_group(definition: Definition, at: list[int], values: list[object], starts: np.ndarray) -> pl.Series:
    """The value of each group, from the returned `values` and the indexes `at` of the events that returned them."""
    groups = np.searchsorted(starts, np.array(at, np.int64), side="right") - 1
    if not definition.returns_many:
        single: list[object] = [None] * len(starts)
        for group, value in zip(groups.tolist(), values, strict=True):
            single[group] = value
        return series(RESULT, single, definition.result)
    lists: list[list[object]] = [[] for _ in range(len(starts))]
    for group, value in zip(groups.tolist(), values, strict=True):
        lists[group].append(value)
    return series(RESULT, lists, pa.list_(definition.result))


def folded(aggregate: Aggregate, *, append_only: bool) -> Folded | None:
    """The method that maintains a user-defined aggregate under changes; None if the aggregate has to be evaluated again
    over all rows of a group. Folding needs three things: a call without ORDER BY; a definition that returns values only
    in TERMINATE, and does not change local tables there; and input without retractions, or an EXPIRE that can undo any
    row."""
    definition = aggregate.definition
    written = len(aggregate.order_by) - aggregate.arrivals
    if definition is None or written or not (append_only or definition.inverse):
        return None
    return Folded(definition) if definition.ends_only else None


def function_of(aggregate: Aggregate) -> AggregateFunction:
    """The function of an aggregate, built-in or user-defined."""
    from operators.aggregates import AGGREGATES

    if aggregate.definition is not None:
        return defined_function(aggregate.definition)
    return AGGREGATES[aggregate.function]
