"""A running fragment: its threads, its Structured Streaming query and its commits.

What it does next is decided by pure functions over its state, in `dsms.runtime.fragment.state`.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Self

import structlog

from connectors.kafka.client.names import PROGRESS
from connectors.kafka.logs.internal_log import InternalLog
from connectors.state.cluster import ClusterState
from connectors.state.run_memory import MemoryQuota
from connectors.state.store import Claim, ManifestStore, RunStore, StateStore
from dsms.executor.checkpointing import checkpoints_of
from dsms.executor.engine import Batch, Engine
from dsms.executor.handover import Handover
from dsms.executor.metadata_writer import MetadataWriter
from dsms.executor.other_fragments import greatest_instant_of_others
from dsms.executor.scrubbing import Scrubbing
from dsms.executor.serial_thread import SerialThread
from dsms.executor.story_log import StoryLog
from dsms.measurements.work import FragmentMetrics
from dsms.model.objects import Source
from dsms.placement.leases import FragmentStatus
from dsms.planner.physical.fragment_plan import FragmentPlan
from dsms.runtime.batching.batch_size import BatchSize
from dsms.runtime.batching.planner import BatchPlanner
from dsms.runtime.batching.planner_input import PlannerInput
from dsms.runtime.batching.read_ahead import can_read_ahead, input_after, still_holds
from dsms.runtime.batching.topic_watch import TopicWatch
from dsms.runtime.epoch.commit import Committer, Recovered
from dsms.runtime.epoch.cut_logs_reading import read_cut_logs
from dsms.runtime.epoch.epoch import Epoch, assemble, with_replaced_queries
from dsms.runtime.epoch.fault_points import FaultPoints, poisoned
from dsms.runtime.epoch.step_time import StepTime
from dsms.runtime.fragment.state import (
    BatchEnded,
    Commit,
    EpochCommitted,
    EpochComputed,
    Event,
    FragmentState,
    Instruction,
    KeepLanes,
    KeepMetadata,
    PlanBatches,
    PlanChanged,
    ReportFailure,
    ReportRebuild,
    TunableSettingsChanged,
    advance,
)
from dsms.runtime.fragment.status import status_after
from dsms.runtime.fragment.story import EntryKind, StoryEntry, committed, entries_of
from dsms.runtime.lanes.manifest import Manifest
from dsms.runtime.lanes.query_state import limited_runs
from dsms.runtime.lanes.revision import Revision, running_lanes
from dsms.runtime.lanes.stage_contexts import stage_context
from dsms.runtime.memory.allocators import return_freed_memory
from dsms.runtime.memory.worker_limit import most_to_driver
from dsms.runtime.settings import ExecutorSettings
from dsms.runtime.stages.frames import FrameDirectories, remove_files
from dsms.runtime.stages.lane_files import LaneFiles
from dsms.runtime.stages.result_messages import ResultEncoding
from dsms.runtime.stages.target_stage import TargetStage
from dsms.runtime.stages.target_task import StoreSettings, TargetTask
from dsms.scheduling.tuning import TunableSettings
from dsms.spark.scratch import make_directories

log = structlog.get_logger()


@dataclass(frozen=True)
class FragmentListener:
    """What a fragment reports to: `on_status` gets its status after each epoch, `story` its events."""

    on_status: Callable[[FragmentStatus], None]
    story: StoryLog


class Fragment:
    """Runs a plan until it is stopped or fails. An instance is one incarnation: after a failure, create a new one.

    Events come from several threads: plans and settings from the executor's thread, computed epochs from Spark's thread
    or the epoch thread, committed epochs from the commit thread. Each event replaces the frozen `state` under a lock.
    The lock is held until the event's instructions are carried out; no instruction waits for a batch or a commit.

    With a backlog, the fragment is a pipeline: it reads batch n + 1, computes the epoch of batch n and commits that of
    batch n - 1 at the same time. Without a backlog, one Spark job reads and computes a batch.
    """

    _planner_input: PlannerInput

    def __init__(
        self,
        name: str,
        lease: int,
        settings: ExecutorSettings,
        engine: Engine,
        plan: FragmentPlan,
        listener: FragmentListener,
    ) -> None:
        self.name, self.lease = name, lease
        self._settings, self._on_status, self._story = settings, listener.on_status, listener.story
        self._token = time.time_ns() // 1_000_000
        opened = settings.state.open(settings.alarms)
        stores = _stores(name, settings, opened)
        claim = Claim(lease, self._token)
        self._committer = _committer(name, settings, stores, claim)
        self.checkpoints = checkpoints_of(self, self._committer, stores[1], settings)
        targets = settings.required_targets
        restore = self.checkpoints.restore_for(plan, targets) if self.checkpoints is not None else None
        take_over = _handover(plan, opened, stores[1], settings).take_over
        recovered = self._committer.recover(plan, restore, take_over, targets)
        plan = _with_targets_of(recovered.manifest, plan, name)
        self._story.add(*_claim_entries(lease, recovered, plan, self._story.now))
        state = FragmentState(
            plan=plan,
            computed=recovered.manifest,
            published=recovered.published,
            tunable=settings.tunable,
            batch_size=_first_batch_size(settings),
            metrics=FragmentMetrics(time.monotonic()),
            run_locations=self._committer.run_locations,
            cut_logs=read_cut_logs(settings.kafka, settings.cluster, plan, settings.alarms),
        )
        self._metadata = MetadataWriter(name, ClusterState(opened.documents()))
        self.state = self._metadata.restored(state, time.monotonic())
        #: The runs of queries with limits of their own, after the last commit.
        self._quotas: tuple[MemoryQuota, ...] = ()
        self._scrubbing = Scrubbing(name, stores[1], settings.alarms, lambda: self.state.computed.names())
        # created last, so that a constructor that is fenced or fails leaves no directory behind
        make_directories(settings.scratch)
        self._scratch = settings.scratch / f"{name}-{self._token}"
        self._scratch.mkdir(parents=True)
        self._frames = FrameDirectories(self._scratch) if settings.one_machine else None
        self._lane_files = LaneFiles(self._scratch / "lanes" if settings.one_machine else None)
        self._state_lock = threading.Lock()
        self._epochs, self._commits = SerialThread("epochs"), SerialThread("commits")
        #: The planner input of a batch that is read ahead, while an epoch is computed.
        self._ahead: PlannerInput | None = None
        #: Whether the last batch was read ahead but could not be used; when the last epoch was computed.
        self._read_ahead_unused, self._ended = False, 0.0
        self._topics = TopicWatch(settings.kafka)
        self._planner = BatchPlanner(lambda: self._planner_input, settings.alarms, greatest_instant_of_others(settings))
        self._stream = engine.stream(f"{name}-{self._token}", self._scratch, self._planner.calls, self._run)

    def start(self, failures: Mapping[str, str], trial: Collection[str] | None = None) -> Self:
        """Starts the streaming query at the positions of the manifest. `failures` gives, by query, why queries do not
        run; former incarnations have found these reasons. If there is a `trial`, only the queries on trial run."""
        self.state = replace(self.state, failures=failures, trial=None if trial is None else frozenset(trial))
        self._apply(PlanChanged(self.state.plan, time.monotonic()))
        self._stream.start()
        if self.checkpoints is not None:
            self.checkpoints.start()
        self._scrubbing.start()
        version, names = self.state.plan.version, sorted({self.names[query] for query in self.running_queries})
        self._story.add(StoryEntry("started", self._story.now, plan_version=version, queries=tuple(names)))
        log.info("fragment started", fragment=self.name, epoch=self.state.computed.epoch, plan=self.state.plan.version)
        return self

    def status(self) -> FragmentStatus:
        """The status before the first epoch."""
        return status_after(self.state.revision.manifest, self.state.revision, self.state)

    @property
    def running_queries(self) -> tuple[str, ...]:
        """The queries that run."""
        state = self.state
        return tuple(
            query
            for query, plan in state.plan.queries.items()
            if not plan.stopped and query not in state.stopped_queries
        )

    @property
    def names(self) -> dict[str, str]:
        """The names of its queries, by id."""
        return {query: plan.name for query, plan in self.state.plan.queries.items()}

    @property
    def idle(self) -> bool:
        """Whether all available input has been computed."""
        return self._planner.idle and not self._epochs.outstanding

    def set_plan(self, plan: FragmentPlan) -> None:
        """Sets the plan from the next batch on; running lanes are not disturbed."""
        self._apply(PlanChanged(plan, time.monotonic()))

    def tune(self, tunable: TunableSettings) -> None:
        """Applies tunable settings from the next batch on."""
        if tunable != self.state.tunable:
            self._apply(TunableSettingsChanged(tunable))

    def check(self) -> None:
        """Raises the error that ended the fragment, if there is one."""
        self._commits.check()
        self._epochs.check()
        self._stream.check()
        self._scrubbing.check()

    def replaced(self) -> bool:
        """Whether a newer incarnation has taken the fragment over."""
        return self._committer.replaced()

    def stop(self) -> None:
        """Stops the streaming query, after a running batch and a running commit have finished."""
        self._stream.stop()
        self._scrubbing.close()
        self._epochs.close()
        self._metadata.close()
        if self.checkpoints is not None:
            self.checkpoints.close()
        self._commits.close()
        self._planner.close()
        self._committer.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _apply(self, event: Event) -> None:
        """Advances the state by an event, and carries out the instructions before the next event is handled."""
        with self._state_lock:
            before = self.state
            self.state, instructions = advance(event, before)
            self._story.add(*entries_of(event, before, instructions, self._story.now))
            for instruction in instructions:
                self._carry_out(instruction)

    def _carry_out(self, instruction: Instruction) -> None:
        match instruction:
            case PlanBatches():
                self._planner_input = self._ahead or self._planner_input_of(self.state)
            case Commit(epoch, revision):
                self._commits.submit(partial(self._commit, epoch, revision))
            case KeepLanes(lanes):
                self._lane_files.keep(lanes)
            case KeepMetadata():
                self._metadata.keep(self.state)
            case ReportRebuild(query):
                log.warning("the state of a query is rebuilt from the logs", query=query)
            case ReportFailure(query, reason):
                log.error("query failed; the others keep running", query=query, reason=reason)

    def _planner_input_of(self, state: FragmentState) -> PlannerInput:
        """The input of the batch planner."""
        settings, revision = self._settings, state.revision
        lanes = running_lanes(revision, state.stopped_queries)
        return PlannerInput(
            revision=revision.number,
            plan_version=revision.plan.version,
            targets=revision.plan.partitions,
            lanes={lane_id: self._lane_files.filed(lane) for lane_id, lane in revision.lanes.items()},
            positions={lane_id: progress.places for lane_id, progress in lanes.items()},
            reads=state.decision.reads,
            batch_records=state.decision.records,
            behind_records=state.behind_records,
            lanes_to_wake=state.lanes_to_wake,
            source_tasks=settings.source_tasks,
            kafka=settings.kafka,
            registry_url=settings.registry_url,
            cluster=settings.cluster,
            fragment=self.name,
            settings=state.settings,
            suspended_sources=revision.plan.suspended_sources,
            skipped=revision.plan.skipped,
            sources_of_readers=revision.plan.sources_of_readers,
            waiting_records={place: wait.offset for place, wait in state.waits.items()},
            link_rows=state.link_rows,
            frames=self._frames.next if self._frames else None,
            repeats_last=self._read_ahead_unused,
            trigger_interval_s=state.tunable.trigger_interval_seconds,
        )

    def _run(self, batch: Batch) -> None:
        """Computes the epoch of a batch. With a backlog it returns while the epoch is still being computed, so that the
        next batch is read in the meantime."""
        started, planned = time.monotonic(), self._planner.planned
        assert planned is not None
        self._story.add(StoryEntry("batch begun", self._story.now))
        reads_ahead = self._planner.leaves_unread and can_read_ahead(planned, self.state.revision)
        if not (reads_ahead or self._epochs.outstanding) and planned.revision in _numbered(self.state.revisions):
            self._read_ahead_unused = False
            self._compute(batch, planned.frames, self.state.revisions, started)
            return
        sent, read = batch.read()
        self._epochs.wait()
        revision = self._revision_for(planned)
        self._read_ahead_unused = revision is None
        self._plan_from(input_after(planned, sent) if reads_ahead and revision is not None else None)
        if revision is None:
            log.debug(
                "a batch that was read ahead is discarded", planned=planned.revision, runs=self.state.revision.number
            )
            remove_files(planned.frames)
            self._story.retract_batch()
            return
        self._epochs.submit(partial(self._compute, read, planned.frames, (revision,), started))
        if self._ahead is None:
            self._epochs.wait()

    def _revision_for(self, planned: PlannerInput) -> Revision | None:
        """The revision that runs a batch, with the number under which the batch was planned; None if the batch was read
        ahead and cannot be used."""
        if (revision := _numbered(self.state.revisions).get(planned.revision)) is not None:
            return revision
        revision, now = self.state.revision, self._planner_input_of(self.state)
        holds = can_read_ahead(now, revision) and still_holds(planned, now)
        return replace(revision, number=planned.revision) if holds else None

    def _plan_from(self, ahead: PlannerInput | None) -> None:
        """Plans the next batch: from `ahead`, while the epoch of this batch is computed, or, if that is None, from the
        state."""
        with self._state_lock:
            if ahead is not None and self._frames is not None:
                log.debug("reads ahead", revision=ahead.revision)
                ahead = replace(ahead, frames=self._frames.turn())
            self._ahead = ahead
            self._carry_out(PlanBatches())

    def _compute(self, batch: Batch, frames: Path | None, revisions: tuple[Revision, ...], started: float) -> None:
        """Computes an epoch, which runs one of the revisions, and submits it for its commit. The previous epoch may be
        committed at the same time."""
        state, numbered = self.state, _numbered(revisions)
        messages = list(batch.run(self._stages(state, revisions, frames), state.plan.partitions))
        computed = time.monotonic()
        revision = numbered[max((message.revision for message in messages), default=max(numbered))]
        lost = self._topics.recreated(_sources(revision).values())
        self._commits.wait()
        assembling = time.monotonic()
        epoch = assemble(messages, revision, self.state.published, lost)
        del messages
        remove_files(frames)
        ended = time.monotonic()
        steps = StepTime("compute", started, computed), StepTime("assemble", assembling, ended)
        epoch, started = replace(epoch, steps=steps), max(started, self._ended)
        self._apply(EpochComputed(epoch, revision))
        self._ahead, self._ended = None, ended
        self._apply(BatchEnded(epoch, revision, started, ended, self._planner.logged))
        log.debug(
            "epoch computed",
            epoch=epoch.manifest.epoch,
            records=epoch.measured.records,
            behind=dict(epoch.measured.behind),
            takes={lane_id: dict(takes) for lane_id, takes in revision.takes.items()},
            stages_s=round(computed - started, 3),
            rest_s=round(ended - computed, 3),
            settings=state.settings,
        )

    def _stages(self, state: FragmentState, revisions: tuple[Revision, ...], frames: Path | None) -> list[TargetTask]:
        """The target stages, as many as the lane with the most stages has; lanes with fewer skip the rest."""
        settings = self._settings
        context = stage_context(
            revisions,
            f"{self._token}/{state.computed.epoch + 1}",
            state.plan.partitions,
            ResultEncoding(poisoned=poisoned(settings.faults)),
            sent_as=self._lane_files.filed,
        )
        cache = settings.caches / self.name
        limit = state.tunable.state_memory
        disk_from = state.run_locations.disk_from(limit, self._quotas)
        runs = StoreSettings(settings.state, self.name, cache, limit, disk_from)
        stages = (TargetStage(context, number) for number in range(1, max(context.stages, 1) + 1))
        most = most_to_driver(state.plan.partitions)
        return [TargetTask(stage, runs.store, frames, most) for stage in stages]

    def _commit(self, epoch: Epoch, revision: Revision) -> None:
        started, state = time.monotonic(), self.state
        published = with_replaced_queries(state.published, revision.plan)
        self._quotas = tuple(limited_runs(revision, epoch.manifest)) if self._settings.one_machine else ()
        limit = state.tunable.state_memory
        published = self._committer.commit(epoch, _sources(revision), published, limit, self._quotas)
        self._apply(EpochCommitted(published, self._committer.run_locations))
        self._settings.observer.committed(self.name, epoch, (*epoch.steps, *self._committer.steps))
        seconds = time.monotonic() - started
        self._story.add(committed(epoch, self._story.now, seconds, in_doubt=self._committer.in_doubt))
        log.debug("epoch committed", epoch=epoch.manifest.epoch, commit_s=round(seconds, 3))
        self._on_status(status_after(epoch.manifest, revision, self.state))
        return_freed_memory()


def _with_targets_of(manifest: Manifest, plan: FragmentPlan, fragment: str) -> FragmentPlan:
    """The plan with the number of targets of the stored state."""
    if manifest.targets != plan.partitions:
        log.info("state keeps its number of targets", fragment=fragment, kept=manifest.targets, set=plan.partitions)
    return replace(plan, partitions=manifest.targets)


def _claim_entries(lease: int, recovered: Recovered, plan: FragmentPlan, at: float) -> Iterator[StoryEntry]:
    """The entries for a fragment that an executor has claimed under a lease."""
    yield StoryEntry("claimed", at, lease=lease, epoch=recovered.manifest.epoch)
    if recovered.lost:
        kind: EntryKind = "state restored" if recovered.restored else "state rebuilt"
        yield StoryEntry(kind, at, epoch=recovered.manifest.epoch, reason=recovered.lost)
    if recovered.taken_over:
        queries = sorted(plan.queries[query].name for query in recovered.taken_over)
        yield StoryEntry("state taken over", at, queries=tuple(queries))


def _handover(plan: FragmentPlan, state: StateStore, runs: RunStore, settings: ExecutorSettings) -> Handover:
    return Handover(plan, state, runs, lambda former: _stores(former, settings, state)[1], settings.required_targets)


def _stores(name: str, settings: ExecutorSettings, state: StateStore) -> tuple[ManifestStore, RunStore]:
    return state.manifest(name), state.runs(name, settings.caches / name, settings.state_memory)


def _committer(
    name: str, settings: ExecutorSettings, stores: tuple[ManifestStore, RunStore], claim: Claim
) -> Committer:
    writer = f"{name}-{claim.token}"
    progress = InternalLog(settings.kafka, settings.cluster, PROGRESS, settings.alarms, writer)
    return Committer(settings.kafka, progress, name, stores, FaultPoints(settings.faults), claim)


def _first_batch_size(settings: ExecutorSettings) -> BatchSize:
    return BatchSize(
        settings.first_batch_records,
        settings.min_batch_records,
        settings.max_batch_records,
        settings.target_batch_s,
        settings.behind_batches * settings.target_batch_s,
    )


def _numbered(revisions: Iterable[Revision]) -> dict[int, Revision]:
    return {revision.number: revision for revision in revisions}


def _sources(revision: Revision) -> dict[str, Source]:
    return {source.id: source for lane in revision.lanes.values() for source in lane.sources.values()}
