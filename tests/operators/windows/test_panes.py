"""Panes: Assign gives the same windows over panes as over the rows, except for the time column."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from math import gcd

import polars as pl
from hypothesis import given, settings

from operators.core.delta import FOREVER, FROM, ORDER, TO, WEIGHT, Delta
from operators.core.operator import Move
from operators.windows.assign import Assign
from operators.windows.panes import Panes
from tests.operators.window_histories import CUTS, END, LIVES, SEEDS, intervals, relation, same_log
from tests.operators.windows.test_assign import CUMULATES, HOPS, windows
from tests.support.strategies import examples

ALL = Move(0, 100)
START = dt.datetime.combine(dt.date(2024, 1, 1), dt.time(0, 0, 3))


@settings(max_examples=examples(50))
@given(LIVES, HOPS | CUMULATES, CUTS, SEEDS)
def test_windows_treat_all_rows_of_a_pane_alike(rows, assign, cuts, seed) -> None:
    delta = intervals(rows)
    paned = same_log(Panes("v", gcd(assign.size, assign.slide), assign.offset), delta, cuts, seed)
    windowed = assign.step(Delta(paned), (), ALL).delta.frame.drop("v")
    for at in range(-1, 2 * END):
        expected: Counter = Counter()
        for (k, v), weight in relation(delta.frame, at).items():
            for window in windows(assign, v) if v is not None else ():
                expected[(k, *window)] += weight
        assert relation(windowed, at) == expected


def elements(times: list[dt.datetime | int | None], orders: list[int]) -> Delta:
    frame = pl.DataFrame({"k": "a", "t": times, FROM: 50, TO: FOREVER, WEIGHT: 1, ORDER: orders})
    return Delta(frame.with_columns(pl.col(FROM, TO, WEIGHT, ORDER).cast(pl.Int64)))


def test_equal_rows_are_one_with_the_greatest_order() -> None:
    start, *_ = second = [START + dt.timedelta(microseconds=micros) for micros in (0, 1, 999_999)]
    panes = Panes("t", 2_000, 1_000).step(elements([*second, None], [4, 9, 2, 1]), (), ALL).delta.frame
    assert panes.select("k", "t", FROM, WEIGHT, ORDER).rows() == [("a", start, 50, 3, 9)]


def test_values_without_windows_are_reported_for_every_row() -> None:
    far = [2**63 - 1, 2**63 - 1, -(2**63), 7]
    paned = Panes("t", 5).step(elements(far, [1, 2, 3, 4]), (), ALL).delta
    assert sorted(paned.frame["t"].to_list()) == sorted([*far[:3], 5])
    step = Assign("hop", "t", 5, 5).step(paned, (), ALL)
    assert step.faults is not None and step.faults.height == 3
