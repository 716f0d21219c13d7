"""Row window: at τ the last rows of each partition; it moves when the count of rows is a multiple of the slide."""

from __future__ import annotations

from collections import Counter

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from operators.core.delta import FOREVER, FROM, ORDER, WEIGHT, Delta
from operators.windows.row_window import RowWindow
from tests.operators.window_histories import (
    CUTS,
    END,
    SEEDS,
    STREAM,
    elements,
    output,
    relation,
    run_moves,
    same_log,
    stream,
)
from tests.support.strategies import examples

WINDOWS = st.builds(
    RowWindow, st.integers(1, 4), st.sampled_from([(), ("k",), ("k", "v")]), st.sampled_from([1, 1, 2, 3, 5])
)


def expected_at(rows, window: RowWindow, at: int) -> Counter:
    partitions: dict = {}
    arrived = sorted(
        (ts, order, k, v, weight) for order, (k, v, ts, weight) in enumerate(map(_keyed, rows)) if ts <= at
    )
    for _, _, k, v, weight in arrived:
        key = tuple((k, v)[name == "v"] for name in window.partition)
        partitions.setdefault(key, []).extend([(k, v)] * weight)
    counted: Counter = Counter()
    for arrived_rows in partitions.values():
        shown = len(arrived_rows) // window.slide * window.slide
        counted.update(arrived_rows[max(shown - window.rows, 0) : shown])
    return Counter({(k or None, v or None): n for (k, v), n in counted.items()})


def _keyed(row) -> tuple:
    k, v, ts, weight = row
    return (k or "", v or 0, ts, weight)


@settings(max_examples=examples(50))
@given(STREAM, WINDOWS, CUTS, SEEDS)
@example([("a", 1, 3, 2), ("a", 2, 3, 1), ("a", 3, 4, 2)], RowWindow(2, ("k",), 3), [4], 0)
def test_the_window_holds_the_last_rows(rows, window, cuts, seed) -> None:
    windowed = same_log(window, stream(rows), cuts, seed)
    for at in range(-1, END):
        assert relation(windowed, at) == expected_at(rows, window, at)


@given(STREAM, WINDOWS, CUTS)
def test_state_is_the_windows_and_what_waits(rows, window, cuts) -> None:
    counts, numbered = run_moves(window, stream(rows), cuts)[-1].traces
    partitions = len({tuple((k, v)[name == "v"] for name in window.partition) for k, v, _, _ in rows})
    stored = sum(run.frame.filter(~pl.col("__gone")).height for run in numbered.runs)
    gone = sum(run.frame.filter(pl.col("__gone")).height for run in numbered.runs)
    assert stored - gone <= partitions * (window.rows + window.slide)


CHRONONS = [("b", 1), ("a", 3), ("c", 4), ("a", 7), ("b", 10)]
LOGICAL = [("c", 1), ("a", 2), ("b", 3), ("b", 4), ("a", 5), ("c", 6)]


def letters(rows) -> Delta:
    return elements((k, 1 if k in "ac" else 2, ts, FOREVER, 1, order) for order, (k, ts) in enumerate(rows))


@pytest.mark.parametrize(
    ("rows", "slide", "expected"),
    [
        (1, 1, [("b", 1, 3), ("a", 3, 4), ("c", 4, 7), ("a", 7, 10), ("b", 10, None)]),
        (2, 1, [("b", 1, 4), ("a", 3, 7), ("c", 4, 10), ("a", 7, None), ("b", 10, None)]),
        (2, 2, [("b", 3, 7), ("a", 3, 7), ("c", 7, None), ("a", 7, None)]),
        (1, 2, [("a", 3, 7), ("a", 7, None)]),
        (3, 2, [("b", 3, 7), ("a", 3, None), ("c", 7, None), ("a", 7, None)]),
    ],
)
def test_tables_11_12_and_17_2(rows, slide, expected) -> None:
    windowed = output(run_moves(RowWindow(rows, (), slide), letters(CHRONONS)))
    for at in range(12):
        alive = Counter(k for k, start, end in expected if start <= at and (end is None or at < end))
        assert Counter({k: n for (k, _), n in relation(windowed, at).items()}) == alive


@pytest.mark.parametrize(
    ("window", "snapshots"),
    [
        (RowWindow(3), ["", "c", "ac", "abc", "abb", "abb", "abc"]),
        (RowWindow(1, ("v",)), ["", "c", "a", "ab", "ab", "ab", "bc"]),
    ],
    ids=["8.12", "8.13"],
)
def test_snapshots_of_tables_8_12_and_8_13(window, snapshots) -> None:
    windowed = output(run_moves(window, letters(LOGICAL), [2, 4]))
    for at, expected in enumerate(snapshots):
        assert sorted(k for (k, _), n in relation(windowed, at).items() for _ in range(n)) == list(expected)


def test_the_order_is_that_of_the_row_that_moves_the_window() -> None:
    rows = elements([("a", 1, 3, FOREVER, 1, 7), ("b", 1, 3, FOREVER, 1, 6), ("c", 1, 4, FOREVER, 1, 9)])
    windowed = output(run_moves(RowWindow(1), rows)).sort(FROM, ORDER, WEIGHT)
    assert windowed.select("k", FROM, WEIGHT, ORDER).rows() == [("a", 3, 1, 7), ("a", 4, -1, 9), ("c", 4, 1, 9)]
