"""Running a lane: the same pure functions in the in-process session and on Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import polars as pl

from dsms.plan.dataflow import Exchange, Vertex
from dsms.plan.lane import Lane
from operators.delta import BEGINNING, ORDER, SOURCE_SHIFT, Delta, partition_of
from operators.operator import Move, State, Step
from operators.tagger import TS
from operators.trace import split

_ANY = Move(BEGINNING, BEGINNING)


@dataclass(frozen=True)
class StageStep:
    """What one target gives on one stage of a lane for a move: elements by exchange, the rows in fault, the state of
    the stage's vertices after it, and on the last stage the tagged changes."""

    sent: Mapping[int, Delta]
    faults: tuple[pl.DataFrame, ...]
    state: Mapping[int, tuple[State, ...]]
    changes: pl.DataFrame | None = None


def initial_state(lane: Lane) -> tuple[tuple[State, ...], ...]:
    """The empty traces of each vertex of a lane."""
    return tuple(() if vertex.operator is None else vertex.operator.traces() for vertex in lane.flow.vertices)


def read_stage(lane: Lane, leaf: int, delta: Delta) -> StageStep:
    """The source stage over elements of one source: stateless operators, whose work does not depend on the frontier."""
    placed = Delta(delta.frame.with_columns(pl.col(ORDER) + (leaf << SOURCE_SHIFT))) if leaf else delta
    return _step(lane, _Place(0, 0, leaf), {leaf: placed}, {}, _ANY)


def target_stage(
    lane: Lane, place: tuple[int, int], arrived: Mapping[int, Delta], state: Mapping[int, tuple[State, ...]], move: Move
) -> StageStep:
    """A stage after the first on a target (`place` is both): complete and final for the instants of the move.

    `arrived` has, by exchange, the elements that came for this target; `state` the traces of the stage's vertices.
    """
    return _step(lane, _Place(*place), arrived, state, move)


def on_stage(lane: Lane, stage: int) -> list[int]:
    """The vertices of a stage."""
    return [at for at, vertex in enumerate(lane.flow.vertices) if vertex.stage == stage]


def route(exchange: Exchange, delta: Delta, targets: int, target: int = 0) -> list[Delta]:
    """The delta cut for the targets; `target` is where it is."""
    if targets == 1:
        return [delta]
    if exchange.by == "all":
        return [delta] * targets
    if exchange.by == "stay" or exchange.by == ():
        home = target if exchange.by else 0
        return [delta if one == home else Delta(delta.frame.clear()) for one in range(targets)]
    if exchange.by == "source":
        to = delta.frame.select((partition_of() % targets).alias(ORDER)).to_series()
        return [Delta(delta.frame.filter(to == one)) for one in range(targets)]
    return split(delta, exchange.by, targets)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a step is: a stage on a target; in the source stage, over which source."""

    stage: int
    target: int
    leaf: int | None = None


def _step(
    lane: Lane, place: _Place, arrived: Mapping[int, Delta], state: Mapping[int, tuple[State, ...]], move: Move
) -> StageStep:
    values: dict[int, Delta] = {}
    steps: dict[int, Step] = {}
    for at in on_stage(lane, place.stage):
        vertex = lane.flow.vertices[at]
        if (vertex.single and place.target) or not _reads(lane, at, place):
            values[at] = vertex.empty()
        elif vertex.leaf is not None:
            values[at] = arrived[vertex.leaf]
        else:
            steps[at] = vertex.operator.step(*_inputs(lane, vertex, values, arrived), state.get(at, ()), move)
            values[at] = steps[at].delta
    sent = {one: values[lane.flow.exchanges[one].producer] for one in _filled(lane, place)}
    faults = tuple(step.faults for step in steps.values() if step.faults is not None)
    changes = _changes(lane, values[len(lane.flow.vertices) - 1]) if lane.flow.stages == place.stage else None
    return StageStep(sent, faults, {at: step.traces for at, step in steps.items()}, changes)


def _inputs(
    lane: Lane, vertex: Vertex, values: Mapping[int, Delta], arrived: Mapping[int, Delta]
) -> Iterable[Delta]:  # fmt: skip
    for feed in vertex.inputs:
        if feed.exchange is None:
            yield values[feed.vertex]
        else:
            came = arrived.get(feed.exchange)
            yield lane.flow.vertices[feed.vertex].empty() if came is None else came


def _filled(lane: Lane, place: _Place) -> list[int]:
    """The exchanges that a stage fills; in the source stage those that depend on the source at hand."""
    return [one for one in lane.flow.sent(place.stage) if _reads(lane, lane.flow.exchanges[one].producer, place)]


def _reads(lane: Lane, vertex: int, place: _Place) -> bool:
    """Whether a vertex depends on the source at hand; after the source stage all do."""
    return place.leaf is None or place.leaf in lane.flow.leaves[vertex]


def _changes(lane: Lane, delta: Delta) -> pl.DataFrame:
    return delta.frame if TS in lane.schema.names else delta.frame.drop(TS, strict=False)
