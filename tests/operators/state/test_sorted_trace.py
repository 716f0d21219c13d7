"""SortedTrace: the best rows of a key are the first ones of the bag of all changes, whatever runs hold them."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from operators.core.delta import FOREVER, FROM, ORDER, TO, WEIGHT, Delta
from operators.core.run import HASH
from operators.core.sort_key import SortKey
from operators.kernels.merging import MERGE_RATIO
from operators.state.sorted_trace import SortedTrace

NAN = float("nan")
KEYS = st.sampled_from([None, 1.5, NAN])
ROW = st.tuples(KEYS, st.sampled_from([None, 1, 2, 3, 4]), st.sampled_from(["u", "v"]))
#: Batches of (row, whether a present row leaves instead, which one).
BATCHES = st.lists(st.lists(st.tuples(ROW, st.booleans(), st.integers(0, 9)), max_size=6), max_size=6)
ORDERS = st.sampled_from([SortKey("v"), SortKey("v", descending=True), SortKey("v", nulls_first=True)])
TYPES = {"k": pl.Float64, "v": pl.Int64, "s": pl.String, **dict.fromkeys((FROM, TO, WEIGHT, ORDER), pl.Int64)}


def fill(trace: SortedTrace, batches) -> tuple[SortedTrace, list[tuple]]:
    """The trace after the batches, and the bag of rows that remain."""
    present: list[tuple] = []
    for number, batch in enumerate(batches):
        rows = []
        for row, leaves, which in batch:
            if leaves and present:
                rows.append((*present.pop(which % len(present)), number, FOREVER, -1, 0))
            else:
                present.append(row)
                rows.append((*row, number, FOREVER, 1, 0))
        trace = trace.append(Delta(pl.DataFrame(rows, schema=TYPES, orient="row")), number + 1)
    return trace, present


def place(row: tuple, order: SortKey) -> tuple:
    """The sort key of a row: NULLs before or after all others, then the value, then the other column."""
    v = row[1]
    where = 0 if v is not None else (1 if order.nulls_last else -1)
    return (where, 0 if v is None else (-v if order.descending else v), row[2])


def first_value(present: list[tuple], key: float | None, order: SortKey) -> int | None:
    rows = [row for row in present if repr(row[0]) == repr(key)]
    return min(rows, key=lambda row: place(row, order))[1] if rows else None


@example(
    [[((NAN, 1, "u"), False, 0)], [((NAN, 1, "u"), True, 0), ((NAN, 2, "u"), False, 0)]], SortKey("v"), 1, False, True
)
@given(BATCHES, ORDERS, st.integers(1, 5), st.booleans(), st.booleans())
def test_the_best_are_the_first_of_the_bag(batches, order, n, everything, promised) -> None:
    trace, present = fill(SortedTrace(("k",), (order,)), batches)
    wanted = [None, 1.5, NAN]
    behind = pl.Series([first_value(present, key, order) for key in wanted], dtype=pl.Int64) if promised else None
    best = trace.best(pl.DataFrame({"k": wanted}, schema={"k": pl.Float64}), None if everything else n, behind)
    for key in wanted:
        rows = sorted((row for row in present if repr(row[0]) == repr(key)), key=lambda row: place(row, order))
        of_key = [row for row in (best.rows() if trace.runs else []) if repr(row[0]) == repr(key)]
        expanded = [row[1:3] for row in of_key for _ in range(row[3])]
        assert expanded == [row[1:] for row in (rows if everything else rows[:n])]


@given(BATCHES)
def test_runs_shrink_geometrically_and_hold_no_zeros(batches) -> None:
    trace, _ = fill(SortedTrace(("k",), (SortKey("v"),)), batches)
    heights = [run.height for run in trace.runs]
    assert all(elder >= MERGE_RATIO * younger for elder, younger in zip(heights, heights[1:], strict=False))
    assert all((run.frame[WEIGHT] != 0).all() and run.frame[HASH].is_sorted() for run in trace.runs)


def test_without_keys_all_rows_are_one_group() -> None:
    delta = Delta.of([("+", {"v": v}, 1) for v in (5, 3, 4)])
    assert SortedTrace((), (SortKey("v"),)).append(delta, 2).best(pl.DataFrame(), 2).rows() == [(3, 1), (4, 1)]


def test_each_key_has_its_own_number() -> None:
    trace = SortedTrace(("k",), (SortKey("v"),)).append(
        Delta.of([("+", {"k": k, "v": v}, 1) for k in "ab" for v in (1, 2, 3)]), 2
    )
    best = trace.best(pl.DataFrame({"k": ["a", "b"]}), pl.Series([1, 2]))
    assert sorted(best.rows()) == [("a", 1, 1), ("b", 1, 1), ("b", 2, 1)]


def test_many_cancelled_rows_before_the_best() -> None:
    trace = SortedTrace(("k",), (SortKey("v"),)).append(Delta.of([("+", {"k": "a", "v": v}, 1) for v in range(500)]), 2)
    trace = trace.append(Delta.of([("-", {"k": "a", "v": v}, 2) for v in range(100)]), 3)
    assert len(trace.runs) == 2
    assert trace.best(pl.DataFrame({"k": ["a"]}), 2).rows() == [("a", 100, 1), ("a", 101, 1)]


@pytest.mark.parametrize("dtype", [pl.Int64, pl.Float64, pl.Datetime("us"), pl.Decimal(10, 2), pl.String])
@pytest.mark.parametrize("descending", [False, True])
def test_cancelled_rows_are_skipped_where_their_end_is_known(dtype, descending) -> None:
    values = pl.Series("v", sorted(range(1_000, 1_500), reverse=descending)).cast(dtype)
    rows = Delta.of([("+", {"k": "a", "n": n}, 1) for n in range(500)]).frame.with_columns(values)
    trace = SortedTrace(("k",), (SortKey("v", descending=descending),)).append(Delta(rows), 2)
    for low, high in ((0, 80), (80, 120)):
        trace = trace.append(Delta(rows[low:high]).negate(), 3)
    assert len(trace.runs) == 3
    best = trace.best(pl.DataFrame({"k": ["a"]}), 3, values[120:121])
    assert best["n"].to_list() == [120, 121, 122]


def test_rows_below_their_bound_leave_the_state() -> None:
    trace = SortedTrace(("w",), (SortKey("v"),), bound="w")
    for at in range(1, 100):
        trace = trace.append(Delta.of([("+", {"w": at, "v": at}, at)]), at)
    assert sum(run.height for run in trace.runs) <= 8


def test_runs_that_do_not_change_stay_the_same_objects() -> None:
    trace = SortedTrace(("k",), (SortKey("v"),)).append(Delta.of([("+", {"k": "a", "v": v}, 1) for v in range(99)]), 2)
    after = trace.append(Delta.of([("+", {"k": "a", "v": 7}, 2)]), 3)
    assert after.runs[0] is trace.runs[0]
