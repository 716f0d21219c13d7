"""Estimates the flows and the state of all vertices of a dataflow, in one pass that begins at the sources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from dsms.planner.physical.cost.characteristics import Characteristics
from dsms.planner.physical.cost.flow import Expected, Flow, VertexMeasurements
from dsms.planner.physical.cost.operator_models import model
from dsms.planner.physical.dataflow import Dataflow

#: The instants per second if instants are milliseconds; a source may count in another unit.
USUAL_SPEED = 1000.0


@dataclass(frozen=True)
class Statistics:
    """Measurements of vertices, by their keys; the seconds of work for a row, by kind of operator; and the number of
    instants per second.
    """

    vertices: Mapping[str, VertexMeasurements] = field(default_factory=dict)
    seconds_a_row: Mapping[str, float] = field(default_factory=dict)
    speed: float = USUAL_SPEED


def estimated(flow: Dataflow, statistics: Statistics) -> tuple[Expected | None, ...]:
    """The expected output and state of each vertex; None above a source without measurements."""
    return tuple(estimated_of(flow, range(len(flow.vertices)), statistics.vertices).values())


def estimated_of(
    flow: Dataflow, vertices: Iterable[int], measured: Mapping[str, VertexMeasurements]
) -> dict[int, Expected | None]:
    """Like `estimated`, for some vertices in ascending order; all vertices below them must be among them."""
    expected: dict[int, Expected | None] = {}
    for at in vertices:
        vertex, known = flow.vertices[at], measured.get(flow.keys[at], VertexMeasurements())
        if vertex.leaf is not None:
            expected[at] = _read(known)
            continue
        inputs = [expected[feed.vertex] for feed in vertex.inputs]
        flows = [below.flow for below in inputs if below is not None]
        expected[at] = model(vertex.operator, flows, known) if len(flows) == len(inputs) else None
    return expected


def _read(known: VertexMeasurements) -> Expected | None:
    """The flow of a source, whose rows do not end; None without a measured gap."""
    if not known.gap:
        return None
    age = known.gap * max(known.rows, 1)
    return Expected(Flow(Characteristics(known.gap, age), age, lasting=True))
