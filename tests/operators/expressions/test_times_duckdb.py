"""Times plus multiples of intervals, the time between them, and time zones, compared with DuckDB."""

from __future__ import annotations

from datetime import datetime, timedelta

import duckdb
import polars as pl
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import parse_one

from dsms.sql.binder.scalars.expressions import bind_expression
from dsms.sql.binder.scope import Scope
from operators.expressions import evaluate
from tests.support.strategies import examples

#: Times at which the clocks of some of the zones change; TIMES are near these, or any.
CHANGES = ["2024-03-31 01:00", "2024-10-27 01:00", "2024-03-10 07:00", "2024-11-03 06:00", "2011-12-30 10:00"]
TIMES = st.one_of(
    st.datetimes(datetime.fromisoformat("1975-01-01"), datetime.fromisoformat("2035-01-01")),
    st.builds(
        lambda change, minutes: datetime.fromisoformat(change) + timedelta(minutes=minutes),
        st.sampled_from(CHANGES),
        st.integers(-400, 400),
    ),
)
ZONES = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"])
INTERVALS = st.sampled_from(["1 hour", "1 month", "1 year 2 days", "90 minutes", "-1 day", "1 month -3 hours"])
SCHEMA = pa.schema([("t", pa.timestamp("us")), ("u", pa.timestamp("us")), ("n", pa.int64())])


def check(expression: str, rows: list[tuple[datetime | None, datetime, int]]) -> None:
    frame = pl.DataFrame(rows, schema={"t": pl.Datetime("us"), "u": pl.Datetime("us"), "n": pl.Int64}, orient="row")
    bound = bind_expression(parse_one(expression, read="postgres"), Scope(SCHEMA))
    values, faults = evaluate(frame, {"x": bound})
    assert faults.null_count() == frame.height
    database = duckdb.connect()
    database.register("given", frame.to_arrow())
    expected = [value for (value,) in database.sql(f"SELECT {expression} FROM given").fetchall()]
    assert list(map(_rounded, values["x"])) == list(map(_rounded, expected))


def _rounded(value: object) -> object:
    return round(value, 6) if isinstance(value, float) else value


FORMS = ["t + n * INTERVAL '{}'", "t - INTERVAL '{}' * n", "INTERVAL '{}' * (n + 1) + t"]
ROWS = st.lists(st.tuples(st.one_of(st.none(), TIMES), TIMES, st.integers(-30, 30)), min_size=1, max_size=6)


@settings(max_examples=examples(40), deadline=None)
@given(ROWS, ZONES, ZONES)
def test_zones(rows: list, source: str, target: str) -> None:
    check(f"t AT TIME ZONE '{source}' AT TIME ZONE '{target}'", rows)


@settings(max_examples=examples(40), deadline=None)
@given(
    ROWS, INTERVALS, st.sampled_from(["t + n * INTERVAL '{}'", "t - INTERVAL '{}' * n", "INTERVAL '{}' * (n + 1) + t"])
)
def test_multiples(rows: list, interval: str, form: str) -> None:
    check(form.format(interval), rows)


@settings(max_examples=examples(20), deadline=None)
@given(ROWS, st.sampled_from(["<", "<=", ">", ">=", "=", "<>"]), st.sampled_from(["1 hour", "400 days", "-2 days"]))
def test_differences(rows: list, operator: str, interval: str) -> None:
    check(f"t - u {operator} INTERVAL '{interval}'", rows)
    check("EXTRACT(EPOCH FROM t - u)", rows)
