"""The reorder buffer releases each element once, in its move and in order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from operators.core.delta import FROM, ORDER
from operators.streams.reorder import Reorder
from tests.operators.stepping import END, RECORDS, STOPS, records_delta, step_through


@given(RECORDS, STOPS, st.lists(st.booleans(), max_size=4))
def test_each_element_passes_once_in_order_whenever_it_came(records, stops, early) -> None:
    steps = step_through(Reorder(), records_delta(records), stops, early)
    released = [row for step in steps for row in step.delta.frame.select(FROM, ORDER).rows()]
    assert released == sorted((record[2], order) for order, record in enumerate(records))
    edges = [0, *stops, END]
    for step, start, end in zip(steps, edges, edges[1:], strict=False):
        assert all(start <= at < end for at in step.delta.frame[FROM])


def test_released_elements_leave_the_state() -> None:
    records = [("a", 1, at, 1) for at in range(12)]
    last = step_through(Reorder(), records_delta(records), list(range(1, 12)), [True])[-1]
    assert [run.height for trace in last.traces for run in trace.runs] == []
