"""Starts and stops a fragment as it is assigned to this executor, and restarts it after failures."""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import partial
from typing import Protocol

import msgspec
import structlog

from connectors.kafka.client.errors import TopicRecreated, TopicRefusedRecords
from dsms.executor.engine import Engine
from dsms.executor.escalation import FailureSeries, Remedy
from dsms.executor.fragment import Fragment, FragmentListener
from dsms.executor.link_topics import ensure_links
from dsms.executor.story_log import StoryLog, StoryStore
from dsms.executor.worker_deaths import SearchStore, WorkerDeaths
from dsms.model.catalog import Catalog
from dsms.placement.leases import RECOVERING, RUNNING, FragmentStatus
from dsms.planner.physical.fragment_plan import FragmentPlan, plan_fragment
from dsms.runtime.fragment.state import FragmentState, remaining_failures
from dsms.runtime.fragment.story import EntryKind, StoryEntry
from dsms.runtime.settings import ExecutorSettings
from dsms.scheduling.tuning import TunableSettings
from dsms.spark.errors import SparkFailed, WorkerDied
from operators.core.errors import DsmsError, ExternalError, Fenced

log = structlog.get_logger()
_BACKOFF_S = (0.2, 0.5, 1.0, 2.0)


class RunnerStore(SearchStore, StoryStore, Protocol):
    """The store of what a runner knows about its fragment; `ClusterState` keeps it in Redis."""


