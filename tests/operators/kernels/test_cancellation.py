"""Merging frames keeps the relation of all elements; the oracle is a plain count."""

from __future__ import annotations

from collections import Counter

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import operators.kernels.cancellation
from operators.core.delta import FOREVER, FROM, ORDER, TO, WEIGHT, Delta
from operators.core.run import HASH
from operators.kernels.cancellation import cancel_retractions, merged_places
from operators.state.trace import merge_consolidated
from tests.support.strategies import examples

ROW = st.tuples(st.sampled_from([None, "a", "b"]), st.sampled_from([0.0, -0.0, float("nan"), None, 1.5]))
#: Frames of (row, weight, whether it ends soon).
FRAMES = st.lists(
    st.lists(st.tuples(ROW, st.sampled_from([1, 1, 2, -1, -2]), st.integers(0, 1)), max_size=8), min_size=1, max_size=4
)
SCHEMA = {"k": pl.String, "f": pl.Float64, **dict.fromkeys((FROM, TO, WEIGHT, ORDER), pl.Int64), HASH: pl.UInt64}


def frame_of(rows: list, hashes: dict, first: int) -> pl.DataFrame:
    listed = [
        (*row, 5, 9 if soon else FOREVER, weight, first + at, hashes[row[0]])
        for at, (row, weight, soon) in enumerate(rows)
    ]
    return pl.DataFrame(listed, schema=SCHEMA, orient="row").sort(HASH, maintain_order=True)


def counted(rows: list[tuple]) -> dict[str, tuple[int, int]]:
    """For each row and end the sum of weights and the greatest order; 0.0 equals -0.0."""
    weights: Counter = Counter()
    orders: dict = {}
    for k, f, start, end, weight, order in rows:
        name = repr((k, None if f is None else f + 0.0, start, end))
        weights[name] += weight
        orders[name] = max(order, orders.get(name, order))
    return {name: (weight, orders[name]) for name, weight in weights.items() if weight}


@example([[(("a", 1.5), 1, 0)], [(("a", 1.5), -1, 0)], [(("a", 1.5), 1, 0)]], 3, 100)
@example([[(("a", 0.0), -2, 0), (("a", -0.0), 2, 0)]], 3, 1)
@settings(max_examples=examples(50))
@given(FRAMES, st.integers(1, 3), st.sampled_from([1, 2, 100]))
def test_retractions_cancel_insertions_of_other_frames(frames, spread, at_once) -> None:
    """There are few hashes, so that different keys collide."""
    hashes = {key: number % spread for number, key in enumerate((None, "a", "b"))}
    parts = [frame_of(rows, hashes, 100 * number) for number, rows in enumerate(frames)]
    everything = [row[:-1] for part in parts for row in part.rows()]
    order, merged = merged_places([part[HASH].to_numpy() for part in parts])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operators.kernels.cancellation, "PAIRS_AT_ONCE", at_once)
        cancelled = cancel_retractions(pl.concat(parts), order, merged, ["k"])
    for result in (cancelled, merge_consolidated(parts, ["k"])):
        if result is not None:
            assert result[HASH].is_sorted()
            assert counted([row[:-1] for row in result.rows()]) == counted(everything)
    if cancelled is not None:
        left = [row[:-1] for row in cancelled.rows()]
        equal = Counter(repr((k, None if f is None else f + 0.0, end)) for k, f, _, end, _, _ in left)
        taken = [repr((k, None if f is None else f + 0.0, end)) for k, f, _, end, weight, _ in left if weight < 0]
        assert all(equal[name] == 1 for name in taken)


def test_many_rows_of_one_hash_are_not_compared_in_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(("a", float(at)), 1, 0) for at in range(100)] + [(("a", float(at)), -1, 0) for at in range(50)]
    part = frame_of(rows, {"a": 7}, 0)
    order, hashes = merged_places([part[HASH].to_numpy()])
    assert cancel_retractions(part, order, hashes, ["k"]) is None
    assert sorted(merge_consolidated([part], ["k"])["f"].to_list()) == [float(at) for at in range(50, 100)]
    monkeypatch.setattr(operators.kernels.cancellation, "MAX_PAIRS_PER_ROW", 100)
    cancelled = cancel_retractions(part, order, hashes, ["k"])
    assert cancelled is not None and cancelled.height == 50


def test_places_of_several_sorted_columns() -> None:
    order, union = merged_places([np.array([1, 3, 3]), np.array([0, 3]), np.array([2])])
    assert (order.tolist(), union.tolist()) == ([3, 0, 5, 1, 2, 4], [0, 1, 2, 3, 3, 3])


@given(st.lists(st.tuples(ROW, st.sampled_from([1, -1, 0]), st.integers(0, 1)), max_size=6))
def test_consolidation_with_and_without_repeats(rows) -> None:
    delta = Delta(frame_of(rows, {None: 0, "a": 0, "b": 0}, 0).drop(HASH))
    consolidated = delta.consolidate().frame.rows()
    assert counted(consolidated) == counted(delta.frame.rows())
    assert len(consolidated) == len(counted(consolidated))
