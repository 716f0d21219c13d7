"""Top-k: the snapshot law, compared with a sort of the present copies, and the log law."""

from __future__ import annotations

from collections import Counter
from itertools import groupby

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from operators.core.delta import FOREVER, FROM, ORDER, RESERVED, WEIGHT, Delta
from operators.core.operator import Move
from operators.core.sort_key import SortKey
from operators.ranking.top_k import TopK
from operators.state.copies import net_changes
from operators.state.ranked_state import best_and_leaving
from operators.state.trace import Trace
from tests.operators.window_histories import (
    CUTS,
    END,
    LIVES,
    SEEDS,
    STREAM,
    changes,
    copies_at,
    elements,
    log,
    relation,
    run_moves,
    same_log,
    stream,
)
from tests.support import duck_engine
from tests.support.strategies import examples

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64())])
ORDERS = st.sampled_from(
    [
        (SortKey("v"),),
        (SortKey("v", descending=True),),
        (SortKey("v", True, False),),
        (SortKey("v", False, True),),
        (),
        (SortKey("v"), SortKey("k", True)),
    ]
)
TOPS = st.builds(
    TopK,
    st.sampled_from([(), ("k",)]),
    ORDERS,
    st.sampled_from([None, 1, 2, 3]),
    st.sampled_from([0, 0, 1, 2]),
    st.sampled_from(["row_number", "rank", "dense_rank"]),
    st.sampled_from([None, "r"]),
    st.sampled_from([SCHEMA, SCHEMA, pa.schema([])]),
)


def sort_value(key: SortKey, value) -> tuple:
    if value is None:
        return (1 if key.nulls_last else -1, 0)
    number = ord(value) if isinstance(value, str) else value
    return (0, -number if key.descending else number)


def ranked(top: TopK, copies: list[tuple]) -> list[tuple]:
    """The rows of one partition with their ranks."""
    keyed = [
        (tuple(sort_value(key, row[key.column == "v"]) for key in top.order), *copy)
        for copy in copies
        for row in copy[:1]
    ]
    keyed.sort(key=lambda entry: (entry[0], entry[2], entry[3]))
    values = sorted({entry[0] for entry in keyed})
    for place, (key, row, _, _) in enumerate(keyed):
        rank = {
            "row_number": place + 1,
            "rank": 1 + sum(other[0] < key for other in keyed),
            "dense_rank": 1 + values.index(key),
        }[top.method]
        if rank > top.offset and (top.limit is None or rank <= top.offset + top.limit):
            yield row if top.rank is None else (*row, rank)


def expected_at(top: TopK, frame: pl.DataFrame, at: int) -> Counter:
    def key(copy) -> str:
        return repr(copy[0][0]) if top.partition else ""

    parts = groupby(sorted(copies_at(frame, at), key=key), key=key)
    return Counter(row for _, part in parts for row in ranked(top, list(part)))


@settings(max_examples=examples(50))
@given(LIVES, TOPS, CUTS, SEEDS)
@example(
    [("a", 1, 0, 5, 1), ("a", 1, 2, None, 2), ("a", 2, 1, 2, 1)],
    TopK((), (SortKey("v"),), 1, 1, "row_number", "r", SCHEMA),
    [3],
    0,
)
def test_the_best_at_every_instant(rows, top, cuts, seed) -> None:
    delta = changes(rows)
    ranked_rows = same_log(top, delta, cuts, seed)
    assert ranked_rows.columns == ["k", "v", *([top.rank] if top.rank else []), *RESERVED]
    for at in range(-1, END):
        assert relation(ranked_rows, at) == expected_at(top, delta.frame, at)


