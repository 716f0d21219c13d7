"""Set operations: DuckDB's answer over the relations at every instant."""

from __future__ import annotations

from collections import Counter

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.core.delta import FOREVER, FROM, ORDER, WEIGHT
from operators.relational.set_operation import SetOperation
from tests.operators.join_histories import CUTS, changes, check_laws, delta_of, run_through
from tests.support import duck_engine
from tests.support.strategies import examples

ROWS = changes(st.tuples(st.sampled_from([None, "a"]), st.sampled_from([None, 1])), 10)
SCHEMA = {"k": pl.String, "v": pl.Int64}
KINDS = {"except": "EXCEPT", "except_all": "EXCEPT ALL", "intersect": "INTERSECT", "intersect_all": "INTERSECT ALL"}
DUCKDB = duck_engine.connection()
DUCKDB.execute("CREATE TEMP TABLE a (k VARCHAR, v BIGINT); CREATE TEMP TABLE b AS FROM a")


def duckdb_answer(left, right, kind, at: int) -> Counter:
    for table, elements in (("a", left), ("b", right)):
        bag: Counter = Counter()
        for row, start, _, weight in elements:
            bag[row] += weight if start <= at else 0
        duck_engine.fill(DUCKDB, table, list(bag.elements()))
    answer = DUCKDB.execute(f"SELECT k, v FROM a {KINDS[kind]} SELECT k, v FROM b").fetchall()
    return Counter(map(repr, answer))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(40))
@given(ROWS, ROWS, CUTS, st.one_of(st.just(()), st.lists(st.integers(0, 9), min_size=1, max_size=5)))
def test_the_relation_is_what_duckdb_answers(kind, left, right, cuts, orders) -> None:
    inputs = delta_of(left, SCHEMA, orders), delta_of(right, SCHEMA, orders)
    check_laws(SetOperation(kind), inputs, cuts, lambda at: duckdb_answer(left, right, kind, at))


@pytest.mark.parametrize("cuts", [[], [3], [2, 3, 5]])
def test_set_operation_uses_the_greatest_order_of_both_sides(cuts) -> None:
    left = delta_of([(("a", 1), 2, FOREVER, 3), (("a", 1), 5, FOREVER, -1)], SCHEMA, [4, 9])
    right = delta_of(
        [(("a", 1), 2, FOREVER, 1), (("a", 1), 4, FOREVER, 1), (("a", 1), 5, FOREVER, 1)], SCHEMA, [7, 1, 3]
    )
    changes = [
        row
        for step in run_through(SetOperation("except_all"), [left, right], cuts)
        for row in step.delta.frame.select(FROM, WEIGHT, ORDER).rows()
    ]
    assert changes == [(2, 2, 7), (4, -1, 1), (5, -1, 9)]
