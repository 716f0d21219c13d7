"""Approximate aggregates at every instant, compared with DuckDB's exact ones, over rows that come late, change and are
removed."""

from __future__ import annotations

from decimal import Decimal

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsms.model import logical
from dsms.planner.optimizer.sketches import ENTRY_BYTES, LARGEST_ERROR, DistinctCount, least_error, memory_of
from dsms.testing import LocalSession
from operators.aggregates.aggregate import Aggregate
from operators.core.errors import UserError
from tests.support.strategies import examples

SOURCES = """REGISTER SOURCE Rows (k INT, g TEXT, u TEXT, v INT, d DECIMAL(9, 2), x DOUBLE) FROM t;
CREATE STREAM S OVER Rows KEY k; CREATE STREAM A OVER Rows KEY NULL;"""
ABOUT = """CREATE QUERY About WITH (memory = '3 MB', max_error = 0.1) AS
    SELECT STREAMED g, COUNT(DISTINCT u) AS n, COUNT(DISTINCT (v)) FILTER (WHERE v > 0) AS p, MEDIAN(v) AS m,
        percentile_disc(0.9) WITHIN GROUP (ORDER BY d) AS d, COUNT(*) AS c, SUM(v) AS s FROM S GROUP BY g;
CREATE STREAMED VIEW Written AS SELECT approx_count_distinct(u, 0.1) AS n, approx_percentile(x, 0.25, 0.1) AS x
    FROM S;"""
END = 30
ROW = st.tuples(
    st.integers(1, 12),
    st.integers(0, END - 1),
    st.sampled_from("+-"),
    st.sampled_from("ab"),
    st.integers(0, 400),
    st.none() | st.integers(-5000, 5000),
    st.floats(-1e6, 1e6),
)


def record(row) -> dict[str, object]:
    key, ts, op, group, user, value, number = row
    amount = None if value is None else f"{value / 100:.2f}"
    body = {"k": key, "g": group, "u": f"user {user}", "v": value, "d": amount, "x": number}
    return {**body, "op": op, "ts": ts}


def alive(rows, at: int) -> pl.DataFrame:
    """The last version of each key up to an instant. Of several versions at one instant, it is the last one."""
    last: dict[int, tuple] = {}
    for row in sorted((row for row in rows if row[1] <= at), key=lambda row: row[1]):
        last[row[0]] = row
    kept = [record(row) for row in last.values() if row[2] == "+"]
    schema = {"g": pl.String, "u": pl.String, "v": pl.Int32, "d": pl.String, "x": pl.Float64}
    return pl.DataFrame(kept, schema=schema).with_columns(pl.col("d").cast(pl.Decimal(9, 2)))


def exact(rows: pl.DataFrame, select: str) -> list[tuple]:
    database = duckdb.connect()
    database.register("s", rows.to_arrow())
    return database.sql(select).fetchall()


def session(rows, sql: str, batch: int | None = None) -> LocalSession:
    made = LocalSession(batch_records=batch)
    made.execute(SOURCES + sql)
    made.push("Rows", [record(row) for row in sorted(rows, key=lambda row: row[1])])
    made.advance(END)
    return made


@settings(max_examples=examples(8))
@given(st.lists(ROW, max_size=40), st.integers(1, 9))
def test_percentiles_are_within_their_error_at_every_instant(rows, batch) -> None:
    made = session(rows, ABOUT, batch)
    for at in range(END):
        there = alive(rows, at)
        select = """SELECT g, quantile_cont(v, 0.5), quantile_disc(d, 0.9), count(*), sum(v), min(v), max(v)
            FROM s GROUP BY g"""
        found = {row["g"]: row for row in made.relation("About", at)}
        wanted = {row[0]: row[1:] for row in exact(there, select)}
        assert set(found) == set(wanted)
        for group, (median, ninth, count, total, least, most) in wanted.items():
            row = found[group]
            assert (row["c"], row["s"]) == (count, total)
            assert (row["m"] is None, row["d"] is None) == (median is None, ninth is None)
            if median is not None:
                assert abs(Decimal(str(row["d"])) - ninth) <= Decimal("0.1") * abs(ninth)
                within = abs(median) if least * most > 0 else max(abs(least), abs(most))
                assert abs(row["m"] - median) <= 0.1 * within + 1e-9
        ((quarter,),) = exact(there, "SELECT quantile_disc(x, 0.25) FROM s")
        (row,) = made.relation("Written", at)
        assert (row["x"] is None) == (quarter is None)
        assert quarter is None or abs(row["x"] - quarter) <= 0.1 * abs(quarter)


