"""Faults of single rows, and expressions without columns."""

import polars as pl

from operators.expressions import evaluate
from tests.operators.expressions.expression_row import FRAME, bind


def test_faults_are_per_row_and_first_by_order():
    frame = pl.DataFrame(
        {"i": [1, 2, 3], "z": [1, 0, None], "s": ["1", "x", "y"]}, schema_overrides={"i": pl.Int32, "z": pl.Int32}
    )
    values, faults = evaluate(frame, {"a": bind("i / z"), "b": bind("CAST(s AS INT)")})
    assert values.to_dict(as_series=False) == {"a": [1, None, None], "b": [1, None, None]}
    assert faults.to_list() == [
        None,
        'division by zero in "i / z"',
        'cannot cast "y" to INTEGER in "CAST(s AS INTEGER)"',
    ]


def test_constants_have_the_height_of_the_frame():
    frame = FRAME.clear().clone()
    assert evaluate(frame, {"x": bind("1 / 0"), "y": bind("ARRAY[1]")})[0].height == 0
    assert evaluate(pl.concat([FRAME] * 3), {"x": bind("1 / 0"), "y": bind("ARRAY[1]")})[1].len() == 6
