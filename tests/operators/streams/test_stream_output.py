"""Stream output: the tagged changes fold to the relation, and none of them is redundant."""

from __future__ import annotations

from collections import Counter

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from operators.core.delta import FOREVER, FROM, ORDER, TO, WEIGHT, Delta
from operators.streams.stream_output import OP, StreamOutput
from operators.streams.tagger import TS, Tagger
from tests.operators.stepping import END, RECORDS, STOPS, current_rows, records_delta, step_through


def changes_of(output: StreamOutput, delta: Delta, stops, early=()) -> list[tuple]:
    """The changes as (instant, op, k, v), in the order they are published."""
    steps = step_through(output, delta, stops, early)
    return [row for step in steps for row in step.delta.frame.select(FROM, OP, "k", "v").rows()]


def tagged(records) -> Delta:
    (whole,) = step_through(Tagger(("k",)), records_delta(records), [])
    return Delta(whole.delta.frame.drop(TS))


@given(RECORDS, STOPS, st.lists(st.booleans(), max_size=4))
def test_keyed_changes_are_the_net_change_of_each_key(records, stops, early) -> None:
    changes = changes_of(StreamOutput(("k",)), tagged(records), stops, early)
    expected, before = [], {}
    for at in range(END):
        now = {k: v for k, (v, _) in current_rows(records, at).items()}
        expected += [(at, "-", k) for k in before if k not in now]
        expected += [(at, "+", k, now[k]) for k in now if k not in before]
        expected += [(at, "u", k, now[k]) for k in now if k in before and before[k] != now[k]]
        before = now
    net_changes = [change[:3] if change[1] == "-" else change for change in changes]
    assert Counter(net_changes) == Counter(expected)
    assert [change[0] for change in changes] == sorted(change[0] for change in changes)


@given(RECORDS, STOPS, st.lists(st.booleans(), max_size=4))
def test_keyless_changes_fold_to_the_bag_at_every_instant(records, stops, early) -> None:
    changes = changes_of(StreamOutput(()), tagged(records), stops, early)
    for at in range(END):
        bag: Counter = Counter()
        for instant, op, k, v in changes:
            if instant <= at:
                bag[(k, v)] += 1 if op == "+" else -1
                assert bag[(k, v)] >= 0, "a row was deleted before it was inserted"
        assert +bag == Counter((k, v) for k, (v, _) in current_rows(records, at).items())


@given(RECORDS, STOPS)
def test_append_only_rows_pass_as_insertions(records, stops) -> None:
    insertions = [(k, v, ts, 1) for k, v, ts, _ in records]
    changes = changes_of(StreamOutput((), append_only=True), records_delta(insertions), stops)
    in_order = sorted(insertions, key=lambda record: record[2])
    assert changes == [(ts, "+", k, v) for k, v, ts, _ in in_order]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 8), st.integers(1, 5)), max_size=8), STOPS)
def test_an_element_that_ends_is_deleted_at_its_end(intervals, stops) -> None:
    """Elements [from, from + length): the deletion is published once the frontier has passed the end."""
    rows = [(k, 1, start, start + length, 1, at) for at, (k, start, length) in enumerate(intervals)]
    schema = {"k": pl.String, "v": pl.Int64, FROM: pl.Int64, TO: pl.Int64, WEIGHT: pl.Int64, ORDER: pl.Int64}
    changes = changes_of(StreamOutput(()), Delta(pl.DataFrame(rows, schema=schema, orient="row")), stops)
    for at in range(END):
        bag: Counter = Counter()
        for instant, op, k, _ in changes:
            bag[k] += (1 if op == "+" else -1) if instant <= at else 0
        assert +bag == Counter(k for k, start, length in intervals if start <= at < start + length)


def test_a_multiplicity_gives_as_many_changes() -> None:
    frame = pl.DataFrame(
        {"k": ["a", "a"], "v": [1, 1], FROM: [2, 5], TO: [FOREVER, FOREVER], WEIGHT: [3, -2], ORDER: [0, 1]}
    )
    assert changes_of(StreamOutput(()), Delta(frame), [3]) == [(2, "+", "a", 1)] * 3 + [(5, "-", "a", 1)] * 2
