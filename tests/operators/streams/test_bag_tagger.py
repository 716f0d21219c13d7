"""BagTagger: at τ each row as often as insertions and deletions up to τ leave it, never less than zero times."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from operators.streams.bag_tagger import BagTagger
from operators.streams.tagger import TS
from tests.operators.stepping import END, RECORDS, STOPS, records_delta, rows_at, step_through


def expected_at(records, at: int) -> Counter:
    """The instants of the rows that are left of each value, by its definition: the oldest leave first."""
    left: dict[tuple, list[int]] = {}
    for instant in sorted({ts for *_, ts, _ in records if ts <= at}):
        for value in {(k, v) for k, v, ts, _ in records if ts == instant}:
            weights = [weight for k, v, ts, weight in records if (k, v, ts) == (*value, instant)]
            held = [*left.get(value, []), *([instant] * weights.count(1))]
            left[value] = held[weights.count(-1) :]
    return Counter((*value, ts) for value, held in left.items() for ts in held)


@given(RECORDS, STOPS, st.lists(st.booleans(), max_size=4))
def test_relation_is_the_bag_of_the_records(records, stops, early) -> None:
    steps = step_through(BagTagger(("k", "v")), records_delta(records), stops, early)
    for at in range(-1, END):
        assert rows_at(steps, ["k", "v", TS], at) == expected_at(records, at)


@given(RECORDS, STOPS)
def test_state_is_bounded_by_rows(records, stops) -> None:
    pending, current = step_through(BagTagger(("k", "v")), records_delta(records), stops)[-1].traces
    assert sum(run.height for run in pending.runs) == 0
    stored = current.delta().advance(END).consolidate() if current.runs else None
    kept = 0 if stored is None else int(stored.frame["__weight"].sum())
    assert kept == sum(expected_at(records, END - 1).values())
