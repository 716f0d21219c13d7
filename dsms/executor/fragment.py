"""A running fragment: one Structured Streaming query, its epochs, and what the driver knows between them."""

from __future__ import annotations

import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import msgspec
import structlog
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from connectors.redis.client import connect
from connectors.redis.manifest import ManifestStore
from connectors.redis.run_store import RunStore
from dsms.executor.commit import FRAGMENT, Committer
from dsms.executor.control import Control
from dsms.executor.epoch import Epoch, Published, assemble
from dsms.executor.fault_points import FaultPoints, poisoned
from dsms.executor.manifest import LaneManifest, Manifest, beginning
from dsms.executor.pace import Pace
from dsms.executor.settings import ExecutorSettings
from dsms.executor.source import CONTROL_OPTION, FORMAT
from dsms.executor.source_task import ROUTED, fault_owner
from dsms.executor.target_stage import LaneContext, StageContext, TargetStage
from dsms.plan.lane import FragmentPlan, Lane
from operators.errors import DsmsError, ExternalError, Fenced

log = structlog.get_logger()


class Fragment:
    """Runs a plan until it is stopped or fails. One instance is one incarnation: after a failure make a new one."""

    def __init__(
        self, settings: ExecutorSettings, spark: SparkSession, plan: FragmentPlan, on_epoch: Callable[[Epoch], None]
    ) -> None:
        self._settings, self._spark, self._on_epoch = settings, spark, on_epoch
        self._token = time.time_ns() // 1_000_000
        self._scratch = settings.data_dir / "scratch" / f"{settings.executor_id}-{self._token}"
        self._scratch.mkdir(parents=True)
        self._cache = settings.data_dir / "cache" / FRAGMENT
        self._pace = Pace(
            settings.first_batch_records,
            settings.min_batch_records,
            settings.max_batch_records,
            settings.target_batch_s,
        )
        client = connect(settings.redis_url)
        stores = (
            ManifestStore(client, settings.cluster, FRAGMENT),
            RunStore(client, settings.cluster, FRAGMENT, self._cache),
        )
        self._committer = Committer(settings.kafka, settings.cluster, FRAGMENT, stores, FaultPoints(settings.faults))
        recovered = self._committer.recover(plan, self._token)
        #: The last computed epoch, and what is published of the last committed one.
        self._computed: Manifest = recovered.manifest
        self._published: Published = recovered.published
        self._plan = plan
        self.failures: dict[str, str] = {}
        self._telling = threading.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="commit")
        self._pending: Future[None] | None = None
        self._query: StreamingQuery | None = None
        self._failed: DsmsError | None = None

    @property
    def manifest(self) -> Manifest:
        """The last computed epoch."""
        return self._computed

    @property
    def plan_version(self) -> int:
        """The version of the plan that the next batch runs."""
        return self._plan.version

    def dead_letters(self) -> dict[str, int]:
        """How many dead letters were written, by source."""
        pairs = [(lane, leaf) for lane in self._plan.lanes.values() for leaf in range(len(lane.sources))]
        sources = {lane.sources[leaf].id: lane.sources[leaf].name for lane, leaf in pairs}
        owners = sources | {fault_owner(lane, leaf): lane.sources[leaf].name for lane, leaf in pairs}
        counts = Counter(dict.fromkeys(sources.values(), 0))
        for (owner, _), mark in self._published.dead.items():
            if owner in owners:
                counts[owners[owner]] += mark.count
        return dict(counts)

    @property
    def batch_records(self) -> int:
        """The most records that the next batch may hold."""
        return self._pace.batch_records

    def start(self) -> None:
        """Starts the streaming query where the manifest ends, over a scratch checkpoint."""
        self._take_plan()
        rows = self._spark.readStream.format(FORMAT).option(CONTROL_OPTION, str(self._control)).load()
        writer = rows.writeStream.foreachBatch(self._epoch).queryName(f"{FRAGMENT}-{self._token}")
        self._query = writer.option("checkpointLocation", str(self._scratch / "checkpoint")).start()
        log.info("fragment started", fragment=FRAGMENT, epoch=self._computed.epoch, plan=self._plan.version)

    def set_plan(self, plan: FragmentPlan) -> None:
        """The plan from the next batch on; running lanes are not disturbed."""
        self._plan = plan
        self._write_control()

    def check(self) -> None:
        """Raises what ended the query, if anything did."""
        if self._failed is not None:
            raise self._failed
        if self._pending is not None and self._pending.done():
            self._pending.result()
        assert self._query is not None
        if not self._query.isActive:
            raise _reason(self._query.exception())

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
        self._thread.shutdown(wait=True)
        self._committer.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    @property
    def _control(self) -> Path:
        return self._scratch / "control"

    def _take_plan(self) -> FragmentPlan:
        """The plan from here on. Lanes that are new to the manifest begin; lanes that left the plan are forgotten."""
        plan, held = self._plan, self._computed.lanes
        lanes = {lane_id: held.get(lane_id) or beginning(lane, plan.partitions) for lane_id, lane in plan.lanes.items()}
        self._computed = msgspec.structs.replace(self._computed, lanes=lanes, targets=plan.partitions)
        self._write_control()
        return plan

    def _write_control(self) -> None:
        """Tells the reader process what is so now; two threads may have something to tell."""
        with self._telling:
            plan, settings = self._plan, self._settings
            begun = {lane_id: beginning(lane, plan.partitions) for lane_id, lane in plan.lanes.items()}
            held = {**begun, **self._computed.lanes}
            positions = {lane: one.places for lane, one in held.items() if lane in plan.lanes}
            Control(
                plan, positions, self._pace.batch_records, settings.source_tasks, settings.kafka,
                settings.registry_url, settings.cluster, FRAGMENT, frozenset(self.failures),
            ).write(self._control)  # fmt: skip

    def _epoch(self, routed: DataFrame, batch: int) -> None:
        """One epoch: compute it while the last one is being committed, then hand it over to be committed in turn."""
        try:
            self._compute_and_hand_over(routed)
        except DsmsError as error:
            self._failed = error
            raise

    def _compute_and_hand_over(self, routed: DataFrame) -> None:
        started = time.monotonic()
        plan = self._take_plan()
        before = self._computed
        rows = self._stages(routed, self._context(before, plan), plan).toArrow()
        computed = time.monotonic()
        self._settle()
        epoch = assemble(rows, plan, before, self._published)
        for lane, why in epoch.failures.items():
            log.error("query failed, the others go on", query=plan.lanes[lane].name, reason=why)
        self.failures |= epoch.failures
        self._computed = epoch.manifest
        self._pending = self._thread.submit(self._commit, epoch, plan.lanes)
        read = sum(one.records for one in epoch.lanes.values())
        ended = time.monotonic()
        self._pace = self._pace.after(records=read, seconds=ended - started)
        log.debug(
            "epoch computed", epoch=epoch.manifest.epoch, records=read, stages_s=round(computed - started, 3),
            rest_s=round(ended - computed, 3),
        )  # fmt: skip
        self._write_control()

    def _stages(self, routed: DataFrame, context: StageContext, plan: FragmentPlan) -> DataFrame:
        """As many exchanges and target stages as the deepest lane has; the others' rows pass the rest by."""
        for stage in range(1, max((lane.flow.stages for lane in plan.lanes.values()), default=1) + 1):
            exchanged = routed.repartitionById(plan.partitions, routed.target)
            routed = exchanged.mapInArrow(TargetStage(context, stage), ROUTED)
        return routed

    def _commit(self, epoch: Epoch, lanes: dict[str, Lane]) -> None:
        started = time.monotonic()
        try:
            self._published = self._committer.commit(epoch, lanes, self._published)
        except DsmsError as error:
            self._failed = error
            raise
        log.debug("epoch committed", epoch=epoch.manifest.epoch, commit_s=round(time.monotonic() - started, 3))
        self._on_epoch(epoch)

    def _settle(self) -> None:
        """Waits for the commit of the epoch before, so that commits stay in order; its failure ends the query."""
        if self._pending is not None:
            self._pending.result()

    def _context(self, before: Manifest, plan: FragmentPlan) -> StageContext:
        lanes = {
            lane_id: LaneContext(
                plan.lanes[lane_id], one.frontier, _frontiers(plan.lanes[lane_id], one), one.runs,
            )
            for lane_id, one in before.lanes.items()
        }  # fmt: skip
        prefix = f"{self._token}/{before.epoch + 1}"
        settings = self._settings
        poison = poisoned(settings.faults)
        return StageContext(
            lanes, prefix, settings.redis_url, settings.cluster, FRAGMENT, self._cache, plan.partitions, poison
        )


def _frontiers(lane: Lane, held: LaneManifest) -> dict[tuple[int, int], int]:
    return {(lane.leaf(source), partition): at.frontier for (source, partition), at in held.places.items()}


def _reason(error: BaseException | None) -> DsmsError:
    """Why Spark ended the query: errors of the reader process and of workers come as text."""
    text = str(error) if error is not None else "the query ended"
    if "Fenced" in text:
        return Fenced("fenced: a newer executor runs the fragment")
    last = [line for line in text.splitlines() if line.strip()]
    return ExternalError("the fragment's query failed: " + (" | ".join(last[:3])), retryable=True)
