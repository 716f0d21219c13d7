"""A quotient does not depend on the other rows of the batch."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from operators.expressions.quotient import quotient

FLOATS = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e9, max_value=1e9)
PAIRS = st.lists(st.tuples(FLOATS, FLOATS.filter(bool)), min_size=1, max_size=8)


@given(PAIRS)
def test_columns_are_divided_as_python_divides(pairs):
    frame = pl.DataFrame(pairs, schema={"x": pl.Float64, "y": pl.Float64}, orient="row")
    assert frame.select(quotient(pl.col("x"), pl.col("y")))["x"].to_list() == [x / y for x, y in pairs]


@given(PAIRS, FLOATS.filter(bool))
def test_one_divisor_for_a_whole_column(pairs, divisor):
    frame = pl.DataFrame({"x": [x for x, _ in pairs]}).with_columns(y=pl.lit(divisor))
    expected = [x / divisor for x, _ in pairs]
    assert frame.select(quotient(pl.col("x"), divisor))["x"].to_list() == expected
    assert frame.select(quotient(pl.col("x"), pl.col("y")))["x"].to_list() == expected
