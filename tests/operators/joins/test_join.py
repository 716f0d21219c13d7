"""Join: at every instant the pairs of rows with equal keys, for any steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import operators.joins.join
import operators.state.trace
from operators.core.delta import FOREVER, FROM, ORDER, RESERVED, TO, WEIGHT, Delta
from operators.core.operator import Move
from operators.core.run import Run, arranged
from operators.joins.band_join import BandJoin
from operators.joins.band_range import Band
from operators.joins.join import Join
from operators.joins.spans import candidates_of_step
from tests.operators.join_histories import CUTS, END, check_laws, delta_of, intervals, run_through
from tests.support.strategies import examples

KEY = st.sampled_from([None, "a", "b"])
LEFT = intervals(st.tuples(KEY, st.sampled_from([None, 1]), st.sampled_from([0.0, float("nan")])))
RIGHT = intervals(st.tuples(st.sampled_from([None, 1, 2]), KEY))
LEFT_SCHEMA = {"k": pl.String, "x.1": pl.Int64, "f": pl.Float64}
RIGHT_SCHEMA = {"y 2": pl.Int64, "k2": pl.String}
ORDERS = st.one_of(st.just(()), st.lists(st.integers(0, 9), min_size=1, max_size=5))


@pytest.fixture(scope="module", params=["all pairs", "lasting pairs"], autouse=True)
def pairing(request: pytest.FixtureRequest) -> Iterator[None]:
    """Tests run in both ways, for any number of pairs: all are formed and some cancel, or those that cancel are not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operators.joins.join, "FEW_PAIRS", 10**9 if request.param == "all pairs" else -1)
        patch.setattr(operators.joins.join, "PAIRS_AN_ELEMENT", 0)
        yield


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


A, B = ("a", None, 0.0), (None, "a")
#: Pairs that cancel must not leave their order behind, because a consolidated state never forms them.
CANCELLING = (
    (
        [(A, 7, END, 1), (A, 7, FOREVER, 1)],
        [(B, 3, END, 1), (B, 5, END, -1), (B, 3, FOREVER, 1)],
    ),
    (
        [(A, 0, FOREVER, 1), (A, 1, FOREVER, -1)],
        [(B, 0, FOREVER, 1), (B, 1, FOREVER, -1), (B, 0, 1, 1)],
    ),
)


@example(*CANCELLING[0], [4, 6], (), False)
@example(*CANCELLING[1], [1], (8, 9, 7, 8, 9), False)
@settings(max_examples=examples(50))
@given(LEFT, RIGHT, CUTS, ORDERS, st.booleans())
def test_pairs_at_every_instant(left, right, cuts, orders, nulls_equal) -> None:
    inputs = delta_of(left, LEFT_SCHEMA, orders), delta_of(right, RIGHT_SCHEMA, orders)
    expected = joined(left, right, lambda row, other: row[0] == other[1] and (nulls_equal or row[0] is not None))
    check_laws(Join(("k",), ("k2",), nulls_equal), inputs, cuts, expected)


@settings(max_examples=examples(50))
@given(LEFT, RIGHT, CUTS, st.booleans())
def test_keys_of_several_columns(left, right, cuts, nulls_equal) -> None:
    def same(row, other) -> bool:
        return row[0] == other[1] and row[1] == other[0] and (nulls_equal or None not in row[:2])

    inputs = delta_of(left, LEFT_SCHEMA), delta_of(right, RIGHT_SCHEMA)
    check_laws(Join(("k", "x.1"), ("k2", "y 2"), nulls_equal), inputs, cuts, joined(left, right, same))


@settings(max_examples=examples(50))
@given(LEFT, RIGHT, CUTS)
def test_without_keys_it_is_the_cross_product(left, right, cuts) -> None:
    inputs = delta_of(left, LEFT_SCHEMA), delta_of(right, RIGHT_SCHEMA)
    check_laws(Join((), ()), inputs, cuts, joined(left, right, lambda row, other: True))


