"""Entities from lanes and from what was measured of them: pure, and cheap enough for every second."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce

from dsms.introspection.entities import Adherence, Operator, Queue, Synopsis
from dsms.physical.lane import Lane
from dsms.scheduler.work import Measured, Measures
from operators.constraints.clustered import Clustered
from operators.constraints.referenced import Referenced
from operators.core.adherence import Adherence as Kept
from operators.core.ordering import Ordering, declared_distance
from operators.expressions.arrow_types import polars_type

SOURCE = "Source"
#: The end of a partition by topic and partition, as far as it is known.
Ends = Mapping[tuple[str, int], int]


@dataclass(frozen=True)
class Waiting:
    """What waits in a lane: the next offset by source (by id) and partition; rows and bytes before its stages. `orders`
    is what was seen of the ordered columns of what it has read."""

    offsets: Mapping[tuple[str, int], int] = field(default_factory=dict)
    stages: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    orders: Mapping[tuple[str, int], tuple[Ordering, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Sampler:
    """The entities of a fragment at a time of the measures' clock."""

    fragment: str
    measures: Measures
    now: float

    def operators(self, lanes: Mapping[str, Lane]) -> tuple[Operator, ...]:
        """The vertices of the lanes."""
        return tuple(one for lane in lanes.values() for one in self._vertices(lane))

    def synopses(self, lanes: Mapping[str, Lane]) -> tuple[Synopsis, ...]:
        """The vertices that hold state."""
        return tuple(one for lane in lanes.values() for one in self._states(lane))

    def queues(self, lanes: Mapping[str, Lane], waiting: Mapping[str, Waiting], ends: Ends) -> tuple[Queue, ...]:
        """What waits before the stages of the lanes."""
        known = [(lane, waiting[lane_id]) for lane_id, lane in lanes.items() if lane_id in waiting]
        records = (one for lane, held in known for one in self._unread(lane, held, ends))
        return (*records, *(one for lane, held in known for one in self._between(lane, held)))

    def _vertices(self, lane: Lane) -> Iterator[Operator]:
        flow, name = lane.flow, self._namer(lane)
        for at, vertex in enumerate(flow.vertices):
            found = self.measures.of(lane.id, flow.keys[at])
            came, gave, load = found.rates(self.now)
            yield Operator(
                id=name(at), fragment=self.fragment, lane=lane.id, key=flow.keys[at], stage=vertex.stage,
                operator=SOURCE if vertex.operator is None else vertex.kind,
                queries=_queries(lane, at), inputs=tuple(name(feed.vertex) for feed in vertex.inputs),
                runs=found.runs, rows_in=found.rows_in, rows_out=found.rows_out, busy_seconds=found.busy_ns / 1e9,
                rows_in_per_second=came, rows_out_per_second=gave, load=load, selectivity=found.selectivity,
                seconds_per_row=found.cost, state_rows=found.state_rows, state_bytes=found.state_bytes,
            )  # fmt: skip

    def _states(self, lane: Lane) -> Iterator[Synopsis]:
        name = self._namer(lane)
        for at, vertex in enumerate(lane.flow.vertices):
            if vertex.stage == 0 or not (traces := len(vertex.operator.traces())):
                continue
            found = self.measures.of(lane.id, lane.flow.keys[at])
            yield Synopsis(
                id=name(at), fragment=self.fragment, lane=lane.id, operator=vertex.kind,
                queries=_queries(lane, at), traces=traces, rows=found.state_rows, bytes=found.state_bytes,
                rows_by_target=_by_target(found),
            )  # fmt: skip

    def constraints(self, lanes: Mapping[str, Lane], waiting: Mapping[str, Waiting]) -> tuple[Adherence, ...]:
        """How what the lanes have read keeps what is promised of it."""
        known = ((lane, waiting[lane_id]) for lane_id, lane in lanes.items() if lane_id in waiting)
        together = (one for lane in lanes.values() for one in self._keepers(lane))
        return (*(one for lane, held in known for one in self._kept(lane, held)), *together)

    def _kept(self, lane: Lane, held: Waiting) -> Iterator[Adherence]:
        for (source_id, partition), orders in sorted(held.orders.items()):
            leaf = lane.leaf(source_id)
            source, names = lane.sources[leaf], tuple(one.name for one in lane.by_leaf[leaf])
            for constraint, order in zip(source.ordered, orders, strict=False):
                dtype = polars_type(source.schema.field(constraint.column).type)
                yield Adherence(
                    id=f"{self.fragment}-{lane.id}-{source_id}-{partition}-{constraint.column}",
                    fragment=self.fragment, lane=lane.id, queries=names, source=source.name, partition=partition,
                    column=constraint.column, promise=constraint.sql, k=constraint.k,
                    worst=declared_distance(dtype, order.worst), violations=order.violations,
                )  # fmt: skip

    def _keepers(self, lane: Lane) -> Iterator[Adherence]:
        """Of the vertices that keep promises about all records of a source, and have run."""
        name = self._namer(lane)
        for at, vertex in enumerate(lane.flow.vertices):
            shown = self.measures.of(lane.id, lane.flow.keys[at]).adherence.values()
            if not shown or not isinstance(keeper := vertex.operator, Clustered | Referenced):
                continue
            worst, violations = reduce(Kept.combined, shown, Kept())
            yield Adherence(
                id=name(at), fragment=self.fragment, lane=lane.id, queries=_queries(lane, at),
                source=lane.sources[_records(lane, at)].name, partition=None, column=keeper.column,
                promise=keeper.promise, k=keeper.within, worst=worst, violations=violations,
            )  # fmt: skip

    def _unread(self, lane: Lane, held: Waiting, ends: Ends) -> Iterator[Queue]:
        names = {leaf: tuple(one.name for one in lane.by_leaf[leaf]) for leaf in lane.sources}
        for (source_id, partition), offset in held.offsets.items():
            leaf = lane.leaf(source_id)
            source, end = lane.sources[leaf], ends.get((lane.sources[leaf].topic, partition))
            rows = None if end is None else max(end - offset, 0)
            size = self.measures.of(lane.id, lane.flow.keys[lane.flow.leaf(leaf)]).row_bytes
            yield Queue(
                id=f"{self.fragment}-{lane.id}-{source_id}-{partition}", fragment=self.fragment, lane=lane.id,
                queries=names[leaf], source=source.name, partition=partition, next_offset=offset, end_offset=end,
                rows=rows, bytes=None if rows is None or size is None else round(rows * size),
            )  # fmt: skip

    def _between(self, lane: Lane, held: Waiting) -> Iterator[Queue]:
        names = tuple(output.name for output in lane.outputs)
        for stage, (rows, size) in held.stages.items():
            yield Queue(
                id=f"{self.fragment}-{lane.id}-stage-{stage}", fragment=self.fragment, lane=lane.id, queries=names,
                stage=stage, rows=rows, bytes=size,
            )  # fmt: skip

    def _namer(self, lane: Lane) -> Callable[[int], str]:
        return lambda at: f"{self.fragment}-{lane.id}-{lane.flow.keys[at]}"


def _records(lane: Lane, at: int) -> int:
    """The source of the first input, by number."""
    vertex = lane.flow.vertices[at]
    return vertex.leaf if vertex.leaf is not None else _records(lane, vertex.inputs[0].vertex)


def keys_of(lanes: Mapping[str, Lane]) -> dict[str, frozenset[str]]:
    """The keys of the vertices of each lane."""
    return {lane_id: frozenset(lane.flow.keys) for lane_id, lane in lanes.items()}


def topics_of(lanes: Iterable[Lane]) -> set[tuple[str, int]]:
    """The partitions that lanes read."""
    sources = (source for lane in lanes for source in lane.sources.values())
    return {(source.topic, partition) for source in sources for partition in range(source.partitions)}


def _queries(lane: Lane, at: int) -> tuple[str, ...]:
    return tuple(output.name for output in lane.by_vertex.get(at, ()))


def _by_target(found: Measured) -> tuple[int, ...]:
    return tuple(found.state[target][0] for target in sorted(found.state))
