"""A fragment (a part of the plan) in one process: the runtime of executors, over logs and a store in memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path

import polars as pl

from connectors.memory.runs import MemoryRuns, Runs
from dsms.measurements.work import FragmentMetrics
from dsms.planner.physical.fragment_plan import FragmentPlan
from dsms.planner.physical.lane import Lane, Output
from dsms.runtime.batching.idleness import SourceActivity, heartbeats_due, leading, sources_of_queries
from dsms.runtime.batching.offsets import (
    LoggedSettings,
    Offsets,
    SourceTask,
    next_offsets,
    offsets_at,
    slices,
    with_settings,
)
from dsms.runtime.epoch.dead_letters import DeadRecord
from dsms.runtime.epoch.epoch import (
    Epoch,
    QueryResult,
    UnpublishedChanges,
    assemble,
    frontiers_after,
    with_replaced_queries,
)
from dsms.runtime.epoch.progress_log import Published
from dsms.runtime.lanes.manifest import LaneManifest, Manifest, Position, SourcePartition
from dsms.runtime.lanes.revision import Revision, queries_in_lanes, query_frontier, revised, running_lanes
from dsms.runtime.lanes.stage_contexts import stage_context
from dsms.runtime.stages.lane_step import of_member
from dsms.runtime.stages.result_messages import ResultEncoding
from dsms.runtime.stages.source_stage import run_source_stage
from dsms.runtime.stages.stage_runs import ImmediateRuns
from dsms.runtime.stages.target_stage import TargetStage
from dsms.runtime.stages.wire import Envelope, LocalOutbox
from dsms.testing.changes import Change, as_changes
from dsms.testing.local_logs import Log, LogSlices
from dsms.testing.local_tables import INSTANT, OPERATION
from operators.core.clock import Heartbeat
from operators.core.delta import FROM, ORDER
from operators.streams.stream_output import DELETE, OP

#: Results are not encoded.
_AS_ROWS = ResultEncoding(encode=lambda output, changes: changes, most_bytes=2**62)
#: More records than any log has.
_ALL = 2**62


class LocalRuntime:
    """Runs a plan over logs. Without `sharing` each query is in a lane of its own."""

    def __init__(self, partitions: int, *, sharing: bool) -> None:
        #: The time of measurements, in seconds.
        self.clock: Callable[[], float] = time.monotonic
        #: The settings of adjustable operators.
        self.settings: LoggedSettings = {}
        self._partitions, self._sharing = partitions, sharing
        #: By the id of the source.
        self.logs: dict[str, Log] = {}
        #: The published changes by the id of the query.
        self.results: dict[str, list[Change]] = {}
        self.dead: list[DeadRecord] = []
        #: The reason why a query failed, by its id; it no longer runs.
        self.failed: dict[str, str] = {}
        self.metrics = FragmentMetrics(self.clock())
        self._store, self._published = MemoryRuns(Runs(), Path()), Published({}, {})
        self._revision = Revision(0, FragmentPlan(0, partitions), {}, Manifest(targets=partitions))
        self._offsets: Offsets | None = None
        self._plans_from: Revision | None = None

    @property
    def revision(self) -> Revision:
        """The plan with its lanes, and the manifest with their progress."""
        return self._revision

    def follow(self, plan: FragmentPlan) -> None:
        """Runs another plan from now on. A query that replaces another continues its results."""
        ids = {planned.name: query for query, planned in self._revision.plan.queries.items()}
        before, self.results = self.results, {}
        for query, planned in plan.queries.items():
            if planned.next_of is not None:
                continue
            replaces = planned.sink is not None and planned.sink.since is not None
            predecessor = ids.get(planned.name, query) if replaces and query not in before else query
            self.results[query] = before.get(predecessor, [])
        self.failed = {query: why for query, why in self.failed.items() if query in plan.queries}
        self._published = with_replaced_queries(self._published, plan)
        self._revise(self._without_failed(plan), self._revision.manifest)

    def log_due_heartbeats(self, silent: Collection[str]) -> bool:
        """Logs the heartbeats that are due if exactly these sources (by id) are idle, as the planner of a fragment
        does. Returns whether there were any."""
        lanes = self._revision.lanes
        positions = {lane: progress.places for lane, progress in running_lanes(self._revision, ()).items()}
        sources = {source.id: source for lane in positions for source in lanes[lane].sources.values()}
        groups = [*sources_of_queries(lanes[lane] for lane in positions)]
        alone = sources.keys() - set().union(*groups)
        seen = {
            name: SourceActivity(
                source, leading(name, positions), {0: len(self.logs[name].records)}, {0: inf if name in silent else 0.0}
            )
            for name, source in sources.items()
        }
        due = heartbeats_due(seen, [*groups, *(frozenset({name}) for name in alone)])
        for name, beats in due.items():
            self.logs[name].heartbeats += beats.values()
        return bool(due)

    def reuse_plans_of(self, other: LocalRuntime) -> None:
        """Reuses the plans and dataflows of another runtime with the same statements, as they depend on nothing
        else."""
        self._plans_from = other.revision

    def run(self, most: int | None) -> None:
        """Runs epochs of at most `most` records, until all is read. A failing query does not stop the others."""
        while self._epoch(_ALL if most is None else most):
            pass

    def frontier(self, query: str) -> int:
        """The frontier below which the query's result is final."""
        if query in self.failed:
            return self._published.upto(query)
        output, lane, at = self._query_in_lane(query)
        return max(query_frontier(output, lane, at), self._published.upto(query))

    def output(self, query: str) -> Output:
        """The result of a query."""
        return self._query_in_lane(query)[0]

    def positions(self) -> Iterator[tuple[SourcePartition, Position]]:
        """The positions of all lanes."""
        return (place for progress in self._revision.manifest.lanes.values() for place in progress.places.items())

    def positions_of(self, query: str) -> Iterator[tuple[SourcePartition, Position]]:
        """The positions of the lane of a query in the sources that its result waits for."""
        output, lane, at = self._query_in_lane(query)
        return (place for place in at.places.items() if place[0][0] in lane.ids_read(output))

    def _query_in_lane(self, query: str) -> tuple[Output, Lane, LaneManifest]:
        queries = queries_in_lanes(self._revision, self._revision.manifest)
        return next((output, lane, at) for output, lane, at in queries if output.id == query)

    def _revise(self, plan: FragmentPlan, manifest: Manifest) -> None:
        apart = () if self._sharing else plan.queries.keys()
        self._revision = revised(plan, manifest, apart, self._with_reused_plans(plan))

    def _without_failed(self, plan: FragmentPlan) -> FragmentPlan:
        running = {query: planned for query, planned in plan.queries.items() if query not in self.failed}
        return replace(plan, queries=running)

    def _with_reused_plans(self, plan: FragmentPlan) -> Revision:
        """The current revision, with the plans and dataflows that may be reused (see `reuse_plans_of`)."""
        if self._plans_from is None:
            return self._revision
        lanes = {**self._plans_from.lanes, **self._revision.lanes}
        queries = {**plan.queries, **self._plans_from.plan.queries, **self._revision.plan.queries}
        return replace(self._revision, lanes=lanes, plan=replace(self._revision.plan, queries=queries))

    def _epoch(self, most: int) -> bool:
        """Runs an epoch, if there is anything to read; returns whether there was."""
        task, upto = self._planned(most)
        if not task.slices:
            return False
        epoch = assemble(self._computed(task), self._revision, self._published)
        for query, why in epoch.failures.items():
            self.failed[query] = f'query "{self._revision.plan.queries[query].name}" failed: {why}'
        self._commit(epoch)
        self._offsets = upto
        return True

    def _planned(self, most: int) -> tuple[SourceTask, Offsets]:
        """The task of the next epoch, and the offsets up to which it reads."""
        revision = self._revision
        positions = {lane_id: progress.places for lane_id, progress in running_lanes(revision, ()).items()}
        beats = {(source, 0): log.heartbeats for source, log in self.logs.items()}
        ends = {(source, 0): len(log.records) for source, log in self.logs.items()}
        begin = self._offsets or offsets_at(0, positions, beats)
        upto = next_offsets(0, positions, ends, beats, most)
        planned = with_settings(slices(revision.lanes, positions, begin, upto, beats), revision.lanes, self.settings)
        return SourceTask(tuple(planned), dict(revision.lanes), revision.number, self._partitions), upto

    def _computed(self, task: SourceTask) -> list[Envelope]:
        """Runs all stages; returns the messages to the driver."""
        outbox = partial(LocalOutbox, task.revision)
        messages = [sent for box in run_source_stage(task, LogSlices(self.logs), outbox) for sent in box.sent]
        prefix = str(self._revision.manifest.epoch + 1)
        context = stage_context([self._revision], prefix, self._partitions, _AS_ROWS)
        for number in range(1, context.stages + 1):
            arrived = [message for message in messages if message.stage == number]
            messages = [message for message in messages if message.stage != number]
            for box in TargetStage(context, number).run(arrived, ImmediateRuns(self._store), LocalOutbox):
                messages += box.sent
        return messages

    def _commit(self, epoch: Epoch) -> None:
        for written in epoch.unpublished:
            self._publish(written)
        self.dead += epoch.dead
        for result in epoch.results.values():
            self._log_frontier(result)
        moved = frontiers_after(epoch, self._published)
        self._published = Published({**self._published.frontiers, **moved}, epoch.dead_upto)
        self._revise(self._without_failed(self._revision.plan), epoch.manifest)
        self._store.sweep(self._revision.manifest.names())
        keys = {lane_id: frozenset(lane.flow.keys) for lane_id, lane in self._revision.lanes.items()}
        self.metrics = self.metrics.after(self.clock(), epoch.measured.work).kept(keys)

    def _publish(self, written: UnpublishedChanges) -> None:
        for output in written.outputs.values():
            changes, names = of_member(written.changes, output), output.schema.names
            ordered = changes.sort(FROM, ORDER, pl.col(OP) != DELETE, *names)
            published = as_changes(ordered, names, output.keys)
            self.results[output.id] += published
            if (log := self._filled_log(output)) is not None:
                log.records += [{**row, INSTANT: instant, OPERATION: op} for op, row, instant in published]

    def _log_frontier(self, result: QueryResult) -> None:
        """Logs the new frontier of a query as a heartbeat of the table that it fills, for the readers of the table."""
        log = self._filled_log(result.output)
        if log is not None and result.frontier > self._published.upto(result.output.id):
            log.heartbeats.append(Heartbeat(len(log.records), result.frontier))

    def _filled_log(self, output: Output) -> Log | None:
        fills = None if output.sink is None else output.sink.fills
        return None if fills is None else self.logs[fills]
