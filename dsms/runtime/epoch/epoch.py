"""Assembles an epoch in the driver: a pure function of its stages' messages and of what was published before."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import msgspec
import numpy as np
import polars as pl

from connectors.kafka.records.key_partitions import key_partitions
from dsms.measurements.work import VertexWork
from dsms.model.objects import Query
from dsms.planner.physical.fragment_plan import FragmentPlan
from dsms.planner.physical.lane import Lane, Output
from dsms.planner.physical.parts.links import is_link, query_of
from dsms.runtime.epoch.dead_letters import (
    DeadRecord,
    dead_letters,
    fault_records,
    read_throughout,
    written_after_faults,
)
from dsms.runtime.epoch.progress_log import Published, WrittenByOwner
from dsms.runtime.epoch.step_time import StepTime
from dsms.runtime.lanes.manifest import LaneManifest, Manifest, SourcePartition
from dsms.runtime.lanes.queues import SegmentCounts, queues_after
from dsms.runtime.lanes.revision import Revision, without_failed
from dsms.runtime.stages.encoding import KEY
from dsms.runtime.stages.lane_step import frontier
from dsms.runtime.stages.link_frames import from_instant
from dsms.runtime.stages.source_stage import source_of
from dsms.runtime.stages.wire import (
    NO_LANE,
    DeadLetters,
    Envelope,
    Message,
    ResultChanges,
    ResultFailed,
    RowsInFault,
    ShedInput,
    SlicePosition,
    SourceFailed,
    SourceWaits,
    StageServed,
    StateStored,
    Unread,
    VertexFailed,
    VerticesWorked,
)
from operators.core.delta import BEGINNING, FOREVER, FROM, Delta, partition_of
from operators.core.operator import MEMBER
from operators.streams.shed import ShedStatistics

#: Above the instant of every change, so that nothing is published for a family member that has left the lane.
_NEVER = 2**63 - 1
_Kind = TypeVar("_Kind", bound=Message)


def with_replaced_queries(published: Published, plan: FragmentPlan) -> Published:
    """`published` with the frontiers of queries that replaced others. Each continues from the instant of the
    replacement, below which its predecessor has published."""
    since = {
        query: planned.sink.since
        for query, planned in plan.queries.items()
        if planned.sink and planned.sink.since is not None
    }
    upto = {query: max(at, published.upto(query)) for query, at in since.items()}
    return replace(published, frontiers={**published.frontiers, **upto}) if upto else published


def late_replacements(published: Published, plan: FragmentPlan) -> dict[str, str]:
    """Why queries fail, by query: a version that they replaced has published beyond the instant of the replacement, so
    their results would be wrong. This happens if an executor that was cut off did not learn of the replacement in
    time."""
    sinks = ((query, planned.sink) for query, planned in plan.queries.items() if planned.sink is not None)
    return {query: why for query, sink in sinks if (why := _why_late(sink, published)) is not None}


def outdated_versions(published: Published, plan: FragmentPlan) -> dict[str, str]:
    """Why queries fail, by query: a later version has published their result. This happens if Redis has lost its
    content or gone back to an earlier one, and an executor starts with a copy of the catalog from before the
    replacement. The later version follows as soon as the coordinator has written its copy again."""
    if not published.overtaken:
        return {}
    sinks = ((query, planned.sink) for query, planned in plan.queries.items() if planned.sink is not None)
    return {
        query: f"the later version {published.overtaken[sink.id]} has published its result: the executor started with "
        "an outdated copy of the catalog, and runs the later version once the coordinator has written the copy again"
        for query, sink in sinks
        if sink.id in published.overtaken
    }


def _why_late(query: Query, published: Published) -> str | None:
    """Why a query fails because of what earlier versions have published; None if it does not."""
    earlier = {*query.earlier, *([] if query.former is None else [query.former.id])}
    at = max((published.frontiers[id] for id in earlier if id in published.frontiers), default=BEGINNING)
    if at <= (BEGINNING if query.since is None else query.since):
        return None
    before = "before it had published anything" if query.since is None else f"at instant {query.since}"
    remedy = "DROP it and create it" if query.since is None else "CREATE OR REPLACE it"
    return f"the query that it replaced {before} has published up to instant {at}; {remedy} again"


@dataclass(frozen=True)
class QueryResult:
    """A query's result and its frontier after an epoch."""

    output: Output
    frontier: int


@dataclass(frozen=True)
class UnpublishedChanges:
    """Unpublished changes of results that are encoded together, in no order. `outputs` are the results,
    by the number of their member of a family (queries that run as one plan); a single result is under None."""

    changes: pl.DataFrame
    outputs: Mapping[int | None, Output]


