"""Computes for how long missing earlier records affect a dataflow that begins in the middle of its logs.

PIPES migrates to a new plan by running it concurrently with the old one until no result depends on elements that the
new plan has not seen (GenMig; Krämer's thesis, sections 27 to 29). This requires that elements end, and that the
results of operators at an instant follow from the elements that are valid then.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from functools import singledispatch
from typing import Any

from dsms.planner.physical.dataflow import Dataflow
from operators.grouping.group_by import GroupBy
from operators.joins.join import Join
from operators.relational.distinct import Distinct
from operators.relational.filter import Filter
from operators.relational.project import Project
from operators.relational.union import Union
from operators.streams.reorder import Reorder
from operators.streams.retract_ends import RetractEnds
from operators.streams.stream_output import StreamOutput
from operators.windows.time_window import TimeWindow


def warm_up(flow: Dataflow, known: Collection[str]) -> int | None:
    """The number of instants after a record for which the vertices of a dataflow that are not `known` (by key) may
    depend on it.

    The law: if these vertices have seen no record up to an instant t, and the known ones have seen all, then from
    t + the result on, all vertices have the same state as if they had run from the beginning of the logs. None if no
    such bound is known.
    """
    reaches: list[float] = []  # of a known vertex's elements; for others, of the elements that they lack
    for key, vertex in zip(flow.keys, flow.vertices, strict=True):
        inputs = [reaches[feed.vertex] for feed in vertex.inputs]
        reach = _reach(vertex.operator, inputs)
        if key not in known and vertex.operator is not None and vertex.operator.traces():
            if not _forgets(vertex.operator) or math.inf in inputs:
                return None
            reach = max(inputs)
        reaches.append(reach)
    ends = [reach for key, reach in zip(flow.keys, reaches, strict=True) if key not in known and reach < math.inf]
    return math.ceil(max(ends, default=0))


@singledispatch
def _reach(operator: Any, inputs: Sequence[float]) -> float:
    """The number of instants by which an output element may end after the records that caused it; ∞ if it may never
    end. Operators that order elements emit them when they begin, so the start of an element is the instant of a record.
    """
    return math.inf


@_reach.register(Filter)
@_reach.register(Project)
@_reach.register(Union)
@_reach.register(Reorder)
def _(operator: Any, inputs: Sequence[float]) -> float:
    return max(inputs)


@_reach.register
def _(operator: Join, inputs: Sequence[float]) -> float:
    """A pair ends when the first of its two elements ends."""
    return min(inputs)


@_reach.register
def _(operator: TimeWindow, inputs: Sequence[float]) -> float:
    """The range includes both of its ends, and both are rounded up to the slide."""
    return inputs[0] if operator.length is None else operator.length + operator.slide


def _forgets(operator: Any) -> bool:
    """Whether the state of an operator follows from the valid elements alone. That of a group-by without keys does not,
    because its group exists from the beginning.
    """
    if isinstance(operator, GroupBy):
        return bool(operator.keys)
    return isinstance(operator, Join | Distinct | Reorder | RetractEnds | StreamOutput)
