"""What a fragment knows between its epochs, as one frozen value, and how it changes: a pure function of events.

`advance(event, state)` gives the state after an event and what is to be done about it. Whoever holds a fragment, an
executor or a test, swaps the state and follows the instructions in their order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import singledispatch

from connectors.redis.run_store import RunLocations
from dsms.physical.fragment_plan import FragmentPlan
from dsms.physical.lane import Lane
from dsms.runtime.batching.batch_size import BatchSize
from dsms.runtime.batching.schedule import Decision, Schedule
from dsms.runtime.epoch.epoch import Epoch
from dsms.runtime.epoch.progress_log import Published
from dsms.runtime.lanes.manifest import Manifest
from dsms.runtime.lanes.revision import Revision, lanes_to_wake, revised, running_lanes
from dsms.runtime.shedding.load_shedding import Shedding
from dsms.scheduler.ready import Moment
from dsms.scheduler.registry import parse_policy
from dsms.scheduler.tuning import Bounds
from dsms.scheduler.work import Measures

#: So many revisions may be made while a batch is on its way; a batch of an older one fails and is made again.
_REVISIONS = 4


@dataclass(frozen=True)
class FragmentState:
    """`computed` is the manifest of the last epoch that was computed, `published` and `run_locations` are those of the
    last one that was committed. `failures` say by query why it failed; these queries stand still."""

    plan: FragmentPlan
    computed: Manifest
    published: Published
    bounds: Bounds
    batch_size: BatchSize
    measures: Measures
    #: The last ones, of which messages may be on their way, the newest at the end.
    revisions: tuple[Revision, ...] = ()
    #: What the next batch reads.
    decision: Decision = field(default_factory=lambda: Decision({}, frozenset(), 0))
    failures: Mapping[str, str] = field(default_factory=dict)
    schedule: Schedule = field(default_factory=Schedule)
    shedding: Shedding = field(default_factory=Shedding)
    run_locations: RunLocations = field(default_factory=lambda: RunLocations({}, {}))

    @property
    def revision(self) -> Revision:
        """What the next batch runs."""
        return self.revisions[-1]

    @property
    def batch_records(self) -> int:
        """The most records that the next batch may hold."""
        wanted = self.shedding.batch_records
        return self.batch_size.batch_records if wanted is None else min(wanted, self.bounds.max_batch_records)

    @property
    def behind_records(self) -> int:
        """The size of a batch that cannot hold all there is: a larger one, where only one lane runs, so that nobody
        waits for another, and neither a deadline nor a policy says how much is read."""
        paced = self.shedding.batch_records is None and self.decision.records == self.batch_size.batch_records
        alone = len(running_lanes(self.revision, self.failures.keys())) == 1
        return self.batch_size.behind_records if paced and alone else self.decision.records

    @property
    def lanes_to_wake(self) -> tuple[str, ...]:
        """The lanes that have something to do even if nothing is read."""
        return lanes_to_wake(self.revision, running_lanes(self.revision, self.failures.keys()))


@dataclass(frozen=True)
class PlanChanged:
    """Another plan holds from the next batch on; `at` are seconds of the caller's clock, here and below."""

    plan: FragmentPlan
    at: float


@dataclass(frozen=True)
class BoundsChanged:
    """Other bounds of batches and of state hold from the next batch on."""

    bounds: Bounds


@dataclass(frozen=True)
class EpochComputed:
    """A batch of a revision was computed, from one time to another."""

    epoch: Epoch
    revision: Revision
    started: float
    ended: float


@dataclass(frozen=True)
class EpochCommitted:
    """An epoch is in Kafka and its manifest in Redis."""

    published: Published
    run_locations: RunLocations


Event = PlanChanged | BoundsChanged | EpochComputed | EpochCommitted


@dataclass(frozen=True)
class PlanBatches:
    """The planner goes by the state from now on."""


@dataclass(frozen=True)
class Commit:
    """An epoch of a revision is to be committed, after those before it."""

    epoch: Epoch
    revision: Revision


@dataclass(frozen=True)
class KeepLanes:
    """Only these lanes may still be asked for: no stage is at work, and the next batch is planned by the new state."""

    lanes: tuple[Lane, ...]


@dataclass(frozen=True)
class ReportRebuild:
    """The state of a query, by name, is rebuilt from the logs."""

    query: str


@dataclass(frozen=True)
class ReportFailure:
    """A query, by name, failed; the others go on."""

    query: str
    reason: str


Instruction = PlanBatches | Commit | KeepLanes | ReportRebuild | ReportFailure


@singledispatch
def advance(event: Event, state: FragmentState) -> tuple[FragmentState, tuple[Instruction, ...]]:
    """The state after an event, and what is to be done."""
    raise TypeError(event)


@advance.register
def _(event: BoundsChanged, state: FragmentState) -> tuple[FragmentState, tuple[Instruction, ...]]:
    return replace(state, bounds=event.bounds), ()


@advance.register
def _(event: EpochCommitted, state: FragmentState) -> tuple[FragmentState, tuple[Instruction, ...]]:
    return replace(state, published=event.published, run_locations=event.run_locations), ()


@advance.register
def _(event: PlanChanged, state: FragmentState) -> tuple[FragmentState, tuple[Instruction, ...]]:
    after, told = _revised(replace(state, plan=event.plan), state.revisions[1 - _REVISIONS :], event.at)
    return after, (PlanBatches(), *told)


@advance.register
def _(event: EpochComputed, state: FragmentState) -> tuple[FragmentState, tuple[Instruction, ...]]:
    epoch, revision, seconds = event.epoch, event.revision, event.ended - event.started
    computed = replace(
        state,
        computed=epoch.manifest,
        failures={**state.failures, **epoch.failures},
        batch_size=state.batch_size.within(state.bounds).after(records=epoch.measured.records, seconds=seconds),
        schedule=state.schedule.after(epoch, revision, event.ended),
        shedding=state.shedding.after(epoch, revision, event.ended, seconds),
    )
    after, told = _revised(computed, state.revisions[-1:], event.ended)
    keys = {lane_id: frozenset(lane.flow.keys) for lane_id, lane in after.revision.lanes.items()}
    after = replace(after, measures=after.measures.after(event.ended, epoch.measured.work).kept(keys))
    names = {query: planned.name for query, planned in revision.plan.queries.items()}
    failed = (ReportFailure(names[query], reason) for query, reason in epoch.failures.items())
    lanes = tuple(lane for one in after.revisions for lane in one.lanes.values())
    return after, (Commit(epoch, revision), PlanBatches(), KeepLanes(lanes), *failed, *told)


def _revised(
    state: FragmentState, before: tuple[Revision, ...], at: float
) -> tuple[FragmentState, tuple[ReportRebuild, ...]]:
    """The plan as it is now, from where its lanes stand now, with what its stages do next. Revisions in `before` may
    still be asked for."""
    last = state.revisions[-1] if state.revisions else None
    revision = revised(state.plan, state.computed, state.failures.keys(), last)
    schedule = replace(state.schedule, policy=parse_policy(state.bounds.policy))
    moment = Moment(at, state.bounds.target_batch_seconds)
    decision = schedule.decide(revision, running_lanes(revision, state.failures.keys()), moment, state.batch_records)
    revision = replace(revision, takes=decision.takes)
    fresh = revision.rebuilt - (last.rebuilt if last is not None else frozenset())
    told = tuple(ReportRebuild(state.plan.queries[query].name) for query in sorted(fresh))
    return replace(state, revisions=(*before, revision), decision=decision), told
