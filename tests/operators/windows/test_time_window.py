"""Time window: at τ the rows of the last instants; it moves at multiples of the slide."""

from __future__ import annotations

from collections import Counter

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.core.delta import FOREVER, FROM, TO, Delta
from operators.core.operator import Move
from operators.windows.time_window import TimeWindow
from tests.operators.window_histories import (
    CUTS,
    END,
    ORDER,
    SEEDS,
    STREAM,
    elements,
    relation,
    run_moves,
    same_log,
    stream,
)
from tests.support.strategies import examples


def expected_at(rows, window: TimeWindow, at: int) -> Counter:
    point = at // window.slide * window.slide
    low = -1 if window.length is None else point - window.length
    counted: Counter = Counter()
    for k, v, ts, weight in rows:
        counted[(k, v)] += weight if low <= ts <= point else 0
    return +counted


@settings(max_examples=examples(50))
@given(STREAM, st.sampled_from([None, 0, 1, 4]), st.sampled_from([1, 2, 3, 7]), CUTS, SEEDS)
def test_the_window_holds_the_last_instants(rows, length, slide, cuts, seed) -> None:
    window = TimeWindow(length, slide)
    windowed = same_log(window, stream(rows), cuts, seed)
    for at in range(-1, 2 * END):
        assert relation(windowed, at) == expected_at(rows, window, at)


def test_snapshots_of_table_8_10() -> None:
    """PIPES' window of size w is our length w - 1; an element of a logical stream is a row of multiplicity n."""
    logical = {1: "c", 2: "aaa", 3: "aaab", 4: "aaabc", 5: "bb", 6: "bb"}
    rows = [(letter, None, at, 1) for at, bag in logical.items() for letter in bag]
    (step,) = run_moves(TimeWindow(1), stream(rows))
    snapshots = [sorted(k for (k, _), n in relation(step.delta.frame, at).items() for _ in range(n)) for at in range(9)]
    assert ["".join(bag) for bag in snapshots] == ["", "c", "aaac", "aaaaaab", "aaaaaabbc", "aaabbbc", "bbbb", "bb", ""]


@pytest.mark.parametrize(
    ("size", "slide", "expected"),
    [
        (50, 10, [("b", 9, 59), ("a", 9, 59), ("c", 9, 59), ("a", 9, 59), ("b", 19, 69)]),
        (7, 5, [("b", 4, 9), ("a", 4, 14), ("c", 4, 14), ("a", 9, 14), ("b", 14, 19)]),
        (3, 5, [("a", 4, 9), ("c", 4, 9), ("a", 9, 14)]),
        (10, 10, [("b", 9, 19), ("a", 9, 19), ("c", 9, 19), ("a", 9, 19), ("b", 19, 29)]),
    ],
)
def test_table_17_1(size, slide, expected) -> None:
    """PIPES moves a window at the last chronon before a multiple of the slide, which is one instant before ours."""
    chronons = [("b", 1), ("a", 3), ("c", 4), ("a", 7), ("b", 10)]
    rows = elements((k, None, ts + 1, FOREVER, 1, order) for order, (k, ts) in enumerate(chronons))
    windowed = TimeWindow(size - 1, slide).step(rows, (), Move(0, 90)).delta.frame
    assert windowed.sort(ORDER).select("k", pl.col(FROM) - 1, pl.col(TO) - 1).rows() == expected


def test_a_length_beyond_time_is_for_ever() -> None:
    windowed = TimeWindow(FOREVER).step(Delta.of([("+", {"a": 1}, 5)]), (), Move(0, 9)).delta.frame
    assert windowed[TO].to_list() == [FOREVER]


def test_the_input_is_a_stream() -> None:
    with pytest.raises(AssertionError, match="stream"):
        TimeWindow(3).step(Delta.of([("-", {"a": 1}, 5)]), (), Move(0, 9))