@settings(max_examples=examples(50))
@given(LEFT, RIGHT, CUTS)
def test_hashes_that_collide_do_not_pair_rows(left, right, cuts) -> None:
    inputs = delta_of(left, LEFT_SCHEMA), delta_of(right, RIGHT_SCHEMA)
    expected = joined(left, right, lambda row, other: row[0] is not None and row[0] == other[1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operators.state.trace, "key_hash", lambda frame, keys: constant_hash(frame))
        check_laws(Join(("k",), ("k2",)), inputs, cuts, expected)


def constant_hash(frame: pl.DataFrame) -> pl.Series:
    return pl.repeat(7, frame.height, dtype=pl.UInt64, eager=True).alias("__hash")


BOUNDED = intervals(st.tuples(st.sampled_from([None, 3, 5, 9, 12]), st.integers(0, 2)))


@settings(max_examples=examples(50))
@given(BOUNDED, BOUNDED, CUTS)
def test_forgetting_rows_below_their_bound_changes_no_join(left, right, cuts) -> None:
    left, right = ([element for element in side if element[1] < (element[0][0] or 99)] for side in (left, right))
    inputs = delta_of(left, {"w": pl.Int64, "x": pl.Int64}), delta_of(right, {"w2": pl.Int64, "y": pl.Int64})
    bounded = Join(("w",), ("w2",), left_bound="w", right_bound="w2")
    check_laws(bounded, inputs, cuts, joined(left, right, lambda row, other: row[0] is not None and row[0] == other[0]))


@settings(max_examples=examples(50))
@given(BOUNDED, BOUNDED, CUTS, st.booleans())
def test_the_bound_of_a_key_is_that_of_both_sides(left, right, cuts, of_left) -> None:
    left, right = ([element for element in side if element[1] < (element[0][0] or 99)] for side in (left, right))
    inputs = delta_of(left, {"w": pl.Int64, "x": pl.Int64}), delta_of(right, {"w2": pl.Int64, "y": pl.Int64})
    bounded = Join(("w",), ("w2",), left_bound="w") if of_left else Join(("w",), ("w2",), right_bound="w2")
    check_laws(bounded, inputs, cuts, joined(left, right, lambda row, other: row[0] is not None and row[0] == other[0]))


@pytest.mark.parametrize("bounds", [{"left_bound": "w"}, {"right_bound": "w2"}])
@pytest.mark.parametrize("band", [None, Band("x", "y", -1, 1)])
def test_both_sides_forget_keys_below_their_bound(bounds, band) -> None:
    rows = [((at // 10 * 10 + 10, at), at, FOREVER, 1) for at in range(1, 1000)]
    left, right = (delta_of(rows, dict.fromkeys(names, pl.Int64)) for names in (("w", "x"), ("w2", "y")))
    join = Join(("w",), ("w2",), **bounds) if band is None else BandJoin(("w",), ("w2",), **bounds, band=band)
    traces = join.traces()
    for at in range(0, 1000, 5):
        traces = join.step(left.between(at, at + 5), right.between(at, at + 5), traces, Move(at, at + 5)).traces
    assert all(sum(run.height for run in trace.runs) <= 40 for trace in traces)


def test_intervals_intersect_weights_multiply_and_the_newer_gives_the_order() -> None:
    left = delta_of([(("a", 1, 0.0), 2, 8, 2)], LEFT_SCHEMA, [5])
    right = delta_of([((1, "a"), 4, 6, 3), ((2, "a"), 1, FOREVER, -1), ((3, "a"), 8, 9, 1)], RIGHT_SCHEMA, [1, 2, 3])
    for cuts in ([], [3], [2, 4, 6]):
        steps = run_through(Join(("k",), ("k2",)), [left, right], cuts)
        rows = [row for step in steps for row in step.delta.frame.select("y 2", FROM, TO, WEIGHT, ORDER).rows()]
        assert sorted(rows) == [(1, 4, 6, 6, 1), (2, 2, 8, -2, 5)]


def test_joined_row_has_the_greater_order_of_one_instant() -> None:
    left, right = (
        delta_of([(("a", 1, 0.0), 2, 8, 1)], LEFT_SCHEMA, [5]),
        delta_of([((1, "a"), 2, 9, 1)], RIGHT_SCHEMA, [7]),
    )
    (step,) = run_through(Join(("k",), ("k2",)), [left, right], [])
    assert step.delta.frame[ORDER].to_list() == [7]


def test_ended_and_unmatchable_rows_are_not_kept() -> None:
    join, rows = Join(("k",), ("k2",), left_bound="x.1"), [(("a", at, 0.0), at, FOREVER, 1) for at in range(2000)]
    ending = [((at, "b"), at, at + 10, 1) for at in range(2000)] + [((0, None), 5, FOREVER, 1)]
    left, right, traces = delta_of(rows, LEFT_SCHEMA), delta_of(ending, RIGHT_SCHEMA), join.traces()
    for at in range(0, 2000, 50):
        traces = join.step(left.between(at, at + 50), right.between(at, at + 50), traces, Move(at, at + 50)).traces
    assert sum(run.height for run in traces[0].runs) == 0
    assert sum(run.height for run in traces[1].runs) <= 40


def test_rows_without_columns_still_multiply() -> None:
    none = Delta(pl.DataFrame({FROM: [1, 1], TO: [FOREVER] * 2, WEIGHT: [1, 1], ORDER: [0, 1]}))
    right = delta_of([((1, "a"), 2, FOREVER, 1)], RIGHT_SCHEMA)
    for cuts in ([], [2]):
        steps = run_through(Join((), ()), [none, right], cuts)
        assert sum(step.delta.frame[WEIGHT].sum() for step in steps) == 2


@pytest.mark.parametrize(
    "values",
    [
        pl.Series([[1.0, None], [], None, [float("nan")]]),
        pl.Series([{"a": 1, "b": [1]}, {"a": None, "b": None}, None, {"a": 2, "b": []}]),
        pl.Series([b"x", b"", None, b"y"]),
        pl.Series(["1.10", "2.20", None, "0.00"]).cast(pl.Decimal(9, 2)),
        pl.Series([True, False, None]),
        pl.Series([1, 2, None]).cast(pl.Date),
        pl.Series([1, 2, None]).cast(pl.Datetime("us")),
        pl.Series([-0.0, float("inf"), None, float("nan")], dtype=pl.Float32),
    ],
    ids=lambda values: str(values.dtype),
)
@pytest.mark.parametrize("cuts", [[], [2]])
def test_keys_of_every_type(values, cuts) -> None:
    size = len(values)
    plain = {TO: [FOREVER] * size, WEIGHT: [1] * size, ORDER: np.arange(size)}
    left = Delta(pl.DataFrame({"k": values, "m": [1] * size, FROM: [1] * size, **plain}))
    right = Delta(pl.DataFrame({"n": [1] * size, "k2": values, FROM: [2] * size, **plain}))
    for nulls_equal in (False, True):
        for keys in ((("k",), ("k2",)), (("k", "m"), ("k2", "n"))):
            steps = run_through(Join(*keys, nulls_equal), [left, right], cuts)
            rows = pl.concat([step.delta.frame for step in steps])
            assert rows.height == size - (not nulls_equal)
            assert rows.columns == ["k", "m", "n", "k2", *RESERVED]


def versions(name: str, count: int, first: int) -> pl.DataFrame:
    """The elements of a row that changes every 2 ms under one key, sorted for a run by key."""
    changes = [change for at in range(count) for change in ([(at - 1, at, -1)] if at else []) + [(at, at, 1)]]
    columns = {
        name: [1] * len(changes),
        f"{name}_version": [version for version, _, _ in changes],
        FROM: [first + 2 * at for _, at, _ in changes],
        TO: [FOREVER] * len(changes),
        WEIGHT: [weight for _, _, weight in changes],
        ORDER: list(range(len(changes))),
    }
    return arranged(pl.DataFrame(columns), (name,))


def test_versions_of_two_rows_have_as_many_pairs_as_there_are_versions() -> None:
    left, right = Run(versions("a", 300, 0), "key"), Run(versions("b", 300, 1), "key")
    at_left, at_right = candidates_of_step(left, right)
    assert len(at_left) == len(at_right) == 2 * (2 * 300 - 1) - 1
    join = Join(("a",), ("b",))
    step = join.step(Delta(left.frame), Delta(right.frame), join.traces(), Move(0, 1_000))
    ends = step.delta.frame.filter(pl.col(WEIGHT) < 0)
    assert (step.delta.frame.height, ends.height) == (2 * 599 - 1, 598)


def test_window_rows_are_paired_only_with_rows_valid_at_the_same_time() -> None:
    left, right = (
        pl.DataFrame({name: [1] * 300, FROM: range(300), TO: range(3, 303), WEIGHT: [1] * 300, ORDER: range(300)})
        for name in ("a", "b")
    )
    runs = Run(arranged(left, ("a",)), "key"), Run(arranged(right, ("b",)), "key")
    at_left, at_right = candidates_of_step(*runs)
    begins = (runs[0].frame[FROM].to_numpy()[at_left], runs[1].frame[FROM].to_numpy()[at_right])
    assert len(at_left) == 300 + 2 * (299 + 298)
    assert set(np.abs(begins[0] - begins[1]).tolist()) == {0, 1, 2}
