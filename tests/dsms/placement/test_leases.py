"""Assignment of fragments to executors."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from dsms.placement.leases import STARTING, Assignment, ExecutorStatus, assign

UP, NEW = ExecutorStatus(), ExecutorStatus(STARTING)


def assigned(current: Assignment | None, alive: dict[str, ExecutorStatus], now: int) -> Assignment | None:
    return assign({"0": current} if current else {}, alive, ["0"], now).get("0")


def test_assignment_stays_while_its_executor_lives_and_moves_with_a_new_lease() -> None:
    first = assigned(None, {"b": UP, "a": UP}, 100)
    assert first == Assignment("a", 100)
    assert assigned(first, {"a": UP}, 110) is first
    second = assigned(first, {"b": UP}, 120)
    assert second == Assignment("b", 120)
    assert assigned(second, {"a": UP, "b": UP}, 130) is second
    assert assigned(second, {"a": UP}, 140) == Assignment("a", 140)


def test_a_lease_grows_also_when_the_clock_goes_back() -> None:
    assert assigned(Assignment("b", 120), {"a": UP}, 90) == Assignment("a", 121)


def test_without_executors_nothing_is_assigned() -> None:
    assert assigned(None, {}, 7) is None
    assert assigned(Assignment("a", 4), {}, 7) == Assignment("a", 4)


def test_starting_executor_is_used_only_without_another_one() -> None:
    assert assigned(None, {"a": NEW, "b": UP}, 7) == Assignment("b", 7)
    assert assigned(None, {"a": NEW}, 7) == Assignment("a", 7)
    assert assigned(Assignment("a", 5), {"a": NEW}, 7) == Assignment("a", 5)


def test_a_restarted_executor_gives_way_to_one_that_is_ready() -> None:
    assert assigned(Assignment("a", 5), {"a": NEW, "b": UP}, 7) == Assignment("b", 7)


NAMES = st.sampled_from("abcd")


def test_fragments_with_queries_are_balanced_before_idle_ones() -> None:
    """The first two of four fragments have queries: a new executor gets one of these, then one of the others."""
    current = assign({}, {"a": UP}, [*"0123"], 5, idle="23")
    for now in (6, 7, 8, 9):
        current = assign(current, {"a": UP, "b": UP}, [*"0123"], now, idle="23")
    assert {name: taken.executor for name, taken in current.items()} == {"0": "a", "1": "b", "2": "a", "3": "b"}


@given(
    st.lists(st.frozensets(NAMES), min_size=1, max_size=8), st.integers(1, 6), st.frozensets(st.sampled_from("0123"))
)
def test_fragments_are_run_and_spread_while_executors_come_and_go(
    lives: list[frozenset[str]], count: int, idle: frozenset[str]
) -> None:
    """While an executor is alive, every fragment is assigned, leases only grow, and no fragment moves without need. In
    the end, the numbers of fragments with queries on two executors differ by at most one."""
    fragments = [str(number) for number in range(count)]
    current: dict[str, Assignment] = {}
    for now, names in enumerate(lives):
        alive = dict.fromkeys(sorted(names), UP)
        after = assign(current, alive, fragments, now, idle)
        assert not names or {assignment.executor for assignment in after.values()} <= names
        assert set(after) == (set(fragments) if names or current else set())
        moved = [fragment for fragment, assignment in current.items() if after[fragment] != assignment]
        assert all(after[fragment].lease > current[fragment].lease for fragment in moved)
        needless = [fragment for fragment in moved if current[fragment].executor in names]
        assert len(needless) <= 1
        held = Counter(taken.executor for fragment, taken in current.items() if fragment not in idle)
        for fragment in set(needless) - idle:
            assert held[current[fragment].executor] - held[after[fragment].executor] >= 2
        current = after
    for now in range(len(lives), len(lives) + 2 * count):
        current = assign(current, alive, fragments, now, idle)
    loads = Counter(taken.executor for fragment, taken in current.items() if fragment not in idle)
    shares = [loads[name] for name in alive]
    assert not shares or max(shares) - min(shares) <= 1
    assert assign(current, alive, fragments, 99, idle) == current
