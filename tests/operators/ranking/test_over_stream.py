"""OverStream: over streams in their order, the values of DuckDB and of `Over`, with a bounded state."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from decimal import Decimal

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.core.delta import FOREVER, FROM, ORDER, TO, WEIGHT, Delta
from operators.core.operator import Move
from operators.core.sort_key import SortKey
from operators.ranking.over import Over
from operators.ranking.over_stream import OverStream
from operators.ranking.window_call import WindowCall
from tests.operators.window_histories import CUTS, SEEDS, STREAM, log, output, run_moves, same_log, stream
from tests.operators.window_oracle import DOUBLE, DUCKDB, INT, sql
from tests.support.strategies import examples

KINDS = {"sum": INT, "count": INT, "avg": DOUBLE, "min": INT, "max": INT, "first_value": INT, "last_value": INT}
BOUNDS = st.sampled_from([(-2, 0), (-1, 0), (0, 0), (-3, -1), (-2, -2)])
RUNNING = st.one_of(
    st.builds(
        lambda name, frame: (name, frame, None, 0, ()), st.sampled_from(list(KINDS)), st.sampled_from(["rows", "range"])
    ),
    st.just(("row_number", "rows", None, 0, ())),
    st.builds(lambda name: (name, "range", None, 0, ()), st.sampled_from(["rank", "dense_rank"])),
)
CALLS = st.lists(
    st.one_of(
        RUNNING,
        st.builds(lambda name, ends: (name, "rows", *ends, ()), st.sampled_from(list(KINDS)), BOUNDS),
        st.builds(lambda given: ("lag", "range", None, 0, given), st.sampled_from([(), (2,), (1, 7), (0,)])),
    ),
    min_size=1,
    max_size=3,
)


def calls_of(listed, partition) -> tuple[WindowCall, ...]:
    order = (SortKey("t"), SortKey("v", True))
    return tuple(
        WindowCall(
            f"c{at}",
            name,
            () if name in ("row_number", "rank", "dense_rank") else ("v",),
            KINDS.get(name, INT),
            partition,
            order,
            frame,
            start,
            end,
            given,
        )
        for at, (name, frame, start, end, given) in enumerate(listed)
    )


def timed(rows) -> Delta:
    """The rows with their instants in the column `t`."""
    return Delta(stream(rows).frame.with_columns(pl.col(FROM).alias("t")))


@settings(max_examples=examples(80), deadline=None)
@given(STREAM, CALLS, st.sampled_from([(), ("k",)]), CUTS, SEEDS)
def test_values_equal_duckdb_for_any_batches(rows, listed, partition, cuts, seed) -> None:
    calls, delta = calls_of(listed, partition), timed(rows)
    made = same_log(OverStream(calls), delta, cuts, seed)
    names = ["k", "v", "t", *(call.name for call in calls)]
    assert (made[WEIGHT] == 1).all() and (made[TO] == FOREVER).all()
    types = {"k": pl.String, "v": pl.Int64, "since": pl.Int64, "arrival": pl.Int64, "instant": pl.Int64, "t": pl.Int64}
    copies = [(k, v, t, at, 0, t) for at, (k, v, t, n) in enumerate(rows) for _ in range(n)]
    frame = pl.DataFrame(copies, schema=dict.fromkeys(["k", "v", "since", "arrival", "instant", "t"]), orient="row")
    DUCKDB.register("copies", frame.cast(types).to_arrow())
    texts = ", ".join(map(sql, calls))
    expected = DUCKDB.execute(f"SELECT k, v, t, {texts} FROM copies").fetchall()
    assert _counted(made.select(names).rows()) == _counted(expected)


def _counted(rows) -> Counter:
    return Counter(tuple(round(value, 9) if isinstance(value, float) else value for value in row) for row in rows)


@settings(max_examples=examples(40), deadline=None)
@given(STREAM, CALLS, st.sampled_from([(), ("k",)]), CUTS)
def test_elements_equal_those_of_over(rows, listed, partition, cuts) -> None:
    calls, delta = calls_of(listed, partition), timed(rows)
    bounded, whole = (
        Delta(output(run_moves(operator, delta, cuts))).consolidate().frame
        for operator in (OverStream(calls), Over(calls))
    )
    names = sorted(bounded.columns)
    assert sorted(map(repr, bounded.select(names).rows())) == sorted(map(repr, whole.select(names).rows()))


MOST = Decimal("9" * 38)
#: Replacements for the values 1, 2 and 3 of a history: values whose sums depend on the order, or leave the range of the
#: type and return to it, and values that are only compared.
OTHER_VALUES = {
    "floats": (pl.Float64(), [0.1, 1e17, -1e17], DOUBLE),
    "no numbers": (pl.Float64(), [float("nan"), float("inf"), float("-inf")], DOUBLE),
    "long": (pl.Int64(), [2**62, -(2**62), 2**63 - 1], INT),
    "decimals": (pl.Decimal(38, 0), [MOST, MOST.copy_negate(), Decimal(1)], pa.decimal128(38, 0)),
    "cents": (pl.Decimal(7, 2), [Decimal("0.01"), Decimal("99999.99"), Decimal("-7.50")], pa.decimal128(38, 2)),
    "texts": (pl.String(), ["b", "", "a"], pa.string()),
}


@pytest.mark.parametrize("kind", OTHER_VALUES)
@settings(max_examples=examples(15), deadline=None)
@given(rows=STREAM, partition=st.sampled_from([(), ("k",)]), cuts=CUTS, frame=st.sampled_from(["rows", "range"]))
def test_running_values_of_other_types_are_those_of_over(kind, rows, partition, cuts, frame) -> None:
    dtype, values, type_ = OTHER_VALUES[kind]
    known = {1: values[0], 2: values[1], 3: values[2], None: None}
    delta = timed(rows)
    written = pl.Series("v", [known[v] for v in delta.frame["v"]], dtype)
    delta = Delta(delta.frame.with_columns(written))
    functions = ["min", "max", "first_value", "last_value", "count", *([] if kind == "texts" else ["sum", "avg"])]
    types = {"count": INT, "avg": DOUBLE, "sum": type_}
    order = (SortKey("t"),)
    calls = [
        WindowCall(name, name, ("v",), types.get(name, polars_to_arrow(dtype)), partition, order, frame)
        for name in functions
    ]
    nulls = [replace(call, name=f"{call.name}_n", ignore_nulls=True) for call in calls[2:4]]
    for call in (*calls, *nulls):  # one call at a time: a row with a value outside its type is left out
        assert log(run_moves(OverStream((call,)), delta, cuts)) == log(run_moves(Over((call,)), delta)), call


def polars_to_arrow(dtype: pl.DataType) -> pa.DataType:
    return pl.Series([], dtype=dtype).to_arrow(compat_level=pl.CompatLevel.oldest()).type


@pytest.mark.parametrize("partition", [(), ("k",)])
def test_running_totals_keep_a_row_of_each_partition(partition) -> None:
    calls = calls_of([("sum", "range", None, 0, ()), ("row_number", "rows", None, 0, ())], partition)
    operator = OverStream(calls)
    traces = operator.traces()
    for begin in range(0, 20_000, 2_000):
        rows = [("ab"[at % 2], 1, at, 1) for at in range(begin, begin + 2_000)]
        step = operator.step(timed(rows), traces, Move(begin, begin + 2_000))
        traces = step.traces
    last = 20_000 if partition == () else 10_000
    assert step.delta.frame.select(pl.col("c0", "c1").max()).row(0) == (last, last)
    assert sum(run.frame.height for trace in traces for run in trace.runs) <= 8


@pytest.mark.parametrize("partition", [(), ("k",)])
def test_only_the_rows_within_reach_are_kept(partition) -> None:
    calls = calls_of([("sum", "rows", -99, 0, ())], partition)
    operator = OverStream(calls)
    traces = operator.traces()
    for begin in range(0, 20_000, 1_000):
        rows = [("a", 1, at, 1) for at in range(begin, begin + 1_000)]
        step = operator.step(timed(rows), traces, Move(begin, begin + 1_000))
        traces = step.traces
        assert step.delta.frame["c0"].max() == 100
        assert step.delta.frame.height == 1_000
    assert sum(run.frame.height for run in traces[1].runs) <= 400
    assert sum(run.frame.height for run in traces[0].runs) <= 40


def test_ties_of_an_instant_are_in_the_order_of_records() -> None:
    call = WindowCall("before", "lag", ("v",), INT, (), (SortKey("t"),))
    step = OverStream((call,)).step(
        timed([("a", 3, 5, 1), ("a", 2, 5, 1), ("b", 1, 5, 1)]), OverStream((call,)).traces(), Move(0, 9)
    )
    assert step.delta.frame.sort("v").select("v", "before", ORDER).rows() == [(1, 2, 2), (2, 3, 2), (3, None, 2)]