@settings(max_examples=examples(50))
@given(STREAM, TOPS, CUTS, SEEDS)
def test_top_k_of_a_stream_keeps_only_the_best_rows(rows, top, cuts, seed) -> None:
    frugal = TopK(top.partition, top.order, top.limit, top.offset, top.method, top.rank, SCHEMA, append_only=True)
    ranked_rows = same_log(frugal, stream(rows), cuts, seed)
    for at in range(-1, END):
        assert relation(ranked_rows, at) == expected_at(top, stream(rows).frame, at)
    state = run_moves(frugal, stream(rows), cuts, seed)[-1].traces[0]
    if top.limit is not None and state.runs:
        stored = state.delta().consolidate().frame
        if top.method == "row_number":
            fresh = sum(row[2] >= max(cuts, default=0) for row in rows)
            assert stored.height <= (top.limit + top.offset) * 3 + fresh
        else:
            best = TopK(top.partition, top.order, top.limit + top.offset, 0, top.method)
            kept = relation(stored.select("k", "v", *RESERVED), END)
            assert kept == expected_at(best, stream(rows).frame, END)


def test_older_row_wins_a_tie_and_changes_have_the_order_of_their_cause() -> None:
    rows = elements(
        [
            ("a", 5, 1, FOREVER, 1, 10),
            ("b", 5, 1, FOREVER, 1, 11),
            ("b", 5, 2, FOREVER, -1, 12),
            ("a", 5, 4, FOREVER, -1, 13),
            ("c", 5, 4, FOREVER, 1, 14),
        ]
    )
    top = TopK((), (SortKey("v"),), 1, schema=SCHEMA)
    consolidated = Delta(pl.concat([step.delta.frame for step in run_moves(top, rows, [2, 3])])).consolidate().frame
    assert consolidated.select("k", FROM, WEIGHT, ORDER).sort(FROM, WEIGHT).rows() == [
        ("a", 1, 1, 11),
        ("a", 4, -1, 14),
        ("c", 4, 1, 14),
    ]


@pytest.mark.parametrize(
    ("values", "best"),
    [
        (pl.Series([1.5, float("nan"), None, float("inf")]), [None, "nan", "inf"]),
        (pl.Series(["a", "c", "b"]), ["c", "b", "a"]),
        (pl.Series(["1.50", "1.25"]).cast(pl.Decimal(9, 2)), ["1.50", "1.25"]),
        (pl.Series([b"a", None, b"b"]), [None, b"b", b"a"]),
    ],
)
def test_values_of_any_type_are_ordered(values, best) -> None:
    delta = Delta.of([("+", {"x y.z": None}, 1) for _ in values]).frame.with_columns(values.alias("x y.z"))
    top = TopK((), (SortKey("x y.z", descending=True),), 3, rank="__r", schema=pa.schema([]))
    (step,) = run_moves(top, Delta(delta))
    assert step.delta.frame.sort("__r")["x y.z"].cast(pl.String, strict=False).to_list() == [
        value.decode() if isinstance(value, bytes) else {"nan": "NaN"}.get(value, value) for value in best
    ]


def test_a_step_reads_the_best_and_what_leaves() -> None:
    top = TopK((), (SortKey("v"),), 3, schema=SCHEMA)
    rows = stream([("a", v, 1, 1) for v in range(1000)])
    traces = top.step(rows, top.traces(), Move(0, 2)).traces
    gone = net_changes(elements([("a", 1, 5, FOREVER, -1, 1), ("a", 700, 5, FOREVER, -1, 2)]))
    read = best_and_leaving(traces, gone, (), 3, 2)
    assert read is not None and sorted(read["v"].to_list()) == [0, 1, 2, 3, 4, 700]


