"""The state of a fragment between its epochs, as one frozen value, and its transitions.

The pure function `advance(event, state)` returns the state after an event and the instructions that follow from it. The
owner of the state, an executor or a test, replaces the state and carries out the instructions in order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import singledispatch

from connectors.state.run_memory import RunLocations
from dsms.measurements.work import FragmentMetrics
from dsms.planner.physical.fragment_plan import FragmentPlan
from dsms.planner.physical.lane import Lane
from dsms.runtime.batching.batch_size import BatchSize
from dsms.runtime.batching.schedule import BatchDecision, Schedule
from dsms.runtime.epoch.cut_logs import CutLogs, stopped
from dsms.runtime.epoch.epoch import Epoch, EpochMeasurements
from dsms.runtime.epoch.progress_log import Published
from dsms.runtime.lanes.manifest import Manifest, SourcePartition
from dsms.runtime.lanes.revision import Revision, lanes_to_wake, revised, running_lanes
from dsms.runtime.lanes.weights import heavier_queries
from dsms.runtime.shedding.load_shedding import Shedding
from dsms.runtime.shedding.window_sizes import WindowSizes
from dsms.runtime.stages.wire import SourceWaits
from dsms.scheduling.policies import WeightedFair
from dsms.scheduling.ready import Moment
from dsms.scheduling.registry import parse_policy
from dsms.scheduling.tuning import TunableSettings
from operators.streams.preferred_values import Fraction

#: How many revisions (plans with their lanes) are kept after a change of the plan: the running or planned batch may
#: have been planned with any of them. Spark plans no batch between the end of a batch and its `BatchEnded`, so after
#: that event only the newest revision is needed.
_REVISIONS = 4
#: A fragment is overloaded if the work that waits takes more than this many batches. Shorter bursts divide no lane.
_OVERLOAD_BATCHES = 3.0


@dataclass(frozen=True)
class FragmentState:
    """`computed` is the manifest of the last computed epoch; `published` and `run_locations` are those of the last
    committed epoch. `failures` gives the reasons why queries failed, by query; these do not run."""

    plan: FragmentPlan
    computed: Manifest
    published: Published
    tunable: TunableSettings
    batch_size: BatchSize
    metrics: FragmentMetrics
    #: Last the newest revision; before it, those with which the running batch may have been planned.
    revisions: tuple[Revision, ...] = ()
    #: What the next batch reads and works on.
    decision: BatchDecision = field(default_factory=lambda: BatchDecision({}, frozenset(), 0))
    failures: Mapping[str, str] = field(default_factory=dict)
    #: The queries on trial, which run alone; None if there is no trial, so that all run.
    trial: frozenset[str] | None = None
    #: The source partitions whose next record waits.
    waits: Mapping[SourcePartition, SourceWaits] = field(default_factory=dict)
    #: The mean number of rows in the records last read from a link, by source partition.
    link_rows: Mapping[SourcePartition, float] = field(default_factory=dict)
    schedule: Schedule = field(default_factory=Schedule)
    shedding: Shedding = field(default_factory=Shedding)
    window_sizes: WindowSizes = field(default_factory=WindowSizes)
    run_locations: RunLocations = field(default_factory=lambda: RunLocations({}, {}))
    cut_logs: CutLogs = CutLogs()
    #: The queries that run apart from lighter ones during an overload.
    apart: frozenset[str] = frozenset()

    @property
    def revision(self) -> Revision:
        """The revision that the next batch runs."""
        return self.revisions[-1]

    @property
    def stopped_queries(self) -> frozenset[str]:
        """The queries that do not run for now: those that have failed, and during a trial, all that are not on
        trial."""
        others = self.plan.queries.keys() - self.trial if self.trial is not None else ()
        return frozenset([*self.failures, *others])

    @property
    def settings(self) -> dict[str, Fraction]:
        """The wanted settings of queries: the rates of shedding, and the sizes of windows."""
        return {**self.shedding.wanted, **self.window_sizes.fractions}

    @property
    def batch_records(self) -> int:
        """The most records that the next batch may hold."""
        wanted = self.shedding.batch_records
        return self.batch_size.batch_records if wanted is None else min(wanted, self.tunable.max_batch_records)

    @property
    def behind_records(self) -> int:
        """The most records of a batch that cannot hold all unread records. It exceeds the size of other batches if only
        one lane runs, so that no other lane waits for it, and neither a deadline nor a policy limits what is read."""
        paced = self.shedding.batch_records is None and self.decision.records == self.batch_size.batch_records
        alone = len(running_lanes(self.revision, self.stopped_queries)) == 1
        return self.batch_size.behind_records if paced and alone else self.decision.records

    @property
    def lanes_to_wake(self) -> tuple[str, ...]:
        """The lanes that work on their queues even if nothing is read."""
        return lanes_to_wake(self.revision, running_lanes(self.revision, self.stopped_queries))


@dataclass(frozen=True)
class PlanChanged:
    """A new plan for the next batch; times such as `at`, here and below, are seconds of the caller's clock."""

    plan: FragmentPlan
    at: float


