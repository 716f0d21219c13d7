"""Idleness: when a silent partition no longer holds back the frontier, as a pure decision.

The decision is logged as heartbeats before it takes effect, so a replay repeats it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from dsms.model.objects import Source
from dsms.planner.physical.lane import Lane
from dsms.planner.physical.parts.links import Link, is_link, query_of
from dsms.runtime.batching.offsets import Positions
from dsms.runtime.lanes.manifest import Position
from operators.core.clock import Heartbeat
from operators.core.delta import BEGINNING

#: The sources that one query reads, by id.
SourceGroup = frozenset[str]


@dataclass(frozen=True)
class SourceActivity:
    """A source at a moment: the positions of the lane that has read most of it, the ends of its partitions, and for how
    long each partition has had no record."""

    source: Source
    positions: Mapping[int, Position]
    ends: Mapping[int, int]
    silent_ms: Mapping[int, float]
    #: The greatest instant that other fragments have passed in their partitions of the source.
    passed_by_others: int = BEGINNING

    @cached_property
    def idle(self) -> list[int]:
        """The partitions that are read to their end and have been silent for the declared time."""
        return [] if self.source.idle_ms is None else [part for part in self.positions if self._idle(part)]

    def _idle(self, partition: int) -> bool:
        at_end = self.positions[partition].offset == self.ends.get(partition)
        return at_end and may_be_idle(self.source, [self.silent_ms.get(partition, 0.0)])

    @property
    def all_idle(self) -> bool:
        """Whether all of its partitions are idle."""
        return len(self.idle) == len(self.positions)

    @property
    def frontier(self) -> int:
        """The least frontier of its partitions."""
        return min((at.frontier for at in self.positions.values()), default=BEGINNING)

    @property
    def high(self) -> int:
        """The greatest instant of its records."""
        return max((at.high for at in self.positions.values()), default=BEGINNING)

    @property
    def next_instant(self) -> int:
        """The least instant that none of its records has reached, in this fragment or others."""
        return max(BEGINNING if self.high == BEGINNING else self.high + 1, self.passed_by_others)


def leading(source: str, positions: Positions) -> dict[int, Position]:
    """The positions of the lane that has read most of a source."""
    by_lane = [
        {part: at for (source_id, part), at in places.items() if source_id == source} for places in positions.values()
    ]
    return max(by_lane, key=lambda partitions: sum(at.offset for at in partitions.values()), default={})


def may_be_idle(source: Source, silent_ms: Iterable[float]) -> bool:
    """Whether any of some partitions has been silent for the time that the source declares; False if it declares
    none."""
    return source.idle_ms is not None and any(silent >= source.idle_ms for silent in silent_ms)


def sources_of_queries(lanes: Iterable[Lane]) -> Collection[SourceGroup]:
    """The sources that each query reads.

    The parts of a query that several fragments run are treated as one query. A table filled by a query of these lanes
    is replaced by the sources of that query. Other tables are left out: their frontiers follow the clock. If an
    idle stream followed them, its next records could be late.
    """
    sources: dict[str, Source] = {}
    read: dict[str, set[str]] = defaultdict(set)
    filling: dict[str, str] = {}
    for lane in lanes:
        sources |= {source.id: source for source in lane.sources.values()}
        for output in lane.outputs:
            if output.sink is None and output.link is None:
                continue  # no results: for example, partitions that are read only for their dead letters
            query = query_of(output.id)
            read[query] |= lane.ids_read(output)
            if output.sink is not None and output.sink.fills is not None:
                filling[output.sink.fills] = query

    def group_of(query: str, above: frozenset[str]) -> set[str]:
        group = {source for source in read[query] if not (is_link(source) or sources[source].table)}
        group.update(*(each.below for at in read[query] if isinstance(each := sources[at], Link)))
        fillers = {filling[source] for source in read[query] & filling.keys()} - above
        return group.union(*(group_of(filler, above | {filler}) for filler in fillers))

    return {frozenset(group) for query in read if (group := group_of(query, frozenset({query})))}


def heartbeats_due(
    activities: Mapping[str, SourceActivity],
    groups: Iterable[SourceGroup],
    passed_by_others: Callable[[str], int] = lambda _: BEGINNING,
) -> dict[str, dict[int, Heartbeat]]:
    """The heartbeats to log now, by source; they advance idle partitions. `groups` are the sources of each query.

    If only some partitions of a source are idle, they advance to the source's greatest instant minus the slack. A
    source whose partitions are all idle must not hold back any query. It advances to the least frontier of the query's
    other sources. If all sources of the query are idle, they advance past their greatest instant. If several queries
    read the source, the greatest of these instants applies.

    Other fragments read some sources of a query that reads shared subplans. Its idle sources also advance to the least
    frontier that these fragments report (`passed_by_others`).
    """
    times = {
        source: each.passed_by_others if each.all_idle else each.high - each.source.slack
        for source, each in activities.items()
    }
    for group in groups:
        in_group = [activities[source] for source in group if source in activities]
        frontiers = [each.frontier for each in in_group if not each.all_idle]
        time = min(frontiers) if frontiers else max((each.next_instant for each in in_group), default=BEGINNING)
        idle = [each.source.id for each in in_group if each.all_idle]
        if idle and (elsewhere := [passed_by_others(source) for source in group if source not in activities]):
            time = max(time, min([*frontiers, *elsewhere]))
        times |= {source: max(times[source], time) for source in idle}
    due = {source: _beats(each, times[source]) for source, each in activities.items()}
    return {source: beats for source, beats in due.items() if beats}


def _beats(activity: SourceActivity, time: int) -> dict[int, Heartbeat]:
    """The heartbeats that advance a source's idle partitions to an instant."""
    at = {partition: activity.positions[partition] for partition in activity.idle}
    return {
        partition: Heartbeat(position.offset, time) for partition, position in at.items() if position.frontier < time
    }
