"""A running fragment: one Structured Streaming query, its epochs, and what the driver knows between them."""

from __future__ import annotations

import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

import structlog
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from connectors.redis.client import connect
from connectors.redis.manifest import Claim, ManifestStore
from connectors.redis.run_store import RunLocations, RunStore
from dsms.introspection.entity_sampling import keys_of
from dsms.physical.fragment_plan import FragmentPlan
from dsms.physical.lane import Lane
from dsms.runtime.batching.batch_size import BatchSize
from dsms.runtime.batching.planner import BatchPlanner
from dsms.runtime.batching.planner_input import PlannerInput
from dsms.runtime.batching.schedule import Schedule
from dsms.runtime.epoch.commit import Committer
from dsms.runtime.epoch.epoch import Epoch, assemble, following
from dsms.runtime.epoch.fault_points import FaultPoints, poisoned
from dsms.runtime.epoch.progress_log import Published
from dsms.runtime.lanes.manifest import Manifest
from dsms.runtime.lanes.query_state import limited
from dsms.runtime.lanes.revision import Revision, Standing, moving, revised, standing, woken
from dsms.runtime.memory.allocators import give_back
from dsms.runtime.settings import ExecutorSettings
from dsms.runtime.shedding.load_shedding import Shedding
from dsms.runtime.stages.frame_files import clear
from dsms.runtime.stages.lane_files import LaneFiles
from dsms.runtime.stages.source_task import fault_owner
from dsms.runtime.stages.target_task import LaneContext, StageContext, TargetStage
from dsms.runtime.stages.wire import ROUTED
from dsms.scheduler.ready import Moment
from dsms.scheduler.registry import parse_policy
from dsms.scheduler.tuning import Bounds
from dsms.scheduler.work import Measures
from dsms.spark.compat import helper_processes as spark_helpers
from dsms.spark.errors import reason_of
from dsms.spark.plan_server import PlanServer
from dsms.spark.scratch import temporary
from dsms.spark.source import ADDRESS_OPTION, FORMAT
from operators.core.errors import DsmsError

log = structlog.get_logger()
OnEpoch = Callable[[Epoch, Iterable[Standing]], None]
#: So many revisions may be made while a batch is on its way; a batch of an older one fails and is made again.
_REVISIONS = 4