@dataclass(frozen=True)
class TunableSettingsChanged:
    """Tunable settings for the next batch have changed."""

    tunable: TunableSettings


@dataclass(frozen=True)
class EpochComputed:
    """A batch of a revision was computed; its epoch can be committed while the next batch is prepared."""

    epoch: Epoch
    revision: Revision


@dataclass(frozen=True)
class BatchEnded:
    """A batch took from `started` to `ended`. This event follows the `EpochComputed` of its epoch. `logged` are the
    settings of queries that were logged last."""

    epoch: Epoch
    revision: Revision
    started: float
    ended: float
    logged: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class EpochCommitted:
    """An epoch was committed: it is in Kafka, and its manifest in Redis."""

    published: Published
    run_locations: RunLocations


Event = PlanChanged | TunableSettingsChanged | EpochComputed | BatchEnded | EpochCommitted


@dataclass(frozen=True)
class PlanBatches:
    """Give the new state to the batch planner."""


@dataclass(frozen=True)
class Commit:
    """Commit an epoch of a revision, after the epochs before it."""

    epoch: Epoch
    revision: Revision


@dataclass(frozen=True)
class KeepLanes:
    """Remove the files of all other lanes: no stage, not even one that reads ahead, needs them any more, and the next
    batch is planned from the new state."""

    lanes: tuple[Lane, ...]


@dataclass(frozen=True)
class KeepMetadata:
    """Store what the scheduler and the load shedder have measured in the new state. Nothing waits for it."""


@dataclass(frozen=True)
class ReportRebuild:
    """Log that the state of a query, given by name, is rebuilt from the logs."""

    query: str


@dataclass(frozen=True)
class ReportFailure:
    """Log that a query, given by name, failed."""

    query: str
    reason: str


Instruction = PlanBatches | Commit | KeepLanes | KeepMetadata | ReportRebuild | ReportFailure


@singledispatch
def advance(event: Event, state: FragmentState) -> tuple[FragmentState, tuple[Instruction, ...]]:
    """The state after an event, and the instructions to carry out."""
    raise TypeError(event)


@advance.register
def _(event: TunableSettingsChanged, state: FragmentState) -> tuple[FragmentState, tuple[Instruction, ...]]:
    return replace(state, tunable=event.tunable, batch_size=state.batch_size.within(event.tunable)), ()


@advance.register
def _(event: EpochCommitted, state: FragmentState) -> tuple[FragmentState, tuple[Instruction, ...]]:
    return replace(state, published=event.published, run_locations=event.run_locations), ()


@advance.register
def _(event: PlanChanged, state: FragmentState) -> tuple[FragmentState, tuple[Instruction, ...]]:
    after, reports = _revised(
        replace(state, plan=event.plan, failures=remaining_failures(state.failures, event.plan)),
        state.revisions[1 - _REVISIONS :],
        event.at,
    )
    return after, (PlanBatches(), *reports)


@advance.register
def _(event: EpochComputed, state: FragmentState) -> tuple[FragmentState, tuple[Instruction, ...]]:
    epoch, queries = event.epoch, event.revision.plan.queries
    failures = (ReportFailure(queries[query].name, reason) for query, reason in epoch.failures.items())
    after = replace(
        state,
        computed=epoch.manifest,
        failures={**state.failures, **epoch.failures},
        waits=_waits_after(state.waits, epoch.measured),
        link_rows={**state.link_rows, **epoch.measured.link_rows},
    )
    return after, (Commit(epoch, event.revision), *failures)


