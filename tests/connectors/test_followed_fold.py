"""A fold that continues knows the relation at each instant from its floor on, also if changes come late."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.kafka.logs import followed_fold
from connectors.kafka.logs.followed_fold import FollowedFold
from tests.support.message_pieces import piece_of


@dataclass(frozen=True)
class Change:
    """A change of a row; without a row, it removes that of the key, or one copy of the row `k` without keys."""

    at: int
    k: bytes
    v: bytes | None

    def key(self) -> bytes:
        return self.k

    def value(self) -> bytes | None:
        return self.v

    def headers(self) -> list[tuple[str, bytes]]:
        return [("dsms-ts", b"%d" % self.at), ("dsms-op", b"-" if self.v is None else b"u")]


CHANGES = st.builds(Change, st.integers(0, 9), st.sampled_from([b"a", b"b"]), st.none() | st.sampled_from([b"1", b"2"]))
STEPS = st.lists(st.tuples(st.lists(CHANGES, max_size=4), st.integers(0, 9)), max_size=5)


@pytest.mark.parametrize("most", [2, 50_000])
@given(STEPS)
def test_relations_from_the_floor_on_are_known(most: int, steps: list[tuple[list[Change], int]]) -> None:
    fold, waiting, applied, at = FollowedFold(keyed=True, at=-1), list[Change](), list[Change](), -1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(followed_fold, "MAX_UNDONE", most)
        for changes, instant in steps:
            fold.add(piece_of(changes), ("t", 0))
            fold.advance(instant)
            at, waiting = max(at, instant), [*waiting, *changes]
            applied += sorted((each for each in waiting if each.at <= at), key=lambda each: each.at)
            waiting = [each for each in waiting if each.at > at]
            for known in range(max(fold.floor, 0), at + 1):
                assert fold.rows_of({b"a", b"b"}, known) == relation(applied, known)
            assert (fold.at, fold.later, len(fold._undo) <= most) == (at, len(waiting), True)


def relation(applied: list[Change], at: int) -> dict[bytes, bytes]:
    rows: dict[bytes, bytes] = {}
    for change in applied:
        if change.at <= at:
            rows.pop(change.k, None)
            rows |= {} if change.v is None else {change.k: change.v}
    return rows


ROWS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from([b"1", b"2"])), max_size=6)


@given(ROWS, ROWS)
def test_bags_from_the_floor_on_are_known(first: list[tuple[int, bytes]], then: list[tuple[int, bytes]]) -> None:
    fold = FollowedFold(keyed=False, at=-1)
    for rows in (first, then):
        fold.add(piece_of([Change(at, b"", row) for at, row in rows]), ("t", 0))
        fold.advance(3)
    for known in range(max(fold.floor, 0), 4):
        assert fold.bag_at(known) == Counter(row for at, row in first + then if at <= known)
