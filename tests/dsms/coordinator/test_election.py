"""In every sequence of calls and failures, at most one candidate leads, and soon one of them leads."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as draw

from connectors.kubernetes import Lease
from connectors.kubernetes.errors import Conflict
from dsms.coordinator.election.candidate import Candidate, Timing
from dsms.coordinator.election.leadership import Leadership
from operators.core.errors import ConfigError, ExternalError

TIMING = Timing(6, 4.0, 1.0)


class Shared:
    """A lease, stored as by the API server."""

    def __init__(self, lease: Lease | None = None) -> None:
        self.lease = lease
        self.writes = 0
        self.trouble = ""

    def read(self) -> Lease | None:
        if self.trouble == "unreachable":
            raise ExternalError("no answer")
        return self.lease

    def write(self, lease: Lease) -> Lease:
        if self.trouble == "unreachable":
            raise ExternalError("no answer")
        if lease.version != (self.lease.version if self.lease else None):
            raise Conflict("another was faster")
        self.writes += 1
        self.lease = replace(lease, version=str(self.writes))
        if self.trouble == "answer lost":
            raise ExternalError("no answer")
        return self.lease


class Actor:
    """A candidate with its own clock. Its calls take time, during which others act."""

    def __init__(self, name: str, offset: float) -> None:
        self.candidate, self.offset = Candidate(name, TIMING), offset
        self.pending: tuple[Lease, float] | None = None

    def read(self, store: Shared, now: float) -> None:
        self.candidate = self.candidate.after_read(store.lease, now + self.offset)
        began = now + self.offset
        wanted = self.candidate.lease_to_write(began)
        self.pending = (wanted, began) if wanted else None

    def write(self, store: Shared, answered: bool) -> None:
        if self.pending is None:
            return
        (wanted, began), self.pending = self.pending, None
        try:
            written = store.write(wanted)
        except Conflict:
            return
        if answered:
            self.candidate = self.candidate.after_write(written, began)

    def leads(self, now: float) -> bool:
        return self.candidate.leads(now + self.offset)


VERBS, PAUSES = draw.sampled_from(["both", "read", "write", "unanswered"]), draw.sampled_from([0, 0.5, 1, 3, 6.5])
STEPS = draw.lists(draw.tuples(draw.integers(0, 2), VERBS, PAUSES), min_size=40, max_size=80)


@settings(max_examples=max(400, settings.default.max_examples))
@given(STEPS, draw.lists(draw.floats(-1e6, 1e6), min_size=3, max_size=3))
def test_at_most_one_leads(steps: list[tuple[int, str, float]], offsets: list[float]):
    """Three candidates with different clocks read and write in any order, with any pauses between the calls."""
    store, now = Shared(), 0.0
    actors = [Actor(f"c{number}", offset) for number, offset in enumerate(offsets)]
    for number, verb, pause in steps:
        now += pause
        if verb in ("both", "read"):
            actors[number].read(store, now)
        if verb != "read":
            actors[number].write(store, answered=verb != "unanswered")
        assert sum(actor.leads(now) for actor in actors) <= 1


@given(draw.lists(draw.integers(0, 2), min_size=30, max_size=60))
def test_a_candidate_leads_once_the_lease_has_ended(order: list[int]):
    """If candidates take turns without pauses longer than the lease, there is a leader when the lease has ended."""
    store, now = Shared(Lease("gone", 6, 4, "0")), 0.0
    actors = [Actor(f"c{number}", 0.0) for number in range(3)]
    for number in order:
        for actor in (actors[number], *actors):
            actor.read(store, now)
            actor.write(store, answered=True)
        assert now <= 6 or any(actor.leads(now) for actor in actors)
        now += 1.0
    assert store.lease is not None
    assert store.lease.transitions == 5


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def leadership(store: Shared, clock: Clock, name: str = "a") -> tuple[Leadership, list[str]]:
    lost: list[str] = []
    return Leadership(store, Candidate(name, TIMING), lost.append, clock), lost


def test_a_free_lease_is_taken_at_once_and_kept():
    store, clock = Shared(Lease(version="x")), Clock()
    store.writes, store.lease = 0, Lease(version="0")
    leader, lost = leadership(store, clock)
    for _ in range(10):
        leader.turn()
        clock.now += 1.0
    assert leader.leading.is_set()
    assert not lost
    assert store.lease == Lease("a", 6, 1, "10")


def test_a_leader_that_cannot_renew_ends_before_another_may_begin():
    store, clock = Shared(), Clock()
    leader, lost = leadership(store, clock)
    other, _ = leadership(store, clock, "b")
    leader.turn()
    other.turn()
    began, store.trouble = clock.now, "unreachable"
    while not lost:
        clock.now += 0.5
        leader.turn()
    assert clock.now - began == 4.0
    store.trouble = ""
    while not other.leading.is_set():
        other.turn()
        clock.now += 0.5
    assert 6.0 <= clock.now - began <= 7.0


def test_a_leader_whose_call_hangs_ends_in_time():
    """The election loop hangs in a call. The guard in another thread still ends the leadership."""
    clock, hanging, ended, lost = Clock(), threading.Event(), threading.Event(), threading.Event()

    class Hanging(Shared):
        def read(self) -> Lease | None:
            if self.writes:
                hanging.set()
                ended.wait(20)
            return super().read()

    leader = Leadership(Hanging(), Candidate("a", Timing(6, 4.0, 0.01)), lambda _: lost.set(), clock)
    loop = threading.Thread(target=leader.run, args=(ended,))
    loop.start()
    assert hanging.wait(20)
    assert not lost.is_set()
    clock.now += 4.0
    assert lost.wait(20)
    ended.set()
    loop.join()


def test_candidate_with_a_lost_answer_leads_only_after_it_reads_its_lease():
    store, clock = Shared(), Clock()
    candidate, lost = leadership(store, clock)
    store.trouble = "answer lost"
    candidate.turn()
    store.trouble = ""
    assert store.lease is not None
    assert store.lease.holder == "a"
    assert not candidate.leading.is_set()
    clock.now += 1.0
    candidate.turn()
    assert candidate.leading.is_set()
    assert not lost
    assert store.lease.transitions == 1


def test_a_leader_that_ends_in_order_frees_the_lease():
    store, clock = Shared(), Clock()
    leader, lost = leadership(store, clock)
    ended = threading.Event()
    leader.turn()
    ended.set()
    leader.run(ended)
    other, _ = leadership(store, clock, "b")
    other.turn()
    assert other.leading.is_set()
    assert not lost


def test_a_leader_whose_lease_was_taken_ends():
    store, clock = Shared(), Clock()
    leader, lost = leadership(store, clock)
    leader.turn()
    store.lease = Lease("thief", 6, 9, "77")
    leader.turn()
    assert lost == ["the lease is held by thief"]


@pytest.mark.parametrize("wrong", [(4, 4.0, 1.0), (6, 1.0, 1.0), (6, 4.0, 0.0)])
def test_times_that_would_allow_two_leaders_are_refused(wrong: tuple[int, float, float]):
    with pytest.raises(ConfigError):
        Timing(*wrong)
