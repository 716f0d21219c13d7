"""Filter: the rows for which the predicate is TRUE; it is linear, so moves and signs do not matter."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from operators.core.delta import Delta
from operators.core.operator import FAULT, FAULT_ROW, Move, split_faults
from operators.expressions import Column, Literal, call
from operators.relational.filter import Filter
from operators.streams.tagger import TS, Tagger
from tests.operators.stepping import END, RECORDS, STOPS, current_rows, records_delta, rows_at, step_through

V = Column("v", pa.int64())


@given(RECORDS, STOPS, st.integers(0, 3))
def test_relation_is_that_of_the_rows_with_a_true_predicate(records, stops, bound) -> None:
    (tagged,) = step_through(Tagger(("k",)), records_delta(records), [])
    operator = Filter(call("greater", V, Literal(bound, pa.int64())))
    steps = step_through(operator, Delta(tagged.delta.frame.drop(TS)), stops)
    for at in range(END):
        rows = [(k, v) for k, (v, _) in current_rows(records, at).items()]
        assert rows_at(steps, ["k", "v"], at) == Counter((k, v) for k, v in rows if v is not None and v > bound)


def test_null_predicate_keeps_no_row() -> None:
    step = Filter(Literal(None, pa.null())).step(records_delta([("a", 1, 2, 1)]), (), Move(0, 9))
    assert step.delta.frame.height == 0


def test_a_row_in_fault_is_left_out_with_its_retraction_and_reported_once() -> None:
    delta = Delta.of([("+", {"k": "a", "v": 0}, 1), ("-", {"k": "a", "v": 0}, 4), ("+", {"k": "b", "v": 2}, 5)])
    inverse = call("equal", call("divide", Literal(4, pa.int64()), V), Literal(2, pa.int64()))
    step = Filter(inverse).step(delta, (), Move(0, 9))
    assert [row["k"] for row in step.delta.frame.to_dicts()] == ["b"]
    assert step.faults is not None
    assert step.faults.select("__from", FAULT, FAULT_ROW).rows() == [
        (1, 'division by zero in "4 / v"', '{"k":"a","v":0}')
    ]


def test_no_fault_no_report() -> None:
    delta = records_delta([("a", 1, 2, 1)])
    fine, reported = split_faults(delta, delta.frame.select(fault=None).to_series().cast(str))
    assert fine is delta
    assert reported is None
