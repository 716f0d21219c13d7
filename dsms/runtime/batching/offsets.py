"""The offset ranges of a batch, as pure functions over Spark's offset documents.

An offset document is `{"plan": version, "at": {lane: {"source/partition": [offset, heartbeats]}}}`: the offset up to
which each lane (queries that read at the same positions) has read each partition of its sources, and how many of the
partition's logged heartbeats it has taken.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dsms.planner.physical.lane import Lane
from dsms.runtime.lanes.manifest import Position, SourcePartition
from operators.core.clock import Heartbeat, PartitionClock
from operators.core.errors import InternalError
from operators.streams.settings import Setting

Heartbeats = Mapping[SourcePartition, Sequence[Heartbeat]]
#: The logged settings of adjustable operators, by query and source partition, in the order of their offsets.
LoggedSettings = Mapping[str, Mapping[SourcePartition, Sequence[Setting]]]
#: The positions of lanes, by lane.
Positions = Mapping[str, Mapping[SourcePartition, Position]]
Offsets = dict[str, Any]
#: The mean number of rows in a record of a link, by source partition.
LinkRows = Mapping[SourcePartition, float]
NO_LINKS: LinkRows = {}
#: The committed ends of source partitions.
Ends = Mapping[SourcePartition, int]


@dataclass(frozen=True)
class Slice:
    """A range of a source partition, read once for all lanes whose position is its start."""

    source_id: str
    topic: str
    partition: int
    start: int
    end: int
    clock: PartitionClock
    heartbeats: tuple[Heartbeat, ...]
    lanes: tuple[str, ...]
    #: The settings that hold within the range, by query. For a query whose input is shed, a setting is the fraction of
    #: the records that stays from an offset on.
    settings: Mapping[str, tuple[Setting, ...]] = field(default_factory=dict)
    #: The offsets of records that statements have skipped.
    skipped: tuple[int, ...] = ()


@dataclass(frozen=True)
class SourceTask:
    """The slices that a task reads, and the lanes that need them. `lanes_to_wake` are lanes that process their queues
    even if nothing is read; `behind` is the number of records that each lane still has to read after this batch."""

    slices: tuple[Slice, ...]
    lanes: dict[str, Lane]
    revision: int
    targets: int
    lanes_to_wake: tuple[str, ...] = ()
    behind: Mapping[str, int] = field(default_factory=dict)


def offsets_at(version: int, positions: Positions, beats: Heartbeats) -> Offsets:
    """The offset document of positions. Heartbeats at a position itself are counted as not yet taken, because taking
    one twice changes nothing."""
    at: dict[str, dict[str, list[int]]] = {lane: {} for lane in positions}
    for lane, place, position in _positions(positions):
        at[lane][_document_key(place)] = [position.offset, _beats_before(place, position.offset, beats)]
    return {"plan": version, "at": at}


def next_offsets(  # noqa: PLR0913 all that decides how far a batch reads
    version: int,
    positions: Positions,
    ends: Ends,
    beats: Heartbeats,
    limit: int,
    reads: Collection[str] | None = None,
    link_rows: LinkRows = NO_LINKS,
) -> Offsets:
    """The offset document up to which a batch may read: to the committed ends, or, if they are more than `limit`
    records away, a proportional part of each range.

    Lanes at equal positions of a partition share a range, so they stay together. `reads` are the lanes that read; None:
    all.
    """
    readers, total = positions.keys() if reads is None else reads, waiting(positions, ends, reads, link_rows)
    at: dict[str, dict[str, list[int]]] = {lane: {} for lane in positions}
    for lane, place, position in _positions(positions):
        available = max(ends.get(place, position.offset) - position.offset, 0) if lane in readers else 0
        share = available if total <= limit else max(available * limit // total, min(available, 1))
        at[lane][_document_key(place)] = _document_entry(place, position.offset + share, beats)
    return {"plan": version, "at": at}


def waiting(
    positions: Positions, ends: Ends, reads: Collection[str] | None = None, link_rows: LinkRows = NO_LINKS
) -> int:
    """The number of records to be read. A range that several lanes share is counted once. For the records of
    a link, their rows are counted, estimated from the mean number of rows in a record so far."""
    ranges = {
        (place, position.offset, max(ends.get(place, 0), position.offset))
        for lane, place, position in _positions(positions)
        if reads is None or lane in reads
    }
    return sum(math.ceil((end - start) * link_rows.get(place, 1.0)) for place, start, end in ranges)


def unread(positions: Positions, ends: Ends, upto: Offsets) -> dict[str, int]:
    """The number of records that each lane still has to read after an offset document."""
    unread_records = dict.fromkeys(positions, 0)
    for lane, place, position in _positions(positions):
        read = upto["at"].get(lane, {}).get(_document_key(place), (position.offset, 0))[0]
        unread_records[lane] += max(ends.get(place, read) - read, 0)
    return unread_records


def _positions(positions: Positions) -> Iterator[tuple[str, SourcePartition, Position]]:
    return ((lane, place, position) for lane, places in positions.items() for place, position in places.items())


def _document_key(place: SourcePartition) -> str:
    return f"{place[0]}/{place[1]}"


def _document_entry(place: SourcePartition, offset: int, beats: Heartbeats) -> list[int]:
    return [offset, bisect_right(beats.get(place, ()), offset, key=lambda beat: beat.offset)]


def _beats_before(place: SourcePartition, offset: int, beats: Heartbeats) -> int:
    return bisect_left(beats.get(place, ()), offset, key=lambda beat: beat.offset)


def slices(
    lanes: Mapping[str, Lane],
    positions: Positions,
    start: Offsets,
    end: Offsets,
    beats: Heartbeats,
    reread: Collection[SourcePartition] = (),
) -> list[Slice]:
    """The slices between two offset documents. A lane that is new in `end` starts at its position. So do all lanes in
    the partitions of `reread`, where the last batch was not read to its end or was not used."""
    lanes_at: dict[tuple[object, ...], list[str]] = {}
    for lane, place, position in _positions(positions):
        upto, beats_upto = end["at"].get(lane, {}).get(_document_key(place), (position.offset, 0))
        taken = start["at"].get(lane, {}).get(_document_key(place), [position.offset, 0])
        if lane not in end["at"]:
            continue
        if place in reread and taken[0] >= position.offset:
            taken = [position.offset, _beats_before(place, position.offset, beats)]
        if taken[0] != position.offset:
            raise InternalError(
                f"lane {lane} is at offset {position.offset} of {_document_key(place)}, but Spark is at {taken[0]}"
            )
        if (position.offset, taken[1]) != (upto, beats_upto):
            key = (lane, place, position, upto, taken[1], beats_upto)
            lanes_at.setdefault(key[1:], []).append(lane)
    return [_slice(lanes[lane_ids[0]], key, tuple(lane_ids), beats) for key, lane_ids in lanes_at.items()]


def _slice(lane: Lane, key: tuple[Any, ...], lanes: tuple[str, ...], beats: Heartbeats) -> Slice:
    (source_id, partition), position, end, first, last = key
    topic = lane.sources[lane.leaf(source_id)].topic
    taken = tuple(beats.get((source_id, partition), ())[first:last])
    return Slice(source_id, topic, partition, position.offset, end, position.clock, taken, lanes)


def with_skipped(planned: Sequence[Slice], skipped: Mapping[SourcePartition, tuple[int, ...]]) -> list[Slice]:
    """The slices, each with the offsets of those of its records that statements have skipped."""
    return [replace(slice_, skipped=_skipped_in(slice_, skipped)) for slice_ in planned] if skipped else list(planned)


def _skipped_in(slice_: Slice, skipped: Mapping[SourcePartition, tuple[int, ...]]) -> tuple[int, ...]:
    offsets = skipped.get((slice_.source_id, slice_.partition), ())
    return tuple(offset for offset in offsets if slice_.start <= offset < slice_.end)


def with_settings(planned: Sequence[Slice], lanes: Mapping[str, Lane], decided: LoggedSettings) -> list[Slice]:
    """The slices, each with the settings of the queries that read it."""
    return [_with_settings(slice_, lanes, decided) for slice_ in planned]


def _with_settings(slice_: Slice, lanes: Mapping[str, Lane], decided: LoggedSettings) -> Slice:
    place = (slice_.source_id, slice_.partition)
    queries = {query for lane in slice_.lanes for query in lanes[lane].queries_with_adjustable_operators}
    settings = {
        query: _settings_within(slice_, decided[query][place]) for query in queries if place in decided.get(query, {})
    }
    return replace(slice_, settings=settings) if settings else slice_


def _settings_within(slice_: Slice, settings: Sequence[Setting]) -> tuple[Setting, ...]:
    """The setting in force at the start of a slice, and those that begin within the slice."""
    first = max(bisect_right(settings, slice_.start, key=lambda setting: setting[0]) - 1, 0)
    return tuple(settings[first : bisect_left(settings, slice_.end, key=lambda setting: setting[0])])


def distribute(planned: Sequence[Slice], tasks: int) -> list[list[Slice]]:
    """Distributes slices over at most `tasks` tasks. The largest slices are assigned first, each to the task with the
    fewest records so far."""
    loads: list[tuple[int, list[Slice]]] = [(0, []) for _ in range(min(tasks, len(planned)))]
    for slice_ in sorted(planned, key=lambda slice_: (slice_.start - slice_.end, slice_.source_id, slice_.partition)):
        least = min(range(len(loads)), key=lambda index: loads[index][0])
        load, assigned = loads[least]
        loads[least] = (load + slice_.end - slice_.start + 1, [*assigned, slice_])
    return [assigned for _, assigned in loads]
