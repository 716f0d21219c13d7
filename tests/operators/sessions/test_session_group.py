"""A group-by above a session as one operator: the log is that of the two operators, and the relation DuckDB's."""

from __future__ import annotations

import datetime as dt
import random

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from operators.aggregates.aggregate import Aggregate
from operators.core.delta import FROM, ORDER, RESERVED, Delta
from operators.core.operator import Move, Operator, Step, run
from operators.core.run import Run
from operators.grouping.group_by import GroupBy
from operators.sessions.session import Session
from operators.sessions.session_group import SessionGroup, supported
from operators.sessions.session_trace import SessionTrace
from operators.windows.assign import WINDOW_END, WINDOW_START
from tests.operators.window_histories import CUTS, END, INSTANTS, SEEDS, elements, log, moves, relation, shuffled
from tests.support import duck_engine
from tests.support.strategies import examples

SCHEMA = {"k": pl.String, "v": pl.Int64, "x": pl.Int64, "big": pl.Int64}
ARROW = pa.schema([("k", pa.string()), ("v", pa.int64()), ("x", pa.int64()), ("big", pa.int64()), ("f", pa.bool_())])
COUNT = Aggregate("n", "count", (), pa.int64(), nullable=False)
AGGREGATES = (
    COUNT,
    Aggregate("c", "count", ("x",), pa.int64(), nullable=False),
    Aggregate("s", "sum", ("x",), pa.int64()),
    Aggregate("a", "avg", ("x",), pa.float64()),
    Aggregate("b", "bit_xor", ("x",), pa.int64()),
    Aggregate("some", "sum", ("x",), pa.int64(), filter="f"),
    Aggregate("huge", "sum", ("big",), pa.int64()),
)
ROWS = st.lists(
    st.tuples(
        st.sampled_from([None, "a", "b"]),
        st.one_of(st.none(), st.integers(-4, 14)),
        st.sampled_from([None, 1, 2, 6]),
        INSTANTS,
        st.sampled_from([None, None, 1, 2, 5]),
        st.sampled_from([1, 1, 2]),
    ),
    max_size=14,
)
GAPS, PARTITIONS = st.integers(0, 4), st.sampled_from([(), ("k",)])
BOUNDS = st.sampled_from([(WINDOW_START, WINDOW_END), (WINDOW_START,), (WINDOW_END,), (WINDOW_END, WINDOW_START)])


def history(rows, *, append_only: bool) -> Delta:
    listed, schema = [], {**SCHEMA, "f": pl.Boolean, **dict.fromkeys(RESERVED, pl.Int64)}
    for order, (k, v, x, ts, stay, weight) in enumerate(rows):
        row = (k, v, x, None if x is None else (2**62 if x == 6 else -(2**61)), None if x == 2 else x == 1)
        listed.append((*row, ts, 2**63 - 1, weight, order))
        if stay is not None and ts + stay < END and not append_only:
            listed.append((*row, ts + stay, 2**63 - 1, -weight, 100 - order))
    return elements(listed, schema)


def steps(chain: list[Operator], delta: Delta, cuts, seed: int) -> list[list[Step]]:
    traces, all_steps = [operator.traces() for operator in chain], []
    for move in moves(cuts):
        due = shuffled(delta.between(move.start, move.end), seed)
        all_steps.append(run(chain, due, traces, move))
        traces = [step.traces for step in all_steps[-1]]
    return all_steps


def faults(all_steps: list[list[Step]]) -> list[tuple]:
    frames = [step.faults for move_steps in all_steps for step in move_steps if step.faults is not None]
    return sorted(row for frame in frames for row in frame.select(FROM, ORDER, "fault").rows())


