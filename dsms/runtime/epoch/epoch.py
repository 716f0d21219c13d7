"""What an epoch computed, assembled in the driver: a pure function of the computed rows and of what was published."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import polars as pl
import pyarrow as pa

from dsms.physical.fragment_plan import FragmentPlan
from dsms.physical.lane import Lane, Output
from dsms.runtime.epoch.dead_letters import DeadRecord, counted, dead_letters, fault_records, faults_of
from dsms.runtime.epoch.progress_log import DeadMarks, Published
from dsms.runtime.lanes.manifest import LaneManifest, Manifest, Position
from dsms.runtime.lanes.queues import Served, Takes, queues_after
from dsms.runtime.lanes.revision import Revision, without_failed
from dsms.runtime.stages.frame_files import unpacked
from dsms.runtime.stages.lane_step import frontier
from dsms.runtime.stages.result_rows import CHANGES, LOST
from dsms.runtime.stages.source_task import BEHIND, CLOCK, DEAD, FAILURE, SEEN, WORK, Clock
from dsms.runtime.stages.stored_state import Names
from dsms.runtime.stages.target_task import FAULTS, RUNS, SERVED
from dsms.scheduler.work import VertexWork, Works
from operators.core.delta import FOREVER, FROM, Delta
from operators.core.operator import MEMBER
from operators.streams.shed import Seen

#: An instant that no change of a member has that is there no more.
_NEVER = 2**63 - 1
Row = dict[str, Any]
#: The rows of a lane by kind.
Found = Mapping[str, list[Row]]


def following(published: Published, plan: FragmentPlan) -> Published:
    """With what queries published in whose place others are: these go on from there."""
    since = {query: one.sink.since for query, one in plan.queries.items() if one.sink and one.sink.since is not None}
    upto = {query: max(at, published.upto(query)) for query, at in since.items()}
    return Published({**published.frontiers, **upto}, published.dead) if upto else published


def overtaken(published: Published, plan: FragmentPlan) -> dict[str, str]:
    """The queries that took the place of others which have published beyond the instant of the change: an executor that
    knew nothing of it had been cut off. Their relation would not be right."""
    found = ((query, one.sink) for query, one in plan.queries.items() if one.sink is not None)
    return {
        query: f"the query before it has published up to {at}, after {sink.since}: CREATE OR REPLACE it again"
        for query, sink in found
        if sink.former is not None and sink.since is not None and (at := published.upto(sink.former.id)) > sink.since
    }


@dataclass(frozen=True)
class Result:
    """One query's part of an epoch: the frontier of its result after it."""

    output: Output
    frontier: int


@dataclass(frozen=True)
class Written:
    """Unpublished changes of results whose records are alike, in no order. `outputs` are the results, of a family by
    member."""

    changes: pl.DataFrame
    outputs: Mapping[int | None, Output]


@dataclass(frozen=True)
class Epoch:
    """An epoch ready to be committed. `records` is how many were read, `failures` say by query why it failed,
    `work` is what the vertices did; `served` what the stages of each lane did, and `behind` what a lane has not read
    yet."""

    manifest: Manifest
    results: Mapping[str, Result]
    written: tuple[Written, ...]
    dead: tuple[DeadRecord, ...]
    #: The published dead letters by owner and partition, after this epoch.
    dead_upto: DeadMarks
    records: int = 0
    failures: Mapping[str, str] = field(default_factory=dict)
    work: tuple[VertexWork, ...] = ()
    served: Mapping[str, list[Served]] = field(default_factory=dict)
    behind: Mapping[str, int] = field(default_factory=dict)
    #: What came to each query's Shed, by source partition.
    seen: tuple[tuple[str, int, Seen], ...] = ()


def assemble(rows: pa.Table, revision: Revision, published: Published) -> Epoch:
    """The epoch after a revision's manifest. What is published already is left out, so that a replay writes nothing
    twice."""
    found, published = _by_lane_and_kind(rows), following(published, revision.plan)
    failures = _failures(revision, found) | overtaken(published, revision.plan)
    dead, upto = dead_letters(found.get("", {}).get(DEAD, []), published.dead, revision.plan.foreign)
    number, results = revision.manifest.epoch + 1, dict[str, Result]()
    written: list[Written] = []
    lanes: dict[str, LaneManifest] = {}
    served = {lane_id: _served(kinds) for lane_id, kinds in found.items() if SERVED in kinds}
    for lane_id, before in revision.manifest.lanes.items():
        lane, kinds = revision.lanes[lane_id], found.get(lane_id, {})
        run = number, revision.takes.get(lane_id, {}), served.get(lane_id, [])
        after = _lane_after(lane, kinds, before, run)
        lanes |= _split(lane_id, without_failed(before, after, failures, _members(lane)), failures)
        if RUNS not in kinds:
            continue
        written += _written(lane, kinds, published, failures)
        reported = faults_of(kinds.get(FAULTS, []))
        for result in _results(lane, after):
            if result.output.id not in failures:
                results[result.output.id] = result
                faults = fault_records(result.output, lane, reported, published.upto(result.output.id))
                upto |= counted(faults, upto)
                dead += [fault for _, fault in faults]
    records = sum(clock.records for kinds in found.values() for _, _, clock in _clocks(kinds))
    manifest = msgspec.structs.replace(revision.manifest, epoch=number, lanes=lanes)
    work = tuple(one for lane_id, lane in revision.lanes.items() for one in _works(lane, found.get(lane_id, {})))
    behind = {lane_id: _behind(kinds) for lane_id, kinds in found.items() if BEHIND in kinds}
    seen = tuple(one for kinds in found.values() for one in _seen(kinds))
    return Epoch(manifest, results, tuple(written), tuple(dead), upto, records, failures, work, served, behind, seen)


