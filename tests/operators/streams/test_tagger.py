"""Tagger: at τ each key has the row of its last record with instant ≤ τ, unless that was a deletion."""

from __future__ import annotations

from collections import Counter

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from operators.streams.tagger import TS, Tagger
from tests.operators.stepping import END, RECORDS, STOPS, current_rows, records_delta, rows_at, step_through


def expected_at(records, at: int) -> Counter:
    return Counter((k, v, ts) for k, (v, ts) in current_rows(records, at).items())


@given(RECORDS, STOPS, st.lists(st.booleans(), max_size=4))
def test_relation_is_the_last_record_of_each_key(records, stops, early) -> None:
    steps = step_through(Tagger(("k",)), records_delta(records), stops, early)
    for at in range(-1, END):
        assert rows_at(steps, ["k", "v", TS], at) == expected_at(records, at)


@given(RECORDS, STOPS)
def test_a_composite_key_with_nulls(records, stops) -> None:
    steps = step_through(Tagger(("k", "v")), records_delta(records), stops)
    pairs = [((k, v), None, ts, weight) for k, v, ts, weight in records]
    for at in range(-1, END):
        expected = Counter((*key, ts) for key, (_, ts) in current_rows(pairs, at).items())
        assert rows_at(steps, ["k", "v", TS], at) == expected


@given(RECORDS, STOPS, st.lists(st.booleans(), max_size=4))
def test_state_is_bounded_by_keys_and_pending_records(records, stops, early) -> None:
    pending, current = step_through(Tagger(("k",)), records_delta(records), stops, early)[-1].traces
    assert sum(run.height for run in pending.runs) == 0
    stored = current.delta()
    assert (len(stored.advance(END).consolidate()) if current.runs else 0) == len(current_rows(records, END - 1))


def test_an_old_row_is_retracted_with_its_own_ts() -> None:
    steps = step_through(Tagger(("k",)), records_delta([("a", 1, 2, 1), ("a", 2, 5, 1), ("a", None, 7, -1)]), [3, 6])
    changes = pl.concat([step.delta.frame for step in steps]).select("k", "v", TS, "__from", "__weight")
    assert sorted(changes.rows()) == [
        ("a", 1, 2, 2, 1),
        ("a", 1, 2, 5, -1),
        ("a", 2, 5, 5, 1),
        ("a", 2, 5, 7, -1),
    ]