@settings(max_examples=examples(40))
@given(LIVES, st.sampled_from(["rank", "dense_rank"]), st.sampled_from([(1, 0), (2, 0), (1, 1)]), CUTS, SEEDS)
@example([("a", 2, 0, None, 2), ("a", 1, 0, None, 1), ("a", 3, 5, None, 1)], "dense_rank", (2, 0), [3], 0)
def test_ties_equal_duckdb(rows, method, bounds, cuts, seed) -> None:
    limit, offset = bounds
    delta = changes(rows)
    top = TopK(("k",), (SortKey("v", descending=True),), limit, offset, method, "r", SCHEMA)
    ranked_rows = same_log(top, delta, cuts, seed)
    asked = f"""SELECT *, {method}() OVER (PARTITION BY k ORDER BY v DESC NULLS FIRST) AS r FROM e
        QUALIFY r > {offset} AND r <= {offset + limit}"""
    with duck_engine.connection() as engine:
        for at in range(-1, END):
            present = list(relation(delta.frame, at).elements())
            e = pl.DataFrame(present, schema={"k": pl.String, "v": pl.Int64}, orient="row").to_arrow()
            assert relation(ranked_rows, at) == Counter(engine.register("e", e).execute(asked).fetchall())


@settings(max_examples=examples(60))
@given(LIVES, st.sampled_from(["rank", "dense_rank"]), st.sampled_from([(), ("k",)]), st.booleans(), CUTS)
def test_levels_of_floats(rows, method, partition, down, cuts) -> None:
    """0.0 and -0.0 tie, NaN ties with NaN: the log is the same as when whole partitions are read."""
    values = {None: None, 1: float("nan"), 2: 0.0, 3: 7.5}
    frame = changes(rows).frame
    zeros = pl.when((pl.col("f") == 0) & (pl.col("k") == "b")).then(-0.0).otherwise(pl.col("f"))
    floats = frame.with_columns(pl.col("v").replace_strict(values, return_dtype=pl.Float64).alias("f"))
    delta = Delta(floats.drop("v").with_columns(zeros.alias("f")).select("k", "f", *RESERVED))
    schema = pa.schema([("k", pa.string()), ("f", pa.float64())])
    order = (SortKey("f", down),)
    levels, whole = (TopK(partition, order, 2, 0, method, "r", columns) for columns in (schema, pa.schema([])))
    same_log(levels, delta, cuts, 1)
    assert log(run_moves(levels, delta, cuts)) == log(run_moves(whole, delta))


@pytest.mark.parametrize("method", ["rank", "dense_rank"])
def test_ties_are_read_only_where_they_enter_or_leave(method, monkeypatch: pytest.MonkeyPatch) -> None:
    """10 rows rank first; 5 levels of many rows each follow."""
    for ties in (20, 5_000):
        rows = [("a", 9, 1, 1)] * 10 + [("a", v, 1, 1) for v in range(5) for _ in range(ties)]
        names = pl.Series("id", range(len(rows)))
        delta = Delta(stream(rows).frame.with_columns(names))
        top = TopK(
            ("k",), (SortKey("v", descending=True),), 1, 0, method, schema=SCHEMA.append(pa.field("id", pa.int64()))
        )
        traces = top.step(delta, top.traces(), Move(0, 2)).traces
        assert steps_read(top, traces, [(4, -1, -1), (3, -2, 1)], monkeypatch) == ((0, 0), 0)
        assert steps_read(top, traces, [(9, 0, -1)], monkeypatch) == ((0, 1), 0)
        assert steps_read(top, traces, [(10, -1, 1)], monkeypatch) == ((1, 10), 10)
        assert steps_read(top, traces, [(9, at, -1) for at in range(10)], monkeypatch) == ((ties, 10), ties + 10)


def steps_read(top: TopK, traces, signed: list[tuple[int, int, int]], monkeypatch) -> tuple[tuple[int, int], int]:
    """The numbers of rows that enter and leave in a step, and the number of rows of the state that it reads."""
    read, lookup = [], Trace.lookup
    monkeypatch.setattr(Trace, "lookup", lambda *args: read.append(lookup(*args)) or read[-1])
    schema = {"k": pl.String, "v": pl.Int64, "id": pl.Int64, **dict.fromkeys(RESERVED, pl.Int64)}
    listed = [("a", v, at % 10 if v == 9 else at, 5, FOREVER, sign, 0) for v, at, sign in signed]
    corrections = top.step(elements(listed, schema), traces, Move(2, 9)).delta.frame
    monkeypatch.undo()
    return ((corrections[WEIGHT] > 0).sum(), (corrections[WEIGHT] < 0).sum()), sum(len(frame) for frame in read)


