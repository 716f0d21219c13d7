"""Final: each row appears at its bound, once."""

from __future__ import annotations

from collections import Counter

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.core.delta import FOREVER, FROM, ORDER, WEIGHT
from operators.core.operator import Move
from operators.windows.final import Final
from tests.operators.join_histories import CUTS, END, changes, check_laws, delta_of, relation, run_through
from tests.support.strategies import examples

SCHEMA = {"end": pl.Int64, "n": pl.Int64}
ROWS = changes(st.tuples(st.one_of(st.none(), st.integers(0, END + 3)), st.integers(0, 1)))


@settings(max_examples=examples(50))
@given(ROWS, CUTS, st.integers(0, 1))
def test_rows_are_visible_from_their_bound_on(rows, cuts, after) -> None:
    def expected(at: int) -> Counter:
        return relation([element for element in rows if element[0][0] is not None and element[0][0] + after <= at], at)

    check_laws(Final("end", after), [delta_of(rows, SCHEMA)], cuts, expected)


@settings(max_examples=examples(50))
@given(ROWS, CUTS)
def test_row_unchanged_after_its_bound_is_emitted_once(rows, cuts) -> None:
    early = [element for element in rows if element[0][0] is not None and element[1] < element[0][0]]
    steps = run_through(Final("end"), [delta_of(early, SCHEMA)], cuts)
    final = pl.concat([step.delta.frame for step in steps])
    assert (final[WEIGHT] > 0).all() and (final[FROM] == final["end"]).all() and (final[ORDER] == 0).all()


def test_replaced_results_are_not_kept() -> None:
    """A window whose count changes n times is kept as one row."""
    final, traces, size = Final("end"), Final("end").traces(), 1000
    for at in range(size):
        old = [((5000, at), at, FOREVER, -1)] if at else []
        step = final.step(delta_of([*old, ((5000, at + 1), at, FOREVER, 1)], SCHEMA), traces, Move(at, at + 1))
        traces = step.traces
    assert sum(run.height for run in traces[0].runs) < 20
    done = final.step(delta_of([], SCHEMA), traces, Move(size, 5001))
    assert done.delta.frame.select("end", "n", FROM, WEIGHT).rows() == [(5000, size, 5000, 1)]
    assert not any(run.height for run in done.traces[0].runs)
