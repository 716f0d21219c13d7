"""Session: at every instant each row with the bounds of its chain of neighbours."""

from __future__ import annotations

import datetime as dt
from collections import Counter

import polars as pl
from hypothesis import example, given, settings
from hypothesis import strategies as st

from operators.core.delta import FOREVER, FROM, ORDER, WEIGHT, Delta
from operators.sessions.session import Session
from tests.operators.window_histories import (
    CUTS,
    END,
    LIVES,
    SEEDS,
    changes,
    elements,
    output,
    relation,
    run_moves,
    same_log,
    stream,
)
from tests.support.strategies import examples

SESSIONS = st.builds(Session, st.just("v"), st.integers(0, 4), st.sampled_from([(), ("k",)]))
VALUES = st.integers(-3, 12)


def expected(session: Session, rows: Counter) -> Counter:
    """By definition: the session of each row grows until no other row is near."""
    bag: Counter = Counter()
    for (k, v), weight in rows.items():
        if v is None:
            continue
        mates = {value for key, value in rows if value is not None and (not session.partition or key == k)}
        low = high = v
        for _ in mates:
            near = [value for value in mates if low - session.gap <= value <= high + session.gap]
            low, high = min(near), max(near)
        bag[(k, v, low, high + session.gap)] += weight
    return bag


def moment(day: int, hour: int = 0) -> dt.datetime:
    """A time on a day of January 2024; day 32 is 1 February."""
    midnight = dt.datetime.combine(dt.date(2024, 1, 1), dt.time())
    return midnight + dt.timedelta(days=day - 1, hours=hour)


@settings(max_examples=examples(50))
@given(LIVES.flatmap(lambda rows: st.tuples(*(st.tuples(st.just(row), VALUES) for row in rows))), SESSIONS, CUTS, SEEDS)
@example([(("a", 1, 0, None, 1), 1), (("a", 1, 1, 5, 2), 7), (("a", 1, 2, 2, 1), 4)], Session("v", 3), [3], 0)
@example([(("a", 1, 0, None, 1), 4), (("a", 1, 0, None, 1), 6), (("a", 1, 1, None, 1), 5)], Session("v", 1), [1], 0)
def test_sessions_at_every_instant(spread, session, cuts, seed) -> None:
    rows = [(k, None if v is None else value, *rest) for (k, v, *rest), value in spread]
    delta = changes(rows)
    assigned = same_log(session, delta, cuts, seed)
    for at in range(-1, END):
        assert relation(assigned, at) == expected(session, relation(delta.frame, at))


def test_a_late_row_joins_two_sessions() -> None:
    rows = elements([("a", 1, 1, FOREVER, 1, 0), ("a", 7, 2, FOREVER, 1, 1), ("a", 4, 3, FOREVER, 1, 2)])
    assigned = output(run_moves(Session("v", 3), rows, [3]))
    assert sorted(
        assigned.filter(pl.col(FROM) == 3).select("v", "window_start", "window_end", WEIGHT, ORDER).rows()
    ) == [
        (1, 1, 4, -1, 2),
        (1, 1, 10, 1, 2),
        (4, 1, 10, 1, 2),
        (7, 1, 10, 1, 2),
        (7, 7, 10, -1, 2),
    ]


def test_sessions_that_no_change_touches_are_quiet() -> None:
    rows = stream([("a", 1, 1, 1), ("a", 100, 2, 1)])
    assigned = output(run_moves(Session("v", 3), rows, [2]))
    assert assigned.select("v", FROM).rows() == [(1, 1), (100, 2)]


def test_times_have_gaps_in_ms() -> None:
    day = dt.date(2024, 1, 31)
    delta = Delta.of([("+", {"d": day}, 1), ("+", {"d": day + dt.timedelta(1)}, 1), ("+", {"d": None}, 1)])
    (step,) = run_moves(Session("d", 86_400_000), delta)
    assert step.delta.frame["window_start"].to_list() == [moment(31)] * 2
    assert step.delta.frame["window_end"].to_list() == [moment(33)] * 2


def test_a_window_outside_the_type_is_a_fault() -> None:
    rows = Delta.of([("+", {"t": t}, 1) for t in (2, 120)])
    narrow = Delta(rows.frame.with_columns(pl.col("t").cast(pl.Int8)))
    (step,) = run_moves(Session("t", 10), narrow)
    assert step.delta.frame.select("t", "window_end").rows() == [(2, 12)]
    assert step.faults is not None and step.faults["row"].to_list() == ['{"t":120}']


def test_empty_input_gives_empty_output() -> None:
    for rows in ([], [("a", None, 1, 1)]):
        (step,) = run_moves(Session("v", 3, ("k",)), stream(rows))
        assert step.delta.frame.columns == ["k", "v", "window_start", "window_end", *stream([]).frame.columns[2:]]
