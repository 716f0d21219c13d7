"""What an epoch computed, assembled in the driver: a pure function of the computed rows and of what was published."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import polars as pl
import pyarrow as pa

from dsms.executor.encoding import KEY, VALUE
from dsms.executor.manifest import LaneManifest, Manifest, Position
from dsms.executor.source_task import CLOCK, DEAD, FAILURE, Clock, Letters, fault_owner
from dsms.executor.target_stage import CHANGES, FAULTS, RUNS
from dsms.plan.lane import FragmentPlan, Lane
from dsms.stages.state_names import TraceNames
from operators.delta import FROM, ORDER, frame_from_ipc, origin
from operators.operator import FAULT, FAULT_ROW
from operators.stream_output import DELETE, OP


@dataclass(frozen=True, slots=True)
class DeadMark:
    """The dead letters that an owner has written for a partition: all below `offset`, `count` in number."""

    offset: int = 0
    count: int = 0


DeadMarks = Mapping[tuple[str, int], DeadMark]


@dataclass(frozen=True)
class Published:
    """What is in Kafka already: for each lane the frontier below which its results are, for each owner of dead letters
    and partition the offset below which they are."""

    frontiers: Mapping[str, int]
    dead: DeadMarks


@dataclass(frozen=True)
class LaneEpoch:
    """One lane's part of an epoch: its manifest after it, its changes in their one order, and its failure if it
    failed."""

    after: LaneManifest
    changes: pl.DataFrame | None
    records: int


@dataclass(frozen=True)
class DeadRecord:
    """A dead letter ready to be written: which source it belongs to, and where the refused record stands."""

    source: str
    partition: int
    offset: int
    reason: str
    value: bytes
    query: str | None


@dataclass(frozen=True)
class Epoch:
    """An epoch ready to be committed."""

    manifest: Manifest
    lanes: Mapping[str, LaneEpoch]
    dead: tuple[DeadRecord, ...]
    #: The published dead letters by owner and partition, after this epoch.
    dead_upto: DeadMarks
    failures: Mapping[str, str] = field(default_factory=dict)


def assemble(rows: pa.Table, plan: FragmentPlan, before: Manifest, published: Published) -> Epoch:
    """The epoch after `before`. What is published already is left out, so that a replay writes nothing twice."""
    lanes, sorted_rows = plan.lanes, _by_lane_and_kind(rows)
    failed = {lane: found[FAILURE] for lane, found in sorted_rows.items() if FAILURE in found and lane in lanes}
    failures = {lane: found[0]["blob"].decode() for lane, found in failed.items()}
    worked = {
        lane: found for lane, found in sorted_rows.items() if lane in lanes and lane not in failures and CLOCK in found
    }
    done = {
        lane: _lane_epoch(lanes[lane], found, before.lanes[lane], published.frontiers) for lane, found in worked.items()
    }
    dead, upto = _dead_letters(sorted_rows.get("", {}).get(DEAD, []), published.dead)
    for lane, found in worked.items():
        faults = _fault_records(lanes[lane], found, published.frontiers)
        upto |= _counted(faults, upto)
        dead += [fault for _, fault in faults]
    after = {**before.lanes, **{lane: one.after for lane, one in done.items()}}
    version = max((row["plan"] for found in worked.values() for row in found[CLOCK]), default=plan.version)
    manifest = msgspec.structs.replace(before, epoch=before.epoch + 1, plan_version=version, lanes=after)
    return Epoch(manifest, done, tuple(dead), upto, failures)


Row = dict[str, Any]
Found = dict[str, list[Row]]


def _by_lane_and_kind(rows: pa.Table) -> dict[str, Found]:
    found: dict[str, Found] = defaultdict(lambda: defaultdict(list))
    for row in rows.to_pylist():
        found[row["lane"]][row["kind"]].append(row)
    return {lane: dict(kinds) for lane, kinds in found.items()}


def _lane_epoch(lane: Lane, found: Found, before: LaneManifest, published: Mapping[str, int]) -> LaneEpoch:
    positions, records = dict(before.positions), 0
    for row in found[CLOCK]:
        clock = msgspec.msgpack.decode(row["blob"], type=Clock)
        source = lane.sources[row["leaf"]].id
        stands = Position(clock.offset, clock.frontier, clock.high)
        positions[source] = {**positions[source], row["source_partition"]: stands}
        records += clock.records
    frontier = max(before.frontier, min(at.frontier for each in positions.values() for at in each.values()))
    runs = list(before.runs)
    for row in found.get(RUNS, []):
        names = msgspec.json.decode(row["blob"], type=dict[int, TraceNames])
        runs[row["target"]] = [names.get(at, held) for at, held in enumerate(runs[row["target"]])]
    return LaneEpoch(LaneManifest(frontier, positions, runs), _changes(lane, found, published), records)


def _changes(lane: Lane, found: Found, published: Mapping[str, int]) -> pl.DataFrame | None:
    """The lane's unpublished changes in the one order of its result log: (instant, order, `-` first, key, value)."""
    frames = [frame_from_ipc(row["blob"]) for row in found.get(CHANGES, [])]
    if not frames:
        return None
    merged = pl.concat(frames).filter(pl.col(FROM) >= published.get(lane.id, _LOWEST))
    ordered = merged.sort(FROM, ORDER)
    tied = (pl.col(FROM) == pl.col(FROM).shift(1)) & (pl.col(ORDER) == pl.col(ORDER).shift(1))
    if not ordered.select(tied.any()).item():
        return ordered
    return ordered.sort(FROM, ORDER, pl.col(OP) != DELETE, *([KEY] if lane.keys else []), VALUE)


