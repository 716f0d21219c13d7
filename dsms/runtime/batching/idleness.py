"""Idleness: when a silent partition no longer holds back the frontier, as a pure decision.

The decision is logged as heartbeats before it takes effect, so a replay repeats it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from dsms.model.objects import Source
from dsms.planner.physical.lane import Lane
from dsms.planner.physical.parts.links import is_link, query_of
from dsms.runtime.batching.offsets import Positions
from dsms.runtime.lanes.manifest import Position
from operators.core.clock import Heartbeat
from operators.core.delta import BEGINNING

#: The sources that one query reads, by id.
Group = frozenset[str]


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
    def silent(self) -> bool:
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
    by_lane = [{part: at for (one, part), at in places.items() if one == source} for places in positions.values()]
    return max(by_lane, key=lambda partitions: sum(at.offset for at in partitions.values()), default={})


def may_be_idle(source: Source, silent_ms: Iterable[float]) -> bool:
    """Whether a partition has been silent for the time that the source declares; never where it declares none."""
    return source.idle_ms is not None and any(silent >= source.idle_ms for silent in silent_ms)


def sources_of_queries(lanes: Iterable[Lane]) -> Collection[Group]:
    """The sources that each query reads.

    The parts of a query that several fragments run are treated as one query. A table filled by a query of these lanes
    is replaced by the sources of that query. Other tables are left out: their instants come from the clock, and a
    stream that pauses may lag behind the clock.
    """
    sources: dict[str, Source] = {}
    read: dict[str, set[str]] = defaultdict(set)
    filling: dict[str, str] = {}
    for lane in lanes:
        sources |= {source.id: source for source in lane.sources.values()}
        for output in lane.outputs:
            if output.sink is None and output.link is None:
                continue  # not a query: it is read only for its dead letters, say, and no results wait for it
            query = query_of(output.id)
            read[query] |= lane.ids_read(output)
            if output.sink is not None and output.sink.fills is not None:
                filling[output.sink.fills] = query

    def of(query: str, above: frozenset[str]) -> set[str]:
        group = {one for one in read[query] if not (is_link(one) or sources[one].table)}
        fillers = {filling[one] for one in read[query] & filling.keys()} - above
        return group.union(*(of(filler, above | {filler}) for filler in fillers))

    return {frozenset(group) for query in read if (group := of(query, frozenset({query})))}


def heartbeats_due(seen: Mapping[str, SourceActivity], groups: Iterable[Group]) -> dict[str, dict[int, Heartbeat]]:
    """The heartbeats to log now, by source; they advance idle partitions. `groups` are the sources of each query.

    If other partitions of the source have records, an idle partition advances to the source's greatest instant minus
    the slack. If all its partitions are idle, the source is silent, and must not hold back any query. For a query, a
    silent source advances to the least frontier of those of the query's sources that are not silent; if all are silent,
    past the greatest instant of all of them. If several queries read the source, the greatest of these instants
    applies.
    """
    times = {
        source: each.passed_by_others if each.silent else each.high - each.source.slack for source, each in seen.items()
    }
    for group in groups:
        here = [seen[source] for source in group if source in seen]
        going = [each.frontier for each in here if not each.silent]
        time = min(going) if going else max((each.next_instant for each in here), default=BEGINNING)
        for each in here:
            if each.silent:
                times[each.source.id] = max(times[each.source.id], time)
    due = {source: _beats(each, times[source]) for source, each in seen.items()}
    return {source: beats for source, beats in due.items() if beats}


def _beats(seen: SourceActivity, time: int) -> dict[int, Heartbeat]:
    """The heartbeats that advance a source's idle partitions to an instant."""
    at = {partition: seen.positions[partition] for partition in seen.idle}
    return {
        partition: Heartbeat(position.offset, time) for partition, position in at.items() if position.frontier < time
    }
