"""Window functions: at every instant DuckDB's values over the present copies, and the log law."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from operators.core.delta import FOREVER, FROM, ORDER, RESERVED, WEIGHT, Delta
from operators.core.sort_key import SortKey
from operators.ranking.over import Over
from operators.ranking.window_call import WindowCall
from tests.operators.window_histories import CUTS, END, LIVES, SEEDS, elements, output, relation, run_moves
from tests.operators.window_oracle import DOUBLE, INT, OF_PEERS, OF_TIES, ORDERS, assert_duckdbs_values, window_calls
from tests.support.strategies import examples

#: Functions with types, or with choices of parameters.
OF_PLACES = {"first_value": [()], "last_value": [()], "nth_value": [(1,), (2,)]}
AGGREGATES = {"sum": INT, "count": INT, "avg": DOUBLE, "min": INT, "max": INT}
STARTS = st.sampled_from([None, -2, -1, 0, 1])
ENDS = st.sampled_from([None, -1, 0, 1, 2])
BOUNDS = st.tuples(STARTS, ENDS).filter(lambda ends: None in ends or ends[0] <= ends[1])


def calls_of(function, arguments, types, parameters, frames):
    of_values = function in ("lag", "lead", *OF_PLACES)
    return st.builds(
        lambda kind, order, ends, given, nulls: (function, arguments, types, order, kind, *ends, given, nulls),
        st.sampled_from(frames),
        ORDERS,
        BOUNDS,
        st.sampled_from(parameters),
        st.booleans() if of_values else st.just(False),
    )


OF_ARRIVAL = [(name, ("v",) if name in ("lag", "lead") else (), given) for name, given in OF_TIES.items()]
CALLS = st.lists(
    st.one_of(
        *(calls_of(name, (), kind, [()], ["range"]) for name, kind in OF_PEERS.items()),
        *(calls_of(name, arguments, INT, given, ["rows"]) for name, arguments, given in OF_ARRIVAL),
        *(calls_of(name, ("v",), INT, given, ["rows"]) for name, given in OF_PLACES.items()),
        *(calls_of(name, ("v",), kind, [()], ["rows", "range"]) for name, kind in AGGREGATES.items()),
        calls_of("count", (), INT, [()], ["rows", "range"]),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=examples(50), deadline=None)
@given(LIVES.map(lambda rows: rows[:9]), CALLS, st.sampled_from([(), ("k",)]), CUTS, SEEDS)
@example(
    [("a", 1, 0, 5, 1), ("a", None, 2, None, 2), ("b", 3, 1, 2, 1)],
    [("sum", ("v",), INT, (SortKey("v", True),), "range", -1, 2, ())],
    (),
    [3],
    0,
)
def test_values_equal_duckdb_at_every_instant(rows, listed, partition, cuts, seed) -> None:
    calls = window_calls(listed, partition)
    actual = assert_duckdbs_values(calls, rows, cuts, seed)
    assert actual.columns == ["k", "v", *(call.name for call in calls), *RESERVED]


def over(rows, *calls: WindowCall, cuts=()) -> Delta:
    return Delta(output(run_moves(Over(calls), elements(rows), cuts))).consolidate()


def test_only_rows_whose_values_change_are_corrected() -> None:
    number = WindowCall("n", "row_number", (), INT, order=(SortKey("v"),))
    rows = elements([("a", 1, 1, FOREVER, 1, 5), ("b", 9, 2, FOREVER, 1, 6), ("c", 5, 3, FOREVER, 1, 7)])
    assert sorted(output(run_moves(Over((number,)), rows, [3])).select(FROM, "k", "n", WEIGHT, ORDER).rows()) == [
        (1, "a", 1, 1, 5),
        (2, "b", 2, 1, 6),
        (3, "b", 2, -1, 7),
        (3, "b", 3, 1, 7),
        (3, "c", 2, 1, 7),
    ]


def test_ties_in_a_range_go_by_arrival() -> None:
    first, last = (
        WindowCall(name, name, ("k",), pa.string(), order=(SortKey("v"),)) for name in ("first_value", "last_value")
    )
    windowed = over([("b", 1, 1, FOREVER, 1, 5), ("a", 1, 2, FOREVER, 1, 4), ("c", 1, 2, FOREVER, 1, 3)], first, last)
    assert {row[2:] for row in windowed.snapshot(2).rows()} == {("b", "a")}


def values_over(values: pl.Series, call: WindowCall) -> list:
    rows = Delta.of([("+", {"x": None}, at) for at in range(len(values))]).frame.with_columns(values.alias("x"))
    (step,) = run_moves(Over((call,)), Delta(rows))
    return step.delta.snapshot(END)[call.name].to_list()


def test_sums_of_floats_are_taken_in_order() -> None:
    values = pl.Series([1e16, 1.0, -1e16, 1.0])
    last = WindowCall("s", "sum", ("x",), DOUBLE, frame="rows", start=-1, end=0)
    assert sorted(values_over(values, last)) == sorted([1e16, 1e16 + 1.0, 1.0 - 1e16, -1e16 + 1.0])
    whole = WindowCall("s", "sum", ("x",), DOUBLE)
    assert values_over(values, whole) == [1.0] * 4


@pytest.mark.parametrize(
    ("values", "function", "type_", "expected"),
    [
        (pl.Series(["1.50", "1.25"]).cast(pl.Decimal(9, 2)), "sum", pa.decimal128(38, 2), "2.75"),
        (pl.Series(["b", None, "a"]), "min", pa.string(), "a"),
        (pl.Series([True, False, None]), "max", pa.bool_(), "true"),
        (pl.Series([1.0, float("nan")]), "max", DOUBLE, "NaN"),
        (pl.Series([b"b", b"c"]), "max", pa.binary(), b"c"),
    ],
)
def test_values_of_any_type(values, function, type_, expected) -> None:
    texts = set(map(str, values_over(values, WindowCall("c", function, ("x",), type_))))
    assert {value.lower() for value in texts} == {str(expected).lower()}


def test_a_sum_outside_its_type_is_a_fault_while_it_lasts() -> None:
    call = WindowCall("s", "sum", ("v",), INT, ("k",))
    big = 2**63 - 1
    rows = [
        ("a", big, 1, FOREVER, 1, 1),
        ("a", 1, 2, FOREVER, 1, 2),
        ("b", 5, 2, FOREVER, 1, 3),
        ("a", 1, 4, FOREVER, -1, 4),
    ]
    for cuts in ([], [2], [3, 4]):
        steps = run_moves(Over((call,)), elements(rows), cuts)
        windowed = output(steps)
        assert relation(windowed, 1) == {("a", big, big): 1}
        assert relation(windowed, 2) == relation(windowed, 3) == {("b", 5, 5): 1}
        assert relation(windowed, 4) == {("a", big, big): 1, ("b", 5, 5): 1}
        faults = pl.concat([step.faults for step in steps if step.faults is not None])
        assert faults.select(FROM, ORDER).rows() == [(2, 2), (2, 2)]


def test_empty_input_keeps_the_output_schema() -> None:
    call = WindowCall("c", "count", (), INT)
    (step,) = run_moves(Over((call,)), elements([]))
    assert step.delta.frame.schema["c"] == pl.Int64 and step.delta.frame.columns == ["k", "v", "c", *RESERVED]
