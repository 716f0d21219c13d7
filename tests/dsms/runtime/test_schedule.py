"""The decision about the next batch: results are the same under every policy, and each policy serves in its own
order."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsms.measurements.work import VertexMetrics, Work
from dsms.runtime.batching.schedule import BatchDecision, Schedule
from dsms.runtime.lanes.manifest import Queue, Segment
from dsms.runtime.lanes.revision import Revision, revised, running_lanes
from dsms.scheduling.ready import Moment
from dsms.scheduling.registry import parse_policy
from tests.dsms.runtime.test_epoch import LOGS, world_of
from tests.support.fake_environment import FakeEnvironment, apply_all
from tests.support.pure_executor import World, epoch, publish, start

POLICIES = ("fifo", "round_robin", "greedy", "chain", "chain(latency = 3 s)", "weighted_fair")
SQL = "REGISTER SOURCE T (k INT) FROM t; CREATE STREAM S OVER T KEY k; CREATE STREAMED VIEW V AS SELECT k FROM S"
LANE = "o3"


def run(world: World, catalog: object, targets: int, policy: str, budget_s: float, records: int) -> int:
    """Processes all logs under a policy; returns the number of epochs after which elements were waiting."""
    revision, schedule, waited = start(catalog, targets), Schedule(parse_policy(policy)), 0
    for at in range(2_000):
        lanes = running_lanes(revision, ())
        decision = schedule.decide(revision, lanes, Moment(float(at), budget_s), records)
        revision = replace(revision, takes=decision.takes)
        done = epoch(world, revision, decision.records, 2, decision.reads)
        publish(world, done)
        waits = any(lane.queues for lane in done.manifest.lanes.values())
        waited += waits
        if not done.measured.records and not waits and not any(done.measured.behind.values()):
            return waited
        schedule = schedule.after(done, revision, at + 0.5)
        revision = revised(revision.plan, done.manifest, (), revision)
    raise AssertionError("the work never ended")


@given(LOGS, st.integers(1, 3), st.sampled_from(POLICIES), st.sampled_from([1e-6, 1e-3, 1e-2]), st.integers(1, 5))
def test_results_are_the_same_under_every_policy(logs, targets, policy, budget_s, records) -> None:
    outcomes = []
    for name, size in (("fifo", 1000), (policy, records)):
        world, catalog = world_of(logs)
        run(world, catalog, targets, name, budget_s, size)
        outcomes.append((world.written, sorted(map(repr, world.dead))))
    assert outcomes[0] == outcomes[1]


def test_records_above_the_budget_wait() -> None:
    world, catalog = world_of([[("a", number % 3, number, None) for number in range(60)]])
    assert run(world, catalog, 1, "chain", 1e-4, 10) > 3


def revision(segments: tuple[int, ...] = ()) -> Revision:
    """A lane of one query, with segments of these sizes in bytes before its stage."""
    started = start(apply_all(SQL, environment=FakeEnvironment({"t": {0: 0}}))[0], 1)
    lane_manifest = started.manifest.lanes[LANE]
    queue = Queue(
        lane_manifest.positions, [Segment(at, lane_manifest.positions, 1, size) for at, size in enumerate(segments)]
    )
    lanes = {LANE: msgspec.structs.replace(lane_manifest, queues={1: queue} if segments else {})}
    return replace(started, manifest=msgspec.structs.replace(started.manifest, lanes=lanes))


def schedule(policy: str, unread: int = 0, first_us: float = 1.0, second_us: float = 10.0) -> Schedule:
    """A schedule with measurements: records of 100 bytes, a tenth of which is left after the first stage; costs are per
    byte."""
    measured = VertexMetrics(0.0, 0.0)
    first = measured.after(0.0, 0, Work((100_000,), 10_000, round(first_us * 1e8), bytes_in=1_000))
    second = measured.after(0.0, 0, Work((10_000,), 0, round(second_us * 1e7)))
    costs, behind = {(LANE, 0): first, (LANE, 1): second}, {LANE: (unread, 0.0)}
    return Schedule(parse_policy(policy), costs=costs, behind=behind, arrived=dict.fromkeys(range(9), 0.0))


def decided(scheduler: Schedule, current: Revision, budget_s: float = 1.0) -> BatchDecision:
    return scheduler.decide(current, [LANE], Moment(1.0, budget_s), 1_000_000)


def test_under_fifo_all_goes_all_the_way_through() -> None:
    assert decided(schedule("fifo", 10**7), revision()) == BatchDecision({}, frozenset({LANE}), 1_000_000)


def test_input_that_fits_a_batch_passes_all_stages() -> None:
    """2 000 records need 0.2 s to read; then 20 000 bytes are left, which need 0.2 s."""
    decision = decided(schedule("chain", 2_000), revision())
    assert (decision.takes, decision.reads) == ({}, {LANE})


def test_a_batch_reads_no_more_than_can_go_all_the_way_through() -> None:
    """A record needs 100 µs to read, and its ten bytes need 100 µs after that."""
    assert decided(schedule("chain"), revision()).records == pytest.approx(5_000, abs=1)


def test_chain_reads_first_and_lets_the_rest_wait() -> None:
    """The first stage frees 90 bytes in 100 µs, the second stage ten bytes."""
    decision = decided(schedule("chain", 50_000), revision())
    assert (decision.takes, decision.reads) == ({LANE: {1: 0}}, {LANE})
    assert decision.records == pytest.approx(10_000, abs=1)


def test_chain_works_on_what_waits_where_that_frees_more() -> None:
    """Here a byte needs 0.5 µs in the second stage, and 100 000 bytes 0.05 s. A batch of 0.04 s is spent on them."""
    cheap = schedule("chain", 10**6, first_us=100.0, second_us=0.5)
    decision = decided(cheap, revision((50_000, 50_000)), 0.04)
    assert (decision.takes, decision.reads) == ({LANE: {1: 1}}, frozenset())


def test_fifo_works_on_what_waits_before_it_reads() -> None:
    decision = decided(schedule("fifo", 10**6), revision((50_000, 50_000, 50_000)), 1.2)
    assert (decision.takes, decision.reads) == ({LANE: {1: 2}}, frozenset())


def test_at_least_one_segment_is_taken() -> None:
    assert decided(schedule("fifo", 10**6), revision((50_000, 50_000)), 0.01).takes == {LANE: {1: 1}}


def test_round_robin_turns() -> None:
    scheduler = schedule("round_robin", 10**6)
    turned = replace(scheduler, past=replace(scheduler.past, last=(LANE, 0)))
    assert decided(scheduler, revision((10**6,))).takes == {LANE: {1: 0}}
    assert decided(turned, revision((10**6,))).takes == {LANE: {1: 1}}


def test_round_robin_reads_no_more_than_every_other_time_while_something_waits() -> None:
    """No batch has enough time for reading and for waiting elements."""
    world, catalog = world_of([[("a", number % 3, number, None) for number in range(40)]])
    scheduler, at_once = Schedule(parse_policy("round_robin")), 4
    current, turns, left = start(catalog, 1), [], True
    while left:
        decision = scheduler.decide(current, running_lanes(current, ()), Moment(float(len(turns)), 1e-6), at_once)
        done = epoch(world, replace(current, takes=decision.takes), decision.records, 2, decision.reads)
        left = any(done.measured.behind.values())
        turns.append((bool(decision.reads), any(lane.queues for lane in done.manifest.lanes.values())))
        scheduler = scheduler.after(done, replace(current, takes=decision.takes), len(turns) + 0.5)
        current = revised(current.plan, done.manifest, (), current)
    assert all(not (reads and waits and again) for (reads, waits), (again, _) in pairwise(turns[3:])), turns


def test_unmeasured_input_is_processed_in_pieces() -> None:
    scheduler = replace(schedule("chain", 10**9), costs={})
    assert decided(scheduler, revision()) == BatchDecision({LANE: {}}, frozenset({LANE}), 1_000_000)
    assert decided(scheduler, revision((10**9, 10**9))).takes == {LANE: {1: 1}}


def test_unmeasured_stage_takes_empty_segments_too() -> None:
    """Otherwise a queue of empty segments, of which each batch takes one and adds one, would never be empty."""
    scheduler = replace(schedule("chain", 0), costs={})
    takes = {
        sizes: decided(scheduler, revision(sizes)).takes[LANE]
        for sizes in ((0,), (0, 0), (0, 7), (7, 0), (0, 7, 0, 7, 0), (7, 7))
    }
    assert takes == {(0,): {}, (0, 0): {}, (0, 7): {1: 2}, (7, 0): {1: 2}, (0, 7, 0, 7, 0): {1: 3}, (7, 7): {1: 1}}
