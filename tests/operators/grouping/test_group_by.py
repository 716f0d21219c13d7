"""GroupBy: at every instant the SQL aggregates over the current rows, for any cuts, without redundant changes."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.aggregates import AGGREGATES
from operators.aggregates.aggregate import Aggregate
from operators.core.delta import BEGINNING, FROM, ORDER, WEIGHT
from operators.core.operator import Move
from operators.grouping.group_by import GroupBy
from tests.operators.group_histories import (
    CUTS,
    END,
    EVENTS,
    INSERTS,
    SCHEMA,
    SEEDS,
    canonical,
    changes_of,
    delta_of,
    duckdb_relations,
    relation,
    run,
)
from tests.support.strategies import examples

KEYS = st.sampled_from([(), ("k",), ("j",), ("k", "j")])


def aggregate(sql: str, name: str) -> Aggregate:
    """`function([DISTINCT] a, b; parameter) [FILTER p]` as an Aggregate."""
    call, _, filter_ = sql.partition(" FILTER ")
    function, _, inner = call.rstrip(")").partition("(")
    distinct = inner.startswith("DISTINCT ")
    columns, _, parameter = inner.removeprefix("DISTINCT ").partition("; ")
    arguments = tuple(column for column in columns.split(", ") if column)
    parameters = (float(parameter),) if parameter else ()
    entry = AGGREGATES[function]
    type_ = entry.result(tuple(SCHEMA.field(argument).type for argument in arguments), parameters)
    return Aggregate(name, function, arguments, type_, entry.nullable, distinct, filter_ or None, (), parameters)


def duckdb_sql(sql: str) -> str:
    call, _, filter_ = sql.partition(" FILTER ")
    call = (
        call.replace("percentile_cont", "quantile_cont").replace("percentile_disc", "quantile_disc").replace("; ", ", ")
    )
    call = call.replace("approx_count_distinct(", "count(DISTINCT ").replace("count_if(b)", "count(nullif(b, false))")
    return call + (f" FILTER (WHERE {filter_})" if filter_ else "")


LINEAR = [
    "count()",
    "count(x)",
    "sum(x)",
    "sum(y)",
    "sum(d)",
    "sum(f)",
    "avg(x)",
    "avg(d)",
    "avg(f)",
    "bool_and(b)",
    "bool_or(b)",
    "bit_xor(x)",
    "count_if(b)",
    "count(x) FILTER p",
    "sum(g) FILTER p",
    "count(DISTINCT x)",
    "sum(DISTINCT x)",
    "avg(DISTINCT g) FILTER p",
    "approx_count_distinct(s)",
    "sum(DISTINCT f)",
]
MOMENTS = [
    "var_pop(x)",
    "var_samp(x)",
    "stddev_pop(g)",
    "stddev_samp(y)",
    "var_pop(d)",
    "covar_pop(x, y)",
    "covar_samp(g, x)",
    "corr(x, y)",
    "corr(g, y)",
    "regr_count(x, g)",
    "regr_avgx(x, g)",
    "regr_avgy(g, y)",
    "regr_sxx(y, x)",
    "regr_syy(y, x)",
    "regr_sxy(g, x)",
    "regr_slope(y, x)",
    "regr_slope(g, x)",
    "regr_intercept(y, x)",
    "regr_r2(y, x)",
    "regr_r2(x, g)",
    "var_pop(DISTINCT x)",
]
BEST = [
    "min(x)",
    "max(x)",
    "min(f)",
    "max(f)",
    "min(s) FILTER p",
    "max(d)",
    "min(b)",
    "max(DISTINCT y)",
    "max(k)",
    "min(g)",
]
HOLISTIC = [
    "median(x)",
    "median(g)",
    "percentile_cont(g; 0.3)",
    "percentile_disc(x; 0.75)",
    "percentile_disc(s; 0.4)",
    "median(DISTINCT x)",
    "median(y) FILTER p",
    "bit_and(x)",
    "bit_or(y)",
    "percentile_disc(f; 0)",
]


def check(events, cuts, seed, keys, calls, append_only=False) -> None:
    """Asserts that the relation is DuckDB's at every instant, and the output that of one move with shuffled rows."""
    changes = changes_of(events)
    aggregates = tuple(aggregate(sql, f"a{number}") for number, sql in enumerate(calls))
    group = GroupBy(keys, aggregates, SCHEMA, append_only=append_only)
    output, faults = run(group, delta_of(changes, seed=seed), cuts)
    assert not faults.height
    selected = ", ".join(map(duckdb_sql, calls))
    for at, expected in duckdb_relations(changes, keys, selected).items():
        assert relation(output, at) == expected, at
    whole, _ = run(group, delta_of(changes, seed=seed + 1))
    assert canonical(output) == canonical(whole)
    sides = output.group_by(*keys, FROM).agg(pl.col(WEIGHT).sum().abs().alias("n")) if keys else output
    assert not keys or (sides["n"] <= 1).all()


def some(calls: list[str]) -> st.SearchStrategy[list[str]]:
    """A few of the calls."""
    return st.lists(st.sampled_from(calls), min_size=1, max_size=4, unique=True)


