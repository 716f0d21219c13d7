"""Frames of few rows: DuckDB's values at every instant, and the same corrections as from whole partitions."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.core.delta import FROM, WEIGHT
from operators.core.sort_key import SortKey
from operators.ranking import over
from operators.ranking.over import Over
from operators.ranking.over_reach import reach_of
from tests.operators.window_histories import CUTS, LIVES, SEEDS, changes, output, run_moves
from tests.operators.window_oracle import DOUBLE, INT, ORDERS, assert_duckdbs_values, window_calls
from tests.support.strategies import examples

KINDS = {"sum": INT, "count": INT, "avg": DOUBLE, "min": INT, "max": INT, "first_value": INT, "last_value": INT}
BOUNDS = st.sampled_from([(-2, 0), (-1, 0), (0, 0), (-1, 1), (0, 2), (1, 2), (-2, -1), (-3, 0)])
FRAMED = st.builds(
    lambda name, ends: (name, ("v",), KINDS[name], "rows", *ends, ()), st.sampled_from(list(KINDS)), BOUNDS
)
SHIFTED = st.builds(
    lambda name, given: (name, ("v",), INT, "rows", None, None, given),
    st.sampled_from(["lag", "lead"]),
    st.sampled_from([(), (2,), (1, 7), (0,)]),
)
NEAR = st.builds(
    lambda order, listed: [(name, given, kind, order, *rest) for name, given, kind, *rest in listed],
    ORDERS,
    st.lists(st.one_of(FRAMED, SHIFTED), min_size=1, max_size=3),
)


@settings(max_examples=examples(50), deadline=None)
@given(LIVES, NEAR, st.sampled_from([(), ("k",)]), CUTS, SEEDS)
def test_values_equal_duckdb_at_every_instant(rows, listed, partition, cuts, seed) -> None:
    calls = window_calls(listed, partition)
    assert reach_of(calls) is not None
    assert_duckdbs_values(calls, rows, cuts, seed)


@settings(max_examples=examples(40), deadline=None)
@given(LIVES, NEAR, CUTS)
def test_the_corrections_are_those_of_whole_partitions(rows, listed, cuts) -> None:
    calls, delta = window_calls(listed, ("k",)), changes(rows)
    near = _corrections(calls, delta, cuts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(over, "reach_of", lambda _: None)
        assert _corrections(calls, delta, cuts) == near


def _corrections(calls, delta, cuts) -> Counter:
    corrections = output(run_moves(Over(calls), delta, cuts))
    names = ["k", "v", *(call.name for call in calls), FROM, WEIGHT]
    return Counter(corrections.select(names).rows())


@pytest.mark.parametrize("changed", [0, 50, 99])
def test_rows_outside_the_frames_of_a_change_are_not_computed(monkeypatch, changed) -> None:
    """One change among 100 rows, with frames of two preceding rows: five rows are computed in each of two phases."""
    calls = window_calls([("sum", ("v",), INT, (SortKey("v"),), "rows", -2, 0, ())], ())
    rows = [("a", 10 * place, 0, None, 1) for place in range(100)]
    sizes, original = [], over.window_values
    monkeypatch.setattr(over, "window_values", lambda frames: sizes.append(len(frames.lows)) or original(frames))
    run_moves(Over(calls), changes([*rows, ("a", 10 * changed + 5, 5, None, 1)]), [4])
    assert sizes[-1] <= 10
