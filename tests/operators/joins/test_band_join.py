"""BandJoin: the pairs of a join that are in a band; no other pairs are formed."""

from __future__ import annotations

from collections import Counter

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import operators.joins.join
import operators.state.trace
from operators.core.delta import FOREVER, FROM, ORDER, TO, WEIGHT, Delta
from operators.core.operator import Move
from operators.joins.band_join import BandJoin
from operators.joins.band_range import Band
from tests.operators.join_histories import CUTS, check_laws, delta_of, intervals
from tests.support.strategies import examples

KEY, VALUE = st.sampled_from([None, "a", "b"]), st.one_of(st.none(), st.integers(-3, 6))
LEFT, RIGHT = intervals(st.tuples(KEY, VALUE)), intervals(st.tuples(VALUE, KEY))
LEFT_SCHEMA, RIGHT_SCHEMA = {"k": pl.String, "x": pl.Int64}, {"y": pl.Int64, "k2": pl.String}
END = st.one_of(st.none(), st.integers(-3, 4))
BANDS = st.builds(Band, st.just("x"), st.just("y"), END, END, st.booleans(), st.booleans())


def joined(left, right, same):
    """The relation of the join by definition: all pairs of elements, at an instant."""

    def at_instant(at: int) -> Counter:
        bag: Counter = Counter()
        for row, start, end, weight in left:
            for other, other_start, other_end, other_weight in right:
                if start <= at < end and other_start <= at < other_end and same(row, other):
                    bag[repr((*row, *other))] += weight * other_weight
        return +bag

    return at_instant


def in_band(band: Band, x: int | None, y: int | None) -> bool:
    if x is None or y is None:
        return False
    low, high = band.low, band.high
    above = low is None or x - y > low or (x - y == low and not band.low_open)
    return above and (high is None or x - y < high or (x - y == high and not band.high_open))


@settings(max_examples=examples(50))
@given(LEFT, RIGHT, CUTS, BANDS, st.booleans())
def test_pairs_in_the_band_at_every_instant(left, right, cuts, band, nulls_equal) -> None:
    def same(row, other) -> bool:
        return row[0] == other[1] and (nulls_equal or row[0] is not None) and in_band(band, row[1], other[0])

    inputs = delta_of(left, LEFT_SCHEMA), delta_of(right, RIGHT_SCHEMA)
    check_laws(BandJoin(("k",), ("k2",), nulls_equal, band=band), inputs, cuts, joined(left, right, same))


@settings(max_examples=examples(50))
@given(LEFT, RIGHT, CUTS, BANDS)
def test_without_keys(left, right, cuts, band) -> None:
    inputs = delta_of(left, LEFT_SCHEMA), delta_of(right, RIGHT_SCHEMA)
    expected = joined(left, right, lambda row, other: in_band(band, row[1], other[0]))
    check_laws(BandJoin((), (), band=band), inputs, cuts, expected)


@settings(max_examples=examples(50))
@given(LEFT, RIGHT, CUTS, BANDS)
def test_hashes_that_collide_do_not_pair_rows(left, right, cuts, band) -> None:
    def same(row, other) -> bool:
        return row[0] is not None and row[0] == other[1] and in_band(band, row[1], other[0])

    inputs = delta_of(left, LEFT_SCHEMA), delta_of(right, RIGHT_SCHEMA)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operators.state.trace, "key_hash", lambda frame, keys: constant_hash(frame))
        check_laws(BandJoin(("k",), ("k2",), band=band), inputs, cuts, joined(left, right, same))


def constant_hash(frame: pl.DataFrame) -> pl.Series:
    return pl.repeat(7, frame.height, dtype=pl.UInt64, eager=True).alias("__hash")


SPECIAL = [0.0, -0.0, 0.1, 0.3, 1e308, -1e308, 1.7e308, float("inf"), float("-inf"), float("nan"), 5e-324]
FLOAT = st.one_of(st.sampled_from(SPECIAL), st.floats(), st.floats(-3, 3))
CONSTANT = st.one_of(st.sampled_from([0.0, 0.1, -0.2, 1e308, 5e-324]), st.floats(allow_nan=False, allow_infinity=False))


@settings(max_examples=examples(60))
@given(st.lists(FLOAT, min_size=1, max_size=8), st.lists(FLOAT, min_size=1, max_size=8), CONSTANT, CONSTANT)
@pytest.mark.parametrize("dtype", [pl.Float64, pl.Float32], ids=str)
def test_rounded_sums_lose_no_pair(dtype, xs, ys, down, up) -> None:
    """`y - down <= x <= y + up` as floats compute it, NaN being the greatest number."""
    down, up = (abs(float(pl.Series([bound], dtype=dtype)[0])) for bound in (down, up))
    if not np.isfinite([down, up]).all():
        return
    left, right = _delta("x", pl.Series(xs, dtype=dtype)), _delta("y", pl.Series(ys, dtype=dtype))
    kind = "double" if dtype == pl.Float64 else "single"
    join = BandJoin((), (), band=Band("x", "y", -down, up, kind=kind, terms=max(down, up)))
    joined_rows = join.step(left, right, join.traces(), Move(0, 9)).delta.frame
    pairs = left.frame.select("x").join(right.frame.select("y"), how="cross")
    bounds = pl.col("y") - pl.lit(down, dtype), pl.col("y") + pl.lit(up, dtype)
    wanted = pairs.filter((pl.col("x") >= bounds[0]) & (pl.col("x") <= bounds[1]))
    missing = Counter(map(repr, wanted.rows())) - Counter(map(repr, joined_rows.select("x", "y").rows()))
    assert not missing


def _delta(name: str, values: pl.Series) -> Delta:
    size = len(values)
    ends = {TO: [FOREVER] * size, WEIGHT: [1] * size, ORDER: list(range(size))}
    return Delta(pl.DataFrame({name: values, FROM: [1] * size, **ends}))


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("size", [200, 2_000])
def test_only_pairs_in_the_band_are_formed(keyed, size, monkeypatch) -> None:
    """Every pair that is formed is in the band, for any size of the state."""
    looked_at: list[int] = []
    met = operators.joins.join.paired_elements
    monkeypatch.setattr(
        operators.joins.join, "paired_elements", lambda *given: looked_at.append(_height(met(*given))) or met(*given)
    )
    draw = np.random.default_rng(3)
    keys, values = draw.integers(0, 3, 2 * size), draw.integers(0, 10 * size, 2 * size)
    rows = [
        (("abc"[key], int(value)), at // 20, FOREVER, 1)
        for at, (key, value) in enumerate(zip(keys, values, strict=True))
    ]
    left = delta_of(rows[::2], LEFT_SCHEMA)
    right = delta_of([(row[::-1], *rest) for row, *rest in rows[1::2]], RIGHT_SCHEMA)
    join = BandJoin(*((("k",), ("k2",)) if keyed else ((), ())), band=Band("x", "y", -10, 20))
    pairs, traces = 0, join.traces()
    for at in range(0, size // 10 + 1, 5):
        step = join.step(left.between(at, at + 5), right.between(at, at + 5), traces, Move(at, at + 5))
        pairs, traces = pairs + len(step.delta), step.traces
    near = np.abs(values[::2, None] - values[None, 1::2] - 5) <= 15
    assert pairs == int((near & ((keys[::2, None] == keys[None, 1::2]) | (not keyed))).sum())
    assert sum(looked_at) == pairs


def _height(pair) -> int:
    return 0 if pair is None else pair[0].height
