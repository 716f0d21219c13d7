"""The window with a range of sizes: each row stays for as long as was set for the offset of its record."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from operators.core.delta import FOREVER, FROM, ORDER, TO, Delta
from operators.core.operator import Move
from operators.streams.settings import settings_of
from operators.windows.ranged_window import RangedWindow
from operators.windows.time_window import TimeWindow

PARTITION = 3
RECORDS = st.lists(st.integers(0, 50), min_size=1, max_size=30)
DECIDED = st.dictionaries(st.integers(0, 30), st.sampled_from([0.0, 0.25, 0.5, 1.0]), max_size=4)


def delta(instants: list[int]) -> Delta:
    rows = Delta.of([("+", {"a": at}, instant) for at, instant in enumerate(instants)]).frame
    return Delta(rows.with_columns((pl.col(ORDER) + (PARTITION << 45) + (2 << 55)).alias(ORDER)))


@given(RECORDS, DECIDED, st.integers(0, 20), st.integers(0, 20))
def test_rows_stay_for_the_size_set_at_their_offset(
    instants: list[int], decided: dict[int, float], least: int, more: int
) -> None:
    settings = settings_of(PARTITION, sorted(decided.items()))
    window = RangedWindow("q", least, least + more).under(settings)
    step = window.step(delta(instants), (), Move(0, 99))
    for tau in range(0, 100, 7):
        wanted = []
        for offset, instant in enumerate(instants):
            fraction = ([1.0] + [part for start, part in sorted(decided.items()) if start <= offset])[-1]
            if instant <= tau <= instant + least + int(fraction * more):
                wanted.append({"a": offset})
        assert step.delta.snapshot(tau).sort("a").to_dicts() == wanted


@given(RECORDS, st.integers(0, 20))
def test_without_settings_it_is_the_window_of_its_greatest_size(instants: list[int], size: int) -> None:
    ranged = RangedWindow("q", 0, size).step(delta(instants), (), Move(0, 99)).delta
    assert ranged.frame.equals(TimeWindow(size).step(delta(instants), (), Move(0, 99)).delta.frame)


def test_ends_beyond_all_instants_are_never_reached() -> None:
    late = Delta(delta([5]).frame.with_columns(pl.lit(FOREVER - 3, pl.Int64).alias(FROM)))
    step = RangedWindow("q", 0, 10).step(late, (), Move(0, FOREVER))
    assert step.delta.frame[TO].to_list() == [FOREVER]


def test_settings_do_not_affect_operator_equality() -> None:
    assert RangedWindow("q", 1, 2).under(((0, 0.5),)) == RangedWindow("q", 1, 2)
    assert RangedWindow("q", 1, 2) != RangedWindow("p", 1, 2)
