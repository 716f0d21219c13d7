"""Runs an operator over any moves, and makes streams of records for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import polars as pl
from hypothesis import strategies as st

from operators.core.delta import FOREVER, FROM, ORDER, TO, WEIGHT, Delta
from operators.core.operator import Move, Operator, Step

END = 12
#: Records (key, value, instant, weight) in log order; weight -1 is a deletion by key.
RECORD = st.tuples(
    st.sampled_from([None, "a", "b", "c"]),
    st.sampled_from([None, 1, 2, 3]),
    st.integers(0, END - 1),
    st.sampled_from([1, 1, 1, -1]),
)
RECORDS = st.lists(RECORD, max_size=20)
#: The instants at which frontiers stop on their way from 0 to END.
STOPS = st.lists(st.integers(1, END - 1), max_size=5).map(lambda stops: sorted(stops))
COLUMNS = {"k": pl.String, "v": pl.Int64, FROM: pl.Int64, TO: pl.Int64, WEIGHT: pl.Int64, ORDER: pl.Int64}


def records_delta(records) -> Delta:
    """Elements of records; the order is the position."""
    rows = [(k, v, ts, FOREVER, weight, order) for order, (k, v, ts, weight) in enumerate(records)]
    return Delta(pl.DataFrame(rows, schema=COLUMNS, orient="row"))


def step_through(operator: Operator, delta: Delta, stops: Sequence[int], early: Sequence[bool] = ()) -> list[Step]:
    """The steps over moves 0 → stops… → END. An element arrives in the move of its start, an `early` one in
    the first move."""
    edges = [0, *stops, END]
    flags = pl.Series([bool(early) and early[order % len(early)] for order in delta.frame[ORDER]], dtype=pl.Boolean)
    traces, steps = operator.traces(), []
    for number, (start, end) in enumerate(zip(edges, edges[1:], strict=False)):
        due = delta.frame.select(pl.col(FROM).is_between(start, end, closed="left")).to_series()
        now = (due & ~flags) | (flags if number == 0 else pl.repeat(False, len(flags), eager=True))
        steps.append(operator.step(Delta(delta.frame.filter(now)), traces, Move(start, end)))
        traces = steps[-1].traces
    return steps


def rows_at(steps: Sequence[Step], columns: Sequence[str], at: int) -> Counter:
    """The relation at an instant, as the sum of the outputs of the steps: a bag of rows."""
    counted: Counter = Counter()
    for step in steps:
        alive = step.delta.frame.filter((pl.col(FROM) <= at) & (pl.col(TO) > at))
        for *row, weight in alive.select(*columns, WEIGHT).iter_rows():
            counted[tuple(row)] += weight
    assert all(weight >= 0 for weight in counted.values()), f"negative multiplicity at {at}: {counted}"
    return +counted


def current_rows(records, at: int) -> dict:
    """For each key (value, instant) of its last record up to `at` by (instant, position), unless it is a deletion."""
    seen = sorted((record for record in records if record[2] <= at), key=lambda record: record[2])
    last = {record[0]: record for record in seen}
    return {k: (v, ts) for k, v, ts, weight in last.values() if weight > 0}