@settings(max_examples=examples(50))
@given(ROWS, st.tuples(GAPS, PARTITIONS, BOUNDS), st.booleans(), CUTS, SEEDS)
@example(
    [("a", 0, 1, 0, None, 1), ("a", 4, 2, 0, None, 1), ("a", 2, 6, 3, 2, 1)], (3, ("k",), (WINDOW_END,)), False, [4], 0
)
@example(
    [("a", 0, 6, 0, None, 1), ("a", 1, 6, 1, 2, 1), ("a", 2, 6, 2, None, 1)], (1, (), (WINDOW_START,)), False, [2], 0
)
@example([("a", at, 1, 0, 3 if at == 2 else None, 1) for at in (0, 2, 4)], (4, ("k",), (WINDOW_END,)), False, [2], 0)
def test_session_group_log_equals_the_two_operators(rows, shape, append_only, cuts, seed) -> None:
    gap, partition, bounds = shape
    delta = history(rows, append_only=append_only)
    session, keys = Session("v", gap, partition), (*partition, *bounds)
    windows = pa.schema([*ARROW, (WINDOW_START, pa.int64()), (WINDOW_END, pa.int64())])
    two = steps([session, GroupBy(keys, AGGREGATES, windows)], delta, (), 0)
    single = [SessionGroup(session, tuple((key, key) for key in keys), AGGREGATES, ARROW, append_only=append_only)]
    single_steps = steps(single, delta, cuts, seed)
    assert log([move_steps[-1] for move_steps in single_steps]) == log([move_steps[-1] for move_steps in two])
    assert faults(single_steps) == faults(two)
    schema = two[0][-1].delta.frame.schema
    assert all(move_steps[0].delta.frame.schema == schema for move_steps in single_steps)


SESSIONS = """
WITH starts AS (
    SELECT k, v, x, COALESCE(v - LAG(v) OVER one > {gap}, TRUE)::INT AS opens FROM e
    WHERE v IS NOT NULL WINDOW one AS (PARTITION BY k ORDER BY v)
), numbered AS (SELECT *, SUM(opens) OVER (PARTITION BY k ORDER BY v RANGE UNBOUNDED PRECEDING) AS number FROM starts)
SELECT k AS name, MIN(v)::BIGINT, (MAX(v) + {gap})::BIGINT, COUNT(*), COUNT(x), SUM(x)::BIGINT
FROM numbered GROUP BY k, number
"""


@settings(max_examples=examples(40))
@given(ROWS, GAPS, CUTS, SEEDS)
def test_duckdb_at_every_instant(rows, gap, cuts, seed) -> None:
    delta = history(rows, append_only=False)
    keys = (("name", "k"), ("from", WINDOW_START), ("to", WINDOW_END))
    all_steps = steps([SessionGroup(Session("v", gap, ("k",)), keys, AGGREGATES[:3], ARROW)], delta, cuts, seed)
    frame = pl.concat([move_steps[0].delta.frame for move_steps in all_steps])
    with duck_engine.connection() as engine:
        for at in range(-1, END):
            counted = relation(delta.frame.select("k", "v", "x", *RESERVED), at)
            present = [row for row, weight in counted.items() for _ in range(weight)]
            e = pl.DataFrame(present, schema={"k": pl.String, "v": pl.Int64, "x": pl.Int64}, orient="row").to_arrow()
            engine.register("e", e)
            wanted = engine.execute(SESSIONS.format(gap=gap)).fetchall()
            assert sorted(map(repr, relation(frame, at).elements())) == sorted(map(repr, wanted))


@pytest.mark.parametrize("append_only", [False, True])
def test_long_histories(append_only: bool) -> None:
    """Many sessions over many steps: the runs of the state merge, and sessions grow, join and split."""
    chance, rows = random.Random(5), []
    for ts in range(400):
        value = ts // 2 if chance.random() < 0.8 else chance.randrange(ts // 2 + 1)
        rows.append(
            ("ab"[chance.random() < 0.3], value * 3, chance.choice([1, 2]), ts, chance.choice([None, 20, 90]), 1)
        )
    listed = history([(k, v, x, 0, None, w) for k, v, x, _, _, w in rows], append_only=True).frame
    born = listed.with_columns(pl.Series(FROM, [row[3] for row in rows]))
    died = born.with_columns(
        pl.Series(FROM, [row[3] + (row[4] or 0) for row in rows]), -pl.col("__weight"), pl.col(ORDER) + 1000
    ).filter(pl.Series([row[4] is not None and not append_only for row in rows]))
    delta = Delta(pl.concat([born, died]))
    session, keys = Session("v", 4, ("k",)), ("k", WINDOW_START, WINDOW_END)
    windows = pa.schema([*ARROW, (WINDOW_START, pa.int64()), (WINDOW_END, pa.int64())])
    edges = [-(2**62), *range(5, 500, 5)]
    logs = []
    for chain in (
        [session, GroupBy(keys, AGGREGATES, windows)],
        [SessionGroup(session, tuple((key, key) for key in keys), AGGREGATES, ARROW, append_only=append_only)],
    ):
        traces, all_steps = [operator.traces() for operator in chain], []
        for start, end in zip(edges, edges[1:], strict=False):
            all_steps.append(run(chain, delta.between(start, end), traces, Move(start, end)))
            traces = [step.traces for step in all_steps[-1]]
        logs.append(log([move_steps[-1] for move_steps in all_steps]))
    assert logs[0] == logs[1]
    assert len(logs[0]) > 400