_LOWEST = -(2**63)


def _dead_letters(rows: list[Row], published: DeadMarks) -> tuple[list[DeadRecord], dict[tuple[str, int], DeadMark]]:
    """The letters of all slices, each once: lanes that read one range at different times refuse the same records."""
    upto = dict(published)
    dead: list[DeadRecord] = []
    decoded = [(row["source_partition"], msgspec.msgpack.decode(row["blob"], type=Letters)) for row in rows]
    for partition, slice_ in sorted(decoded, key=lambda item: (item[0], item[1].start)):
        known = upto.get((slice_.owner, partition), DeadMark())
        fresh = [
            DeadRecord(slice_.source, partition, offset, reason, value, query)
            for offset, reason, value, query in slice_.letters
            if offset >= known.offset
        ]
        dead += fresh
        upto[(slice_.owner, partition)] = DeadMark(max(known.offset, slice_.end), known.count + len(fresh))
    return dead, upto


def _counted(faults: Sequence[tuple[str, DeadRecord]], upto: DeadMarks) -> dict[tuple[str, int], DeadMark]:
    """The marks of a lane whose faults are written by instant: they count, but say nothing of offsets."""
    counts = Counter((owner, fault.partition) for owner, fault in faults)
    marks = {key: (upto.get(key, DeadMark()), count) for key, count in counts.items()}
    return {key: DeadMark(mark.offset, mark.count + count) for key, (mark, count) in marks.items()}


def _fault_records(lane: Lane, found: Found, published: Mapping[str, int]) -> list[tuple[str, DeadRecord]]:
    """The rows in fault of the target stages, each with the owner of its dead letter."""
    records = []
    for row in found.get(FAULTS, []):
        faults = frame_from_ipc(row["blob"]).filter(pl.col(FROM) >= published.get(lane.id, _LOWEST)).sort(FROM, ORDER)
        for order, reason, text in faults.select(ORDER, FAULT, FAULT_ROW).iter_rows():
            leaf, partition, offset = origin(order)
            name = lane.sources[leaf].name
            record = DeadRecord(name, partition, offset, reason, text.encode(), lane.name)
            records.append((fault_owner(lane, leaf), record))
    return records