class Fragment:
    """Runs a plan until it is stopped or fails. One instance is one incarnation: after a failure make a new one."""

    def __init__(
        self,
        name: str,
        lease: int,
        settings: ExecutorSettings,
        spark: SparkSession,
        plan: FragmentPlan,
        on_epoch: OnEpoch,
    ) -> None:
        self._name, self.lease = name, lease
        self._settings, self._spark, self._on_epoch = settings, spark, on_epoch
        self._token = time.time_ns() // 1_000_000
        self._cache = settings.data_dir / "cache" / settings.cluster / name
        self._batch_size = BatchSize(
            settings.first_batch_records,
            settings.min_batch_records,
            settings.max_batch_records,
            settings.target_batch_s,
            settings.behind_batches * settings.target_batch_s,
        )
        client = connect(settings.redis_url)
        stores = (
            ManifestStore(client, settings.cluster, name),
            RunStore(client, settings.cluster, name, self._cache),
        )
        faults = FaultPoints(settings.faults)
        self._committer = Committer(settings.kafka, settings.cluster, name, stores, faults, Claim(lease, self._token))
        recovered = self._committer.recover(plan.partitions)
        # made only now, so that what was fenced or failed before leaves none behind
        self._scratch = settings.scratch / f"{name}-{self._token}"
        self._frames = self._scratch / "frames" if settings.one_machine else None
        (self._frames or self._scratch).mkdir(parents=True)
        self._lane_files = LaneFiles(self._scratch / "lanes" if settings.one_machine else None)
        #: What is published of the last committed epoch, and the last computed one.
        self._published: Published = recovered.published
        self._computed: Manifest = recovered.manifest
        self._plan = plan
        self._bounds, self._measures = settings.bounds, Measures(time.monotonic())
        self._schedule = Schedule()
        self._shedding = Shedding()
        self.failures: dict[str, str] = {}
        #: The last ones, of which rows may be on their way. Two threads make them.
        self._revisions: list[Revision] = []
        self._revising = threading.Lock()
        self._planner = BatchPlanner(lambda: self._told)
        self._plans = PlanServer(temporary(settings.scratch), self._planner.answers)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="commit")
        self._pending: Future[None] | None = None
        self._query: StreamingQuery | None = None
        self._failed: DsmsError | None = None

    @property
    def manifest(self) -> Manifest:
        """The last computed epoch."""
        return self._computed

    @property
    def plan(self) -> FragmentPlan:
        """The plan that the next batch runs."""
        return self._plan

    def dead_letters(self) -> dict[str, int]:
        """How many dead letters were written, by source."""
        owners: dict[str, str] = {}
        for lane in self._revisions[-1].lanes.values():
            for source in lane.sources.values():
                if source.id not in self._plan.foreign:
                    owners[source.id] = source.name
                owners |= {fault_owner(output.id, source.id): source.name for output in lane.outputs}
        counts = Counter(dict.fromkeys(owners.values(), 0))
        for (owner, _), mark in self._published.dead.items():
            if owner in owners:
                counts[owners[owner]] += mark.count
        return dict(counts)

    def shedding(self, query: str) -> tuple[float, int, bool]:
        """The part of a query's input that stays, how many of its rows were left out since this incarnation began, and
        whether its bound does not allow for the load."""
        known, decision = self._shedding.observed.get(query), self._shedding.decision
        return decision.rates.get(query, 1.0), known.dropped if known else 0, query in decision.late

    @property
    def run_locations(self) -> RunLocations:
        """Where the runs of the last committed epoch lie."""
        return self._committer.run_locations

    @property
    def batch_records(self) -> int:
        """The most records that the next batch may hold."""
        wanted = self._shedding.batch_records
        return self._batch_size.batch_records if wanted is None else min(wanted, self._bounds.max_batch_records)

    def running(self) -> tuple[Mapping[str, Lane], Manifest, Measures]:
        """The lanes of the next batch, where they stand, and what was measured of them."""
        revision = self._revisions[-1]
        return revision.lanes, revision.manifest, self._measures

    def tune(self, bounds: Bounds) -> None:
        """The bounds of batches from the next one on."""
        self._bounds = bounds

    def start(self) -> None:
        """Starts the streaming query where the manifest ends, over a scratch checkpoint."""
        self._revise()
        spark_helpers.starts(self._stream)
        rows = self._spark.readStream.format(FORMAT).option(ADDRESS_OPTION, self._plans.address).load()
        writer = rows.writeStream.foreachBatch(self._epoch).queryName(self._stream)
        self._query = writer.option("checkpointLocation", str(self._scratch / "checkpoint")).start()
        log.info("fragment started", fragment=self._name, epoch=self._computed.epoch, plan=self._plan.version)

    def set_plan(self, plan: FragmentPlan) -> None:
        """The plan from the next batch on; running lanes are not disturbed."""
        self._plan = plan
        self._revise()

    def check(self) -> None:
        """Raises what ended the query, if anything did."""
        if self._failed is not None:
            raise self._failed
        if self._pending is not None and self._pending.done():
            self._pending.result()
        assert self._query is not None
        if not self._query.isActive:
            raise reason_of(self._query.exception())

    def replaced(self) -> bool:
        """Whether a newer incarnation has taken the fragment over."""
        return self._committer.replaced()

    def stop(self) -> None:
        """Stops the query; an epoch that is being committed is finished."""
        if self._query is not None:
            try:
                self._query.stop()
            except PySparkException as error:
                log.warning("stopping the query failed", reason=str(error))
        spark_helpers.has_started(self._stream, self._spark)
        self._thread.shutdown(wait=True)
        self._plans.close()
        self._planner.close()
        self._committer.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    @property
    def _stream(self) -> str:
        return f"{self._name}-{self._token}"

    def _revise(self, computed: Epoch | None = None) -> None:
        """The plan as it is now, from where its lanes stand now: what the next batch runs."""
        with self._revising:
            if computed is not None:
                self._computed, self._revisions = computed.manifest, self._revisions[-1:]
            before = self._revisions[-1] if self._revisions else None
            revision = self._decided(revised(self._plan, self._computed, self.failures.keys(), before))
            fresh = [] if computed is not None else self._revisions[1 - _REVISIONS :]
            self._revisions = [*fresh, revision]
            self._told = self._planner_input(revision)
            for query in revision.rebuilt - (before.rebuilt if before else frozenset()):
                log.warning("the state of a query is rebuilt from the logs", query=self._plan.queries[query].name)
            if computed is not None:  # no stage is at work, and what comes next reads what was just told
                self._lane_files.keep(lane for one in self._revisions for lane in one.lanes.values())

    def _decided(self, revision: Revision) -> Revision:
        """With what its stages do next."""
        moment = Moment(time.monotonic(), self._bounds.target_batch_seconds)
        lanes = moving(revision, self.failures.keys())
        schedule = replace(self._schedule, policy=parse_policy(self._bounds.policy))
        self._decision = schedule.decide(revision, lanes, moment, self.batch_records)
        return replace(revision, takes=self._decision.takes)

    def _planner_input(self, revision: Revision) -> PlannerInput:
        """What the planner is to know."""
        settings, decision = self._settings, self._decision
        positions = {lane: one.places for lane, one in moving(revision, self.failures.keys()).items()}
        return PlannerInput(
            revision.number, revision.plan.version, revision.plan.partitions, self._filed(revision), positions,
            decision.reads, decision.records, self._behind_records(len(positions)),
            woken(revision, positions), settings.source_tasks, settings.kafka, settings.registry_url,
            settings.cluster, self._name, self._shedding.decision.rates, self._frames,
        )  # fmt: skip

    def _behind_records(self, lanes: int) -> int:
        """The size of a batch that cannot hold all there is: a larger one, where only one lane runs, so that nobody
        waits for another, and neither a deadline nor a policy says how much is read."""
        paced = self._shedding.batch_records is None and self._decision.records == self._batch_size.batch_records
        return self._batch_size.behind_records if paced and lanes == 1 else self._decision.records

    def _filed(self, revision: Revision) -> dict[str, Lane]:
        """The lanes of a revision as they go to other processes."""
        return {lane_id: self._lane_files.filed(lane) for lane_id, lane in revision.lanes.items()}

    def _epoch(self, routed: DataFrame, batch: int) -> None:
        """One epoch: compute it while the last one is being committed, then hand it over to be committed in turn."""
        spark_helpers.has_started(self._stream, self._spark)
        try:
            self._compute_and_hand_over(routed)
        except DsmsError as error:
            self._failed = error
            raise

    def _compute_and_hand_over(self, routed: DataFrame) -> None:
        started = time.monotonic()
        revisions = {revision.number: revision for revision in self._revisions}
        rows = self._stages(routed, revisions).toArrow()
        computed = time.monotonic()
        self._settle()
        revision = revisions[max(rows.column("revision").to_pylist(), default=max(revisions))]
        epoch = assemble(rows, revision, self._published)
        clear(self._frames)
        for query, why in epoch.failures.items():
            log.error("query failed, the others go on", query=revision.plan.queries[query].name, reason=why)
        self.failures |= epoch.failures
        self._pending = self._thread.submit(self._commit, epoch, revision)
        ended = time.monotonic()
        self._batch_size = self._batch_size.within(self._bounds).after(records=epoch.records, seconds=ended - started)
        log.debug(
            "epoch computed", epoch=epoch.manifest.epoch, records=epoch.records, behind=dict(epoch.behind),
            takes={lane: dict(one) for lane, one in revision.takes.items()},
            stages_s=round(computed - started, 3), rest_s=round(ended - computed, 3),
            rates=dict(self._shedding.decision.rates),
        )  # fmt: skip
        self._schedule = self._schedule.after(epoch, revision, ended)
        self._shedding = self._shedding.after(epoch, revision, ended, ended - started)
        self._revise(epoch)
        self._measures = self._measures.after(ended, epoch.work).kept(keys_of(self._revisions[-1].lanes))

    def _stages(self, routed: DataFrame, revisions: Mapping[int, Revision]) -> DataFrame:
        """As many exchanges and target stages as the deepest lane has; the others' rows pass the rest by."""
        context = self._context(revisions)
        deepest = max((lane.flow.stages for one in revisions.values() for lane in one.lanes.values()), default=1)
        for stage in range(1, max(deepest, 1) + 1):
            exchanged = routed.repartitionById(context.targets, routed.target)
            routed = exchanged.mapInArrow(TargetStage(context, stage), ROUTED)
        return routed

    def _commit(self, epoch: Epoch, revision: Revision) -> None:
        started = time.monotonic()
        try:
            published = following(self._published, revision.plan)
            parts = limited(revision, epoch.manifest) if self._settings.one_machine else ()
            self._published = self._committer.commit(
                epoch, _topics(revision), published, self._bounds.state_memory, parts
            )  # fmt: skip
        except DsmsError as error:
            self._failed = error
            raise
        log.debug("epoch committed", epoch=epoch.manifest.epoch, commit_s=round(time.monotonic() - started, 3))
        self._on_epoch(epoch, standing(revision, epoch.manifest))
        give_back()

    def _settle(self) -> None:
        """Waits for the commit of the epoch before, so that commits stay in order; its failure ends the query."""
        if self._pending is not None:
            self._pending.result()

    def _context(self, revisions: Mapping[int, Revision]) -> StageContext:
        settings = self._settings
        lanes = {
            number: {
                lane: LaneContext.of(one.lanes[lane], held, one.takes.get(lane, {}))
                for lane, held in one.manifest.lanes.items()
            }
            for number, one in revisions.items()
        }
        return StageContext(
            {number: self._filed(one) for number, one in revisions.items()}, lanes,
            f"{self._token}/{self._computed.epoch + 1}", settings.redis_url, settings.cluster, self._name, self._cache,
            self._plan.partitions, self._frames, poisoned(settings.faults), self._bounds.state_memory,
        )  # fmt: skip


def _topics(revision: Revision) -> dict[str, str]:
    return {source.name: source.topic for lane in revision.lanes.values() for source in lane.sources.values()}
