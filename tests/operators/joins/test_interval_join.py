"""IntervalJoin: the pairs of points and intervals, or of intervals that overlap; few other pairs are formed."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import operators.joins.join
import operators.state.trace
from operators.core.delta import FOREVER, FROM, ORDER, TO, WEIGHT, Delta
from operators.core.operator import Move
from operators.joins.band_range import Band
from operators.joins.interval_join import IntervalJoin
from tests.operators.join_histories import CUTS, check_laws, delta_of, intervals
from tests.operators.joins.test_band_join import constant_hash, in_band, joined
from tests.support.strategies import examples

KEY, VALUE = st.sampled_from([None, "a", "b"]), st.one_of(st.none(), st.integers(-3, 6))
SPANS = intervals(st.tuples(KEY, VALUE, VALUE))
LEFT_SCHEMA = {"k": pl.String, "x": pl.Int64, "x2": pl.Int64}
RIGHT_SCHEMA = {"k2": pl.String, "begins": pl.Int64, "ends": pl.Int64}
BOUND, OPEN = st.integers(-2, 2), st.booleans()
LOW = st.builds(lambda bound, open_: Band("x", "begins", low=bound, low_open=open_), BOUND, OPEN)
HIGH = st.builds(
    lambda name, bound, open_: Band(name, "ends", high=bound, high_open=open_),
    st.sampled_from(["x", "x2"]), BOUND, OPEN,
)  # fmt: skip


def near(row, other, low: Band, high: Band) -> bool:
    return in_band(low, row[1], other[1]) and in_band(high, row[1 if high.left == "x" else 2], other[2])


@settings(max_examples=examples(50))
@given(SPANS, SPANS, CUTS, LOW, HIGH, st.booleans())
def test_pairs_at_every_instant(left, right, cuts, low, high, nulls_equal) -> None:
    def same(row, other) -> bool:
        return row[0] == other[0] and (nulls_equal or row[0] is not None) and near(row, other, low, high)

    inputs = delta_of(left, LEFT_SCHEMA), delta_of(right, RIGHT_SCHEMA)
    join = IntervalJoin(("k",), ("k2",), nulls_equal, low=low, high=high)
    check_laws(join, inputs, cuts, joined(left, right, same))


@settings(max_examples=examples(50))
@given(SPANS, SPANS, CUTS, LOW, HIGH)
def test_without_keys(left, right, cuts, low, high) -> None:
    inputs = delta_of(left, LEFT_SCHEMA), delta_of(right, RIGHT_SCHEMA)
    expected = joined(left, right, lambda row, other: near(row, other, low, high))
    check_laws(IntervalJoin((), (), low=low, high=high), inputs, cuts, expected)


@settings(max_examples=examples(30))
@given(SPANS, SPANS, CUTS, LOW, HIGH)
def test_hashes_that_collide_do_not_pair_rows(left, right, cuts, low, high) -> None:
    def same(row, other) -> bool:
        return row[0] is not None and row[0] == other[0] and near(row, other, low, high)

    inputs = delta_of(left, LEFT_SCHEMA), delta_of(right, RIGHT_SCHEMA)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operators.state.trace, "key_hash", lambda frame, keys: constant_hash(frame))
        check_laws(IntervalJoin(("k",), ("k2",), low=low, high=high), inputs, cuts, joined(left, right, same))


def of_columns(columns: dict[str, np.ndarray]) -> Delta:
    size = len(next(iter(columns.values())))
    ends = {TO: [FOREVER] * size, WEIGHT: [1] * size, ORDER: list(range(size))}
    return Delta(pl.DataFrame({**columns, FROM: [1] * size, **ends}))


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("points_first", [False, True])
def test_disjoint_intervals_are_compared_only_with_points_they_contain(keyed, points_first, monkeypatch) -> None:
    """Ten thousand intervals, as of addresses or prices: a point is compared with at most one of each run."""
    looked_at: list[int] = []
    met = operators.joins.join.paired_elements

    def counted(*parts):
        sides = met(*parts)
        looked_at.append(0 if sides is None else sides[0].height)
        return sides

    monkeypatch.setattr(operators.joins.join, "paired_elements", counted)
    count, keys = 10_000, (("k",), ("k2",)) if keyed else ((), ())
    begins = np.arange(count) * 10
    spans = of_columns({"k2": np.arange(count) % 3, "begins": begins, "ends": begins + 9})
    points = of_columns({"k": np.arange(500) % 3, "x": np.arange(500) * 190 + 4})
    join = IntervalJoin(*keys, low=Band("x", "begins", low=0), high=Band("x", "ends", high=0))
    traces, pairs = join.traces(), 0
    none = Delta(points.frame.clear()), Delta(spans.frame.clear())
    for left, right in ((points, none[1]), (none[0], spans))[:: 1 if points_first else -1]:
        step = join.step(left, right, traces, Move(0, 9))
        traces, pairs = step.traces, pairs + len(step.delta)
    assert pairs == sum(looked_at) == sum((at % 3 == (at * 19) % 3) or not keyed for at in range(500))
