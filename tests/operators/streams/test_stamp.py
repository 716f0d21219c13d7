"""Stamp: every record is an insertion with its instant as TS; a deletion is rejected and reported."""

from __future__ import annotations

from collections import Counter

from hypothesis import given

from operators.core.operator import FAULT
from operators.streams.stamp import Stamp
from operators.streams.tagger import TS
from tests.operators.stepping import END, RECORDS, STOPS, records_delta, rows_at, step_through


@given(RECORDS, STOPS)
def test_insertions_are_stamped_and_deletions_rejected(records, stops) -> None:
    steps = step_through(Stamp(), records_delta(records), stops)
    for at in range(END):
        expected = Counter((k, v, ts) for k, v, ts, weight in records if weight > 0 and ts <= at)
        assert rows_at(steps, ["k", "v", TS], at) == expected
    faults = [fault for step in steps if step.faults is not None for fault in step.faults[FAULT]]
    assert faults == ["a deletion needs a key, but the stream has none"] * sum(weight < 0 for *_, weight in records)
