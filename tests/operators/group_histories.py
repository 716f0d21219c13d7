"""Random histories of a bag of rows, and the output of a group-by over them for any cuts of time."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal

import polars as pl
import pyarrow as pa
from hypothesis import strategies as st

from operators.core.delta import BEGINNING, FOREVER, FROM, ORDER, TO, WEIGHT, Delta
from operators.core.operator import Move
from operators.expressions.arrow_types import polars_type
from operators.grouping.group_by import GroupBy
from tests.support import duck_engine

END = 10
SCHEMA = pa.schema(
    [
        ("k", pa.string()),
        ("j", pa.float64()),
        ("x", pa.int32()),
        ("y", pa.int64()),
        ("f", pa.float64()),
        ("g", pa.float64()),
        ("d", pa.decimal128(9, 2)),
        ("b", pa.bool_()),
        ("s", pa.string()),
        ("p", pa.bool_()),
    ]
)
NAN = float("nan")
ROW = st.tuples(
    st.sampled_from([None, "a", "b"]),
    st.sampled_from([None, 1.5, NAN]),
    st.sampled_from([None, -3, 1, 2, 2, 7]),
    st.sampled_from([None, 1, 4, 9]),
    st.sampled_from([None, 0.5, -1.25, NAN, math.inf, -math.inf, 3.0]),
    st.sampled_from([None, 0.5, -1.25, 8.0]),
    st.sampled_from([None, Decimal("1.25"), Decimal("-7.50")]),
    st.sampled_from([None, True, False]),
    st.sampled_from([None, "u", "v", "w"]),
    st.sampled_from([None, True, True, False]),
)
#: (row, how far time advances, whether a present row is deleted instead, which one, whether in the same record).
EVENT = st.tuples(ROW, st.sampled_from([0, 0, 1, 1, 2]), st.booleans(), st.integers(0, 5), st.booleans())
EVENTS = st.lists(EVENT, max_size=14)
INSERTS = st.lists(EVENT.map(lambda event: (*event[:2], False, *event[3:])), max_size=14)
CUTS = st.lists(st.integers(0, END), max_size=3).map(sorted)
SEEDS = st.integers(0, 5)
Change = tuple[tuple, int, int, int]


def changes_of(events) -> list[Change]:
    """(row, instant, weight, order) in log order; only rows that are present are deleted."""
    present: list[tuple] = []
    changes, at, order = [], 0, 0
    for row, pause, deletes, which, together in events:
        at = min(at + pause, END - 1)
        order += 0 if together else 1
        if deletes and present:
            changes.append((present.pop(which % len(present)), at, -1, order))
        else:
            present.append(row)
            changes.append((row, at, 1, order))
    return changes


def delta_of(changes: Sequence[Change], schema: pa.Schema = SCHEMA, seed: int = 0) -> Delta:
    """The elements as a delta whose row order is arbitrary."""
    shuffled = random.Random(seed).sample(list(changes), len(changes))
    types = {field.name: polars_type(field.type) for field in schema} | dict.fromkeys(
        (FROM, TO, WEIGHT, ORDER), pl.Int64()
    )
    rows = [(*row, at, FOREVER, weight, order) for row, at, weight, order in shuffled]
    return Delta(pl.DataFrame(rows, schema=types, orient="row"))


def run(group: GroupBy, delta: Delta, cuts: Sequence[int] = ()) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The output and the faults over the moves BEGINNING → cuts… → END."""
    edges = [BEGINNING, *cuts, END]
    states, outputs, faults = group.traces(), [], []
    for start, end in zip(edges, edges[1:], strict=False):
        step = group.step(delta.between(start, end), states, Move(start, end))
        states = step.traces
        assert step.delta.frame.filter((pl.col(FROM) < start) | (pl.col(FROM) >= end)).height == 0
        outputs.append(step.delta.frame)
        faults += [step.faults] if step.faults is not None else []
    empty = pl.DataFrame(schema={FROM: pl.Int64, ORDER: pl.Int64, "fault": pl.String, "row": pl.String})
    return pl.concat(outputs), pl.concat([empty, *faults])


def relation(output: pl.DataFrame, at: int) -> Counter:
    """The bag of rows at an instant, without zeros."""
    counted: Counter = Counter()
    for *row, weight in output.filter(pl.col(FROM) <= at).drop(FROM, TO, ORDER).iter_rows():
        counted[tuple(map(comparable, row))] += weight
    assert all(weight >= 0 for weight in counted.values()), f"negative multiplicity at {at}: {counted}"
    return +counted


def comparable(value):
    """The value in a form that can be compared: floats to 9 digits, NaN equal to itself."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else float(f"{value:.9g}") + 0.0
    if isinstance(value, list):
        return tuple(map(comparable, value))
    return value


def canonical(output: pl.DataFrame) -> list[str]:
    """The consolidated output in a fixed order, bit for bit (as text, in which NaN equals itself)."""
    frame = Delta(output).consolidate().frame
    return sorted(map(repr, frame.rows()))


def rows_at(changes: Sequence[Change], at: int) -> list[tuple]:
    """The bag of rows at an instant in the order of arrival; of equal rows the first one is deleted first."""
    arrived: list[tuple] = []
    for row, instant, weight, _ in changes:
        if instant <= at and weight > 0:
            arrived.append(row)
        elif instant <= at:
            arrived.remove(next(candidate for candidate in arrived if repr(candidate) == repr(row)))
    return arrived


def duckdb_relations(changes: Sequence[Change], keys: Sequence[str], selected: str) -> dict[int, Counter]:
    """DuckDB's result at every instant."""
    bag = [(at, *row) for at in range(-1, END) for row in rows_at(changes, at)]
    types = {"instant": pl.Int64()} | {field.name: polars_type(field.type) for field in SCHEMA}
    with duck_engine.connection() as database:
        database.register("bag", pl.DataFrame(bag, schema=types, orient="row").to_arrow())
        answers: dict[int, Counter] = {at: Counter() for at in range(-1, END)}
        if keys:
            names = ", ".join(keys)
            answer = database.execute(
                f"SELECT instant, {names}, {selected} FROM bag GROUP BY instant, {names}"
            ).fetchall()
        else:
            subquery = f"SELECT {selected} FROM bag WHERE instant = i.t"
            instants = f"(SELECT unnest(range(-1, {END})) AS t) i"
            answer = database.execute(f"SELECT i.t, a.* FROM {instants}, LATERAL ({subquery}) a").fetchall()
    for at, *row in answer:
        answers[at][tuple(map(comparable, row))] += 1
    return answers