@advance.register
def _(event: BatchEnded, state: FragmentState) -> tuple[FragmentState, tuple[Instruction, ...]]:
    epoch, revision, seconds = event.epoch, event.revision, event.ended - event.started
    after_batch = replace(
        state,
        batch_size=state.batch_size.within(state.tunable).after(records=epoch.measured.records, seconds=seconds),
        schedule=state.schedule.after(epoch, revision, event.ended),
        shedding=state.shedding.after(epoch, revision, event.ended, seconds, event.logged),
        window_sizes=state.window_sizes.after(revision, state.metrics, event.ended, event.logged),
    )
    after, reports = _revised(after_batch, (), event.ended)
    keys = {lane_id: frozenset(lane.flow.keys) for lane_id, lane in after.revision.lanes.items()}
    after = replace(after, metrics=after.metrics.after(event.ended, epoch.measured.work).kept(keys))
    # the lanes of `revision` may be reading ahead
    lanes = (*after.revision.lanes.values(), *revision.lanes.values())
    return after, (PlanBatches(), KeepLanes(lanes), KeepMetadata(), *reports)


def _waits_after(
    before: Mapping[SourcePartition, SourceWaits], measured: EpochMeasurements
) -> dict[SourcePartition, SourceWaits]:
    """The partitions that wait after an epoch: those that it found waiting, and those that waited before and have not
    been read past the waiting record."""
    still = {place: wait for place, wait in before.items() if measured.read.get(place, 0) <= wait.offset}
    return still | {(wait.source, wait.partition): wait for wait in measured.waits}


def remaining_failures(failures: Mapping[str, str], plan: FragmentPlan) -> dict[str, str]:
    """The failures that remain under a plan: those of paused or dropped queries are forgotten, so a query that is
    resumed is tried again."""
    return {
        query: reason for query, reason in failures.items() if query in plan.queries and not plan.queries[query].stopped
    }


def _revised(
    state: FragmentState, before: tuple[Revision, ...], at: float
) -> tuple[FragmentState, tuple[ReportRebuild | ReportFailure, ...]]:
    """The state with a new revision of its plan, from the last computed manifest, and the decision for the next batch.
    The revisions in `before` are kept."""
    last = state.revisions[-1] if state.revisions else None
    revision = revised(state.plan, state.computed, state.stopped_queries, last, state.apart)
    lost = {
        query: reason
        for query, reason in stopped(revision, state.published, state.cut_logs).items()
        if query not in state.failures
    }
    if lost:
        state = replace(state, failures={**state.failures, **lost})
        revision = revised(state.plan, state.computed, state.stopped_queries, last, state.apart)
    schedule = replace(state.schedule, policy=parse_policy(state.tunable.policy))
    if (apart := _queries_apart(state, schedule, revision, at)) != state.apart:
        state = replace(state, apart=apart)
        revision = revised(state.plan, state.computed, state.stopped_queries, last, apart)
    moment = Moment(at, state.tunable.target_batch_seconds)
    decision = schedule.decide(revision, running_lanes(revision, state.stopped_queries), moment, state.batch_records)
    decision = replace(decision, records=min(decision.records, state.tunable.max_batch_records))
    revision = replace(revision, takes=decision.takes)
    fresh = revision.rebuilt - (last.rebuilt if last is not None else frozenset())
    names = {query: planned.name for query, planned in state.plan.queries.items()}
    rebuilds = (ReportRebuild(names[query]) for query in sorted(fresh - lost.keys()))
    failures = (ReportFailure(names[query], reason) for query, reason in sorted(lost.items()))
    return replace(state, revisions=(*before, revision), decision=decision), (*rebuilds, *failures)


def _queries_apart(state: FragmentState, schedule: Schedule, revision: Revision, at: float) -> frozenset[str]:
    """The queries that run apart from lighter ones: none unless the policy serves by weight. During an overload, more
    queries may leave their lanes; none returns before all that waits fits into one batch."""
    if not isinstance(schedule.policy, WeightedFair):
        return frozenset()
    lanes, batch_s = running_lanes(revision, state.stopped_queries), state.tunable.target_batch_seconds
    waiting = schedule.waiting_s(revision, lanes, at)
    if waiting is None:
        return state.apart
    if waiting > _OVERLOAD_BATCHES * batch_s:
        return state.apart | heavier_queries(revision, lanes, state.metrics, at)
    return state.apart if waiting > batch_s else frozenset()
