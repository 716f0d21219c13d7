"""Unnest: each row with every element of its array."""

from __future__ import annotations

from collections import Counter

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.relational.unnest import Unnest
from tests.operators.join_histories import CUTS, check_laws, delta_of, intervals, run_through
from tests.support.strategies import examples

ARRAYS = st.one_of(st.none(), st.lists(st.sampled_from([None, 1, 2]), max_size=3))
ROWS = intervals(st.tuples(st.sampled_from([None, "a"]), ARRAYS))
SCHEMA = {"k": pl.String, "v": pl.List(pl.Int64)}


@settings(max_examples=examples(50))
@given(ROWS, CUTS, st.booleans())
def test_each_element_is_joined_with_its_row(elements, cuts, outer) -> None:
    def expected(at: int) -> Counter:
        bag: Counter = Counter()
        for (k, array), start, end, weight in elements:
            for value in array or ([None] if outer else []):
                bag[repr((k, array, value))] += weight if start <= at < end else 0
        return +bag

    check_laws(Unnest("v", "one", outer, pa.int64()), [delta_of(elements, SCHEMA)], cuts, expected)


@pytest.mark.parametrize("outer", [False, True])
def test_arrays_of_arrays_and_of_nothing(outer) -> None:
    schema = {"v": pl.List(pl.List(pl.Int64))}
    elements = [(([[1], None, []],), 2, 5, 1), ((None,), 2, 5, 1), (([],), 2, 5, 1)]
    (step,) = run_through(Unnest("v", "w", outer, pa.list_(pa.int64())), [delta_of(elements, schema)], [])
    assert step.delta.frame.sort("__order", maintain_order=True)["w"].to_list() == [[1], None, []] + [None] * 2 * outer
    nothing = delta_of([((None,), 2, 5, 1)], {"v": pl.Null})
    (step,) = run_through(Unnest("v", "w", outer, pa.string()), [nothing], [])
    assert step.delta.frame["w"].dtype == pl.String and len(step.delta) == outer
