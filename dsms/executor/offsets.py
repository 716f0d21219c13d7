"""What a batch covers, as pure functions over Spark's offset documents.

An offset document is `{"plan": version, "at": {lane: {partition: [offset, heartbeats]}}}`: how far each lane has read
each partition of its source, and how many of the partition's logged heartbeats it has taken.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dsms.executor.manifest import Position
from dsms.plan.lane import FragmentPlan, Lane
from operators.clock import Heartbeat, PartitionClock
from operators.errors import InternalError

#: A source (by id) and a partition of its topic.
SourcePartition = tuple[str, int]
Beats = Mapping[SourcePartition, Sequence[Heartbeat]]
Offsets = dict[str, Any]


@dataclass(frozen=True)
class Slice:
    """A range of one source partition, read once for all lanes that stand at its start."""

    source_id: str
    topic: str
    partition: int
    start: int
    end: int
    clock: PartitionClock
    heartbeats: tuple[Heartbeat, ...]
    lanes: tuple[str, ...]


def offsets_at(plan: FragmentPlan, positions: Mapping[str, Mapping[int, Position]], beats: Beats) -> Offsets:
    """The document of where lanes stand. Heartbeats at a position itself count as not yet taken: taking one again
    changes nothing."""
    at = {
        lane_id: {
            str(partition): [position.offset, _before(lane, partition, position.offset, beats)]
            for partition, position in each.items()
        }
        for lane_id, each in positions.items()
        if (lane := plan.lanes.get(lane_id)) is not None
    }
    return {"plan": plan.version, "at": at}


def next_offsets(
    plan: FragmentPlan, positions: Mapping[str, Mapping[int, Position]], ends: Mapping[SourcePartition, int],
    beats: Beats, limit: int,
) -> Offsets:  # fmt: skip
    """The document a batch may read up to: everything committed, or a fair share of `limit` records of each range.

    Lanes at one position of one partition share a range, so they stay together.
    """
    ranges = _ranges(plan, positions, ends)
    waiting = sum(end - start for _, start, end in ranges)
    at: dict[str, dict[str, list[int]]] = {}
    for lane_id, each in positions.items():
        lane = plan.lanes.get(lane_id)
        if lane is None:
            continue
        at[lane_id] = {}
        for partition, position in each.items():
            available = max(ends.get((lane.source.id, partition), position.offset) - position.offset, 0)
            share = available if waiting <= limit else max(available * limit // waiting, min(available, 1))
            at[lane_id][str(partition)] = _mark(lane, partition, position.offset + share, beats)
    return {"plan": plan.version, "at": at}


def _ranges(
    plan: FragmentPlan, positions: Mapping[str, Mapping[int, Position]], ends: Mapping[SourcePartition, int]
) -> set[tuple[SourcePartition, int, int]]:
    return {
        ((lane.source.id, partition), position.offset, max(ends.get((lane.source.id, partition), 0), position.offset))
        for lane_id, each in positions.items()
        if (lane := plan.lanes.get(lane_id)) is not None
        for partition, position in each.items()
    }


def _mark(lane: Lane, partition: int, offset: int, beats: Beats) -> list[int]:
    known = beats.get((lane.source.id, partition), ())
    return [offset, bisect_right(known, offset, key=lambda beat: beat.offset)]


def _before(lane: Lane, partition: int, offset: int, beats: Beats) -> int:
    return bisect_left(beats.get((lane.source.id, partition), ()), offset, key=lambda beat: beat.offset)


def slices(
    plan: FragmentPlan, positions: Mapping[str, Mapping[int, Position]], start: Offsets, end: Offsets, beats: Beats
) -> list[Slice]:
    """The ranges between two documents; a lane that is new in `end` starts where `positions` say."""
    lanes_at: dict[tuple[object, ...], list[str]] = {}
    for lane_id, each in end["at"].items():
        lane = plan.lanes[lane_id]
        for text, (upto, beats_upto) in each.items():
            partition = int(text)
            position = positions[lane_id][partition]
            seen = start["at"].get(lane_id, {}).get(text, [position.offset, 0])
            if seen[0] != position.offset:
                raise InternalError(
                    f"lane {lane_id} stands at {position.offset} of partition {text}, spark at {seen[0]}"
                )
            if (position.offset, seen[1]) == (upto, beats_upto):
                continue
            key = (
                lane.source.id,
                lane.source.topic,
                partition,
                position.offset,
                upto,
                position.clock,
                seen[1],
                beats_upto,
            )
            lanes_at.setdefault(key, []).append(lane_id)
    return [_slice(key, tuple(lanes), beats) for key, lanes in lanes_at.items()]


def _slice(key: tuple[Any, ...], lanes: tuple[str, ...], beats: Beats) -> Slice:
    source_id, topic, partition, start, end, clock, first, last = key
    taken = tuple(beats.get((source_id, partition), ())[first:last])
    return Slice(source_id, topic, partition, start, end, clock, taken, lanes)


def spread(found: Sequence[Slice], tasks: int) -> list[list[Slice]]:
    """The slices dealt out to at most `tasks` tasks, the largest first, each to the task with the least to do."""
    loads: list[tuple[int, list[Slice]]] = [(0, []) for _ in range(min(tasks, len(found)))]
    for one in sorted(found, key=lambda one: (one.start - one.end, one.source_id, one.partition)):
        least = min(range(len(loads)), key=lambda index: loads[index][0])
        load, held = loads[least]
        loads[least] = (load + one.end - one.start + 1, [*held, one])
    return [held for _, held in loads]