@dataclass(frozen=True)
class EpochMeasurements:
    """The measurements of an epoch: the records read, the work of the vertices, the input and work of the stages by
    lane (`served`), the unread records by lane (`behind`), and the input of each query's Shed operator by source
    partition (`shed_input`)."""

    records: int = 0
    work: tuple[VertexWork, ...] = ()
    served: Mapping[str, list[StageServed]] = field(default_factory=dict)
    behind: Mapping[str, int] = field(default_factory=dict)
    shed_input: tuple[tuple[str, int, ShedStatistics], ...] = ()
    #: The source partitions whose next record waits, and the offset up to which each partition was read.
    waits: tuple[SourceWaits, ...] = ()
    read: Mapping[SourcePartition, int] = field(default_factory=dict)
    #: The mean number of rows in the records read from a link, by source partition.
    link_rows: Mapping[SourcePartition, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Epoch:
    """An epoch ready to be committed: the manifest after it, each query's result with its frontier, the changes and
    dead letters to be published, and why queries failed, by query."""

    manifest: Manifest
    results: Mapping[str, QueryResult]
    unpublished: tuple[UnpublishedChanges, ...]
    dead: tuple[DeadRecord, ...]
    #: The published dead letters by owner and partition, after this epoch.
    dead_upto: WrittenByOwner
    failures: Mapping[str, str] = field(default_factory=dict)
    #: The runs that this epoch stored for queries that failed in it; the commit deletes them.
    unused_runs: frozenset[str] = frozenset()
    measured: EpochMeasurements = EpochMeasurements()
    #: The times of its steps before the commit.
    steps: tuple[StepTime, ...] = ()


class LaneMessages:
    """The messages about one lane, by kind."""

    def __init__(self) -> None:
        self._by_kind: dict[type[Message], list[tuple[int, Any]]] = defaultdict(list)

    def add(self, envelope: Envelope) -> None:
        """Adds a message."""
        self._by_kind[type(envelope.message)].append((envelope.target, envelope.message))

    def of(self, kind: type[_Kind]) -> list[_Kind]:
        """The messages of a kind, in the order of their arrival."""
        return [message for _, message in self._by_kind.get(kind, ())]

    def with_targets(self, kind: type[_Kind]) -> list[tuple[int, _Kind]]:
        """The messages of a kind, each with the target that sent it (0 for the source stage)."""
        return list(self._by_kind.get(kind, ()))


class Messages:
    """The messages of an epoch to the driver, by lane."""

    def __init__(self) -> None:
        self._by_lane: dict[str, LaneMessages] = defaultdict(LaneMessages)

    @staticmethod
    def of(envelopes: Iterable[Envelope]) -> Messages:
        """The messages in some envelopes."""
        messages = Messages()
        for envelope in envelopes:
            messages._by_lane[envelope.lane].add(envelope)
        return messages

    def of_lane(self, lane_id: str) -> LaneMessages:
        """The messages about a lane; for NO_LANE, those about sources."""
        return self._by_lane[lane_id]


def assemble(
    envelopes: Iterable[Envelope], revision: Revision, published: Published, lost: Mapping[str, str] | None = None
) -> Epoch:
    """The epoch that follows a revision's manifest. Results that are already published are left out, so a replay writes
    nothing twice. `lost` gives, by source id, why the records read from a source are invalid."""
    messages, published, lost = Messages.of(envelopes), with_replaced_queries(published, revision.plan), lost or {}
    failures = _failures(revision, messages) | dict(_without_source(revision, lost))
    failures |= late_replacements(published, revision.plan) | outdated_versions(published, revision.plan)
    refused = [sent for sent in messages.of_lane(NO_LANE).of(DeadLetters) if source_of(sent.owner) not in lost]
    dead, upto = dead_letters(refused, published.dead, revision.plan.foreign, read_throughout(revision))
    number, results = revision.manifest.epoch + 1, dict[str, QueryResult]()
    unpublished: list[UnpublishedChanges] = []
    lanes: dict[str, LaneManifest] = {}
    stored: list[LaneManifest] = []
    for lane_id, before in revision.manifest.lanes.items():
        lane, lane_messages = revision.lanes[lane_id], messages.of_lane(lane_id)
        after = _lane_after(lane, lane_messages, before, (number, revision.takes.get(lane_id, {})))
        stored.append(after)
        lanes |= _named_parts(lane_id, without_failed(before, after, failures, _members(lane)), failures)
        if not lane_messages.of(StateStored):
            continue
        unpublished += _written(lane, lane_messages, published, failures)
        rows_in_fault = [(message.vertex, message.frame.rows) for message in lane_messages.of(RowsInFault)]
        for result in _results(lane, after):
            if result.output.id not in failures:
                results[result.output.id] = result
                faults = fault_records(result.output, lane, rows_in_fault, _reported_upto(result.output, published))
                upto |= written_after_faults(faults, upto)
                dead += [fault for _, fault in faults]
    manifest = msgspec.structs.replace(revision.manifest, epoch=number, lanes=lanes)
    return Epoch(
        manifest,
        results,
        tuple(unpublished),
        tuple(dead),
        upto,
        failures=failures,
        unused_runs=_unnamed(stored, manifest) if failures else frozenset(),
        measured=_measured(revision, messages),
    )


def _unnamed(stored: Iterable[LaneManifest], manifest: Manifest) -> frozenset[str]:
    """The runs of lanes that a manifest does not name."""
    return frozenset(name for lane in stored for name in lane.names()) - manifest.names()


def _measured(revision: Revision, messages: Messages) -> EpochMeasurements:
    lanes = {lane_id: messages.of_lane(lane_id) for lane_id in revision.lanes}
    unread = {lane_id: lane.of(Unread) for lane_id, lane in lanes.items()}
    return EpochMeasurements(
        records=sum(position.records for lane in lanes.values() for position in lane.of(SlicePosition)),
        work=tuple(work for lane_id, lane in lanes.items() for work in _works(revision.lanes[lane_id], lane)),
        served={lane_id: served for lane_id, lane in lanes.items() if (served := lane.of(StageServed))},
        behind={lane_id: sum(message.records for message in sent) for lane_id, sent in unread.items() if sent},
        waits=tuple(messages.of_lane(NO_LANE).of(SourceWaits)),
        read=_read_upto(revision, lanes),
        link_rows=dict(_link_rows(revision, lanes)),
        shed_input=tuple(
            (shed.query, shed.partition, shed.statistics) for lane in lanes.values() for shed in lane.of(ShedInput)
        ),
    )


def _read_upto(revision: Revision, lanes: Mapping[str, LaneMessages]) -> dict[SourcePartition, int]:
    """The greatest offset up to which each source partition was read."""
    upto: dict[SourcePartition, int] = {}
    for lane_id, sent in lanes.items():
        sources = revision.lanes[lane_id].sources
        for at in sent.of(SlicePosition):
            place = sources[at.leaf].id, at.partition
            upto[place] = max(at.offset, upto.get(place, 0))
    return upto


def _link_rows(revision: Revision, lanes: Mapping[str, LaneMessages]) -> Iterator[tuple[SourcePartition, float]]:
    """The mean number of rows in the records that were read, for each partition of a link."""
    for lane_id, sent in lanes.items():
        before, sources = revision.manifest.lanes[lane_id].places, revision.lanes[lane_id].sources
        for at in sent.of(SlicePosition):
            place = sources[at.leaf].id, at.partition
            if is_link(place[0]) and at.offset > before[place].offset:
                yield place, max(at.records / (at.offset - before[place].offset), 1.0)


def _failures(revision: Revision, messages: Messages) -> dict[str, str]:
    """Why queries failed, by query: they depend on a failed vertex or on a source that could not be read, or their
    result could not be encoded."""
    failures: dict[str, str] = {}
    for lane_id, lane in revision.lanes.items():
        lane_messages = messages.of_lane(lane_id)
        for lost in lane_messages.of(ResultFailed):
            failures[lane.outputs[lost.output].id] = lost.reason
        for broken in lane_messages.of(VertexFailed):
            failures |= {output.id: broken.reason for output in lane.by_vertex.get(broken.vertex, ())}
        for unread in lane_messages.of(SourceFailed):
            failures |= {output.id: unread.reason for output in lane.by_leaf[unread.leaf]}
    return failures


def _without_source(revision: Revision, lost: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Why the queries that read a lost source fail, by query."""
    for lane in revision.lanes.values():
        for leaf, source in lane.sources.items():
            if source.id in lost:
                yield from ((output.id, lost[source.id]) for output in lane.by_leaf[leaf])


def _named_parts(lane_id: str, parts: list[LaneManifest], failures: Mapping[str, str]) -> dict[str, LaneManifest]:
    """The parts of a lane by id: the part without failed queries keeps the id of the lane."""
    return {lane_id if part.queries[0] not in failures else f"{part.queries[0]} failed": part for part in parts}


def _works(lane: Lane, lane_messages: LaneMessages) -> Iterator[VertexWork]:
    """The work of a lane's vertices, by key and target."""
    for target, message in lane_messages.with_targets(VerticesWorked):
        for vertex, work in message.works.items():
            yield lane.id, lane.flow.keys[vertex], target, work


def _lane_after(
    lane: Lane, lane_messages: LaneMessages, before: LaneManifest, run: tuple[int, SegmentCounts]
) -> LaneManifest:
    """The progress of a lane after an epoch. `run` is the number of the epoch, and the number of segments that stages
    take from their queues."""
    stored = lane_messages.with_targets(StateStored)
    if not stored:
        return before
    positions = dict(before.positions)
    for at in lane_messages.of(SlicePosition):
        source = lane.sources[at.leaf].id
        positions[source] = {**positions[source], at.partition: at.position}
    runs = list(before.runs)
    for target, message in stored:
        runs[target] = runs[target] | message.names
    number, takes = run
    queues = queues_after(lane, before, (number, positions), takes, lane_messages.of(StageServed))
    return msgspec.structs.replace(before, positions=positions, runs=runs, queues=queues)


def _members(lane: Lane) -> set[str]:
    return {output.id for output in lane.outputs if output.member is not None}


def _results(lane: Lane, after: LaneManifest) -> Iterator[QueryResult]:
    frontiers = {stage: after.frontiers(lane.sources, stage) for stage in lane.flow.by_stage}
    for group in lane.encoding_groups:
        vertex = lane.flow.vertices[group.vertex]
        reached = frontier(vertex.leaves, frontiers[vertex.stage])
        yield from (QueryResult(lane.outputs[number], reached) for number in group.numbers)


def _written(
    lane: Lane, lane_messages: LaneMessages, published: Published, failed: Collection[str]
) -> Iterator[UnpublishedChanges]:
    by_group: dict[int, list[ResultChanges]] = defaultdict(list)
    for message in lane_messages.of(ResultChanges):
        by_group[message.group].append(message)
    for number, parts in sorted(by_group.items()):
        listed = (lane.outputs[output] for output in lane.encoding_groups[number].numbers)
        outputs = {output.member: output for output in listed if output.id not in failed}
        if outputs:
            # one chunk: gathering records from it piece by piece is faster than from many chunks
            changes = pl.concat([part.frame.rows for part in parts], rechunk=True)
            yield _unpublished(changes, outputs, published)


def _unpublished(
    changes: pl.DataFrame, outputs: Mapping[int | None, Output], published: Published
) -> UnpublishedChanges:
    """The changes at or above the published frontier of the result; for a family, of each member."""
    if None in outputs and outputs[None].link is not None:
        return UnpublishedChanges(from_instant(changes, published.upto(outputs[None].id)), outputs)
    if None in outputs:
        fresh = Delta(changes).between(published.upto(outputs[None].id), FOREVER).frame
        return UnpublishedChanges(_above_partition_frontiers(fresh, outputs[None], published), outputs)
    upto_each = {member: published.upto(output.id) for member, output in outputs.items()}
    unpublished = pl.col(FROM) >= pl.col(MEMBER).replace_strict(upto_each, default=_NEVER, return_dtype=pl.Int64)
    return UnpublishedChanges(changes.filter(unpublished), outputs)


def _above_partition_frontiers(changes: pl.DataFrame, output: Output, published: Published) -> pl.DataFrame:
    """The changes at or above the frontier of their own result partition, if former owners have published the
    partitions up to different frontiers."""
    partition_frontiers = published.partition_frontiers.get(output.id)
    if partition_frontiers is None or output.sink is None or not changes.height:
        return changes
    partitions = output.sink.partitions
    keyed = KEY in changes.columns
    places = (
        key_partitions(changes[KEY], partitions) if keyed else changes.select(partition_of() % partitions).to_series()
    )
    bounds = np.array([partition_frontiers.get(partition, BEGINNING) for partition in range(partitions)], np.int64)
    return changes.filter(pl.Series(changes[FROM].to_numpy() >= bounds[np.asarray(places)]))


def frontiers_after(epoch: Epoch, published: Published) -> dict[str, int]:
    """The frontiers below which the outputs of an epoch are published after it, by the ids of their progress."""
    progress = ((id, result.frontier) for result in epoch.results.values() for id in result.output.progress_ids)
    return {id: max(frontier, published.upto(id)) for id, frontier in progress}


def _reported_upto(output: Output, published: Published) -> int:
    """The instant below which an output's rows in fault are already dead letters. After a query was divided again among
    fragments, its new parts continue from what the whole query had published. What a query of another fragment has
    published says nothing about the report on its shared subplans."""
    if output.reports_on:
        return min(map(published.upto, output.reports_on))
    return max(published.upto(output.id), published.upto(query_of(output.id)))
