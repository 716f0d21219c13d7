"""AsofJoin: at every instant each row is joined with its nearest partner, for any steps."""

from __future__ import annotations

import operator
import random
from collections import Counter

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import operators.joins.asof_join
import operators.state.range_trace
import operators.state.trace
from operators.core.delta import FOREVER, FROM, ORDER, WEIGHT, Delta
from operators.core.operator import Move
from operators.joins.asof_join import AsofJoin
from tests.operators.join_histories import CUTS, END, Element, changes, check_laws, delta_of, run_through
from tests.support.strategies import examples

TESTS = {
    "greater": operator.gt,
    "greater_or_equal": operator.ge,
    "less": operator.lt,
    "less_or_equal": operator.le,
}
KEY = st.sampled_from([None, "a", "a", "b"])
TIME = st.one_of(st.none(), st.integers(0, 5))
LEFT_SCHEMA = {"k": pl.String, "t": pl.Int64, "x": pl.Int64}
RIGHT_SCHEMA = {"k2": pl.String, "u": pl.Int64, "y": pl.Int64}
LEFT = changes(st.tuples(KEY, TIME, st.integers(0, 1)))


def upserts(events: list) -> list[Element]:
    """Changes of rows (key, time, value) with at most one value for each key and time; None deletes the row."""
    values: dict = {}
    elements: list[Element] = []
    for (key, time, value), at in sorted(events, key=lambda event: event[1]):
        old = values.pop((key, time), None)
        elements += [] if old is None else [((key, time, old), at, FOREVER, -1)]
        elements += [] if value is None else [((key, time, value), at, FOREVER, 1)]
        values |= {} if value is None else {(key, time): value}
    return elements


RIGHT = st.lists(
    st.tuples(st.tuples(KEY, TIME, st.sampled_from([None, 1, 2, 3])), st.integers(0, END - 1)), max_size=16
).map(upserts)


def nearest(left, right, comparison: str, outer: bool, keyed: bool = True):
    """The relation by definition: for every row the partner with the greatest (or least) time."""

    def at_instant(at: int) -> Counter:
        bag: Counter = Counter()
        there: Counter = Counter()
        for row, start, _, weight in right:
            there[row] += weight if start <= at else 0
        best = min if comparison.startswith("less") else max
        for row, start, _, weight in left:
            if start > at:
                continue
            partners = [other for other in +there if _partner(row, other, comparison, keyed)]
            if partners or outer:
                partner = best(partners, key=lambda other: other[1]) if partners else (None, None, None)
                bag[repr((*row, *partner))] += weight
        return +bag

    return at_instant


def _partner(row, other, comparison: str, keyed: bool) -> bool:
    return (
        (not keyed or (row[0] is not None and row[0] == other[0]))
        and None not in (row[1], other[1])
        and TESTS[comparison](row[1], other[1])
    )


COMPARISON = st.sampled_from(sorted(TESTS))


@settings(max_examples=examples(50))
@given(LEFT, RIGHT, CUTS, COMPARISON, st.booleans())
def test_nearest_at_every_instant(left, right, cuts, comparison, outer) -> None:
    join = AsofJoin(("k",), ("k2",), "t", "u", comparison, outer)
    inputs = delta_of(left, LEFT_SCHEMA), delta_of(right, RIGHT_SCHEMA)
    check_laws(join, inputs, cuts, nearest(left, right, comparison, outer))


@settings(max_examples=examples(50))
@given(LEFT, RIGHT, CUTS, COMPARISON, st.booleans())
def test_without_keys(left, right, cuts, comparison, outer) -> None:
    right = [element for element in right if element[0][0] == "a"]
    join = AsofJoin((), (), "t", "u", comparison, outer)
    inputs = delta_of(left, LEFT_SCHEMA), delta_of(right, RIGHT_SCHEMA)
    check_laws(join, inputs, cuts, nearest(left, right, comparison, outer, keyed=False))


@settings(max_examples=examples(50))
@given(LEFT, RIGHT, CUTS, st.booleans())
def test_hashes_that_collide_do_not_pair_rows(left, right, cuts, outer) -> None:
    join = AsofJoin(("k",), ("k2",), "t", "u", outer=outer)
    inputs = delta_of(left, LEFT_SCHEMA), delta_of(right, RIGHT_SCHEMA)
    with pytest.MonkeyPatch.context() as patch:
        for module in (operators.state.trace, operators.state.range_trace, operators.joins.asof_join):
            patch.setattr(module, "key_hash", lambda frame, keys: constant_hash(frame))
        check_laws(join, inputs, cuts, nearest(left, right, "greater_or_equal", outer))


WINDOWS = st.sampled_from([None, 3, 5, 9])


