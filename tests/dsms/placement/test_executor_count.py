"""The number of executors follows the load, and does not change without a benefit."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from dsms.placement.executor_count import ExecutorLoad, History, Scaling, desired_count

SCALING = Scaling(1, 6, up_s=10, down_s=60)
#: The records a second that one executor can read, the seconds to start one, and the seconds between two decisions.
CAPACITY, START_S, LOOK_S = 100.0, 8.0, 2.0


@dataclass
class World:
    """Executors that start and end as requested, and records that wait for them."""

    fragments: int
    asked: int = 1
    alive: int = 1
    waiting: float = 0.0
    now: float = 0.0
    past: History = field(default_factory=History)
    #: The requested numbers, with their times.
    changes: list[tuple[float, int]] = field(default_factory=list)
    _starts: list[float] = field(default_factory=list)

    def run(self, seconds: float, arriving: float) -> World:
        """Lets records arrive at a rate for some seconds."""
        until = self.now + seconds
        while self.now < until:
            self._look(arriving)
        return self

    def _look(self, arriving: float) -> None:
        self.now += LOOK_S
        started = [at for at in self._starts if at <= self.now]
        self._starts = [at for at in self._starts if at > self.now]
        self.alive += len(started)
        read = min(self.waiting / LOOK_S + arriving, CAPACITY * min(self.alive, self.fragments))
        self.waiting = max(self.waiting + (arriving - read) * LOOK_S, 0.0)
        behind = self.waiting > CAPACITY
        pace = "caught up" if not behind else "behind" if read <= arriving else "catching up"
        load = ExecutorLoad(self.asked, self.alive, self.fragments, pace, arriving)
        count, self.past = desired_count(load, SCALING, self.past, self.now)
        if count != self.asked:
            self._ask(count)

    def _ask(self, count: int) -> None:
        self.changes.append((self.now, count))
        self._starts += [self.now + START_S] * max(count - self.asked, 0)
        self.alive = min(self.alive, count)
        self.asked = count


def counts(world: World) -> list[int]:
    return [count for _, count in world.changes]


def test_executors_come_with_the_load_and_go_with_it() -> None:
    world = World(fragments=8).run(300, arriving=350).run(900, arriving=20)
    assert counts(world) == [2, 4, 3, 4, 3, 2, 1]  # three are tried once but do not suffice


def test_a_steady_load_is_tried_with_fewer_executors_once() -> None:
    """Three executors suffice, which is known after three were tried; two fell behind before."""
    world = World(fragments=8).run(7200, arriving=250)
    assert counts(world) == [2, 4, 3]


def test_executors_are_at_most_the_fragments_and_the_maximum() -> None:
    assert counts(World(fragments=3).run(600, arriving=900)) == [2, 3]
    assert counts(World(fragments=20).run(600, arriving=900)) == [2, 4, 6]


def test_a_burst_shorter_than_the_patience_changes_nothing() -> None:
    assert counts(World(fragments=8).run(6, arriving=500).run(600, arriving=10)) == []


def test_a_number_outside_of_the_bounds_is_brought_within() -> None:
    assert desired_count(ExecutorLoad(9, 9, 9, "caught up", arriving=0.0), SCALING, History(), 0.0)[0] == 6
    assert desired_count(ExecutorLoad(0, 0, 9, "caught up", arriving=0.0), SCALING, History(), 0.0)[0] == 1


def test_executor_count_stays_while_executors_start() -> None:
    past = History("behind", since=0.0)
    count, after = desired_count(ExecutorLoad(2, 1, 9, "behind", arriving=900.0), SCALING, past, 100.0)
    assert (count, after.since) == (2, None)


def test_executor_that_never_starts_does_not_prevent_scaling_down() -> None:
    past = History("caught up", since=0.0)
    assert desired_count(ExecutorLoad(4, 3, 9, "caught up", arriving=0.0), SCALING, past, 100.0)[0] == 3


def test_measurements_of_other_queries_and_old_ones_are_forgotten() -> None:
    past = History("caught up", 0.0, 0.0, {1: (10.0, 0.0)}, frozenset("a"))
    load = ExecutorLoad(2, 2, 9, "caught up", 9.0, frozenset("a"))
    assert desired_count(load, SCALING, past, 100.0)[0] == 2
    assert desired_count(replace(load, queries=frozenset("b")), SCALING, past, 100.0)[0] == 1
    assert desired_count(load, SCALING, past, 100_000.0)[0] == 1


def test_pause_between_batches_does_not_count_as_catching_up() -> None:
    past, load = History(), ExecutorLoad(1, 1, 9, "behind", 900.0)
    asked = []
    for now in range(0, 12, 2):
        count, past = desired_count(
            replace(load, pace="catching up" if now == 6 else "behind"), SCALING, past, float(now)
        )
        asked.append(count)
    assert asked == [1, 1, 1, 1, 1, 2]


def test_no_executor_is_removed_while_queries_catch_up() -> None:
    world = World(fragments=8, asked=4, alive=4, waiting=50_000)
    assert counts(world.run(300, arriving=250)) == []


@given(st.integers(1, 10), st.lists(st.integers(0, 800), min_size=1, max_size=4))
def test_any_load_is_followed_within_bounds_without_swinging(fragments: int, rates: list[int]) -> None:
    """Each rate continues until all records are read and then for an hour. In the second half of the hour, the number
    of executors is constant, and it suffices if any number does."""
    world = World(fragments)
    for rate in rates:
        while world.run(1800, rate).waiting > 0 and rate < CAPACITY * min(SCALING.most, fragments):
            assert world.now < 10**6, world.changes
        world.run(1800, rate)
        changed = len(world.changes)
        world.run(1800, rate)
        assert len(world.changes) == changed, world.changes
        most = min(SCALING.most, fragments)
        assert rate <= CAPACITY * world.asked or world.asked == most, (rate, world.changes)