def _by_lane_and_kind(rows: pa.Table) -> dict[str, Found]:
    found: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows.to_pylist():
        found[row["lane"]][row["kind"]].append(row)
    return {lane: dict(kinds) for lane, kinds in found.items()}


def _failures(revision: Revision, found: Mapping[str, Found]) -> dict[str, str]:
    """Why queries failed: those above a vertex that failed, or above a source that could not be read, and those whose
    result could not be encoded."""
    failures: dict[str, str] = {}
    for lane_id, lane in revision.lanes.items():
        kinds = found.get(lane_id, {})
        for row in [*kinds.get(LOST, []), *kinds.get(FAILURE, [])]:
            failures |= {output.id: row["blob"].decode() for output in _struck(lane, row)}
    return failures


def _struck(lane: Lane, row: Row) -> tuple[Output, ...]:
    """The results that a failure takes along."""
    if row["kind"] == LOST:
        return (lane.outputs[row["edge"]],)
    return lane.by_leaf[row["leaf"]] if row["leaf"] >= 0 else lane.by_vertex.get(row["edge"], ())


def _split(lane_id: str, parts: list[LaneManifest], failures: Mapping[str, str]) -> dict[str, LaneManifest]:
    return {lane_id if part.queries[0] not in failures else f"{part.queries[0]} failed": part for part in parts}


def _clocks(kinds: Found) -> Iterator[tuple[int, int, Clock]]:
    """Where each source partition was left: leaf, partition and clock."""
    for row in kinds.get(CLOCK, ()):
        yield row["leaf"], row["source_partition"], msgspec.msgpack.decode(row["blob"], type=Clock)


def _works(lane: Lane, kinds: Found) -> Iterator[VertexWork]:
    """What the vertices of a lane did, by key and target."""
    for row in kinds.get(WORK, ()):
        for vertex, work in msgspec.msgpack.decode(row["blob"], type=Works).items():
            yield lane.id, lane.flow.keys[vertex], row["target"], work


def _lane_after(lane: Lane, kinds: Found, before: LaneManifest, run: tuple[int, Takes, list[Served]]) -> LaneManifest:
    """The lane after an epoch, which has a number; what its stages were to take of their queues, and what they did."""
    if RUNS not in kinds:
        return before
    positions = dict(before.positions)
    for leaf, partition, clock in _clocks(kinds):
        source = lane.sources[leaf].id
        positions[source] = {**positions[source], partition: _position(clock)}
    runs = list(before.runs)
    for row in kinds.get(RUNS, ()):
        runs[row["target"]] = runs[row["target"]] | msgspec.json.decode(row["blob"], type=Names)
    number, takes, served = run
    return LaneManifest(before.queries, positions, runs, queues_after(lane, before, (number, positions), takes, served))


def _position(clock: Clock) -> Position:
    return Position(clock.offset, clock.frontier, clock.high, clock.orders)


def _seen(kinds: Found) -> Iterator[tuple[str, int, Seen]]:
    for row in kinds.get(SEEN, ()):
        query, seen = msgspec.msgpack.decode(row["blob"], type=tuple[str, Seen])
        yield query, row["source_partition"], seen


def _behind(kinds: Found) -> int:
    return sum(msgspec.msgpack.decode(row["blob"], type=int) for row in kinds[BEHIND])


def _served(kinds: Found) -> list[Served]:
    return [msgspec.msgpack.decode(row["blob"], type=Served) for row in kinds[SERVED]]


def _members(lane: Lane) -> set[str]:
    return {output.id for output in lane.outputs if output.member is not None}


def _results(lane: Lane, after: LaneManifest) -> Iterator[Result]:
    frontiers = {stage: after.frontiers(lane.sources, stage) for stage in lane.flow.by_stage}
    for ending in lane.endings:
        vertex = lane.flow.vertices[ending.vertex]
        reached = frontier(vertex.leaves, frontiers[vertex.stage])
        yield from (Result(lane.outputs[number], reached) for number in ending.numbers)


def _written(lane: Lane, kinds: Found, published: Published, failed: Collection[str]) -> Iterator[Written]:
    by_ending: dict[int, list[Row]] = defaultdict(list)
    for row in kinds.get(CHANGES, ()):
        by_ending[row["edge"]].append(row)
    for number, rows in sorted(by_ending.items()):
        listed = (lane.outputs[one] for one in lane.endings[number].numbers)
        outputs = {output.member: output for output in listed if output.id not in failed}
        if outputs:
            # its records are gathered piece by piece: that is quicker where they are one chunk, and their bytes stay
            changes = pl.concat([unpacked(row["blob"]) for row in rows], rechunk=True)
            yield _unpublished(changes, outputs, published)


def _unpublished(changes: pl.DataFrame, outputs: Mapping[int | None, Output], published: Published) -> Written:
    """The changes that a result has not published; of a family, each member's."""
    if MEMBER not in changes.columns:
        upto = published.upto(next(iter(outputs.values())).id)
        return Written(Delta(changes).between(upto, FOREVER).frame, outputs)
    upto_each = {member: published.upto(output.id) for member, output in outputs.items()}
    unpublished = pl.col(FROM) >= pl.col(MEMBER).replace_strict(upto_each, default=_NEVER, return_dtype=pl.Int64)
    return Written(changes.filter(unpublished), outputs)
