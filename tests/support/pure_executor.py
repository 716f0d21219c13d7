"""The executor's own code over logs in memory: dicts and loops replace Spark, Kafka and Redis."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Message

from connectors.kafka.records.log_pieces import MessagePiece
from connectors.memory.runs import MemoryRuns, Runs
from dsms.model.catalog import Catalog
from dsms.planner.physical.fragment_plan import FragmentPlan, plan_fragment
from dsms.runtime.batching.offsets import (
    Slice,
    SourceTask,
    distribute,
    next_offsets,
    offsets_at,
    slices,
    unread,
    with_settings,
)
from dsms.runtime.epoch.epoch import Epoch, assemble, with_replaced_queries
from dsms.runtime.epoch.progress_log import Published
from dsms.runtime.epoch.result_records import result_records
from dsms.runtime.lanes.manifest import Manifest
from dsms.runtime.lanes.revision import Revision, lanes_to_wake, revised, running_lanes
from dsms.runtime.lanes.stage_contexts import stage_context
from dsms.runtime.shedding.settings import adjustable, new_settings
from dsms.runtime.stages.frames import remove_files
from dsms.runtime.stages.result_messages import ResultEncoding
from dsms.runtime.stages.slice_intake import admit_slice
from dsms.runtime.stages.source_stage import SliceRead, SliceRequest, run_source_stage
from dsms.runtime.stages.stage_runs import ImmediateRuns, StageRuns
from dsms.runtime.stages.target_stage import TargetStage
from dsms.runtime.stages.target_task import TargetTask
from dsms.runtime.stages.wire import ArrowOutbox, envelopes
from operators.core.errors import DsmsError


@dataclass
class World:
    """Kafka and Redis in memory: logs by topic and partition, stored runs, result records by query (and partition, if
    the query chooses partitions), and dead letters."""

    logs: dict[str, dict[int, list[Message]]]
    runs: MemoryRuns = field(default_factory=lambda: MemoryRuns(Runs(), Path()))
    results: dict[str, list[tuple]] = field(default_factory=lambda: defaultdict(list))
    dead: list[tuple] = field(default_factory=list)
    published: Published = field(default_factory=lambda: Published({}, {}))
    epochs: int = 0
    #: The directory of large frames.
    frames: Path | None = None
    #: The most bytes that a task sends to the driver.
    most_to_driver: int | None = None
    #: The shed log, and the ends of the logs when the current owner of the fragment began.
    sheds: dict[str, dict[tuple[str, int], list[tuple[int, float]]]] = field(default_factory=dict)
    floor: dict[tuple[str, int], int] = field(default_factory=dict)

    @property
    def written(self) -> dict[str, list[tuple]]:
        """The results that are not empty."""
        return {log: rows for log, rows in self.results.items() if rows}

    # the methods of a reader of slices

    def read(self, requests: Sequence[SliceRequest]) -> Iterator[tuple[SliceRequest, SliceRead | DsmsError]]:
        """Reads slices of the logs, in pieces."""
        for request in requests:
            at = request.slice
            pieces = _pieces(self.logs[at.topic][at.partition][at.start : at.end])
            intake = admit_slice(request.source, at, {}.__getitem__, pieces, request.columns)
            yield request, SliceRead(intake.admitted(), intake.work(len(at.lanes)))

    def values(self, at: Slice, offsets: set[int]) -> dict[int, object]:
        """The values of the records at some offsets."""
        return {offset: self.logs[at.topic][at.partition][offset].value() for offset in offsets}

    def shed(self, revision: Revision, positions: Mapping, wanted: Mapping[str, float]) -> None:
        """Logs the rates of shedding, as the planner does before it plans a batch."""
        floors = dict.fromkeys(adjustable(revision.lanes), self.floor)
        for query, rates in new_settings(revision.lanes, positions, wanted, self.sheds, floors).items():
            for place, rate in rates.items():
                self.sheds.setdefault(query, {}).setdefault(place, []).append(rate.setting)


def _pieces(messages: list[Message]) -> Iterator[MessagePiece]:
    """At least one piece; pieces grow, so that some are single records."""
    at = 0
    while True:
        size = at + 1
        yield MessagePiece(messages[at : at + size])
        at += size
        if at >= len(messages):
            return


def start(catalog: Catalog, targets: int, fragment: str | None = None) -> Revision:
    """The first revision of a catalog, or of one of its fragments, with nothing read yet."""
    return revised(plan_fragment(catalog, targets, fragment=fragment), Manifest(targets=targets), ())


def epoch(  # noqa: PLR0913 what may differ between two epochs
    world: World, revision: Revision, limit: int, tasks: int, reads: frozenset[str] | None = None, *,
    results: ResultEncoding | None = None, store: StageRuns | None = None, lost: Mapping[str, str] | None = None,
) -> Epoch:  # fmt: skip
    """Plans, reads, exchanges, computes and assembles one epoch. `reads` are the lanes that read records, and `lost`
    the sources, by id, whose topics are gone."""
    routed = sent(world, revision, limit, tasks, reads)
    world.epochs += 1
    targets = revision.plan.partitions
    context = stage_context([revision], f"e{world.epochs}", targets, results or ResultEncoding())
    runs = store or ImmediateRuns(world.runs)
    for stage in range(1, context.stages + 1):
        task = TargetTask(TargetStage(context, stage), lambda: runs, world.frames, world.most_to_driver)
        routed = exchanged(task, routed, targets)
    done = assemble((envelope for batch in routed for envelope in envelopes(batch)), revision, world.published, lost)
    remove_files(world.frames)
    return done


def sent(
    world: World, revision: Revision, limit: int, tasks: int, reads: frozenset[str] | None
) -> list[pa.RecordBatch]:  # fmt: skip
    """The messages that the source stage of an epoch sends."""
    lanes, targets = revision.lanes, revision.plan.partitions
    sources = {source.id: source.topic for lane in lanes.values() for source in lane.sources.values()}
    ends = {(source, p): len(log) for source, topic in sources.items() for p, log in world.logs[topic].items()}
    positions = {lane_id: progress.places for lane_id, progress in running_lanes(revision, ()).items()}
    begin, upto = offsets_at(0, positions, {}), next_offsets(0, positions, ends, {}, limit, reads)
    found = with_settings(slices(lanes, positions, begin, upto, {}), lanes, world.sheds)
    batches = []
    told = lanes_to_wake(revision, positions), unread(positions, ends, upto)
    for part in [*distribute(found, tasks), ()]:
        task = SourceTask(tuple(part), dict(lanes), revision.number, targets, *told)
        told = ((), {})
        outboxes = run_source_stage(task, world, partial(ArrowOutbox, task.revision, world.frames))
        batches += [outbox.batch() for outbox in outboxes]
    return batches


def exchanged(task: TargetTask, routed: list[pa.RecordBatch], targets: int) -> list[pa.RecordBatch]:
    """The messages that the targets produce from the messages sent to them; the targets run in reverse order."""
    made = []
    for target in reversed(range(targets)):
        mine = [batch.filter(pc.equal(batch.column("target"), pa.scalar(target, pa.int32()))) for batch in routed]
        if any(batch.num_rows for batch in mine):
            made += list(task(mine))
    return made


def publish(world: World, done: Epoch, plan: FragmentPlan | None = None) -> None:
    """Appends the records that the epoch's transaction would commit."""
    assert done.failures == {}
    if plan is not None:
        world.published = with_replaced_queries(world.published, plan)
    for written in done.unpublished:
        named = {output.sink.topic: output for output in written.outputs.values()}
        for records in (columns.rows() for columns in result_records(written)):
            output = named[records.topic]
            partitions = [None] * len(records.values) if records.partitions is None else records.partitions
            listed = zip(records.keys, records.values, records.headers or (), partitions, strict=True)
            for key, value, header, partition in listed:
                log = output.id if partition is None else f"{output.id}/{partition}"
                world.results[log].append((key, value, tuple(header)))
    world.dead += [one for one in done.dead]
    frontiers = dict(world.published.frontiers)
    for query, result in done.results.items():
        frontiers[query] = max(result.frontier, frontiers.get(query, result.frontier))
    world.published = Published(frontiers, done.dead_upto)