def test_descending_percentiles_are_counted_from_the_greatest_value() -> None:
    made = LocalSession()
    made.execute(SOURCES)
    made.execute(
        """CREATE QUERY Kept WITH (memory = '3 MB', max_error = 0.01) AS
            SELECT STREAMED PERCENTILE_DISC(v, 0.1 ORDER BY v DESC) AS p FROM A;
        CREATE STREAMED VIEW Said AS SELECT APPROX_PERCENTILE(v, 0.1 ORDER BY v DESC) AS p FROM A;"""
    )
    made.push("Rows", [{"k": v, "v": v, "ts": 1} for v in range(1, 21)])
    made.advance(END)
    assert made.relation("Kept", END - 1) == made.relation("Said", END - 1) == [{"p": 19}]


@settings(max_examples=examples(25))
@given(st.lists(ROW, max_size=40), st.integers(1, 9))
def test_approximate_counts_depend_only_on_present_values(rows, batch) -> None:
    """At every instant, counts are those over the current rows alone. A few values almost always have different
    coupons; therefore a count is at most the exact one, and rarely one less."""
    made = session(rows, ABOUT, batch)
    missed = 0
    for at in (0, 3, END // 2, END - 1):
        there = alive(rows, at)
        select = "SELECT g, count(DISTINCT u), count(DISTINCT v) FILTER (v > 0) FROM s GROUP BY g"
        wanted = {row[0]: row[1:] for row in exact(there, select)}
        found = {row["g"]: (row["n"], row["p"]) for row in made.relation("About", at)}
        assert set(found) == set(wanted)
        for group, counts in wanted.items():
            assert all(0 <= one - other <= 1 for one, other in zip(counts, found[group], strict=True))
            missed += found[group] != counts
    assert missed <= 4


@settings(max_examples=examples(10))
@given(st.lists(ROW, min_size=1, max_size=40), st.integers(1, 9))
def test_results_do_not_depend_on_batches(rows, batch) -> None:
    whole, cut = session(rows, ABOUT), session(rows, ABOUT, batch)
    for name in ("About", "Written"):
        assert cut.changes(name) == whole.changes(name)


def test_many_values_are_counted_within_the_error_in_a_state_of_fixed_size() -> None:
    """20 000 users in each of 10 windows. A count may be beyond its error in one of 20 windows; this test permits three
    of 10."""
    made = LocalSession()
    made.execute(
        SOURCES
        + """CREATE QUERY Users WITH (memory = '600 kB', max_error = 0.09) AS
        SELECT STREAMED window_end, COUNT(DISTINCT u) AS n, approx_percentile(v, 0.5) AS m
        FROM TUMBLE(TABLE A, DESCRIPTOR(TS), 10) GROUP BY window_end"""
    )
    for window in range(10):
        rows = [(0, window * 10 + at % 10, "+", "a", window * 20_000 + at, at % 1000, 0.0) for at in range(20_000)]
        made.push("Rows", [record(row) for row in sorted(rows, key=lambda row: row[1])])
    made.advance(200)
    found = made.relation("Users", 150)
    assert len(found) == 10
    assert sum(abs(row["n"] - 20_000) > 0.09 * 20_000 for row in found) <= 3
    assert all(abs(row["m"] - 499) <= 0.09 * 499 for row in found)


@pytest.mark.parametrize(
    ("options", "select", "message"),
    [
        ("memory = '1 kB', max_error = 0.1", "COUNT(DISTINCT u) AS n FROM A", "MAX_ERROR 0.1 needs .* bytes"),
        (
            "memory = '100 kB', max_error = 0.05",
            "COUNT(DISTINCT u) AS n FROM A",
            "with 100,000 bytes the error is up to",
        ),
        ("memory = '1 MB', max_error = 0.1", "COUNT(*) AS n FROM A", "no aggregate of the query has a sketch"),
        ("memory = '1 MB', max_error = 0.1", "MODE(v) AS n FROM A", "no aggregate of the query has a sketch"),
        (
            "memory = '1 MB', max_error = 0.1",
            "DISTINCT u FROM A",
            "MEMORY with MAX_ERROR is not supported over DISTINCT",
        ),
        ("memory = '1 MB', max_error = 0.1", "g FROM A GROUP BY g HAVING COUNT(DISTINCT u) > 2", "over HAVING"),
        (
            "memory = '1 MB', max_error = 0.1",
            "COUNT(DISTINCT u) * 2 AS n FROM A",
            "over an expression over",
        ),
        (
            "memory = '1 MB', max_error = 0.1, deadline = '1 s'",
            "COUNT(DISTINCT u) AS n FROM A",
            "DEADLINE cannot be combined with MEMORY",
        ),
        ("memory = '1 MB'", "COUNT(DISTINCT u) AS n FROM A", "needs a window with a range of sizes"),
        ("memory = '1 MB', max_error = 0.0005", "COUNT(DISTINCT u) AS n FROM A", "MAX_ERROR must be at least"),
        (
            "memory = '1 MB', max_error = 0.1",
            "MEDIAN(DISTINCT v) AS n FROM A",
            "no aggregate of the query has a sketch",
        ),
        ("weight = 1", "approx_percentile(DISTINCT v, 0.5) AS n FROM A", "does not take DISTINCT"),
        ("weight = 1", "approx_count_distinct(ARRAY[v], 0.1) AS n FROM A", "does not take"),
        ("weight = 1", "approx_percentile(v) AS n FROM A", "needs a fraction"),
        ("weight = 1", "approx_percentile(u, 0.5) AS n FROM A", "does not take"),
        ("weight = 1", "approx_count_distinct(v, 2) AS n FROM A", "a number from 0.001 to 0.5"),
        ("weight = 1", "approx_count_distinct(v, u) AS n FROM A", "must be a constant"),
    ],
)
def test_unsupported_approximations_are_refused_with_the_reason(options: str, select: str, message: str) -> None:
    made = LocalSession()
    made.execute(SOURCES)
    with pytest.raises(UserError, match=message):
        made.execute(f"CREATE QUERY q WITH ({options}) AS SELECT STREAMED {select}")


@pytest.mark.parametrize("memory", [20_000, 99_999, 250_000, 1_234_567, 9_000_000])
def test_sketches_stay_within_the_promised_memory(memory: int) -> None:
    """Sketches of the least error take almost all of the memory, and no more."""
    below = logical.Values(pa.schema([("u", pa.string()), ("x", pa.float64())]), ())
    count = Aggregate("n", "count", ("u",), pa.int64(), False, distinct=True)
    median = Aggregate("m", "median", ("x",), pa.float64())
    for aggregates in ((count,), (median,), (count, median)):
        plan = logical.GroupBy(below, (), aggregates)
        error = least_error(plan, memory)
        if error is None:
            assert memory_of(plan, LARGEST_ERROR) > memory
        else:
            assert 0.9 * memory < memory_of(plan, error) <= memory or error in (0.001, LARGEST_ERROR)
    alone = logical.GroupBy(below, (), (count,))
    both = logical.GroupBy(below, (), (count, median))
    assert memory_of(both, 0.1) == memory_of(alone, 0.1) + memory_of(logical.GroupBy(below, (), (median,)), 0.1)
    assert memory_of(alone, 0.1) == ENTRY_BYTES * DistinctCount(0.1).entries()


def test_the_notice_says_what_the_error_is_and_a_select_that_runs_once_has_none() -> None:
    made = LocalSession()
    made.execute(SOURCES)
    (created,) = made.run(
        "CREATE QUERY q WITH (memory = '5 MB', max_error = 0.5) AS SELECT STREAMED MEDIAN(v) AS m FROM A"
    )
    assert "sketches: an error of at most 0.001, within 5,000,000 bytes for each group" in created.notices
    made.execute("CREATE TABLE T (a INT PRIMARY KEY); INSERT INTO T VALUES (1), (2), (1000)")
    (row,) = made.execute("SELECT approx_count_distinct(a, 0.5) AS n, approx_percentile(a, 0.5, 0.5) AS m, "
                          "approx_quantile(a, 0.9) AS q FROM T")  # fmt: skip
    assert row == {"n": 3, "m": 2, "q": 1000}
