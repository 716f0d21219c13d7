"""The state of a fragment as a function of its events: what runs next, and the instructions that follow."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from connectors.state.run_memory import RunLocations
from dsms.measurements.work import FragmentMetrics
from dsms.planner.physical.fragment_plan import FragmentPlan, plan_fragment
from dsms.runtime.batching.batch_size import BatchSize
from dsms.runtime.epoch.epoch import Epoch, EpochMeasurements
from dsms.runtime.epoch.progress_log import Published, WrittenDeadLetters
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
from dsms.runtime.fragment.status import dead_letters, status_after
from dsms.runtime.lanes.manifest import Manifest, Position
from dsms.runtime.lanes.revision import Revision, running_lanes
from dsms.runtime.stages.wire import SourceWaits
from dsms.scheduling.tuning import TunableSettings
from tests.support.fake_environment import FakeEnvironment, apply_all

SQL = (
    "REGISTER SOURCE T (k INT) FROM t; CREATE STREAM S OVER T KEY k;"
    "CREATE STREAMED VIEW V AS SELECT k FROM S; CREATE STREAMED VIEW W AS SELECT k FROM S WHERE k > 1;"
)
MORE = SQL + "CREATE STREAMED VIEW X AS SELECT k FROM S WHERE k > 2;"
BOUNDS = TunableSettings(10, 1000, 1.0)


def plan(sql: str = SQL) -> FragmentPlan:
    return plan_fragment(apply_all(sql, environment=FakeEnvironment({"t": {0: 0}}))[0], 1)


def begun(stored: Manifest | None = None) -> FragmentState:
    size = BatchSize(100, 10, 1000, 1.0, 3.0)
    manifest = stored or Manifest(targets=1)
    state = FragmentState(plan(), manifest, Published({}, {}), BOUNDS, size, FragmentMetrics(0.0))
    return advance(PlanChanged(plan(), 1.0), state)[0]


def after(state: FragmentState, *events: Event) -> tuple[FragmentState, list[Instruction]]:
    instructions: list[Instruction] = []
    for event in events:
        state, more = advance(event, state)
        instructions += more
    return state, instructions


def computed(state: FragmentState, **failures: str) -> EpochComputed:
    """The event of an epoch of the present revision, which has read a hundred records."""
    records = 100
    lanes = {
        lane_id: msgspec.structs.replace(
            lane,
            positions={source: {0: Position(records, records)} for source in lane.positions},
            runs=[{key: [[f"{lane_id}/{key}"]] for key in state.revision.lanes[lane_id].flow.keys}],
        )
        for lane_id, lane in state.revision.manifest.lanes.items()
    }
    manifest = msgspec.structs.replace(state.revision.manifest, epoch=state.computed.epoch + 1, lanes=lanes)
    epoch = Epoch(manifest, {}, (), (), {}, failures=failures, measured=EpochMeasurements(records))
    return EpochComputed(epoch, state.revision)


def batch(state: FragmentState, **failures: str) -> tuple[EpochComputed, BatchEnded]:
    """The events of a batch of the present revision, which has taken a quarter of a second."""
    event = computed(state, **failures)
    return event, BatchEnded(event.epoch, event.revision, 2.0, 2.25)


def test_an_epoch_is_committed_before_the_next_batch_is_planned() -> None:
    state = begun()
    event, ended = batch(state)
    state, instructions = after(state, event)
    assert instructions == [Commit(event.epoch, event.revision)]
    state, instructions = after(state, ended)
    lanes = (*state.revision.lanes.values(), *event.revision.lanes.values())
    assert instructions == [PlanBatches(), KeepLanes(lanes), KeepMetadata()]
    assert state.computed is event.epoch.manifest
    assert state.revision.manifest.lanes == event.epoch.manifest.lanes
    assert state.batch_size.batch_records == 200


def test_only_revisions_that_may_be_requested_are_kept() -> None:
    state = begun()
    numbers = [state.revision.number]
    for at in range(6):
        state, instructions = after(state, PlanChanged(plan(MORE), at))
        numbers.append(state.revision.number)
        assert instructions == [PlanBatches()]
    assert [revision.number for revision in state.revisions] == numbers[-4:]
    state, _ = after(state, *batch(state))
    assert [revision.number for revision in state.revisions] == [numbers[-1] + 1]


def test_plan_change_between_epoch_and_batch_end_continues_from_the_epoch() -> None:
    state = begun()
    event, ended = batch(state)
    state, _ = after(state, event, PlanChanged(plan(MORE), 2.1))
    lanes = state.revision.manifest.lanes
    assert {lane: lanes[lane] for lane in event.epoch.manifest.lanes} == event.epoch.manifest.lanes
    state, _ = after(state, ended)
    assert state.revision.plan == plan(MORE) and len(state.revisions) == 1


def test_events_do_not_mutate_the_former_state() -> None:
    state = begun()
    before = replace(state)
    after(state, *batch(state), PlanChanged(plan(MORE), 3.0), TunableSettingsChanged(TunableSettings(1, 5, 0.5)))
    assert state == before


def test_failed_query_is_reported_and_stops() -> None:
    state = begun()
    (failing,) = (query for query, planned in state.plan.queries.items() if planned.name == "W")
    state, instructions = after(state, *batch(state, **{failing: "1 / 0"}))
    assert ReportFailure("W", "1 / 0") in instructions
    assert state.failures == {failing: "1 / 0"}
    assert state.decision.reads == {
        lane for lane, lane_manifest in state.revision.manifest.lanes.items() if failing not in lane_manifest.queries
    }


def test_state_of_another_version_is_rebuilt_and_reported_once() -> None:
    manifest = computed(begun()).epoch.manifest
    older = {
        lane_id: msgspec.structs.replace(lane, runs=[{"key of another version": [["run"]]}])
        for lane_id, lane in manifest.lanes.items()
    }
    state = FragmentState(
        plan(),
        msgspec.structs.replace(manifest, lanes=older),
        Published({}, {}),
        BOUNDS,
        BatchSize(100, 10, 1000, 1.0, 3.0),
        FragmentMetrics(0.0),
    )
    state, instructions = after(state, PlanChanged(plan(), 1.0))
    assert sorted(instruction.query for instruction in instructions if isinstance(instruction, ReportRebuild)) == [
        "V",
        "W",
    ]
    _, again = after(state, PlanChanged(plan(), 2.0))
    assert [instruction for instruction in again if isinstance(instruction, ReportRebuild)] == []


def test_bounds_hold_from_the_next_epoch_on() -> None:
    state, instructions = after(begun(), TunableSettingsChanged(TunableSettings(10, 50, 0.5)))
    assert instructions == []
    state, _ = after(state, *batch(state))
    assert (state.batch_size.most, state.batch_size.target_s, state.batch_records) == (50, 0.5, 50)


def test_published_progress_is_updated_at_the_commit() -> None:
    state = begun()
    event = computed(state)
    state, _ = after(state, event)
    source = next(iter(event.epoch.manifest.lanes.values())).places
    (owner, _), *_ = source
    published = Published({}, {(owner, 0): WrittenDeadLetters(7, 3)})
    state, instructions = after(state, EpochCommitted(published, RunLocations({"a": 5}, {"b": 7})))
    assert instructions == []
    assert dead_letters(state) == {"T": 3}
    status = status_after(event.epoch.manifest, event.revision, state)
    assert (status.redis_bytes, status.disk_bytes, status.epoch) == (5, 7, 1)
    assert {lane.frontier for lane in status.lanes.values()} == {100}


def test_query_whose_topic_refused_results_earlier_stops_alone() -> None:
    """In the manifest, its lane is also the lane of other queries."""
    first, _ = after(begun(), *batch(begun()))
    query, other = first.plan.queries
    assert len(first.revision.manifest.lanes) == 1
    again = replace(first, revisions=(), failures={query: "refused"})
    state, _ = after(again, PlanChanged(plan(), 5.0))
    assert {lane.queries for lane in state.revision.manifest.lanes.values()} == {(query,), (other,)}
    assert running_lanes(state.revision, state.failures).keys() == {other}


def test_failed_query_is_retried_after_a_pause() -> None:
    state = begun()
    query, _ = state.plan.queries
    state, _ = after(state, *batch(state, **{query: "too large"}))
    assert state.failures == {query: "too large"}
    catalog, _ = apply_all(SQL, environment=FakeEnvironment({"t": {0: 0}}))
    paused, _ = apply_all("PAUSE VIEW V", catalog)
    resumed, _ = apply_all("RESUME VIEW V", paused)
    for changed in (paused, resumed):
        state, _ = after(state, PlanChanged(plan_fragment(changed, 1), 7.0))
        assert state.failures == {}
    assert query in {name for lane in running_lanes(state.revision, ()).values() for name in lane.queries}


def test_source_wait_is_cleared_once_the_record_is_read() -> None:
    waits = SourceWaits("o1", "T", 0, 7, "schema 3: it is not in the registry")
    state, event = begun(), computed(begun())

    def measured(**fields: object) -> EpochComputed:
        return replace(event, epoch=replace(event.epoch, measured=EpochMeasurements(1, **fields)))  # type: ignore[arg-type]

    state, _ = after(state, measured(waits=(waits,), read={("o1", 0): 7}))
    assert state.waits == {("o1", 0): waits}
    status, shown = status_after(state.revision.manifest, state.revision, state), "waiting for schema 3 at t/0/7: "
    assert status.waits == {"T": f"{shown}it is not in the registry"}
    assert {lane.waits for lane in status.lanes.values()} == {(f"{shown}it is not in the registry",)}
    for read in ({}, {("o1", 0): 7}, {("o1", 1): 9}):
        state, _ = after(state, measured(read=read))
        assert state.waits == {("o1", 0): waits}
    state, _ = after(state, measured(read={("o1", 0): 8}))
    assert state.waits == {}


JOINS = """REGISTER SOURCE T (k INT) FROM t;
CREATE STREAM A OVER T KEY NULL; CREATE STREAM B OVER T KEY NULL; CREATE STREAM C OVER T KEY NULL;
CREATE QUERY Q AS SELECT STREAMED x.k, y.k AS l FROM A [RANGE 5] x, B [RANGE 5] y, C [RANGE 5] z
    WHERE x.k = y.k AND y.k = z.k; ALTER QUERY Q SET (join_order = '3, 2, 1')"""


def test_the_status_of_a_query_says_how_far_its_next_plan_is() -> None:
    state, _ = after(begun(), PlanChanged(plan(JOINS), 2.0))
    (current,) = (query for query, planned in state.plan.queries.items() if planned.next_of is None)
    (following,) = state.plan.queries.keys() - {current}

    def status(state: FragmentState):
        lanes = status_after(state.revision.manifest, state.revision, state).lanes
        assert lanes.keys() == {current}
        return lanes[current]

    assert (status(state).next_plan, status(state).next_id) == ("ready", following)  # nothing was read yet
    failed, _ = after(replace(state, failures={following: "a defect"}), PlanChanged(state.plan, 3.0))
    assert (status(failed).next_plan, status(failed).next_error, status(failed).error) == ("failed", "a defect", None)


def test_trial_runs_only_its_queries_and_others_keep_their_state() -> None:
    """V and W differ in a constant; therefore they are a family."""
    state = begun()
    state, _ = after(state, *batch(state))
    (together,) = state.revision.manifest.lanes.values()
    one, other = together.queries
    on_trial, instructions = after(replace(state, trial=frozenset([other])), PlanChanged(state.plan, 2.0))
    assert [at.queries for at in running_lanes(on_trial.revision, on_trial.stopped_queries).values()] == [(other,)]
    assert on_trial.stopped_queries == {one} and status_after(*begin(on_trial), on_trial).lanes[one].error is None
    on_trial, more = after(on_trial, PlanChanged(plan(MORE), 2.5), *batch(on_trial))
    assert on_trial.stopped_queries == {one, *(plan(MORE).queries.keys() - {one, other})}
    assert not any(isinstance(each, ReportRebuild) for each in (*instructions, *more))
    whole, last = after(replace(on_trial, trial=None), PlanChanged(plan(MORE), 3.0))
    assert whole.stopped_queries == frozenset() and len(running_lanes(whole.revision, ())) == len(whole.revision.lanes)
    assert not any(isinstance(each, ReportRebuild) for each in last)


def test_bounds_hold_from_the_next_batch_on() -> None:
    state, _ = after(begun(), TunableSettingsChanged(TunableSettings(1, 7, 1.0)))
    assert state.batch_records == 7


def begin(state: FragmentState) -> tuple[Manifest, Revision]:
    return state.revision.manifest, state.revision