@settings(max_examples=examples(60))
@given(events=EVENTS, cuts=CUTS, seed=SEEDS, keys=KEYS, calls=some(LINEAR))
def test_sums_are_what_duckdb_says_at_every_instant(events, cuts, seed, keys, calls) -> None:
    check(events, cuts, seed, keys, calls)


@settings(max_examples=examples(50))
@given(events=EVENTS, cuts=CUTS, seed=SEEDS, keys=KEYS, calls=some(MOMENTS))
def test_moments_are_what_duckdb_says_at_every_instant(events, cuts, seed, keys, calls) -> None:
    check(events, cuts, seed, keys, calls)


@settings(max_examples=examples(60))
@given(events=EVENTS, cuts=CUTS, seed=SEEDS, keys=KEYS, calls=some(BEST))
def test_extremes_are_what_duckdb_says_at_every_instant(events, cuts, seed, keys, calls) -> None:
    check(events, cuts, seed, keys, calls)


@settings(max_examples=examples(50))
@given(events=EVENTS, cuts=CUTS, seed=SEEDS, keys=KEYS, calls=some(HOLISTIC))
def test_percentiles_are_what_duckdb_says_at_every_instant(events, cuts, seed, keys, calls) -> None:
    check(events, cuts, seed, keys, calls)


@settings(max_examples=examples(50))
@given(events=EVENTS, cuts=CUTS, seed=SEEDS, keys=KEYS, calls=some([*LINEAR, *MOMENTS, *BEST, *HOLISTIC]))
def test_aggregates_of_all_kinds_in_one_operator(events, cuts, seed, keys, calls) -> None:
    check(events, cuts, seed, keys, calls)


@settings(max_examples=examples(50))
@given(events=INSERTS, cuts=CUTS, seed=SEEDS, keys=KEYS)
def test_rows_that_are_never_retracted(events, cuts, seed, keys) -> None:
    check(events, cuts, seed, keys, [*BEST, "sum(x)", "count(DISTINCT x)"], append_only=True)


def changed(group: GroupBy, changes, cuts=()) -> list[tuple]:
    """The output as rows (result…, from, weight, order)."""
    schema = group.schema
    output, _ = run(group, delta_of(changes, schema), cuts)
    return (
        output.select(*[column for column in output.columns if not column.startswith("__")], FROM, WEIGHT, ORDER)
        .sort(FROM, ORDER, WEIGHT)
        .rows()
    )


KX = pa.schema([("k", pa.string()), ("x", pa.int64())])
COUNT = Aggregate("n", "count", (), pa.int64(), nullable=False)
SUM = Aggregate("s", "sum", ("x",), pa.int64())


def test_unchanged_aggregate_row_is_not_sent_again() -> None:
    greatest = Aggregate("m", "max", ("x",), pa.int64())
    rows = changed(GroupBy(("k",), (greatest,), KX), [(("a", 5), 1, 1, 0), (("a", 3), 2, 1, 1), (("a", 5), 4, -1, 7)])
    assert rows == [("a", 5, 1, 1, 0), ("a", 5, 4, -1, 7), ("a", 3, 4, 1, 7)]


def test_the_order_of_a_change_is_the_greatest_of_its_instant() -> None:
    rows = changed(GroupBy(("k",), (COUNT,), KX), [(("a", 5), 1, 1, 3), (("a", 3), 1, 1, 9), (("b", 5), 1, 1, 11)])
    assert sorted(rows) == [("a", 2, 1, 1, 9), ("b", 1, 1, 1, 11)]


def test_a_group_without_rows_has_no_row_and_comes_back() -> None:
    changes = [(("a", 5), 1, 1, 0), (("a", 5), 2, -1, 1), (("a", 1), 6, 1, 2)]
    for cuts in ([], [2], [2, 3, 6]):
        assert changed(GroupBy(("k",), (SUM,), KX), changes, cuts) == [
            ("a", 5, 1, 1, 0),
            ("a", 5, 2, -1, 1),
            ("a", 1, 6, 1, 2),
        ]


def test_group_by_without_keys_has_a_row_from_the_beginning() -> None:
    group = GroupBy((), (COUNT, SUM), KX)
    assert changed(group, [], [3]) == [(0, None, BEGINNING, 1, 0)]
    assert changed(group, [(("a", 5), 4, 1, 8)], [3]) == [
        (0, None, BEGINNING, 1, 0),
        (0, None, 4, -1, 8),
        (1, 5, 4, 1, 8),
    ]
    assert changed(group, [(("a", 5), BEGINNING, 1, 8)], [3]) == [(1, 5, BEGINNING, 1, 8)]


def test_group_without_aggregates_exists_while_it_has_rows() -> None:
    changes = [(("a", 5), 1, 1, 0), (("a", 6), 2, 1, 1), (("a", 5), 3, -1, 2), (("a", 6), 4, -1, 3)]
    assert changed(GroupBy(("k",), (), KX), changes, [2]) == [("a", 1, 1, 0), ("a", 4, -1, 3)]


