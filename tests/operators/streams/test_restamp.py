"""Restamp: TS of a view's row is the instant at which the view last changed the row of the key."""

from __future__ import annotations

from collections import Counter

from hypothesis import given

from operators.core.delta import Delta
from operators.streams.restamp import Restamp
from operators.streams.tagger import TS, Tagger
from tests.operators.stepping import END, RECORDS, STOPS, current_rows, records_delta, rows_at, step_through


@given(RECORDS, STOPS)
def test_ts_is_the_instant_of_the_last_real_change(records, stops) -> None:
    (view,) = step_through(Tagger(("k",)), records_delta(records), [])
    steps = step_through(Restamp(("k",)), Delta(view.delta.frame.drop(TS)), stops)
    since: dict = {}
    for at in range(END):
        now = {k: v for k, (v, _) in current_rows(records, at).items()}
        since = {k: since[k] if k in since and since[k][0] == v else (v, at) for k, v in now.items()}
        assert rows_at(steps, ["k", "v", TS], at) == Counter((k, v, ts) for k, (v, ts) in since.items())
