"""What the scheduler has measured survives the process: a fragment that starts again decides as before."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from dsms.runtime.fragment.metadata import FORMAT, MOST_GROUPS, Metadata, read_metadata, with_metadata
from dsms.runtime.fragment.state import FragmentState
from dsms.runtime.shedding.costs import Costs
from dsms.runtime.shedding.load_shedding import Shedding
from dsms.scheduling.tuning import TunableSettings
from dsms.shedding.observed_input import ObservedInput
from dsms.shedding.rates import SheddingDecision
from operators.core.decoding import Malformed
from operators.streams.shed import Spread
from tests.dsms.runtime.test_epoch import message
from tests.support.fake_environment import FakeEnvironment, apply_all
from tests.support.pure_executor import World
from tests.support.timed_fragment import TimedFragment, fixed

SQL = """REGISTER SOURCE T (k VARCHAR, v INT) FROM t; CREATE STREAM S OVER T KEY NULL;
CREATE QUERY Few WITH (shared = false, weight = 3) AS SELECT k, v FROM R(S) WHERE v > 8;
CREATE QUERY Counts WITH (shared = false) AS SELECT k, COUNT(*) AS n FROM R(S) GROUP BY k;
CREATE QUERY Pairs WITH (shared = false) AS SELECT v, COUNT(*) AS n FROM (SELECT k, v FROM R(S) GROUP BY k, v) g
GROUP BY v;
"""
POLICIES = ("chain", "chain(latency = 3 s)", "greedy", "round_robin", "weighted_fair")
#: Seconds for a record that is read, and for a byte of a later stage.
COSTS = fixed({("Few", 0): 2e-4, ("Few", 1): 1e-5, ("Counts", 0): 5e-4, ("Pairs", 0): 3e-4, ("Pairs", 1): 2e-6}, 4e-6)
BEFORE, AFTER = 12, 10


def fragment(policy: str, records: int = 6_000) -> TimedFragment:
    log = [message(at, ("abcdefghij"[at * 7 % 10], at * 13 % 11, at, None)) for at in range(records)]
    catalog, _ = apply_all(SQL, environment=FakeEnvironment({"t": {0: 0}}))
    found = TimedFragment(World({"t": {0: log}}), catalog, TunableSettings(1, 100_000, 0.05, policy), COSTS)
    found.start()
    return found


@pytest.mark.parametrize("policy", POLICIES)
def test_after_a_kill_the_order_of_service_is_that_of_an_undisturbed_run(policy: str) -> None:
    whole, killed = fragment(policy), fragment(policy)
    whole.run(BEFORE + AFTER)
    killed.run(BEFORE)
    assert all(killed.behind.values()), "the fragment is overloaded"
    killed.begun = killed.now - 7.0  # another process, whose clock began elsewhere
    killed.start()
    killed.run(AFTER)
    assert killed.decisions == whole.decisions
    assert killed.world.written == whole.world.written


def test_without_the_metadata_the_order_differs_but_no_result() -> None:
    whole, killed = fragment("chain", 600), fragment("chain", 600)
    whole.run(BEFORE + AFTER)
    killed.run(BEFORE)
    killed.start(with_stored_metadata=False)
    killed.run(AFTER)
    assert killed.decisions[BEFORE:] != whole.decisions[BEFORE:]
    for each in (whole, killed):
        each.run_to_the_end()
    assert killed.world.written == whole.world.written and whole.world.written


def test_ages_include_the_time_in_which_nothing_ran() -> None:
    killed = fragment("chain")
    killed.run(3)
    since = {lane: at + killed.begun for lane, (_, at) in killed.state.schedule.behind.items()}
    killed.now += 60.0
    killed.begun = killed.now - 2.0
    killed.start()
    again = {lane: at + killed.begun for lane, (_, at) in killed.state.schedule.behind.items()}
    assert again == pytest.approx(since)


def test_no_time_is_later_than_the_start_if_another_host_was_ahead() -> None:
    stored = Metadata.of(observed(fragment("chain")), epoch_s=0.0)
    late = Metadata.of(with_metadata(fragment("chain").state, stored, at=10.0, epoch_s=0.0), epoch_s=0.0)
    times = [cost.measured.at for cost in late.costs] + [at for _, at in late.behind.values()]
    assert max([*times, *late.arrived.values(), late.shedding.planned]) == 10.0


def test_unread_records_are_those_of_this_manifest_or_an_older_one() -> None:
    """With a newer manifest they may have been read since."""
    state = observed(fragment("chain"))
    stored = Metadata.of(state, 0.0)
    for epoch, known in ((0, True), (stored.epoch, True), (stored.epoch + 1, False)):
        computed = msgspec.structs.replace(state.computed, epoch=epoch)
        assert bool(with_metadata(replace(state, computed=computed), stored, 2e3, 0.0).schedule.behind) == known


def test_a_document_has_all_measurements_but_no_rates() -> None:
    state = observed(fragment("weighted_fair"))
    read = read_metadata(Metadata.of(state, 5.0).encode())
    again = with_metadata(fragment("weighted_fair").state, read, 1e4, 5.0)
    for name in ("past", "behind", "arrived"):
        assert getattr(again.schedule, name) == getattr(state.schedule, name), name
    for lane_stage, measured in state.schedule.costs.items():
        assert msgspec.structs.astuple(again.schedule.costs[lane_stage])[2:] == msgspec.structs.astuple(measured)[2:]
    assert again.shedding == replace(state.shedding, decision=SheddingDecision({}))


def test_many_groups_are_measured_again() -> None:
    state = observed(fragment("chain"))
    groups = {number: Spread(1.0) for number in range(MOST_GROUPS + 1)}
    more = replace(state.shedding, observed={"q": ObservedInput(1.0, 9, 9, groups=groups)})
    (kept,) = Metadata.of(replace(state, shedding=more), 0.0).shedding.observed.values()
    assert (kept.total, kept.groups) == (9, {})


def observed(started: TimedFragment) -> FragmentState:
    """The state of a fragment after some batches, with measurements of the load shedder."""
    started.run(5)
    costs = Costs(2).after(1.0, 0.5, (10, 0.2), {"q": (0.1, 10, 5)})
    seen = ObservedInput(1_000.5, 10, 5, groups={-3: Spread(5.0, ((1.0, 2.0),))})
    shedding = Shedding(1_000.25, 7, 3.5, costs, {"q": seen}, SheddingDecision({"q": 0.5}), 100, 1.5, 2.0)
    return replace(started.state, shedding=shedding)


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "other format", "no document"])
def test_a_document_that_cannot_be_read_is_refused(damage: str) -> None:
    whole = Metadata.of(observed(fragment("chain")), 0.0)
    other = msgspec.structs.replace(whole, format=FORMAT + 1).encode()
    body = whole.encode()
    flipped = body[:50] + bytes([body[50] ^ 1]) + body[51:]
    bodies = {"cut": body[:-9], "flipped": flipped, "empty": b"", "other format": other, "no document": b"\0\0\0\0"}
    with pytest.raises(Malformed):
        read_metadata(bodies[damage])


def test_no_batch_is_larger_than_the_setting_allows() -> None:
    """Batches are made smaller when workers die of large ones; what was measured before must not undo that."""
    started = fragment("chain")
    started.run(3)
    smaller = TunableSettings(1, 20, 0.05, "chain")
    restarted = replace(started, tunable=smaller)
    restarted.start()
    restarted.run(3)
    assert max(decision.records for decision in restarted.decisions[3:]) <= 20
