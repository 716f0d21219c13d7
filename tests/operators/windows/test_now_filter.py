"""Now filter: at τ the rows with a range that contains τ."""

from __future__ import annotations

from collections import Counter

import polars as pl
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.core.delta import FROM, ORDER, TO
from operators.core.operator import Move
from operators.expressions import Column, Expression, Literal, call
from operators.windows.now_filter import NowFilter, NowRange
from tests.operators.window_histories import CUTS, END, LIVES, SEEDS, intervals, relation, same_log, stream
from tests.support.strategies import examples

V = Column("v", pa.int64())
#: A bound: None if there is no bound, or the factor and the constant of a linear function of v.
BOUNDS = st.one_of(st.none(), st.tuples(st.sampled_from([0, 1, 2]), st.integers(-1, 9)))
CONDITIONS = st.sampled_from([None, "a", "b"])
RANGES = st.lists(st.tuples(BOUNDS, BOUNDS, CONDITIONS), min_size=1, max_size=3)


def number(value: int) -> Literal:
    return Literal(value, pa.int64())


def linear(bound) -> Expression | None:
    return None if bound is None else call("add", call("multiply", V, number(bound[0])), number(bound[1]))


def condition(key) -> Expression | None:
    return None if key is None else call("equal", Column("k", pa.string()), Literal(key, pa.string()))


def holds(row, ranges, at: int) -> bool:
    k, v = row
    for lower, upper, key in ranges:
        if v is None and (lower, upper) != (None, None):
            continue
        low = lower is None or lower[0] * v + lower[1] <= at
        high = upper is None or at < upper[0] * v + upper[1]
        if low and high and (key is None or k == key):
            return True
    return False


@settings(max_examples=examples(50))
@given(LIVES, RANGES, CUTS, SEEDS)
def test_a_row_counts_while_a_range_holds_now(rows, ranges, cuts, seed) -> None:
    delta = intervals(rows)
    operator = NowFilter(tuple(NowRange(linear(low), linear(high), condition(key)) for low, high, key in ranges))
    filtered = same_log(operator, delta, cuts, seed)
    for at in range(-1, 3 * END):
        before = relation(delta.frame, at)
        assert relation(filtered, at) == Counter({row: n for row, n in before.items() if holds(row, ranges, at)})


def test_five_units_window_of_syncsql_example_5() -> None:
    """Now - 5 < TS and TS <= Now are equivalent to TS <= Now < TS + 5."""
    recent = NowFilter((NowRange(lower=V, upper=call("add", V, number(5))),))
    filtered = recent.step(stream([("a", 3, 3, 1), ("b", 9, 4, 1)]), (), Move(0, 6)).delta.frame
    assert filtered.select("k", FROM, TO).rows() == [("a", 3, 8), ("b", 9, 14)]


def test_ranges_that_touch_make_one_piece() -> None:
    ranges = (NowRange(number(5), number(7)), NowRange(number(1), number(5)), NowRange(number(9), number(11)))
    filtered = NowFilter(ranges).step(stream([("a", 1, 3, 1)]), (), Move(0, 6)).delta.frame
    assert filtered.select(FROM, TO).rows() == [(3, 7), (9, 11)]


def test_a_row_in_fault_is_rejected() -> None:
    broken = NowFilter((NowRange(upper=call("divide", number(12), V)), NowRange()))
    step = broken.step(stream([("a", 0, 3, 1), ("b", 2, 3, 1)]), (), Move(0, 6))
    assert step.delta.frame.select("k", FROM).rows() == [("b", 3)]
    assert step.faults is not None and step.faults[ORDER].to_list() == [0]


def test_empty_input_gives_empty_output() -> None:
    filtered = NowFilter((NowRange(lower=V), NowRange(upper=V))).step(stream([]), (), Move(0, 6)).delta.frame
    assert filtered.schema == stream([]).frame.schema
    assert filtered.schema["v"] == pl.Int64
