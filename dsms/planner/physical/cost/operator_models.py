"""Estimates the output and the state of each operator by the formulas of `characteristics`.

An operator without a model is assumed to pass on its first input and, if it has state, to keep all alive elements of
all inputs. Measurements replace assumptions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import singledispatch
from typing import Any

from dsms.planner.physical.cost import characteristics as pipes
from dsms.planner.physical.cost.flow import Expected, Flow, VertexMeasurements
from operators.constraints.forget import Forget
from operators.grouping.group_by import GroupBy
from operators.joins.join import Join
from operators.relational.distinct import Distinct
from operators.relational.filter import Filter
from operators.relational.union import Union
from operators.relational.values import Values
from operators.state.accumulators import Accumulators
from operators.streams.bag_tagger import BagTagger
from operators.streams.reorder import Reorder
from operators.streams.retract_ends import RetractEnds
from operators.streams.sample import Sample
from operators.streams.stream_output import StreamOutput
from operators.streams.tagger import Tagger
from operators.sync.synchronise import PeriodicSync
from operators.sync.to_stream import Dstream, Istream, Rstream
from operators.windows.assign import Assign
from operators.windows.ranged_window import RangedWindow
from operators.windows.row_window import RowWindow
from operators.windows.time_window import TimeWindow

#: Assumptions about an operator that has not run: the fraction of rows that a filter passes, the number of distinct
#: keys of a keyed stream, and the number of groups or distinct rows (but at most one for each row).
_PASS, _KEYS, _GROUPS = 0.3, 10_000.0, 1_000.0
_ONCE = 1.0
#: The length, in instants, of the rows of a constant relation.
_ALWAYS = 1e18
#: The least selectivity: an operator that has had no output so far is assumed to have a little.
_LEAST = 1e-9


@singledispatch
def model(operator: Any, inputs: Sequence[Flow], known: VertexMeasurements) -> Expected:
    """The expected output and state of an operator over some inputs."""
    alive = sum(flow.stream.alive for flow in inputs)
    return Expected(_by_selectivity(inputs[0], known, None), alive if operator.traces() else 0.0)


@model.register
def _(operator: Forget, inputs: Sequence[Flow], known: VertexMeasurements) -> Expected:
    """The estimate includes the state that the operator drops."""
    return model(operator.operator, inputs[: operator.own], known)


@model.register
def _(operator: Filter, inputs: Sequence[Flow], known: VertexMeasurements) -> Expected:
    return Expected(_by_selectivity(inputs[0], known, _PASS))


@model.register
def _(operator: Sample, inputs: Sequence[Flow], known: VertexMeasurements) -> Expected:
    return Expected(_by_selectivity(inputs[0], known, operator.percent / 100))


@model.register
def _(operator: Union, inputs: Sequence[Flow], known: VertexMeasurements) -> Expected:
    return Expected(_of_all(inputs).of(pipes.united(*(flow.stream for flow in inputs))))


@model.register
def _(operator: TimeWindow, inputs: Sequence[Flow], known: VertexMeasurements) -> Expected:
    """The range includes both of its ends."""
    if operator.length is None:
        return Expected(inputs[0].of(pipes.coarsened(inputs[0].stream, operator.slide)))
    windowed = pipes.time_windowed(inputs[0].stream, operator.length + 1, operator.slide)
    return Expected(inputs[0].ending(windowed, changes=False))


@model.register
def _(operator: RangedWindow, inputs: Sequence[Flow], known: VertexMeasurements) -> Expected:
    windowed = pipes.time_windowed(inputs[0].stream, operator.length(known.fraction) + 1)
    return Expected(inputs[0].ending(windowed, changes=False))


@model.register
def _(operator: RowWindow, inputs: Sequence[Flow], known: VertexMeasurements) -> Expected:
    rows = known.state_rows or _GROUPS * operator.rows
    partitions = min(rows, inputs[0].stream.alive) / operator.rows if operator.partition else 1.0
    windowed = pipes.row_windowed(inputs[0].stream, operator.rows, partitions)
    return Expected(inputs[0].ending(windowed, changes=True), partitions * operator.rows)


@model.register
def _(operator: PeriodicSync, inputs: Sequence[Flow], known: VertexMeasurements) -> Expected:
    return Expected(inputs[0].of(pipes.coarsened(inputs[0].stream, operator.points.period)))


@model.register
def _(operator: Assign, inputs: Sequence[Flow], known: VertexMeasurements) -> Expected:
    """One row for each window of each input row."""
    windows = operator.size / operator.slide / (1 if operator.kind == "hop" else 2)
    return Expected(_by_selectivity(inputs[0], VertexMeasurements(), windows))


@model.register
def _(operator: Reorder, inputs: Sequence[Flow], known: VertexMeasurements) -> Expected:
    """The estimate excludes elements that wait for the frontier, because they leave with the next step."""
    return Expected(inputs[0])


@model.register
def _(operator: RetractEnds, inputs: Sequence[Flow], known: VertexMeasurements) -> Expected:
    """Keeps the ends of all rows that are alive, until the frontier passes them."""
    flow = inputs[0]
    return Expected(replace(flow, changes=True), 0.0 if flow.lasting or flow.changes else flow.stream.alive)


@model.register
def _(operator: Tagger | BagTagger, inputs: Sequence[Flow], known: VertexMeasurements) -> Expected:
    """A row is valid until the next record with its key arrives."""
    stream = inputs[0].stream
    keys = min(float(known.state_rows) or _KEYS, stream.alive)
    return Expected(inputs[0].ending(replace(stream, length=keys * stream.gap), changes=True), keys)


@model.register
def _(operator: Distinct, inputs: Sequence[Flow], known: VertexMeasurements) -> Expected:
    """If rows end, a fraction e^-x of the input passes, where x is the number of copies of a row that are alive."""
    flow = inputs[0]
    if flow.lasting:
        rows = _groups(flow, known.state_rows, one=False)
        return Expected(flow.of(pipes.filtered(flow.stream, rows / flow.stream.alive)), rows)
    passing = 0.0 if known.selectivity is None else min(max(known.selectivity, _LEAST), 1 - _LEAST)
    rows = flow.stream.alive / -math.log(passing) if passing else _groups(flow, 0, one=False)
    stream = pipes.present(flow.stream, rows)
    return Expected(flow.ending(stream, changes=True), stream.alive)


@model.register
def _(operator: GroupBy, inputs: Sequence[Flow], known: VertexMeasurements) -> Expected:
    """Each group changes when a row begins or ends; while no row has ended, only when a row begins. The group of all
    rows (no keys) is never empty."""
    flow, one = inputs[0], not operator.keys
    adds_up = all(isinstance(trace, Accumulators) for trace in operator.traces())
    groups = _groups(flow, known.state_rows if adds_up else 0, one=one)
    if flow.lasting:
        stream = replace(flow.stream, length=groups * flow.stream.gap)
    elif one:
        stream = pipes.aggregated(flow.stream)
    else:
        stream = pipes.changing_groups(flow.stream, groups)
    kept = pipes.present(flow.stream, groups).alive if adds_up else flow.stream.alive
    kept = known.state_rows if operator.bound is not None else kept  # final groups have been removed
    return Expected(flow.ending(stream, changes=True), kept)


@model.register
def _(operator: Join, inputs: Sequence[Flow], known: VertexMeasurements) -> Expected:
    """Both sides are kept (22.21). Without measurements, each row of the smaller side is assumed to have one
    partner."""
    left, right = inputs[0], inputs[1]
    pairs = _of_all(inputs).of(pipes.joined(left.stream, right.stream))
    if known.passing is not None:
        part = known.passing
    elif known.selectivity is not None:
        part = known.selectivity * (left.rows + right.rows) / pairs.rows
    else:
        part = 1 / max(left.stream.alive, right.stream.alive, 1.0) if operator.left_keys else _ONCE
    kept = pipes.kept_by_join(left.stream, right.stream)
    return Expected(_by_selectivity(pairs, VertexMeasurements(), part), kept, part)


@model.register(Istream)
@model.register(Dstream)
def _(operator: Istream | Dstream, inputs: Sequence[Flow], known: VertexMeasurements) -> Expected:
    return Expected(_by_selectivity(inputs[0], known, None).forever(), inputs[0].stream.alive)


@model.register
def _(operator: Rstream, inputs: Sequence[Flow], known: VertexMeasurements) -> Expected:
    points = operator.points.period / len(operator.points.residues)
    return Expected(inputs[0].of(pipes.split(inputs[0].stream, points)).forever(), inputs[0].stream.alive)


@model.register
def _(operator: StreamOutput, inputs: Sequence[Flow], known: VertexMeasurements) -> Expected:
    """With keys, `-` and `+` of a key at the same instant become one `u`. Ends of elements are kept until the frontier
    passes them."""
    flow = inputs[0]
    waiting = 0.0 if flow.lasting or flow.changes else flow.stream.alive
    return Expected(replace(flow, changes=not (operator.keys and flow.changes)), waiting)


@model.register
def _(operator: Values, inputs: Sequence[Flow], known: VertexMeasurements) -> Expected:
    """A constant relation, whose rows are always valid."""
    rows = max(len(operator.rows), 1)
    return Expected(Flow(pipes.Characteristics(_ALWAYS / rows, _ALWAYS), _ALWAYS, lasting=True))


def _of_all(inputs: Sequence[Flow]) -> Flow:
    """The common representation of the elements of several inputs."""
    changes, lasting = any(flow.changes for flow in inputs), all(flow.lasting for flow in inputs)
    return replace(inputs[0], age=max(flow.age for flow in inputs), changes=changes, lasting=lasting)


def _groups(flow: Flow, known: float, *, one: bool) -> float:
    """The number of groups, derived from the `known` number of groups in the state; without it, an assumption."""
    if one:
        return 1.0
    if known and not flow.lasting:
        return max(pipes.distinct_rows(flow.stream.alive, known), 1.0)
    return max(known or min(_GROUPS, flow.stream.alive), 1.0)


def _by_selectivity(flow: Flow, known: VertexMeasurements, assumed: float | None) -> Flow:
    """The flow after an operator with the measured selectivity, otherwise with the `assumed` one; unchanged if both are
    None.
    """
    part = assumed if known.selectivity is None else known.selectivity
    return flow if part is None else flow.of(pipes.filtered(flow.stream, max(part, _LEAST)))
