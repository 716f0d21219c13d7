"""Random histories of relations and streams, and runs of an operator over them with any moves and row order."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence

import polars as pl
from hypothesis import strategies as st

from operators.core.delta import BEGINNING, FOREVER, FROM, ORDER, RESERVED, TO, WEIGHT, Delta
from operators.core.operator import Move, Operator, Step

END = 12
KEYS = st.sampled_from([None, "a", "b"])
VALUES = st.sampled_from([None, 1, 2, 3])
INSTANTS = st.integers(0, END - 1)
#: Rows of a stream (key, value, instant, multiplicity), in order of arrival.
STREAM = st.lists(st.tuples(KEYS, VALUES, INSTANTS, st.sampled_from([1, 1, 1, 2])), max_size=16)
#: Rows of a relation (key, value, from, how long it stays or None, multiplicity), in order of arrival.
LIVES = st.lists(
    st.tuples(KEYS, VALUES, INSTANTS, st.sampled_from([None, 1, 2, 5]), st.sampled_from([1, 1, 2])), max_size=14
)
CUTS = st.lists(st.integers(1, END - 1), max_size=4).map(sorted)
SEEDS = st.integers(0, 99)
SCHEMA = {"k": pl.String, "v": pl.Int64}
ELEMENTS = {**SCHEMA, FROM: pl.Int64, TO: pl.Int64, WEIGHT: pl.Int64, ORDER: pl.Int64}


def elements(rows: Iterable[Sequence], schema=ELEMENTS) -> Delta:
    return Delta(pl.DataFrame(list(rows), schema=schema, orient="row"))


def stream(rows) -> Delta:
    """The rows as insertions."""
    return elements((k, v, ts, FOREVER, weight, order) for order, (k, v, ts, weight) in enumerate(rows))


def intervals(rows) -> Delta:
    """The rows with their ends."""
    return elements(
        (k, v, ts, FOREVER if stay is None else ts + stay, weight, order)
        for order, (k, v, ts, stay, weight) in enumerate(rows)
    )


def changes(rows) -> Delta:
    """The rows as insertions and retractions; a retraction has an order of its own."""
    listed = []
    for order, (k, v, ts, stay, weight) in enumerate(rows):
        listed.append((k, v, ts, FOREVER, weight, order))
        if stay is not None and ts + stay < END:
            listed.append((k, v, ts + stay, FOREVER, -weight, 100 - order))
    return elements(listed)


def moves(cuts: Sequence[int], end: int = END) -> list[Move]:
    edges = [BEGINNING, *cuts, end]
    return [Move(start, stop) for start, stop in zip(edges, edges[1:], strict=False)]


def shuffled(delta: Delta, seed: int) -> Delta:
    order = list(range(len(delta)))
    random.Random(seed).shuffle(order)
    return Delta(delta.frame[order])


def run_moves(operator: Operator, delta: Delta, cuts: Sequence[int] = (), seed: int = 0) -> list[Step]:
    """The steps over moves BEGINNING → cuts… → END."""
    traces, steps = operator.traces(), []
    for move in moves(cuts):
        due = shuffled(delta.between(move.start, move.end), seed)
        steps.append(operator.step(due, traces, move))
        traces = steps[-1].traces
    return steps


def output(steps: Sequence[Step]) -> pl.DataFrame:
    return pl.concat([step.delta.frame for step in steps])


def relation(frame: pl.DataFrame, at: int) -> Counter:
    """The relation of a frame of elements at an instant, as a bag of rows."""
    counted: Counter = Counter()
    row = [name for name in frame.columns if name not in RESERVED]
    for *values, weight in frame.filter((pl.col(FROM) <= at) & (pl.col(TO) > at)).select(*row, WEIGHT).iter_rows():
        counted[tuple(values)] += weight
    assert all(weight >= 0 for weight in counted.values()), f"negative multiplicity at {at}: {counted}"
    return +counted


def copies_at(frame: pl.DataFrame, at: int) -> list[tuple]:
    """The copies at an instant as (row, since, arrival), replayed change by change; the oldest copy leaves first."""
    row = [name for name in frame.columns if name not in RESERVED]
    net = Counter()
    order: dict = {}
    for *values, since, weight, number in frame.select(*row, FROM, WEIGHT, ORDER).iter_rows():
        net[(since, tuple(values))] += weight
        order[(since, tuple(values))] = max(number, order.get((since, tuple(values)), number))
    copies: list[tuple] = []
    for (since, values), weight in sorted(net.items(), key=lambda entry: entry[0][0]):
        if since > at:
            continue
        copies += [(values, since, order[(since, values)])] * weight
        for _ in range(-weight):
            copies.remove(min((copy for copy in copies if copy[0] == values), key=lambda copy: copy[1:]))
    return copies


def log(steps: Sequence[Step]) -> list[str]:
    """The consolidated output as texts in a fixed order; as a text, NaN equals NaN."""
    return sorted(map(repr, Delta(output(steps)).consolidate().frame.rows()))


def same_log(operator: Operator, delta: Delta, cuts: Sequence[int], seed: int) -> pl.DataFrame:
    """Asserts that the output with cuts is that of one move (the log law); returns the output with cuts."""
    steps = run_moves(operator, delta, cuts, seed)
    assert log(steps) == log(run_moves(operator, delta))
    assert all(step.delta.frame.schema == steps[0].delta.frame.schema for step in steps)
    return output(steps)
