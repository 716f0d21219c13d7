"""Synchronisation: at τ the relation as of the last point; before the first event it is empty."""

from __future__ import annotations

from collections import Counter

from hypothesis import example, given, settings
from hypothesis import strategies as st

from operators.core.delta import BEGINNING, FOREVER, FROM, TO, Delta
from operators.core.operator import Move, Step
from operators.sync.sync_points import Periodic
from operators.sync.synchronise import EventSync, PeriodicSync
from tests.operators.window_histories import (
    CUTS,
    END,
    INSTANTS,
    LIVES,
    SEEDS,
    changes,
    intervals,
    log,
    moves,
    output,
    relation,
    same_log,
    shuffled,
    stream,
)
from tests.support.strategies import examples

PERIODICS = st.integers(1, 7).flatmap(
    lambda period: st.sets(st.integers(0, period - 1), min_size=1).map(
        lambda residues: Periodic(period, tuple(sorted(residues)))
    )
)


@settings(max_examples=examples(50))
@given(LIVES, PERIODICS, CUTS, SEEDS)
def test_periodic_holds_the_relation_at_the_last_point(rows, points, cuts, seed) -> None:
    delta = intervals(rows)
    synchronised = same_log(PeriodicSync(points), delta, cuts, seed)
    last = None
    for at in range(-7, 3 * END):
        last = at if at % points.period in points.residues else last
        assert relation(synchronised, at) == (Counter() if last is None else relation(delta.frame, last))


@given(PERIODICS, st.integers(-30, 30), st.integers(0, 30))
def test_points_are_those_of_the_definition(points, start, length) -> None:
    expected = [at for at in range(start, start + length) if at % points.period in points.residues]
    assert points.points(start, start + length).tolist() == expected


def run_events(rows: Delta, points: Delta, cuts, seed: int = 0, clock: Periodic | None = None) -> list[Step]:
    operator = EventSync(clock)
    traces, steps = operator.traces(), []
    for move in moves(cuts):
        left, right = (shuffled(delta.between(move.start, move.end), seed) for delta in (rows, points))
        steps.append(operator.step(left, right, traces, move))
        traces = steps[-1].traces
    return steps


@settings(max_examples=examples(50))
@given(LIVES, LIVES.map(lambda rows: rows[:4]), CUTS, SEEDS)
@example([("a", 1, 0, 5, 1), ("b", 1, 3, None, 1)], [("p", 1, 2, 2, 1), ("p", 1, 9, None, 1)], [3, 5], 0)
def test_relation_is_that_of_the_last_inserted_event(rows, events, cuts, seed) -> None:
    delta, points = intervals(rows), changes(events)
    steps = run_events(delta, points, cuts, seed)
    assert log(steps) == log(run_events(delta, points, []))
    last, synchronised = None, output(steps)
    for at in range(-1, END):
        entered = relation(points.frame, at) - relation(points.frame, at - 1)
        last = at if entered else last
        assert relation(synchronised, at) == (Counter() if last is None else relation(delta.frame, last))


@settings(max_examples=examples(50))
@given(LIVES, LIVES.map(lambda rows: rows[:4]), PERIODICS, CUTS, SEEDS)
def test_relation_is_that_of_the_last_event_or_tick(rows, events, clock, cuts, seed) -> None:
    delta, points = intervals(rows), changes(events)
    steps = run_events(delta, points, cuts, seed, clock)
    assert log(steps) == log(run_events(delta, points, [], clock=clock))
    last, synchronised = None, output(steps)
    for at in range(-clock.period, END):
        entered = relation(points.frame, at) - relation(points.frame, at - 1)
        last = at if entered or at % clock.period in clock.residues else last
        if at >= 0:
            assert relation(synchronised, at) == (Counter() if last is None else relation(delta.frame, last)), at


@given(LIVES, st.lists(INSTANTS, max_size=4), CUTS)
def test_visible_rows_are_not_buffered(rows, instants, cuts) -> None:
    points = stream([("p", None, at, 1) for at in sorted(set(instants))])
    waiting = run_events(intervals(rows), points, [*cuts, END - 1, END - 1])[-1].traces[0]
    later = [element for run in waiting.runs for element in run.frame[FROM].to_list()]
    assert len(later) <= 2 * len(rows)


def test_syncsql_example_9() -> None:
    """HotRooms1 refreshed every two minutes: +<a>1 is seen at 2, +<b>3 at 4, +<c>4 at 4, -<a>7 at 8."""
    hot = changes([("a", 105, 1, 6, 1), ("b", 110, 3, None, 1), ("c", 97, 4, None, 1)])
    synchronised = PeriodicSync(Periodic(2)).step(hot, (), Move(0, 9)).delta
    assert sorted(synchronised.frame.select("k", FROM, "__weight").rows()) == [
        ("a", 2, 1),
        ("a", 8, -1),
        ("b", 4, 1),
        ("c", 4, 1),
    ]


def test_a_row_of_the_beginning_is_seen_from_the_beginning_with_a_clock() -> None:
    """As with the clock alone. Its end waits for the event of 3."""
    sync = EventSync(Periodic(5))
    begins, ends = Delta.of([("+", {"k": "a"}, BEGINNING)]), Delta.of([("-", {"k": "a"}, 2)])
    events = Delta.of([("+", {"p": 0}, 3)])
    first = sync.step(begins, events.between(0, 1), sync.traces(), Move(BEGINNING, 1))
    second = sync.step(ends, events, first.traces, Move(1, 9))
    seen = [row for step in (first, second) for row in step.delta.frame.select("k", FROM, "__weight").rows()]
    assert seen == [("a", BEGINNING, 1), ("a", 3, -1)]


def test_a_row_between_two_points_is_never_seen() -> None:
    step = PeriodicSync(Periodic(10)).step(intervals([("a", 1, 3, 5, 1), ("b", 1, 3, None, 1)]), (), Move(0, 9))
    assert step.delta.frame.select("k", FROM, TO).rows() == [("b", 10, FOREVER)]