WINDOWED = pa.schema([("w", pa.int64()), ("v", pa.int64())])
#: Rows that enter before the instant `w`, and leave before it if they leave at all.
ENDING = st.lists(
    st.tuples(
        st.sampled_from([None, 3, 5, 9]),
        st.sampled_from([None, 1, 2, 3]),
        st.integers(0, END - 1),
        st.sampled_from([None, 1, 2, 5]),
        st.sampled_from([1, 1, 2]),
    ),
    max_size=14,
).map(lambda rows: [row for row in rows if row[0] is None or row[2] + (row[3] or 0) < row[0]])
BOUNDED = st.builds(
    TopK,
    st.just(("w",)),
    st.sampled_from([(SortKey("v"),), (SortKey("v", descending=True),)]),
    st.sampled_from([None, 1, 2]),
    st.sampled_from([0, 1]),
    st.sampled_from(["row_number", "rank", "dense_rank"]),
    st.sampled_from([None, "r"]),
    st.sampled_from([WINDOWED, pa.schema([])]),
    bound=st.just("w"),
)


@settings(max_examples=examples(50))
@given(ENDING, BOUNDED, CUTS, SEEDS)
def test_forgetting_partitions_below_their_bound_changes_no_result(rows, top, cuts, seed) -> None:
    named = changes([(None, *row[1:]) for row in rows]).frame
    ws = [w for w, _, at, stay, _ in rows for _ in range(1 + (stay is not None and at + stay < END))]
    delta = Delta(named.with_columns(pl.Series("w", ws, pl.Int64)).select("w", "v", *RESERVED))
    ranked_rows = same_log(top, delta, cuts, seed)
    for at in range(-1, END):
        expected: Counter = Counter()
        for _, part in groupby(sorted(copies_at(delta.frame, at), key=repr), key=lambda copy: repr(copy[0][0])):
            expected.update(ranked(top, list(part)))
        assert relation(ranked_rows, at) == expected


@pytest.mark.parametrize(
    ("limit", "method", "append_only", "kind"),
    [
        (2, "row_number", False, pa.int64()),
        (2, "row_number", True, pa.timestamp("us")),
        (None, "row_number", False, pa.date32()),
        (2, "rank", False, pa.timestamp("us")),
        (2, "dense_rank", True, pa.int64()),
    ],
)
def test_partition_below_its_bound_leaves_the_state(limit, method, append_only, kind) -> None:
    schema = pa.schema([("w", kind), ("v", pa.int64())])
    a_unit = {"int64": 1, "timestamp[us]": 1, "date32[day]": 86_400_000}[str(kind)]
    top = TopK(("w",), (SortKey("v"),), limit, 0, method, None, schema, append_only, bound="w")
    states = top.traces()
    for at in range(1, 195, 3):
        end = at // 10 * 10 + 10
        value = {"int64": end, "timestamp[us]": end * 1_000, "date32[day]": end}[str(kind)]
        row = pl.Series("w", [value]).cast(
            {"timestamp[us]": pl.Datetime("us"), "date32[day]": pl.Date}.get(str(kind), pl.Int64)
        )
        delta = elements([("k", at, at * a_unit, FOREVER, 1, at)]).frame.with_columns(row).select("w", "v", *RESERVED)
        states = top.step(Delta(delta), states, Move(at * a_unit, (at + 3) * a_unit)).traces
    assert all(0 < sum(run.height for run in state.runs) <= 15 for state in states)


def test_empty_input_gives_empty_output() -> None:
    (step,) = run_moves(TopK(("k",), (SortKey("v"),), 1, rank="r", schema=SCHEMA), stream([]))
    assert step.delta.frame.columns == ["k", "v", "r", *RESERVED]
    assert step.delta.frame.schema["r"] == pl.Int64