@settings(max_examples=examples(50))
@given(
    changes(st.tuples(WINDOWS, TIME, st.integers(0, 1))),
    st.lists(
        st.tuples(st.tuples(WINDOWS, TIME, st.sampled_from([None, 1, 2, 3])), st.integers(0, END - 1)), max_size=16
    ).map(upserts),
    CUTS,
    COMPARISON,
    st.booleans(),
)
def test_forgetting_keys_below_their_bound_changes_no_result(left, right, cuts, comparison, outer) -> None:
    left, right = ([element for element in side if element[1] < (element[0][0] or 99)] for side in (left, right))
    join = AsofJoin(("k",), ("k2",), "t", "u", comparison, outer, "k")
    numbers = dict.fromkeys(("k", "k2"), pl.Int64)
    inputs = delta_of(left, LEFT_SCHEMA | {"k": numbers["k"]}), delta_of(right, RIGHT_SCHEMA | {"k2": numbers["k2"]})
    check_laws(join, inputs, cuts, nearest(left, right, comparison, outer))


def test_a_step_beyond_the_bound_still_finds_what_is_ahead_of_it() -> None:
    quotes = [((5, 1, 7), 0, FOREVER, 1), ((5, 2, 8), 1, FOREVER, 1), ((5, 2, 8), 3, FOREVER, -1)]
    trades = [((5, 2, 0), 4, FOREVER, 1)]
    numbers = {"k": pl.Int64}, {"k2": pl.Int64}
    inputs = delta_of(trades, LEFT_SCHEMA | numbers[0]), delta_of(quotes, RIGHT_SCHEMA | numbers[1])
    for bound in (None, "k"):
        steps = run_through(AsofJoin(("k",), ("k2",), "t", "u", bound=bound), inputs, [2])
        assert [row for step in steps for row in step.delta.frame.select("u", FROM, WEIGHT).rows()] == [(1, 4, 1)]


