"""Builds the entities of SHOW OPERATORS, SHOW QUEUES and so on from lanes (queries that run as one dataflow) and their
measurements. The functions do no I/O and are cheap enough to run every second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce

from dsms.introspection.entities import Adherence, Queue, Synopsis
from dsms.introspection.metrics import Sample
from dsms.introspection.operator_metrics import Operator, values
from dsms.measurements.work import FragmentMetrics, VertexMetrics
from dsms.planner.physical.lane import Lane, Output
from operators.constraints.clustered import Clustered
from operators.constraints.referenced import Referenced
from operators.core.adherence import Adherence as Measurement
from operators.core.ordering import Ordering, declared_distance
from operators.expressions.arrow_types import polars_type

SOURCE = "Source"
#: The ends of partitions by topic and partition; unknown ones are missing.
Ends = Mapping[tuple[str, int], int]


@dataclass(frozen=True)
class WaitingInput:
    """The waiting input of a lane: the next offset by source id and partition, and the rows and bytes before each
    stage. `orders` has the measured order of each ordered column, by source id and partition.
    """

    offsets: Mapping[tuple[str, int], int] = field(default_factory=dict)
    stages: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    orders: Mapping[tuple[str, int], tuple[Ordering, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Sampler:
    """Samples the entities of a fragment at `now`, a time of the clock of the measurements."""

    fragment: str
    metrics: FragmentMetrics
    now: float

    def operators(self, lanes: Mapping[str, Lane]) -> tuple[Operator, ...]:
        """The vertices of the lanes."""
        return tuple(operator for lane in lanes.values() for operator in self._lane_operators(lane))

    def synopses(self, lanes: Mapping[str, Lane]) -> tuple[Synopsis, ...]:
        """The vertices that hold state."""
        return tuple(synopsis for lane in lanes.values() for synopsis in self._lane_synopses(lane))

    def queues(self, lanes: Mapping[str, Lane], waiting: Mapping[str, WaitingInput], ends: Ends) -> tuple[Queue, ...]:
        """The queues before the stages of the lanes."""
        known = [(lane, waiting[lane_id]) for lane_id, lane in lanes.items() if lane_id in waiting]
        records = (queue for lane, waits in known for queue in self._source_queues(lane, waits, ends))
        return (*records, *(queue for lane, waits in known for queue in self._stage_queues(lane, waits)))

    def _lane_operators(self, lane: Lane) -> Iterator[Operator]:
        flow, name = lane.flow, self._entity_ids(lane)
        for at, vertex in enumerate(flow.vertices):
            sample = Sample.of(self.metrics.of(lane.id, flow.keys[at]), self.now)
            yield Operator(
                id=name(at),
                fragment=self.fragment,
                lane=lane.id,
                key=flow.keys[at],
                stage=vertex.stage,
                operator=SOURCE if vertex.operator is None else vertex.kind,
                queries=_queries(lane, at),
                inputs=tuple(name(feed.vertex) for feed in vertex.inputs),
                **values(sample),
            )

    def _lane_synopses(self, lane: Lane) -> Iterator[Synopsis]:
        name = self._entity_ids(lane)
        for at, vertex in enumerate(lane.flow.vertices):
            if vertex.stage == 0 or not (traces := len(vertex.operator.traces())):
                continue
            measured = self.metrics.of(lane.id, lane.flow.keys[at])
            yield Synopsis(
                id=name(at),
                fragment=self.fragment,
                lane=lane.id,
                operator=vertex.kind,
                queries=_queries(lane, at),
                traces=traces,
                rows=measured.state_rows,
                bytes=measured.state_bytes,
                rows_by_target=_by_target(measured),
            )

    def constraints(self, lanes: Mapping[str, Lane], waiting: Mapping[str, WaitingInput]) -> tuple[Adherence, ...]:
        """How well the records that the lanes have read kept the constraints of their sources."""
        known = ((lane, waiting[lane_id]) for lane_id, lane in lanes.items() if lane_id in waiting)
        together = (adherence for lane in lanes.values() for adherence in self._by_vertex(lane))
        return (*(adherence for lane, waits in known for adherence in self._by_partition(lane, waits)), *together)

    def _by_partition(self, lane: Lane, waits: WaitingInput) -> Iterator[Adherence]:
        for (source_id, partition), orders in sorted(waits.orders.items()):
            leaf = lane.leaf(source_id)
            source, names = lane.sources[leaf], _names(lane.by_leaf[leaf])
            for constraint, order in zip(source.ordered, orders, strict=False):
                dtype = polars_type(source.schema.field(constraint.column).type)
                yield Adherence(
                    id=f"{self.fragment}-{lane.id}-{source_id}-{partition}-{constraint.column}",
                    fragment=self.fragment,
                    lane=lane.id,
                    queries=names,
                    source=source.name,
                    partition=partition,
                    column=constraint.column,
                    promise=constraint.sql,
                    k=constraint.k,
                    worst=declared_distance(dtype, order.worst),
                    violations=order.violations,
                )

    def _by_vertex(self, lane: Lane) -> Iterator[Adherence]:
        """The adherence to constraints that a vertex checks over all partitions of a source."""
        name = self._entity_ids(lane)
        for at, vertex in enumerate(lane.flow.vertices):
            adherences = self.metrics.of(lane.id, lane.flow.keys[at]).adherence.values()
            if not adherences or not isinstance(checker := vertex.operator, Clustered | Referenced):
                continue
            worst, violations = reduce(Measurement.combined, adherences, Measurement())
            yield Adherence(
                id=name(at),
                fragment=self.fragment,
                lane=lane.id,
                queries=_queries(lane, at),
                source=lane.sources[_source_number(lane, at)].name,
                partition=None,
                column=checker.column,
                promise=checker.promise,
                k=checker.within,
                worst=worst,
                violations=violations,
            )

    def _source_queues(self, lane: Lane, waits: WaitingInput, ends: Ends) -> Iterator[Queue]:
        names = {leaf: _names(lane.by_leaf[leaf]) for leaf in lane.sources}
        for (source_id, partition), offset in waits.offsets.items():
            leaf = lane.leaf(source_id)
            source, end = lane.sources[leaf], ends.get((lane.sources[leaf].topic, partition))
            rows = None if end is None else max(end - offset, 0)
            size = self.metrics.of(lane.id, lane.flow.keys[lane.flow.leaf(leaf)]).row_bytes
            yield Queue(
                id=f"{self.fragment}-{lane.id}-{source_id}-{partition}",
                fragment=self.fragment,
                lane=lane.id,
                queries=names[leaf],
                source=source.name,
                partition=partition,
                next_offset=offset,
                end_offset=end,
                rows=rows,
                bytes=None if rows is None or size is None else round(rows * size),
            )

    def _stage_queues(self, lane: Lane, waits: WaitingInput) -> Iterator[Queue]:
        names = _names(lane.outputs)
        for stage, (rows, size) in waits.stages.items():
            yield Queue(
                id=f"{self.fragment}-{lane.id}-stage-{stage}",
                fragment=self.fragment,
                lane=lane.id,
                queries=names,
                stage=stage,
                rows=rows,
                bytes=size,
            )

    def _entity_ids(self, lane: Lane) -> Callable[[int], str]:
        return lambda at: f"{self.fragment}-{lane.id}-{lane.flow.keys[at]}"


def _source_number(lane: Lane, at: int) -> int:
    """The number of the source that feeds a vertex. If a vertex has several inputs, the first one is followed."""
    vertex = lane.flow.vertices[at]
    return vertex.leaf if vertex.leaf is not None else _source_number(lane, vertex.inputs[0].vertex)


def keys_of(lanes: Mapping[str, Lane]) -> dict[str, frozenset[str]]:
    """The keys of the vertices of each lane."""
    return {lane_id: frozenset(lane.flow.keys) for lane_id, lane in lanes.items()}


def topics_of(lanes: Iterable[Lane]) -> set[tuple[str, int]]:
    """The partitions that lanes read."""
    sources = (source for lane in lanes for source in lane.sources.values())
    return {(source.topic, partition) for source in sources for partition in range(source.partitions)}


def _queries(lane: Lane, at: int) -> tuple[str, ...]:
    return _names(lane.by_vertex.get(at, ()))


def _by_target(measured: VertexMetrics) -> tuple[int, ...]:
    return tuple(measured.state[target][0] for target in sorted(measured.state))


def _names(outputs: Iterable[Output]) -> tuple[str, ...]:
    """The distinct names of queries: a query that several fragments run in parts occurs once."""
    return tuple(dict.fromkeys(output.name for output in outputs))
