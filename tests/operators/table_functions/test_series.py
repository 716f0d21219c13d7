"""GENERATE_SERIES over a relation, compared with DuckDB at every instant, with retractions, and in any batches."""

from __future__ import annotations

from collections import Counter

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsms.testing import LocalSession
from operators.core.delta import Delta
from operators.core.errors import UserError
from operators.core.operator import Move
from operators.table_functions.series import MAX_VALUES, Series

SQL = """
REGISTER SOURCE T (k VARCHAR NOT NULL, low INT, high INT) FROM t; CREATE STREAM S OVER T KEY k;
CREATE STREAMED VIEW V AS SELECT k, value FROM GENERATE_SERIES(TABLE S, DESCRIPTOR(low, high){step}) WHERE value <> 2;
CREATE STREAMED VIEW N AS SELECT k, COUNT(*) AS n FROM GENERATE_SERIES(TABLE S, DESCRIPTOR(low, high){step}) AS g
    GROUP BY k
"""
BOUND = st.none() | st.integers(-3, 5)
PUSHED = st.lists(st.tuples(st.sampled_from("ab"), BOUND, BOUND, st.integers(0, 6)), max_size=8)


def expected(select: str, rows: list[tuple], step: int) -> Counter:
    """DuckDB's result for the rows of an instant."""
    with duckdb.connect() as engine:
        engine.execute("PRAGMA disable_optimizer; CREATE TABLE S (k VARCHAR, low INT, high INT)")
        if rows:
            engine.executemany("INSERT INTO S VALUES (?, ?, ?)", rows)
        series = f"(SELECT k, unnest(range(low, high + 1, {step})) AS value FROM S)"
        return Counter(engine.execute(select.format(series)).fetchall())


@given(PUSHED, st.sampled_from([1, 2, 3]), st.integers(1, 3), st.sampled_from([None, 1, 2]))
def test_relations_equal_duckdb(pushed, step: int, partitions: int, batch: int | None) -> None:
    session = LocalSession(partitions, batch)
    session.execute(SQL.format(step="" if step == 1 else f", {step}"))
    ordered = sorted(pushed, key=lambda row: row[3])
    session.push("T", [{"k": k, "low": low, "high": high, "ts": ts} for k, low, high, ts in ordered])
    session.advance(8)
    for at in range(8):
        last = {k: (k, low, high) for k, low, high, ts in ordered if ts <= at}
        values = expected("SELECT k, value FROM {} WHERE value <> 2", list(last.values()), step)
        assert Counter((row["k"], row["value"]) for row in session.relation("V", at)) == values
        counts = expected("SELECT k, COUNT(*) FROM {} GROUP BY k", list(last.values()), step)
        assert Counter((row["k"], row["n"]) for row in session.relation("N", at)) == counts


def test_the_largest_numbers_do_not_overflow() -> None:
    rows = Delta.of(
        [("+", {"low": 2**63 - 3, "high": 2**63 - 1}, 5), ("+", {"low": -(2**63), "high": -(2**63) + 1}, 6)]
    )
    frame = Series("low", "high", 2).step(rows, (), Move(0, 9)).delta.frame
    assert frame["value"].to_list() == [2**63 - 3, 2**63 - 1, -(2**63)]


def test_a_range_that_is_too_long_is_a_fault_of_its_row() -> None:
    rows = Delta.of([("+", {"low": 0, "high": MAX_VALUES}, 5), ("+", {"low": -(2**63), "high": 2**63 - 1}, 6)])
    step = Series("low", "high").step(rows, (), Move(0, 9))
    assert len(step.delta) == 0
    assert step.faults is not None
    assert (
        step.faults["fault"].to_list() == ['GENERATE_SERIES from "low" to "high" has more than 1,000,000 numbers'] * 2
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("TABLE S, DESCRIPTOR(low)", "GENERATE_SERIES: the range needs two integer columns"),
        ("TABLE S, DESCRIPTOR(low, k)", "GENERATE_SERIES: the range needs two integer columns"),
        ("TABLE S, DESCRIPTOR(low, high), 0", "GENERATE_SERIES: the step must be one positive integer"),
        ("TABLE S, DESCRIPTOR(low, high), 1, 2", "GENERATE_SERIES: the step must be one positive integer"),
        ("TABLE V, DESCRIPTOR(value, value)", 'the relation already has a column "value"'),
        ("TABLE S, DESCRIPTOR(low, missing)", 'column "missing" not found'),
    ],
)
def test_invalid_calls_are_refused_with_their_location(call: str, message: str) -> None:
    session = LocalSession()
    session.execute(SQL.format(step=""))
    with pytest.raises(UserError, match=message) as refused:
        session.execute(f"CREATE STREAMED VIEW W AS SELECT * FROM GENERATE_SERIES({call})")
    assert "line 1, column" in str(refused.value)


def test_generate_series_is_explained_and_has_a_key() -> None:
    session = LocalSession()
    session.execute(SQL.format(step=", 2"))
    assert "GenerateSeries low to high by 2" in session.explain("V")
    assert session.key("V") == ("k", "value")


def test_a_one_time_select_says_what_to_do() -> None:
    session = LocalSession()
    session.execute(SQL.format(step=""))
    with pytest.raises(UserError, match="use SELECT STREAMED"):
        session.execute("SELECT * FROM GENERATE_SERIES(TABLE S, DESCRIPTOR(low, high))")
