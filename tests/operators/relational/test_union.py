"""Union: multiplicities add."""

from __future__ import annotations

from collections import Counter

from hypothesis import given

from operators.core.delta import Delta
from operators.core.operator import Move
from operators.relational.union import Union
from operators.streams.tagger import TS, Tagger
from tests.operators.stepping import END, RECORDS, current_rows, records_delta, rows_at, step_through


@given(RECORDS, RECORDS)
def test_multiplicities_add(left_records, right_records) -> None:
    tagged = [
        step_through(Tagger(("k",)), records_delta(records), [])[0].delta for records in (left_records, right_records)
    ]
    left, right = (Delta(delta.frame.drop(TS)) for delta in tagged)
    step = Union().step(left, right, (), Move(0, END))
    for at in range(END):
        expected = Counter(
            (k, v) for records in (left_records, right_records) for k, (v, _) in current_rows(records, at).items()
        )
        assert rows_at([step], ["k", "v"], at) == expected
