"""The executor process: signs of life in one thread, the assigned fragment in another."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

import msgspec
import structlog
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from connectors.redis.cluster_state import LEASE_MS, ClusterState
from dsms.catalog.catalog import Catalog
from dsms.catalog.leases import Assignment, ExecutorStatus, LaneStatus
from dsms.executor.commit import FRAGMENT
from dsms.executor.epoch import Epoch
from dsms.executor.fragment import Fragment
from dsms.executor.garbage import calm_driver
from dsms.executor.lanes import Standing, query_frontier
from dsms.executor.manifest import LaneManifest
from dsms.executor.settings import ExecutorSettings
from dsms.plan.lane import Lane, Output, plan_fragment
from operators.delta import BEGINNING
from operators.errors import DsmsError, ExternalError, Fenced

log = structlog.get_logger()
_POLL_S = 0.2
_BACKOFF_S = (0.2, 0.5, 1.0, 2.0)


class ExecutorProcess:
    """Runs the fragment while the assignment names this executor; it starts again after failures, never after being
    fenced."""

    def __init__(
        self, settings: ExecutorSettings, make_session: Callable[[], SparkSession], stopping: threading.Event
    ) -> None:
        self._settings = settings
        self._make_session = make_session
        self._spark: SparkSession | None = None
        self._cluster = ClusterState(settings.redis_url, settings.cluster)
        self._stopping = stopping
        self._status = ExecutorStatus("starting")
        self._fragment: Fragment | None = None
        #: The lease under which a newer executor fenced this one: it does not fight for it.
        self._fenced_lease: int | None = None
        self._failures = 0
        self._last_assignment: Assignment | None = None

    def run(self) -> None:
        """Until `stopping` is set."""
        living = threading.Thread(target=self._live, name="signs-of-life", daemon=True)
        living.start()
        try:
            self._spark = self._make_session()
            calm_driver()
            self._say("idle")
            while not self._stopping.wait(_POLL_S):
                self._turn()
        finally:
            self._halt()
            self._stopping.set()
            living.join()

    def _turn(self) -> None:
        """One look at assignment and plan; whatever fails is tried again."""
        try:
            assignment = self._assignment()
            mine = assignment is not None and assignment.executor == self._settings.executor_id
            if not mine or (assignment is not None and assignment.lease == self._fenced_lease):
                self._halt()
                return
            self._keep_running()
            self._failures = 0
        except Fenced as error:
            self._fenced(error)
        except (DsmsError, PySparkException) as error:
            self._fail(error, "recovering")
            self._stopping.wait(_BACKOFF_S[min(self._failures, len(_BACKOFF_S) - 1)])
            self._failures += 1

    def _fenced(self, error: Fenced) -> None:
        """Stops under this lease if a newer owner is there; a transaction that only took too long is repeated."""
        try:
            replaced = self._fragment is not None and self._fragment.replaced()
        except ExternalError:
            replaced = False
        if replaced:
            self._fenced_lease = self._last_assignment.lease if self._last_assignment else None
        self._fail(error, "fenced" if replaced else "recovering")

    def _assignment(self) -> Assignment | None:
        body = self._cluster.assignment(FRAGMENT)
        self._last_assignment = msgspec.json.decode(body, type=Assignment) if body else None
        return self._last_assignment

    def _keep_running(self) -> None:
        body = self._cluster.catalog()
        if body is None:
            if self._fragment is not None:
                self._fragment.check()
            return
        catalog = msgspec.json.decode(body, type=Catalog)
        if self._fragment is None:
            self._start(catalog)
        else:
            self._fragment.check()
            if catalog.version > self._fragment.plan.version:
                self._fragment.set_plan(plan_fragment(catalog, self._settings.partitions, self._fragment.plan))

    def _start(self, catalog: Catalog) -> None:
        assert self._spark is not None
        plan = plan_fragment(catalog, self._settings.partitions)
        self._say("recovering")
        self._fragment = Fragment(self._settings, self._spark, plan, self._on_epoch)
        self._fragment.start()
        self._say("running")

    def _fail(self, error: Exception, state: str) -> None:
        log.warning("fragment stopped", fragment=FRAGMENT, state=state, reason=str(error))
        self._halt()
        self._say(state, str(error))

    def _halt(self) -> None:
        if self._fragment is not None:
            self._fragment.stop()
            self._fragment = None
            self._say("idle")

    def _on_epoch(self, epoch: Epoch, standing: Iterable[Standing]) -> None:
        fragment = self._fragment
        if fragment is None:
            return
        lanes = {output.id: _status(output, lane, at, fragment) for output, lane, at in standing}
        status = ExecutorStatus(
            "running", epoch.manifest.plan_version, epoch.manifest.epoch, fragment.batch_records, lanes,
            dead_letters=fragment.dead_letters(),
        )  # fmt: skip
        self._status = status

    def _say(self, state: str, reason: str = "") -> None:
        self._status = msgspec.structs.replace(self._status, state=state, reason=reason)

    def _live(self) -> None:
        while True:
            try:
                self._cluster.beat(self._settings.executor_id, msgspec.json.encode(self._status))
            except ExternalError as error:
                log.warning("no sign of life could be given", reason=str(error))
            if self._stopping.wait(LEASE_MS / 8000):
                break
        try:
            self._cluster.leave(self._settings.executor_id)
        except ExternalError as error:
            log.warning("the lease ends by itself", reason=str(error))


def _status(output: Output, lane: Lane, at: LaneManifest, fragment: Fragment) -> LaneStatus:
    frontier = query_frontier(output, lane, at)
    mine = {lane.sources[leaf].id for leaf in lane.leaves(output)}
    offsets = {f"{source}/{partition}": one.offset for (source, partition), one in at.places.items() if source in mine}
    return LaneStatus(None if frontier == BEGINNING else frontier, offsets, fragment.failures.get(output.id))
