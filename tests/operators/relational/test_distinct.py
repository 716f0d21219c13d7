"""Distinct: every present row once."""

from __future__ import annotations

from collections import Counter

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import operators.core.run
import operators.state.accumulators
import operators.state.trace
from operators.core.delta import FOREVER, FROM, ORDER, TO, WEIGHT, Delta
from operators.relational.distinct import Distinct
from tests.operators.join_histories import CUTS, changes, check_laws, delta_of, relation, run_through
from tests.support.strategies import examples

ROWS = changes(st.tuples(st.sampled_from([None, "a", "b"]), st.sampled_from([None, 0.0, float("nan")])))
SCHEMA = {"k": pl.String, "f 1.x": pl.Float64}
ORDERS = st.one_of(st.just(()), st.lists(st.integers(0, 9), min_size=1, max_size=5))


@settings(max_examples=examples(50))
@given(ROWS, CUTS, ORDERS)
def test_every_present_row_is_returned_once(elements, cuts, orders) -> None:
    check_laws(Distinct(), [delta_of(elements, SCHEMA, orders)], cuts, lambda at: Counter(set(relation(elements, at))))


@given(ROWS, CUTS)
def test_state_is_bounded_by_the_present_rows(elements, cuts) -> None:
    (state,) = run_through(Distinct(), [delta_of(elements, SCHEMA)], cuts)[-1].traces
    rows = {repr(row) for row, *_ in elements}
    assert sum(run.height for run in state.runs) <= 3 * len(rows)
    if not relation(elements, 9):
        state = run_through(Distinct(), [delta_of(elements, SCHEMA)], [])[-1].traces[0]
        assert state.runs == ()


def test_only_entering_and_leaving_are_changes() -> None:
    elements = [(("a", None), 2, FOREVER, 2), (("a", None), 4, FOREVER, -1), (("a", None), 6, FOREVER, -1)]
    for cuts in ([], [3], [3, 5]):
        steps = run_through(Distinct(), [delta_of(elements, SCHEMA)], cuts)
        rows = [row for step in steps for row in step.delta.frame.select("k", FROM, TO, WEIGHT, ORDER).rows()]
        assert rows == [("a", 2, FOREVER, 1, 0), ("a", 6, FOREVER, -1, 2)]


@pytest.mark.parametrize("cuts", [[], [4]])
def test_negative_zero_is_zero_in_any_cut(cuts) -> None:
    elements = [(("a", -0.0), 2, FOREVER, 1), (("a", 0.0), 5, FOREVER, 1), (("a", 0.0), 7, FOREVER, -2)]
    steps = run_through(Distinct(), [delta_of(elements, SCHEMA)], cuts)
    rows = [row for step in steps for row in step.delta.frame.select("f 1.x", FROM, WEIGHT).rows()]
    assert repr(rows) == repr([(0.0, 2, 1), (0.0, 7, -1)])


def test_rows_without_columns() -> None:
    delta = Delta(pl.DataFrame({FROM: [1, 2, 3], TO: [FOREVER] * 3, WEIGHT: [1, 1, -2], ORDER: [0, 1, 2]}))
    for cuts in ([], [2], [2, 3]):
        steps = run_through(Distinct(), [delta], cuts)
        assert [row for step in steps for row in step.delta.frame.select(FROM, WEIGHT).rows()] == [(1, 1), (3, -1)]


def test_rows_of_every_type() -> None:
    columns = {
        "l": pl.Series([[1, None], [], None]),
        "s": pl.Series([{"a": 1.5}, None, {"a": None}]),
        "b": pl.Series([b"x", None, b""]),
        "d": pl.Series(["1.10", None, "0.00"]).cast(pl.Decimal(9, 2)),
        "t": pl.Series([1, None, 2]).cast(pl.Datetime("us")),
        "o": pl.Series([True, None, False]),
    }
    rows = pl.DataFrame(columns)
    frame = pl.concat([rows, rows, rows]).with_columns(
        pl.Series(FROM, [1, 1, 1, 4, 4, 4, 7, 7, 7]),
        pl.lit(FOREVER).alias(TO),
        pl.Series(WEIGHT, [1, 1, 1, 1, 1, 1, -2, -2, -2]),
        pl.Series(ORDER, range(9)),
    )
    for cuts in ([], [3], [3, 6]):
        steps = run_through(Distinct(), [Delta(frame)], cuts)
        distinct = pl.concat([step.delta.frame for step in steps])
        assert distinct.height == 6 and distinct.drop(FROM, TO, WEIGHT, ORDER).schema == rows.schema
        assert sorted(distinct.select(FROM, WEIGHT).rows()) == [(1, 1)] * 3 + [(7, -1)] * 3


@settings(max_examples=examples(50))
@given(ROWS, CUTS)
def test_hashes_that_collide_do_not_mix_rows(elements, cuts) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for module in (operators.core.run, operators.state.trace, operators.state.accumulators):
            patch.setattr(module, "key_hash", constant_hash)
        check_laws(Distinct(), [delta_of(elements, SCHEMA)], cuts, lambda at: Counter(set(relation(elements, at))))


def constant_hash(frame: pl.DataFrame, keys) -> pl.Series:
    return pl.repeat(7, frame.height, dtype=pl.UInt64, eager=True).alias("__hash")
