"""Assignment of a fragment."""

from __future__ import annotations

from dsms.catalog.leases import Assignment, ExecutorStatus, assign

UP = ExecutorStatus()


def test_it_stays_while_its_executor_lives_and_moves_with_a_new_lease() -> None:
    first = assign(None, {"b": UP, "a": UP})
    assert first == Assignment("a", 1)
    assert assign(first, {"a": UP}) is first
    second = assign(first, {"b": UP})
    assert second == Assignment("b", 2)
    assert assign(second, {"a": UP, "b": UP}) is second
    assert assign(second, {"a": UP}) == Assignment("a", 3)


def test_nobody_lives() -> None:
    assert assign(None, {}) is None
    assert assign(Assignment("a", 4), {}) == Assignment("a", 4)