@pytest.mark.parametrize("cuts", [[], [2], [2, 3, 4]])
def test_a_sum_out_of_range_is_a_fault_while_it_lasts(cuts) -> None:
    great = 2**63 - 1
    changes = [(("a", great), 1, 1, 0), (("a", 1), 2, 1, 1), (("a", 2), 3, 1, 2), (("a", great), 5, -1, 3)]
    output, faults = run(GroupBy(("k",), (SUM,), KX), delta_of(changes, KX), cuts)
    assert output.select("s", FROM, WEIGHT).sort(FROM, WEIGHT).rows() == [(great, 1, 1), (great, 2, -1), (3, 5, 1)]
    assert faults.rows() == [(2, 1, 'sum out of range in "s"', '{"k":"a"}')]


@pytest.mark.parametrize("cuts", [[], [2], [2, 3, 4]])
@pytest.mark.parametrize(("function", "most"), [("string_agg", 1_000_000), ("array_agg", 1_000_000 - 2 * 8)])
def test_a_collected_value_above_the_bound_is_a_fault_while_it_lasts(function: str, most: int, cuts) -> None:
    schema = pa.schema([("k", pa.string()), ("t", pa.string())])
    type_ = AGGREGATES[function].result((pa.string(),))
    group = GroupBy(("k",), (Aggregate("all", function, ("t",), type_),), schema)
    large = "x" * (most - 4)
    changes = [(("a", "one"), 1, 1, 0), (("a", large), 2, 1, 1), (("a", "two"), 3, 1, 2), (("a", large), 5, -1, 3)]
    output, faults = run(group, delta_of(changes, schema), cuts)
    what = "text" if function == "string_agg" else "array"
    assert faults.rows() == [(3, 2, f'{what} longer than 1000000 bytes in "all"', '{"k":"a"}')]
    texts = output.sort(FROM, WEIGHT)["all"].to_list()
    expected = [["one"], ["one"], ["one", large], ["one", large], ["one", "two"]]
    assert texts == ([",".join(items) for items in expected] if function == "string_agg" else expected)


DISTINCT = [
    f"{call}{filter_}"
    for call in ("count(DISTINCT x)", "sum(DISTINCT x)", "approx_count_distinct(s)")
    for filter_ in ("", " FILTER p", " FILTER b")
]


@settings(max_examples=examples(60))
@given(events=EVENTS, cuts=CUTS, seed=SEEDS, keys=KEYS, calls=some(DISTINCT))
def test_distinct_values_with_several_filters(events, cuts, seed, keys, calls) -> None:
    check(events, cuts, seed, keys, calls)


@settings(max_examples=examples(60))
@given(events=INSERTS, cuts=CUTS, seed=SEEDS, keys=KEYS, calls=some(DISTINCT))
def test_distinct_values_with_several_filters_that_are_never_retracted(events, cuts, seed, keys, calls) -> None:
    check(events, cuts, seed, keys, calls, append_only=True)


def test_filters_of_the_same_distinct_values_share_a_state() -> None:
    def group(*calls: str) -> GroupBy:
        return GroupBy(("k",), tuple(aggregate(call, f"a{number}") for number, call in enumerate(calls)), SCHEMA)

    assert [len(group(*DISTINCT[:many]).traces()) for many in (1, 6, 9)] == [2, 2, 3]
    assert [group(*calls).operator_version for calls in (DISTINCT[:1], DISTINCT[::3], DISTINCT[:2])] == [1, 1, 2]


def test_group_below_its_bound_leaves_the_state() -> None:
    schema = pa.schema([("w", pa.int64()), ("x", pa.int64())])
    calls = (
        SUM,
        Aggregate("m", "max", ("x",), pa.int64()),
        Aggregate("l", "last", ("x",), pa.int64()),
        Aggregate("d", "count", ("x",), pa.int64(), distinct=True),
        Aggregate("h", "median", ("x",), pa.float64()),
    )
    group = GroupBy(("w",), calls, schema, bound="w")
    states = group.traces()
    for at in range(1, 200):
        delta = delta_of([((at // 10 * 10 + 10, at), at, 1, at)], schema)
        step = group.step(delta, states, Move(at, at + 1))
        states = step.traces
        assert step.delta.frame.height == (1 if at % 10 == 0 or at == 1 else 2)
    assert all(sum(run.height for run in state.runs) <= 40 for state in states)


def test_a_step_without_changes_keeps_schema_and_state() -> None:
    group = GroupBy(("k",), (COUNT, SUM), KX)
    empty = delta_of([], KX)
    step = group.step(empty, group.traces(), Move(BEGINNING, END))
    assert dict(step.delta.frame.schema) == {
        "k": pl.String,
        "n": pl.Int64,
        "s": pl.Int64,
        "__from": pl.Int64,
        "__to": pl.Int64,
        "__weight": pl.Int64,
        "__order": pl.Int64,
    }
    full = group.step(delta_of([(("a", 5), 1, 1, 3)], KX), group.traces(), Move(BEGINNING, END))
    assert full.delta.frame.schema == step.delta.frame.schema
