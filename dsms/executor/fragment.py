"""A running fragment: the events of a Structured Streaming query and of its commits, and the instructions they
cause."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Self

import structlog

from connectors.kafka.internal_log import InternalLog
from connectors.redis.client import connect
from connectors.redis.manifest import Claim, ManifestStore
from connectors.redis.run_store import RunStore
from dsms.executor.checkpointing import checkpoints_of
from dsms.model.objects import Source
from dsms.physical.fragment_plan import FragmentPlan
from dsms.runtime.batching.batch_size import BatchSize
from dsms.runtime.batching.planner import BatchPlanner
from dsms.runtime.batching.planner_input import PlannerInput
from dsms.runtime.batching.topic_watch import TopicWatch
from dsms.runtime.epoch.commit import Committer
from dsms.runtime.epoch.cut_logs_reading import read_cut_logs
from dsms.runtime.epoch.epoch import Epoch, assemble, with_replaced_queries
from dsms.runtime.epoch.fault_points import FaultPoints, poisoned
from dsms.runtime.epoch.progress_log import PROGRESS
from dsms.runtime.fragment.state import (
    BatchEnded,
    BoundsChanged,
    Commit,
    EpochCommitted,
    EpochComputed,
    Event,
    FragmentState,
    Instruction,
    KeepLanes,
    PlanBatches,
    PlanChanged,
    ReportFailure,
    ReportRebuild,
    advance,
)
from dsms.runtime.fragment.status import status_after
from dsms.runtime.lanes.query_state import limited_parts
from dsms.runtime.lanes.revision import Revision, running_lanes
from dsms.runtime.lanes.stage_contexts import stage_context
from dsms.runtime.memory.allocators import return_freed_memory
from dsms.runtime.settings import ExecutorSettings
from dsms.runtime.stages.frames import remove_files
from dsms.runtime.stages.lane_files import LaneFiles
from dsms.runtime.stages.result_messages import ResultEncoding
from dsms.runtime.stages.target_stage import TargetStage
from dsms.runtime.stages.target_task import StoreSettings, TargetTask
from dsms.scheduler.leases import FragmentStatus
from dsms.scheduler.tuning import Bounds
from dsms.scheduler.work import Measures
from dsms.spark.plan_server import PlanServer
from dsms.spark.scratch import temporary_directory
from dsms.spark.session import SparkSession
from dsms.spark.stream import Batch, FragmentStream

log = structlog.get_logger()


class Fragment:
    """Runs a plan until it is stopped or fails. An instance is an incarnation: after a failure, make a new one.

    Events come from three threads: plans and bounds from the executor's, computed epochs from Spark's, committed epochs
    from the commit thread. Each replaces the frozen `state` under a lock, which is held until its instructions are
    carried out; none of them waits for a batch or a commit.
    """

    _planner_input: PlannerInput

    def __init__(
        self,
        name: str,
        lease: int,
        settings: ExecutorSettings,
        spark: SparkSession,
        plan: FragmentPlan,
        on_status: Callable[[FragmentStatus], None],
    ) -> None:
        self.name, self.lease = name, lease
        self._settings, self._on_status = settings, on_status
        self._token = time.time_ns() // 1_000_000
        stores = _stores(name, settings)
        claim = Claim(lease, self._token)
        self._committer = _committer(name, settings, stores, claim)
        self.checkpoints = checkpoints_of(self, self._committer, stores[1], settings)
        restore = self.checkpoints.restore_for(plan) if self.checkpoints is not None else None
        recovered = self._committer.recover(plan.partitions, plan.result_topics, restore)
        self.state = FragmentState(
            plan=plan,
            computed=recovered.manifest,
            published=recovered.published,
            bounds=settings.bounds,
            batch_size=_first_batch_size(settings),
            measures=Measures(time.monotonic()),
            run_locations=self._committer.run_locations,
            cut_logs=read_cut_logs(settings.kafka, settings.cluster, plan, settings.alarms),
        )
        # made last, so that a constructor that is fenced or fails leaves no directory behind
        self._scratch = settings.scratch / f"{name}-{self._token}"
        self._frames = self._scratch / "frames" if settings.one_machine else None
        (self._frames or self._scratch).mkdir(parents=True)
        self._lane_files = LaneFiles(self._scratch / "lanes" if settings.one_machine else None)
        self._state_lock = threading.Lock()
        self._commits = _Commits(self._commit)
        self._topics = TopicWatch(settings.kafka)
        self._planner = BatchPlanner(lambda: self._planner_input, settings.alarms)
        self._plans = PlanServer(temporary_directory(settings.scratch), self._planner.answers)
        self._stream = FragmentStream(spark, f"{name}-{self._token}", self._scratch / "checkpoint", self._run)

    def start(self, failures: Mapping[str, str]) -> Self:
        """Starts the streaming query at the positions of the manifest. `failures` says why queries do not run, by
        query, as former incarnations have found out."""
        self.state = replace(self.state, failures=failures)
        self._apply(PlanChanged(self.state.plan, time.monotonic()))
        self._stream.start(self._plans.address)
        if self.checkpoints is not None:
            self.checkpoints.start()
        log.info("fragment started", fragment=self.name, epoch=self.state.computed.epoch, plan=self.state.plan.version)
        return self

    def status(self) -> FragmentStatus:
        """The status before the first epoch."""
        return status_after(self.state.revision.manifest, self.state.revision, self.state)

    def set_plan(self, plan: FragmentPlan) -> None:
        """Sets the plan for the next batch on; running lanes are not disturbed."""
        self._apply(PlanChanged(plan, time.monotonic()))

    def tune(self, bounds: Bounds) -> None:
        """Sets the bounds of batches and of state for the next batch on."""
        if bounds != self.state.bounds:
            self._apply(BoundsChanged(bounds))

    def check(self) -> None:
        """Raises the error that ended the fragment, if there is one."""
        self._commits.check()
        self._stream.check()

    def replaced(self) -> bool:
        """Whether a newer incarnation has taken the fragment over."""
        return self._committer.replaced()

    def stop(self) -> None:
        """Stops the query. A running commit is finished."""
        self._stream.stop()
        if self.checkpoints is not None:
            self.checkpoints.close()
        self._commits.close()
        self._plans.close()
        self._planner.close()
        self._committer.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _apply(self, event: Event) -> None:
        """Advances the state by an event, and carries out the instructions before the next event is handled."""
        with self._state_lock:
            self.state, instructions = advance(event, self.state)
            for instruction in instructions:
                self._carry_out(instruction)

    def _carry_out(self, instruction: Instruction) -> None:
        match instruction:
            case PlanBatches():
                self._planner_input = self._planner_input_of(self.state)
            case Commit(epoch, revision):
                self._commits.submit(epoch, revision)
            case KeepLanes(lanes):
                self._lane_files.keep(lanes)
            case ReportRebuild(query):
                log.warning("the state of a query is rebuilt from the logs", query=query)
            case ReportFailure(query, reason):
                log.error("query failed, the others go on", query=query, reason=reason)

    def _planner_input_of(self, state: FragmentState) -> PlannerInput:
        """The input of the batch planner."""
        settings, revision = self._settings, state.revision
        lanes = running_lanes(revision, state.failures.keys())
        return PlannerInput(
            revision=revision.number,
            plan_version=revision.plan.version,
            targets=revision.plan.partitions,
            lanes={lane_id: self._lane_files.filed(lane) for lane_id, lane in revision.lanes.items()},
            positions={lane_id: progress.places for lane_id, progress in lanes.items()},
            reads=state.decision.reads,
            batch_records=state.decision.records,
            behind_records=state.behind_records,
            wakes=state.lanes_to_wake,
            source_tasks=settings.source_tasks,
            kafka=settings.kafka,
            registry_url=settings.registry_url,
            cluster=settings.cluster,
            fragment=self.name,
            rates=state.shedding.decision.rates,
            held=revision.plan.held,
            waits={place: wait.offset for place, wait in state.waits.items()},
            frames=self._frames,
        )

    def _run(self, batch: Batch) -> None:
        """Computes an epoch while the last one is being committed, then submits it for its commit."""
        started, state = time.monotonic(), self.state
        revisions = {revision.number: revision for revision in state.revisions}
        messages = list(batch.run(self._stages(state), state.plan.partitions))
        computed = time.monotonic()
        revision = revisions[max((message.revision for message in messages), default=max(revisions))]
        lost = self._topics.made_anew(_sources(revision).values())
        self._commits.wait()
        epoch = assemble(messages, revision, self.state.published, lost)
        del messages
        remove_files(self._frames)
        ended = time.monotonic()
        self._apply(EpochComputed(epoch, revision))
        self._apply(BatchEnded(epoch, revision, started, ended))
        log.debug(
            "epoch computed",
            epoch=epoch.manifest.epoch,
            records=epoch.measured.records,
            behind=dict(epoch.measured.behind),
            takes={lane_id: dict(takes) for lane_id, takes in revision.takes.items()},
            stages_s=round(computed - started, 3),
            rest_s=round(ended - computed, 3),
            rates=dict(state.shedding.decision.rates),
        )

    def _stages(self, state: FragmentState) -> list[TargetTask]:
        """As many target stages as the lane with the most stages has; lanes with fewer skip the rest."""
        settings = self._settings
        context = stage_context(
            state.revisions,
            f"{self._token}/{state.computed.epoch + 1}",
            state.plan.partitions,
            ResultEncoding(poisoned=poisoned(settings.faults)),
            sent_as=self._lane_files.filed,
        )
        cache = _cache(settings, self.name)
        runs = StoreSettings(settings.redis_url, settings.cluster, self.name, cache, state.bounds.state_memory)
        stages = (TargetStage(context, number) for number in range(1, max(context.stages, 1) + 1))
        return [TargetTask(stage, runs.store, self._frames) for stage in stages]

    def _commit(self, epoch: Epoch, revision: Revision) -> None:
        started, state = time.monotonic(), self.state
        published = with_replaced_queries(state.published, revision.plan)
        parts = limited_parts(revision, epoch.manifest) if self._settings.one_machine else ()
        published = self._committer.commit(epoch, _sources(revision), published, state.bounds.state_memory, parts)
        self._apply(EpochCommitted(published, self._committer.run_locations))
        log.debug("epoch committed", epoch=epoch.manifest.epoch, commit_s=round(time.monotonic() - started, 3))
        self._on_status(status_after(epoch.manifest, revision, self.state))
        return_freed_memory()


class _Commits:
    """Commits epochs in order, in a thread of its own. After a failure no further epoch is committed."""

    def __init__(self, commit: Callable[[Epoch, Revision], None]) -> None:
        self._commit = commit
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="commit")
        self._pending: Future[None] | None = None

    def submit(self, epoch: Epoch, revision: Revision) -> None:
        """Commits an epoch after those before it."""
        self._pending = self._thread.submit(partial(self._commit, epoch, revision))

    def wait(self) -> None:
        """Waits until all epochs are committed; raises the error of the last one."""
        if self._pending is not None:
            self._pending.result()

    def check(self) -> None:
        """Raises the error of the last commit, if it has failed, without waiting."""
        if self._pending is not None and self._pending.done():
            self._pending.result()

    def close(self) -> None:
        """Waits for the last commit, whether it succeeds or fails."""
        self._thread.shutdown(wait=True)


def _stores(name: str, settings: ExecutorSettings) -> tuple[ManifestStore, RunStore]:
    client = connect(settings.redis_url)
    return (
        ManifestStore(client, settings.cluster, name),
        RunStore(client, settings.cluster, name, _cache(settings, name), settings.state_memory),
    )


def _committer(
    name: str, settings: ExecutorSettings, stores: tuple[ManifestStore, RunStore], claim: Claim
) -> Committer:
    writer = f"{name}-{claim.token}"
    progress = InternalLog(settings.kafka, settings.cluster, PROGRESS, settings.alarms, writer)
    return Committer(settings.kafka, progress, name, stores, FaultPoints(settings.faults), claim)


def _cache(settings: ExecutorSettings, fragment: str) -> Path:
    return settings.data_dir / "cache" / settings.cluster / fragment


def _first_batch_size(settings: ExecutorSettings) -> BatchSize:
    return BatchSize(
        settings.first_batch_records,
        settings.min_batch_records,
        settings.max_batch_records,
        settings.target_batch_s,
        settings.behind_batches * settings.target_batch_s,
    )


def _sources(revision: Revision) -> dict[str, Source]:
    return {source.name: source for lane in revision.lanes.values() for source in lane.sources.values()}
