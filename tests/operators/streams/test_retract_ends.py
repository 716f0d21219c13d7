"""RetractEnds: the same relation at every instant as changes without ends, each released in the step of its instant."""

from __future__ import annotations

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.core.delta import BEGINNING, FOREVER, FROM, ORDER, TO, WEIGHT
from operators.core.operator import Move
from operators.streams.retract_ends import RetractEnds
from tests.operators.join_histories import CUTS, END, delta_of, intervals, log_of, output_relation, relation
from tests.support.strategies import examples

ROWS = intervals(st.tuples(st.sampled_from([None, "a", "b"])))
SCHEMA = {"k": pl.String}


def released(elements, cuts, early=()):
    """The steps; element i arrives in step `early[i]` if that is before the step of its instant."""
    delta, operator = delta_of(elements, SCHEMA), RetractEnds()
    edges, traces, steps = [BEGINNING, *cuts, END], operator.traces(), []
    due = [max(edge for edge in edges if edge <= element[1]) for element in elements]
    come = [edges[min(edges.index(at), early[i % len(early)] if early else 99)] for i, at in enumerate(due)]
    for start, end in zip(edges, edges[1:], strict=False):
        now = pl.Series([at == start and start < end for at in come], dtype=pl.Boolean)
        steps.append(operator.step(type(delta)(delta.frame.filter(now)), traces, Move(start, end)))
        traces = steps[-1].traces
        frame = steps[-1].delta.frame
        assert frame.columns == delta.frame.columns and frame.schema == delta.frame.schema
        assert frame.filter((pl.col(FROM) < start) | (pl.col(FROM) >= end) | (pl.col(TO) != FOREVER)).height == 0
    return steps


@settings(max_examples=examples(50))
@given(ROWS, CUTS.map(lambda cuts: sorted(set(cuts))), st.lists(st.integers(0, 6), max_size=4))
def test_ends_become_changes_and_the_relation_is_unchanged(elements, cuts, early) -> None:
    steps = released(elements, cuts, early)
    for at in range(END):
        assert output_relation(steps, at) == relation(elements, at)
    assert log_of(steps) == log_of(released(elements, []))


def test_an_end_has_the_order_of_its_element() -> None:
    steps = released([(("a",), 2, 7, 2)], [5])
    assert [step.delta.frame.select(FROM, WEIGHT, ORDER).rows() for step in steps] == [[(2, 2, 0)], [(7, -2, 0)]]


def test_the_ends_of_a_slide_are_kept_once_for_each_row() -> None:
    elements = [((key,), 0, 7, 1) for key in "ab" * 500]
    delta = delta_of(elements, SCHEMA)
    (pending,) = RetractEnds().step(delta, RetractEnds().traces(), Move(BEGINNING, 5)).traces
    assert sum(run.height for run in pending.runs) == 2
    ends = RetractEnds().step(type(delta)(delta.frame.clear()), (pending,), Move(5, 9)).delta.frame
    assert sorted(ends.select("k", FROM, WEIGHT, ORDER).rows()) == [("a", 7, -500, 998), ("b", 7, -500, 999)]