class Runner:
    """Keeps a fragment running under its leases. A lease under which a newer executor has fenced the fragment is never
    used again. A failed fragment is restarted after a short pause; other fragments are not disturbed."""

    def __init__(
        self,
        name: str,
        settings: ExecutorSettings,
        engine: Engine,
        tunable: TunableSettings,
        store: RunnerStore | None = None,
    ) -> None:
        """`store` keeps what is known about queries that kill their workers, so that other processes can use it,
        and the story of the fragment."""
        self.name, self._settings, self._engine = name, settings, engine
        self.status = FragmentStatus()
        self._fragment: Fragment | None = None
        self._tunable = tunable
        self._fenced_lease: int | None = None
        self._failures, self._not_before = 0, 0.0
        #: Failures of Spark since the last committed epoch, and what to restart because of them.
        self._series = FailureSeries()
        self.remedy: Remedy = "fragment"
        #: When the last epoch was committed.
        self._committed = 0.0
        #: Why queries cannot write to their topics, by query. Only a commit finds out, and it commits all queries or
        #: none, so the fragment restarts without these queries.
        self._refused: dict[str, str] = {}
        self._deaths = WorkerDeaths(name, settings.alarms, store)
        self.story = StoryLog(name, settings.executor_id, store)

    def turn(self, lease: int, catalog: Catalog | None) -> None:
        """Makes the fragment run the catalog's plan under the lease. `catalog` is None while it is unknown."""
        if lease == self._fenced_lease:
            self.halt()
        elif time.monotonic() >= self._not_before:
            self._turn_or_fail(lease, catalog)
        self.status = self._with_checkpoint(self.status)
        if (reason := self._deaths.reason) is not None:
            self.status = msgspec.structs.replace(self.status, reason=reason)

    def tune(self, tunable: TunableSettings) -> None:
        """Applies tunable settings."""
        self._tunable = tunable
        if (fragment := self._fragment) is not None:
            fragment.tune(self._deaths.tunable(tunable))

    def request_checkpoint(self, number: int) -> None:
        """Requests a checkpoint, if checkpoints are configured; a request is served once."""
        if (fragment := self._fragment) is not None and fragment.checkpoints is not None:
            fragment.checkpoints.request(number)

    def running(self) -> FragmentState | None:
        """The state of the fragment; None while nothing runs."""
        fragment = self._fragment
        if fragment is None or self.status.state != RUNNING:
            return None
        return fragment.state

    def fails_alone(self, others: Iterable[Runner]) -> bool:
        """Whether other fragments have committed since this one began to fail: if so, what they share is sound."""
        return any(other._committed > self._series.first for other in others if other is not self)

    def use(self, engine: Engine) -> None:
        """Stops the fragment; its next start uses another engine."""
        self.halt()
        self._add_event("stopped", reason="the executor restarts its Spark session")
        self._engine, self.remedy = engine, "fragment"

    def halt(self) -> None:
        """Stops the fragment, if it runs."""
        if self._fragment is not None:
            self._fragment.stop()
            self._fragment = None

    def release(self, reason: str) -> None:
        """Stops the fragment for good on this executor, and publishes its story for the last time."""
        self.halt()
        self._add_event("stopped", reason=reason)
        try:
            self.story.publish()
        except ExternalError as error:
            log.debug("the story of a fragment could not be stored", fragment=self.name, reason=str(error))

    def _add_event(self, kind: EntryKind, queries: Iterable[str] = (), reason: str = "") -> None:
        self.story.add(StoryEntry(kind, self.story.now, queries=tuple(sorted(queries)), reason=reason))

    def _turn_or_fail(self, lease: int, catalog: Catalog | None) -> None:
        try:
            self._keep_running(lease, catalog)
            self._failures = 0
        except Fenced as error:
            self._fenced(error)
        except (DsmsError, OSError) as error:
            self._fail_for_a_while(_translated(error))

    def _fail_for_a_while(self, error: DsmsError) -> None:
        """Stops the fragment, which starts again after a pause."""
        if self._fragment is not None:
            self._refused = {**self._refused, **refusals(error, self._fragment.state.plan)}
        if isinstance(error, SparkFailed) and not self._caused_by_query(error):
            self._series = self._series.after(str(error), time.monotonic())
            self.remedy = self._series.remedy
        self._fail(error, RECOVERING)
        self._not_before = time.monotonic() + _BACKOFF_S[min(self._failures, len(_BACKOFF_S) - 1)]
        self._failures += 1

    def _caused_by_query(self, error: SparkFailed) -> bool:
        """Whether the workers died because of a query, and not of something that fragments share. If so, the query is
        searched for."""
        if self._fragment is None or not isinstance(error, WorkerDied):
            return False
        names, before = self._fragment.names, self._deaths.failed
        running = {query: names[query] for query in self._fragment.running_queries}
        workers = partial(self._engine.workers_survive, self._settings.partitions)
        if not self._deaths.record_death(running, workers):
            return False
        self._add_event("workers died", (names[query] for query in self._deaths.trial or () if query in names))
        for query in self._deaths.failed.keys() - before.keys():
            self._add_event("query failed", (names.get(query, query),), self._deaths.failed[query])
        return True

    def _keep_running(self, lease: int, catalog: Catalog | None) -> None:
        if self._fragment is not None:
            self._fragment.check()
            trial, names = self._deaths.trial or (), self._fragment.names
            if self._deaths.trial_passed(names, idle=self._fragment.idle):
                self._add_event("workers survived", (names[query] for query in trial if query in names))
                self.halt()
        if catalog is None:
            return
        if self._fragment is None:
            self._start(lease, catalog)
        elif catalog.version > self._fragment.state.plan.version:
            before = self._fragment.state.plan
            plan = self._planned(catalog, before)
            self._refused = remaining_failures(self._refused, plan)
            ensure_links(self._settings, plan, before)
            outdated = bool(self._fragment.state.published.overtaken)
            if self._deaths.follow(plan) or plan.takes_over(before) or outdated:
                self._restart(lease, catalog)
            else:
                self._fragment.set_plan(plan)

    def _restart(self, lease: int, catalog: Catalog) -> None:
        """Restarts the fragment. It then reads how far others have published: other fragments, or, if it followed an
        outdated catalog, later versions of its queries."""
        self.halt()
        self._start(lease, catalog)

    def _start(self, lease: int, catalog: Catalog) -> None:
        self.status = FragmentStatus(reason=self.status.reason)
        plan = self._planned(catalog)
        ensure_links(self._settings, plan)
        listener = FragmentListener(self._set_status, self.story)
        self._fragment = Fragment(self.name, lease, self._settings, self._engine, plan, listener)
        self._deaths.fragment_starts(plan)
        self._fragment.tune(self._deaths.tunable(self._tunable))
        self._refused = remaining_failures(self._refused, plan)
        self._fragment.start({**self._refused, **self._deaths.failed}, self._deaths.trial)
        self.status = msgspec.structs.replace(self._fragment.status(), reason=self.status.reason)

    def _planned(self, catalog: Catalog, before: FragmentPlan | None = None) -> FragmentPlan:
        targets = self._settings.partitions if before is None else before.partitions
        plan = plan_fragment(catalog, targets, before, self.name)
        for query, reason in plan.unplanned.items():
            if before is None or query not in before.unplanned:
                log.error("query cannot be planned; the others keep running", query=query, reason=reason)
                self._add_event("query unplanned", (query,), reason)
        return plan

    def _fenced(self, error: Fenced) -> None:
        """Handles fencing. If a newer owner has taken the fragment over, the lease is not used again; this executor may
        already have a later one. If the transaction only took too long, the fragment recovers."""
        fragment = self._fragment
        try:
            replaced = fragment is not None and fragment.replaced()
        except ExternalError:
            replaced = False
        if fragment is not None and replaced:
            self._fenced_lease = fragment.lease
        self._fail(error, "fenced" if replaced else RECOVERING)

    def _fail(self, error: Exception, state: str) -> None:
        log.warning("fragment stopped", fragment=self.name, state=state, reason=str(error))
        self._add_event("fenced" if state == "fenced" else "failed", reason=str(error))
        self.halt()
        self.status = FragmentStatus(state, str(error))

    def _set_status(self, status: FragmentStatus) -> None:
        self._series, self._committed = FailureSeries(), time.monotonic()
        self._deaths.committed()
        if self._fragment is not None:
            self.status = self._with_checkpoint(status)

    def _with_checkpoint(self, status: FragmentStatus) -> FragmentStatus:
        """The status, completed by that of the checkpoints."""
        fragment = self._fragment
        made = fragment.checkpoints.status if fragment is not None and fragment.checkpoints is not None else None
        return msgspec.structs.replace(status, checkpoint=made)


def _translated(error: DsmsError | OSError) -> DsmsError:
    """The error of a fragment that fails; files of its scratch directory could not be written if it is the system's."""
    if isinstance(error, DsmsError):
        return error
    problem = f"cannot write files of the fragment: {error}"
    return ExternalError(problem, hint="free disk space; the fragment tries again", retryable=True)


def refusals(error: DsmsError, plan: FragmentPlan) -> dict[str, str]:
    """Why queries fail, by query: their topics refuse their results, or were deleted and created again. Empty for other
    errors, which are not the fault of a query."""
    match error:
        case TopicRecreated(queries=queries):
            return dict(queries)
        case TopicRefusedRecords(topic=topic):
            return {query: str(error) for query, places in plan.result_partitions.items() if places.topic == topic}
    return {}