def one_session(rows: int, *, append_only: bool) -> tuple[SessionGroup, tuple, Delta]:
    """The operator and its state after a session of this many rows, and the next row."""
    keys = (("k", "k"), (WINDOW_START, WINDOW_START), (WINDOW_END, WINDOW_END))
    group = SessionGroup(Session("v", 4, ("k",)), keys, AGGREGATES[:5], ARROW, append_only=append_only)
    delta = history([("a", at * 3, 1, at % 7, None, 1) for at in range(rows + 1)], append_only=True)
    first, last = Delta(delta.frame[:rows]), Delta(delta.frame[rows:].with_columns(pl.lit(9, pl.Int64).alias(FROM)))
    return group, group.step(first, group.traces(), Move(0, 8)).traces, last


@pytest.mark.parametrize("append_only", [False, True])
def test_a_row_costs_the_same_in_a_long_session(append_only: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    gather, overlapping = Run.gather, SessionTrace.overlapping
    monkeypatch.setattr(Run, "gather", lambda run, hashes: counted(read, gather(run, hashes)))
    monkeypatch.setattr(SessionTrace, "overlapping", lambda trace, rows: counted(read, overlapping(trace, rows)))
    for rows in (10, 20_000):
        group, traces, last = one_session(rows, append_only=append_only)
        read.clear()
        corrections = group.step(last, traces, Move(8, 10)).delta.frame
        assert corrections.select("n", "__weight").rows() == [(rows, -1), (rows + 1, 1)]
        assert sum(read) == 1


def counted(read: list[int], frame: pl.DataFrame) -> pl.DataFrame:
    read.append(frame.height)
    return frame


def test_without_retractions_the_state_is_the_sessions() -> None:
    _, (sessions,), _ = one_session(500, append_only=True)
    assert [run.height for run in sessions.runs] == [1]


def test_empty_input_gives_empty_output() -> None:
    for rows in ([], [("a", None, 1, 1, None, 1)]):
        (step,) = steps(
            [SessionGroup(Session("v", 3), (("to", WINDOW_END),), (COUNT,), ARROW)],
            history(rows, append_only=True),
            (),
            0,
        )
        assert step[0].delta.frame.columns == ["to", "n", *RESERVED]
        assert step[0].delta.frame.height == 0


def test_dates_have_timestamps_as_bounds() -> None:
    day = dt.date(2024, 1, 31)
    delta = Delta.of([("+", {"d": day}, 1), ("+", {"d": day + dt.timedelta(1)}, 1), ("+", {"d": None}, 1)])
    keys = ((WINDOW_START, WINDOW_START), (WINDOW_END, WINDOW_END))
    group = SessionGroup(Session("d", 86_400_000), keys, (COUNT,), pa.schema([("d", pa.date32())]))
    sessions = group.step(delta, group.traces(), Move(0, 2)).delta.frame
    midnight = [dt.datetime.combine(day + dt.timedelta(days), dt.time()) for days in (0, 2)]
    assert sessions.select(WINDOW_START, WINDOW_END, "n").rows() == [(*midnight, 2)]


@pytest.mark.parametrize(
    "aggregate",
    [
        Aggregate("m", "max", ("x",), pa.int64()),
        Aggregate("d", "count", ("x",), pa.int64(), distinct=True),
        Aggregate("d", "approx_count_distinct", ("x",), pa.int64()),
        Aggregate("l", "median", ("x",), pa.float64()),
    ],
)
def test_only_running_sums_are_supported(aggregate: Aggregate) -> None:
    assert supported(AGGREGATES, ARROW)
    assert not supported((COUNT, aggregate), ARROW)
