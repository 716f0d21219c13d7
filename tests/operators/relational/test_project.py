"""Project: the expressions over each row, duplicates kept."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
from hypothesis import given

from operators.core.delta import Delta
from operators.core.operator import FAULT, Move
from operators.expressions import Column, Literal, call
from operators.relational.project import Project
from operators.streams.tagger import TS, Tagger
from tests.operators.stepping import END, RECORDS, STOPS, current_rows, records_delta, rows_at, step_through

V = Column("v", pa.int64())


@given(RECORDS, STOPS)
def test_relation_is_the_projected_bag(records, stops) -> None:
    (tagged,) = step_through(Tagger(("k",)), records_delta(records), [])
    operator = Project((("twice", call("multiply", V, Literal(2, pa.int64()))), ("one", Literal(1, pa.int32()))))
    steps = step_through(operator, Delta(tagged.delta.frame.drop(TS)), stops)
    for at in range(END):
        values = [v for v, _ in current_rows(records, at).values()]
        assert rows_at(steps, ["twice", "one"], at) == Counter((None if v is None else 2 * v, 1) for v in values)


def test_columns_may_swap_names_and_faults_are_rejected() -> None:
    delta = Delta.of([("+", {"k": 1, "v": 0}, 1), ("+", {"k": 2, "v": 5}, 2)])
    swap = Project((("k", V), ("v", Column("k", pa.int64())), ("q", call("divide", Literal(10, pa.int64()), V))))
    step = swap.step(delta, (), Move(0, 9))
    assert step.delta.snapshot(5).to_dicts() == [{"k": 5, "v": 2, "q": 2}]
    assert step.faults is not None
    assert step.faults[FAULT].to_list() == ['division by zero in "10 / v"']
