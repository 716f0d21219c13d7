"""Istream, Dstream and Rstream by the definitions of CQL section 5.1."""

from __future__ import annotations

from collections import Counter

import polars as pl
from hypothesis import example, given, settings

from operators.core.delta import BEGINNING, FOREVER, FROM, TO, WEIGHT, Delta
from operators.core.operator import Move
from operators.sync.sync_points import Periodic
from operators.sync.to_stream import Dstream, Istream, Rstream
from tests.operators.sync.test_synchronise import PERIODICS
from tests.operators.window_histories import CUTS, END, LIVES, SEEDS, changes, elements, relation, run_moves, same_log
from tests.support.strategies import examples


def streamed(frame: pl.DataFrame, at: int) -> Counter:
    """The elements of a stream at an instant."""
    assert (frame[TO] == FOREVER).all() and (frame[WEIGHT] > 0).all()
    counted: Counter = Counter()
    for k, v, weight in frame.filter(pl.col(FROM) == at).select("k", "v", WEIGHT).rows():
        counted[(k, v)] += weight
    return counted


@settings(max_examples=examples(50))
@given(LIVES, CUTS, SEEDS)
def test_istream_and_dstream_are_differences_of_bags(rows, cuts, seed) -> None:
    delta = changes(rows)
    entered, left = (same_log(operator, delta, cuts, seed) for operator in (Istream(), Dstream()))
    for at in range(END):
        now, before = (relation(delta.frame, instant) for instant in (at, at - 1))
        assert streamed(entered, at) == now - before
        assert streamed(left, at) == before - now


@settings(max_examples=examples(50))
@given(LIVES, PERIODICS, CUTS, SEEDS)
@example([("a", 1, 3, None, 1), ("b", 1, 1, 4, 2)], Periodic(2), [4, 5], 0)
def test_rstream_is_the_relation_at_each_point(rows, points, cuts, seed) -> None:
    delta = changes(rows)
    frame = same_log(Rstream(points), delta, cuts, seed)
    for at in range(-3, END):
        point = at % points.period in points.residues
        assert streamed(frame, at) == (relation(delta.frame, at) if point else Counter())


def test_rstream_starts_at_the_first_change_whatever_holds_from_the_beginning() -> None:
    rows = elements([("a", 1, BEGINNING, FOREVER, 2, 0), ("b", 1, 6, FOREVER, 1, 1)])
    for cuts in ([], [2], [2, 7]):
        frame = pl.concat([step.delta.frame for step in run_moves(Rstream(Periodic(3)), rows, cuts)])
        assert sorted(frame.select("k", FROM, WEIGHT).rows()) == [("a", 6, 2), ("a", 9, 2), ("b", 6, 1), ("b", 9, 1)]


def test_examples_of_pipes_section_17_2() -> None:
    """Istream(S2) has the starts and Dstream(S2) the ends, but not where b continues. CQL deletes at the end itself."""
    s2 = [("b", 1, 7), ("d", 3, 9), ("a", 4, 5), ("b", 7, 15), ("e", 10, 18)]
    listed = [(k, 0, at, FOREVER, w, n) for n, (k, *ends) in enumerate(s2) for at, w in zip(ends, (1, -1), strict=True)]
    entered, left = (operator.step(elements(listed), (), Move(0, 20)).delta for operator in (Istream(), Dstream()))
    assert sorted(entered.frame.select("k", FROM).rows()) == [("a", 4), ("b", 1), ("d", 3), ("e", 10)]
    assert sorted(left.frame.select("k", FROM).rows()) == [("a", 5), ("b", 15), ("d", 9), ("e", 18)]


def test_istream_keeps_multiplicities_as_weights() -> None:
    two = Delta.of([("+", {"a": 1}, 3), ("+", {"a": 1}, 3)])
    assert Istream().step(two, (), Move(0, 9)).delta.frame[WEIGHT].to_list() == [2]


def test_rstream_looks_only_at_points_with_rows() -> None:
    """A clock of milliseconds has more instants than fit in memory; a row of one instant is streamed once."""
    stream = Rstream(Periodic(1))
    rows = Delta.of([("+", {"a": 1}, 3), ("-", {"a": 1}, 4), ("+", {"a": 2}, 1 << 50), ("-", {"a": 2}, (1 << 50) + 1)])
    step = stream.step(rows, stream.traces(), Move(0, 1 << 60))
    assert sorted(step.delta.frame.select("a", FROM).rows()) == [(1, 3), (2, 1 << 50)]
