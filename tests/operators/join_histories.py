"""Random histories of collections with intervals and retractions, and steps of operators with one or two inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import polars as pl
from hypothesis import strategies as st

from operators.core.delta import BEGINNING, FOREVER, FROM, ORDER, RESERVED, TO, WEIGHT, Delta
from operators.core.operator import Move, Step

END = 10
#: The instants at which frontiers stop between the beginning and the end of a history.
CUTS = st.lists(st.integers(0, END - 1), max_size=5).map(sorted)
Element = tuple[tuple, int, int, int]


def changes(rows: st.SearchStrategy[tuple], most: int = 14) -> st.SearchStrategy[list[Element]]:
    """Elements (row, from, FOREVER, weight): insertions, and deletions of rows that are present."""
    event = st.tuples(rows, st.integers(0, END - 1), st.sampled_from([1, 1, 2, -1, -1, -2]))
    return st.lists(event, max_size=most).map(_valid)


def _valid(events: list) -> list[Element]:
    bag: Counter = Counter()
    kept = []
    for row, at, weight in sorted(events, key=lambda event: event[1]):
        if bag[repr(row)] + weight >= 0:
            bag[repr(row)] += weight
            kept.append((row, at, FOREVER, weight))
    return kept


def intervals(rows: st.SearchStrategy[tuple], most: int = 8) -> st.SearchStrategy[list[Element]]:
    """Elements with finite and infinite ends, some of them retracted at an instant before their end."""
    lasting = st.one_of(st.just(FOREVER), st.integers(1, END))
    event = st.tuples(
        rows, st.integers(0, END - 1), lasting, st.integers(1, 2), st.one_of(st.none(), st.integers(0, END))
    )
    return st.lists(event, max_size=most).map(
        lambda events: [element for event in events for element in _taken(*event)]
    )


def _taken(row: tuple, start: int, lasting: int, weight: int, back: int | None) -> list[Element]:
    end = FOREVER if lasting == FOREVER else start + lasting
    element = [(row, start, end, weight)]
    if back is not None and start <= back < min(end, END):
        element.append((row, back, end, -weight))
    return element


def delta_of(elements: Sequence[Element], schema: dict, orders: Sequence[int] = ()) -> Delta:
    """The elements as a delta; orders are the positions unless they are given."""
    rows = [
        (*row, start, end, weight, orders[at % len(orders)] if orders else at)
        for at, (row, start, end, weight) in enumerate(elements)
    ]
    return Delta(pl.DataFrame(rows, schema={**schema, **dict.fromkeys(RESERVED, pl.Int64)}, orient="row"))


def run_through(operator, inputs: Sequence[Delta], cuts: Sequence[int], seed: int = 0) -> list[Step]:
    """The steps over moves BEGINNING → cuts… → END, each with shuffled frames; asserts the laws of a step."""
    edges = [BEGINNING, *cuts, END]
    traces, steps = operator.traces(), []
    for start, end in zip(edges, edges[1:], strict=False):
        due = [shuffled(delta.between(start, end), seed + end) for delta in inputs]
        steps.append(operator.step(*due, traces, Move(start, end)))
        traces = steps[-1].traces
        frame = steps[-1].delta.frame
        assert frame.schema == steps[0].delta.frame.schema
        assert list(frame.schema.dtypes())[-4:] == [pl.Int64] * 4 and tuple(frame.columns[-4:]) == RESERVED
        assert frame.filter((pl.col(FROM) < start) | (pl.col(FROM) >= end) | (pl.col(TO) <= pl.col(FROM))).height == 0
        assert (frame[WEIGHT] != 0).all()
    return steps


def shuffled(delta: Delta, seed: int) -> Delta:
    return Delta(delta.frame.sample(fraction=1, shuffle=True, seed=seed & 0xFFFF))


def relation(elements: Sequence[Element], at: int) -> Counter:
    """The bag of rows at an instant, as texts, in which NaN and NULL equal themselves."""
    bag: Counter = Counter()
    for row, start, end, weight in elements:
        if start <= at < end:
            bag[repr(row)] += weight
    assert all(weight >= 0 for weight in bag.values())
    return +bag


def output_relation(steps: Sequence[Step], at: int) -> Counter:
    """The bag of rows at an instant, as the sum of the outputs of the steps."""
    rows = [row for step in steps for row in step.delta.frame.select(pl.exclude(ORDER)).rows()]
    return relation([(row[:-3], *row[-3:]) for row in rows], at)


def check_laws(
    operator, inputs: Sequence[Delta], cuts: Sequence[int], expected: Callable[[int], Counter], seed: int = 0
) -> None:
    """Asserts the snapshot law at every instant, and the log law: any cuts and row order give the same output."""
    steps = run_through(operator, inputs, cuts, seed)
    for at in [-1, *range(END)]:
        assert output_relation(steps, at) == expected(at), f"at {at}"
    assert log_of(steps) == log_of(run_through(operator, inputs, [], seed + 1))


def log_of(steps: Sequence[Step]) -> list[str]:
    """The consolidated output with its orders, as texts."""
    whole = Delta(pl.concat([step.delta.frame for step in steps])).consolidate().frame
    return sorted(map(repr, whole.rows()))
