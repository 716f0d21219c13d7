"""The executor process: one thread renews the lease of the executor, another runs the assigned fragments."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

import msgspec
import structlog

from connectors.state.cluster import LEASE_MS, ClusterState
from dsms.executor.engine import Engine
from dsms.executor.former_files import FormerFiles
from dsms.executor.health import Health
from dsms.executor.reporting import Reporter
from dsms.executor.runner import Runner
from dsms.introspection.entities import Report
from dsms.model.catalog import Catalog, read_catalog
from dsms.placement.leases import STARTING, ExecutorStatus, executor_status, read_assignments
from dsms.runtime.memory.cyclic_collector import collect_rarely
from dsms.runtime.settings import ExecutorSettings
from operators.core.decoding import Malformed
from operators.core.errors import ExternalError

log = structlog.get_logger()
_POLL_S = 0.2
#: After this many turns in a row without a fragment, an executor is considered a standby and warms up.
_IDLE_TURNS = 25
#: The most alarms in a status, so that it stays small.
_MAX_ALARMS = 20


class ExecutorProcess:
    """Runs the fragments that are assigned to this executor."""

    def __init__(
        self,
        settings: ExecutorSettings,
        make_engine: Callable[[], Engine],
        stopping: threading.Event,
        progress: Callable[[], None] = lambda: None,
    ) -> None:
        """`progress` is called whenever the lease is renewed."""
        self._settings = settings
        self._make_engine = make_engine
        self._alarms = settings.alarms
        store = settings.state.open(settings.alarms)
        self._cluster, self._former_files = ClusterState(store.documents()), FormerFiles(settings, store)
        self._stopping, self._progress = stopping, progress
        self._reporter = Reporter(settings, self._cluster, lambda: self._runners or {})
        #: None until there is an engine.
        self._runners: dict[str, Runner] | None = None
        #: The last copy of the catalog, and the catalog that it encodes.
        self._catalog_copy: tuple[bytes | None, Catalog | None] = None, None
        #: The leases of the last assignments that could be read.
        self._last_leases: dict[str, int] = {}
        self._cluster_error, self._idle_turns = "", 0
        self._turned_at = time.monotonic()

    def run(self) -> None:
        """Runs until `stopping` is set."""
        renewing = threading.Thread(target=self._renew_lease, name="lease", daemon=True)
        renewing.start()
        reporting = threading.Thread(target=self._reporter.run, args=(self._stopping,), name="reports", daemon=True)
        reporting.start()
        try:
            engine = self._make_engine()
            collect_rarely()
            self._runners = {}
            while not self._stopping.wait(_POLL_S):
                self._turn(engine, self._runners)
                engine = engine_after_failures(engine, self._runners)
                self._turned_at = time.monotonic()
        finally:
            for runner in (self._runners or {}).values():
                runner.release("the executor ends")
            self._stopping.set()
            renewing.join()
            reporting.join()

    def health(self) -> Health:
        """The state that the process reports, and the time since the last turn of its main loop."""
        return Health(self._status().state, time.monotonic() - self._turned_at)

    def reports(self) -> tuple[Report, ...]:
        """The last reports on its fragments."""
        return self._reporter.last

    def _turn(self, engine: Engine, runners: dict[str, Runner]) -> None:
        """Follows the assignments and the catalog. While these cannot be read, running fragments keep running."""
        try:
            leases = self._leases()
            catalog = self._catalog() if leases else None
            self._cluster_error = ""
        except ExternalError as error:
            self._cluster_error = str(error)
            return
        self._idle_turns = 0 if leases else self._idle_turns + 1
        if self._idle_turns == _IDLE_TURNS:
            engine.warm_up(self._settings.partitions)
        for name in [name for name in runners if name not in leases]:
            released = runners[name]
            # other threads may be iterating over the present mapping, so it is replaced
            self._runners = runners = {other: runner for other, runner in runners.items() if other != name}
            released.release("it is no longer assigned to this executor")
        for name, lease in leases.items():
            tunable = self._reporter.tunable.among(len(leases))
            if name not in runners:
                self._runners = runners = {
                    **runners,
                    name: Runner(name, self._settings, engine, tunable, self._cluster),
                }
            runners[name].tune(tunable)
            runners[name].turn(lease, catalog)
        self._former_files.turn(leases)

    def _leases(self) -> dict[str, int]:
        """The leases of the fragments that are assigned to this executor."""
        try:
            assigned = read_assignments(self._cluster.assignments())
            self._alarms.clear(self._cluster.place("assignments"))
        except Malformed as error:
            self._alarms.raise_at(
                self._cluster.place("assignments"), f"{error}; the last valid assignments stay in force"
            )
            return self._last_leases
        self._last_leases = {
            name: assignment.lease
            for name, assignment in assigned.items()
            if assignment.executor == self._settings.executor_id
        }
        return self._last_leases

    def _catalog(self) -> Catalog | None:
        """The catalog, decoded again only if its copy in Redis has changed. If the new copy is damaged, the last good
        one stays in use until the coordinator has written the copy again."""
        body = self._cluster.catalog()
        if body == self._catalog_copy[0]:
            return self._catalog_copy[1]
        place = self._cluster.place("catalog")
        try:
            self._catalog_copy = body, read_catalog(body, self._settings.cluster)
            self._alarms.clear(place)
        except Malformed as error:
            self._alarms.raise_at(place, f"{error}; the last valid copy stays in use")
        return self._catalog_copy[1]

    def _status(self) -> ExecutorStatus:
        runners = self._runners
        alarms = self._alarms.all(_MAX_ALARMS)
        if runners is None:
            return ExecutorStatus(STARTING, alarms=alarms, names_writer=True, names_cluster_in_results=True)
        status = executor_status({name: runner.status for name, runner in runners.items()})
        reason, tunable = status.reason or self._cluster_error, self._reporter.tunable
        reported = {"tunable": tunable, "alarms": alarms, "names_writer": True, "names_cluster_in_results": True}
        return msgspec.structs.replace(status, reason=reason, **reported)

    def _renew_lease(self) -> None:
        while True:
            self._progress()
            try:
                self._cluster.renew_lease(self._settings.executor_id, msgspec.json.encode(self._status()))
            except ExternalError as error:
                log.warning("the lease of the executor could not be renewed", reason=str(error))
            if self._stopping.wait(LEASE_MS / 8000):
                break
        try:
            self._cluster.end_lease(self._settings.executor_id)
        except ExternalError as error:
            log.warning("the lease could not be released; it will expire", reason=str(error))


def engine_after_failures(engine: Engine, runners: Mapping[str, Runner]) -> Engine:
    """The engine to run fragments with: `engine`, or a new one if a fragment keeps failing with `engine`.

    Raises ExternalError if a new one did not help either. This ends the process, which its supervisor restarts.
    """
    remedies = {runner.remedy: name for name, runner in runners.items() if not runner.fails_alone(runners.values())}
    if (name := remedies.get("process")) is not None:
        reason = runners[name].status.reason
        raise ExternalError(
            f'fragment "{name}" keeps failing in the same way, and a new Spark session did not help: {reason}'
        )
    if (name := remedies.get("session")) is None:
        return engine
    log.error("restarting the Spark session", fragment=name, reason=runners[name].status.reason)
    for runner in runners.values():
        runner.halt()
    renewed = engine.renewed()
    for runner in runners.values():
        runner.use(renewed)
    return renewed
