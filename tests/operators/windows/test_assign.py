"""Assign: every row once for each window that contains its time."""

from __future__ import annotations

import datetime as dt
from collections import Counter

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.core.delta import Delta
from operators.core.operator import Move
from operators.windows.assign import Assign
from tests.operators.window_histories import CUTS, END, LIVES, SEEDS, intervals, relation, same_log
from tests.support.strategies import examples

HOPS = st.builds(
    lambda size, slide, offset: Assign("hop", "v", size, slide, offset),
    st.integers(1, 6),
    st.integers(1, 6),
    st.integers(-3, 8),
)
CUMULATES = st.builds(
    lambda steps, slide, offset: Assign("cumulate", "v", steps * slide, slide, offset),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(-3, 8),
)


def windows(assign: Assign, value: int) -> list[tuple[int, int]]:
    """By definition: all windows in a sufficiently wide range that contain the value."""
    if assign.kind == "hop":
        starts = [k * assign.slide + assign.offset for k in range(-60, 60)]
        every = [(start, start + assign.size) for start in starts]
    else:
        starts = [k * assign.size + assign.offset for k in range(-60, 60)]
        spans = range(assign.slide, assign.size + 1, assign.slide)
        every = [(start, start + span) for start in starts for span in spans]
    return [(start, end) for start, end in every if start <= value < end]


def moment(day: int, hour: int = 0) -> dt.datetime:
    """A time on a day of January 2024; day 32 is 1 February."""
    midnight = dt.datetime.combine(dt.date(2024, 1, 1), dt.time())
    return midnight + dt.timedelta(days=day - 1, hours=hour)


@settings(max_examples=examples(50))
@given(LIVES, st.one_of(HOPS, CUMULATES), CUTS, SEEDS)
def test_a_row_is_in_every_window_that_holds_its_value(rows, assign, cuts, seed) -> None:
    delta = intervals(rows)
    assigned_rows = same_log(assign, delta, cuts, seed)
    for at in range(-1, 2 * END):
        expected: Counter = Counter()
        for (k, v), weight in relation(delta.frame, at).items():
            for window in windows(assign, v) if v is not None else ():
                expected[(k, v, *window)] += weight
        assert relation(assigned_rows, at) == expected


def assigned(assign: Assign, values: pl.Series) -> tuple[pl.DataFrame, pl.DataFrame | None]:
    rows = Delta.of([("+", {"t": None}, 3) for _ in values]).frame.with_columns(values.alias("t"))
    step = assign.step(Delta(rows), (), Move(0, 9))
    return step.delta.frame, step.faults


def test_timestamps_and_dates_take_sizes_in_ms() -> None:
    day = 86_400_000
    rows, _ = assigned(Assign("hop", "t", day, day), pl.Series([moment(31, 7)]))
    assert rows.select("window_start", "window_end").rows() == [(moment(31), moment(32))]
    rows, _ = assigned(Assign("hop", "t", 2 * day, day), pl.Series([dt.date(2024, 1, 31), None]))
    assert rows.select("t", "window_start").rows() == [
        (dt.date(2024, 1, 31), moment(31)),
        (dt.date(2024, 1, 31), moment(30)),
    ]
    assert rows.schema["window_end"] == pl.Datetime("us")


def test_a_window_that_ends_after_the_year_9999_is_a_fault() -> None:
    last = pl.Series([dt.datetime(9999, 12, 31, 23, 59, 59), dt.datetime(9999, 12, 31, 23, 58, 59)])  # noqa: DTZ001
    rows, faults = assigned(Assign("hop", "t", 60_000, 60_000), last)
    assert rows["window_end"].to_list() == [dt.datetime(9999, 12, 31, 23, 59)]  # noqa: DTZ001
    assert faults is not None and faults.height == 1


@pytest.mark.parametrize("values", [pl.Series([], dtype=pl.Date), pl.Series([None], dtype=pl.Date)])
def test_no_window_has_the_types_of_windows(values) -> None:
    rows, faults = assigned(Assign("cumulate", "t", 10, 5), values)
    assert rows.height == 0 and rows.schema["window_start"] == pl.Datetime("us") and faults is None


def test_a_window_outside_the_type_is_a_fault_once() -> None:
    rows, faults = assigned(Assign("hop", "t", 100, 50), pl.Series([120, 7], dtype=pl.Int8))
    assert rows.select("t", "window_start", "window_end").rows() == [(7, 0, 100), (7, -50, 50)]
    assert faults is not None and faults["row"].to_list() == ['{"t":120}']
    rows, faults = assigned(Assign("hop", "t", 10, 10), pl.Series([2**63 - 1, -(2**63)]))
    assert rows.height == 0 and faults is not None and faults.height == 2