def takes(revision: Revision, lane: str, turns: Iterator[int]) -> dict[int, int]:
    """How many segments each stage takes from its queue: none, some, or all, with those that arrive in this epoch."""
    taken, queues = {}, revision.manifest.lanes[lane].queues
    for stage in range(1, revision.lanes[lane].flow.stages + 1):
        waiting = len(queues[stage].segments) if stage in queues else 0
        chosen = next(turns, 0) % (waiting + 2)
        if chosen:
            taken[stage] = chosen - 1
    return taken


def run(  # noqa: PLR0913 what may differ between two runs
    world: World, catalog: Catalog, targets: int, limits: list[int], crash_at: int | None = None,
    then: tuple[int, Catalog] | None = None, fragment: str | None = None, schedule: list[int] | None = None,
    rates: list[Mapping[str, float]] | None = None,
) -> World:  # fmt: skip
    """Runs epochs until everything is read.

    At epoch `crash_at` the transaction commits, but its manifest and half of the earlier ones are lost: the executor
    continues from an old manifest, in other batches. `then` is (epoch, catalog): from that epoch on, the other catalog
    is run. `schedule` determines what the stages take in the first epochs. `rates` are the wanted rates of shedding,
    used in turn.
    """
    turns = iter(schedule or ())
    revision = start(catalog, targets, fragment)
    history = [revision.manifest]
    for number in range(200):
        limit = limits[number % len(limits)]
        plan = revision.plan if then is None or number < then[0] else plan_fragment(then[1], targets)
        revision = revised(plan, history[-1], (), revision)
        revision = replace(revision, takes={lane: takes(revision, lane, turns) for lane in revision.lanes})
        if rates is not None:
            standing = {lane: progress.places for lane, progress in running_lanes(revision, ()).items()}
            world.shed(revision, standing, rates[number % len(rates)])
        done = epoch(world, revision, limit, tasks=1 + number % 3)
        waits = any(
            queue.segments for lane_manifest in done.manifest.lanes.values() for queue in lane_manifest.queues.values()
        )
        if not done.results and limit and not waits and (then is None or number >= then[0]):
            return world
        publish(world, done)
        history.append(done.manifest)
        if number == crash_at:
            world.floor = {
                place: at.offset
                for lane_manifest in done.manifest.lanes.values()
                for place, at in lane_manifest.places.items()
            }
            history = history[: 1 + len(history) // 2]
            limits = [*reversed(limits), 1]
    raise AssertionError("the log was never read to its end")