def test_keys_below_their_bound_leave_the_state() -> None:
    join = AsofJoin(("k", "w"), ("k2", "w2"), "t", "u", bound="w")
    rows = [(("a", at // 10 * 10 + 10, at), at, FOREVER, 1) for at in range(1, 1000)]
    left = delta_of(rows, {"k": pl.String, "w": pl.Int64, "t": pl.Int64})
    right = delta_of(rows, {"k2": pl.String, "w2": pl.Int64, "u": pl.Int64})
    traces, count = join.traces(), 0
    for at in range(0, 1000, 5):
        step = join.step(left.between(at, at + 5), right.between(at, at + 5), traces, Move(at, at + 5))
        traces, count = step.traces, count + step.delta.frame[WEIGHT].sum()
    assert count == len(rows)
    assert all(sum(run.height for run in trace.runs) <= 40 for trace in traces)


def constant_hash(frame: pl.DataFrame) -> pl.Series:
    return pl.repeat(7, frame.height, dtype=pl.UInt64, eager=True).alias("__hash")


def test_long_histories_with_many_deletions() -> None:
    """Neighbours that later runs cancel are skipped, whatever their number."""
    draw = random.Random(7)
    events = [((draw.choice("ab"), draw.randrange(400), draw.choice([1, 2])), at) for at in range(3000)]
    gone = [((key, time, None), 3000 + number) for number, ((key, time, _), _) in enumerate(events) if 20 < time < 390]
    right = upserts([*events, *gone, (("a", 200, 3), 7000)])
    left = [((draw.choice("ab"), draw.randrange(450), 0), draw.randrange(7100), FOREVER, 1) for _ in range(300)]
    join = AsofJoin(("k",), ("k2",), "t", "u", outer=True)
    inputs, traces, frames = (delta_of(left, LEFT_SCHEMA), delta_of(right, RIGHT_SCHEMA)), join.traces(), []
    for at in range(0, 7200, 60):
        step = join.step(*(side.between(at, at + 60) for side in inputs), traces, Move(at, at + 60))
        frames, traces = [*frames, step.delta.frame], step.traces
    log = pl.concat(frames)
    expected = nearest(left, right, "greater_or_equal", outer=True)
    for at in (10, 1500, 2999, 3500, 4800, 6300, 6999, 7000, 7150):
        bag: Counter = Counter()
        for *row, weight in log.filter(pl.col(FROM) <= at).select(pl.exclude("__from", "__to", ORDER)).iter_rows():
            bag[repr(tuple(row))] += weight
        assert {row: count for row, count in bag.items() if count} == expected(at)


def rows_read(size: int, monkeypatch) -> int:
    """The number of elements of the state that a fixed change reads."""
    join = AsofJoin(("k",), ("k2",), "t", "u")
    left = delta_of([(("a", 2 * at, 0), 0, FOREVER, 1) for at in range(size)], LEFT_SCHEMA)
    right = delta_of([(("a", 2 * at, 0), 0, FOREVER, 1) for at in range(size)], RIGHT_SCHEMA)
    traces = join.step(left, right, join.traces(), Move(0, 1)).traces
    read = []
    gathered = operators.state.range_trace.gather_ranges
    monkeypatch.setattr(
        operators.state.range_trace, "gather_ranges", lambda run, *at: read.append(gathered(run, *at)) or read[-1]
    )
    middle = size // 2 * 2 - 1
    left_change = delta_of([(("a", middle, 1), 2, FOREVER, 1)], LEFT_SCHEMA)
    right_change = delta_of([(("a", middle, 1), 3, FOREVER, 1)], RIGHT_SCHEMA)
    step = join.step(left_change, right_change, traces, Move(1, 4))
    assert sorted(step.delta.frame.select("t", "u", WEIGHT).rows()) == [
        (middle, middle - 1, -1),
        (middle, middle - 1, 1),
        (middle, middle, 1),
    ]
    return sum(frame.height for frame in read)


def test_a_change_reads_its_neighbours_whatever_the_state(monkeypatch) -> None:
    with monkeypatch.context() as patch:
        few = rows_read(10, patch)
    assert few == rows_read(20_000, monkeypatch)


def test_orders_are_those_of_causes() -> None:
    left = delta_of([(("a", 5, 0), 2, FOREVER, 1), (("a", 6, 0), 4, FOREVER, 1)], LEFT_SCHEMA, [20, 21])
    right = delta_of([(("a", 1, 1), 1, FOREVER, 1), (("a", 2, 1), 4, FOREVER, 1)], RIGHT_SCHEMA, [30, 31])
    for cuts in ([], [2, 4]):
        steps = run_through(AsofJoin(("k",), ("k2",), "t", "u"), [left, right], cuts)
        rows = [row for step in steps for row in step.delta.frame.select("t", "u", FROM, WEIGHT, ORDER).rows()]
        assert sorted(rows) == [(5, 1, 2, 1, 20), (5, 1, 4, -1, 31), (5, 2, 4, 1, 31), (6, 2, 4, 1, 31)]


@pytest.mark.parametrize(
    "times",
    [
        pl.Series([-1.5, -0.0, 2.0, float("inf"), float("nan")]),
        pl.Series([-3, -1, 0, 7, 9], dtype=pl.Int16),
        pl.Series([-3, -1, 0, 7, 9]).cast(pl.Date),
        pl.Series([-3, -1, 0, 7, 9]).cast(pl.Datetime("us")),
        pl.Series(["-1.25", "-1.24", "0.00", "1.00", "900.00"]).cast(pl.Decimal(12, 2)),
    ],
    ids=lambda times: str(times.dtype),
)
@pytest.mark.parametrize("cuts", [[], [2]])
def test_times_of_every_type(times, cuts) -> None:
    def delta(columns: dict, start: int):
        rows = pl.DataFrame(columns)
        return Delta(
            rows.with_columns(
                pl.lit(start).alias(FROM),
                pl.lit(FOREVER).alias("__to"),
                pl.lit(1).alias(WEIGHT),
                pl.lit(0).alias(ORDER),
            ).cast({name: pl.Int64 for name in (FROM, WEIGHT, ORDER)})
        )

    left, right = delta({"t": times}, 1), delta({"u": times[[1, 3]]}, 2)
    for comparison, expected in (
        ("greater_or_equal", [1, 1, 3, 3]),
        ("greater", [1, 1, 3]),
        ("less_or_equal", [1, 1, 3, 3]),
        ("less", [1, 3, 3]),
    ):
        steps = run_through(AsofJoin((), (), "t", "u", comparison), [left, right], cuts)
        partners = pl.concat([step.delta.frame for step in steps])["u"]
        assert sorted(map(repr, partners)) == sorted(repr(times[at]) for at in expected)


@pytest.mark.parametrize("seed", range(5))
def test_partners_of_a_few_keys_are_found_for_many_others(seed: int) -> None:
    chance, join = random.Random(seed), AsofJoin(("k",), ("l",), "t", "u")
    quoted, traded = chance.sample(range(100), 3), chance.sample(range(100), 60)
    quotes = Delta.of([("+", {"l": key, "u": 1}, 1) for key in quoted])
    trades = Delta.of([("+", {"k": key, "t": 9}, 9) for key in traded])
    held = join.step(Delta(trades.frame.clear()), quotes, join.traces(), Move(0, 5)).traces
    step = join.step(trades, Delta(quotes.frame.clear()), held, Move(5, 12))
    assert sorted(step.delta.frame["k"]) == sorted(set(quoted) & set(traded))
