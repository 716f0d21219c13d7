"""generate_series and ARRAY(SELECT …) in queries that run once, compared with DuckDB, and with the query as a view."""

from __future__ import annotations

import datetime as dt
from collections import Counter

import duckdb
import pytest

from dsms.testing import LocalSession
from operators.core.errors import SqlError

ROWS = [(1, 3), (2, -1), (3, None), (4, 1)]


@pytest.fixture
def session() -> LocalSession:
    made = LocalSession()
    made.execute("CREATE TABLE T (k INT PRIMARY KEY, n INT); INSERT INTO T VALUES (1, 3), (2, -1), (3, NULL), (4, 1)")
    return made


def asked(session: LocalSession, sql: str) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row.values()) for row in session.execute(sql))


def expected(sql: str) -> Counter[tuple[object, ...]]:
    with duckdb.connect() as engine:
        engine.execute("CREATE TABLE T (k INT, n INT)")
        engine.executemany("INSERT INTO T VALUES (?, ?)", ROWS)
        return Counter(engine.execute(sql).fetchall())


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM generate_series(1, 3)",
        "SELECT g.i FROM generate_series(-2, 7, 3) AS g(i)",
        "SELECT g FROM generate_series(1, 3) g",
        "SELECT i FROM generate_series(10, 1, -4) AS g(i)",
        "SELECT i FROM generate_series(3, 1) AS g(i)",
        "SELECT T.k, g.i FROM T, generate_series(1, T.n) AS g(i)",
        "SELECT T.k, g.i FROM T CROSS JOIN LATERAL generate_series(T.n - 1, T.n + T.k * 2, 2) AS g(i)",
        "SELECT T.k, g.i FROM T LEFT JOIN generate_series(1, T.n) AS g(i) ON TRUE",
        "SELECT T.k, g.i FROM T JOIN generate_series(1, 9) AS g(i) ON g.i = T.k + 1",
        "SELECT k, (SELECT SUM(i) FROM generate_series(1, T.n) AS g(i)) FROM T",
        "SELECT k FROM T WHERE k IN (SELECT i * 2 FROM generate_series(1, 9) AS g(i))",
        "SELECT COUNT(*) FROM generate_series(1, 5000000)",
        "SELECT t FROM generate_series(TIMESTAMP '2026-01-31', TIMESTAMP '2026-02-01', INTERVAL '6 hours') AS g(t)",
        "SELECT t FROM generate_series(TIMESTAMP '2026-01-31', TIMESTAMP '2026-06-01', INTERVAL '1 month') AS g(t)",
    ],
)
def test_rows_equal_duckdb(session: LocalSession, sql: str) -> None:
    assert asked(session, sql) == expected(sql)


@pytest.mark.parametrize(
    ("sql", "reference"),
    [
        ("SELECT generate_series(1, 3)", "SELECT unnest(generate_series(1, 3))"),
        ("SELECT k, generate_series(1, n) * 10 FROM T", "SELECT k, unnest(generate_series(1, n)) * 10 FROM T"),
        ("SELECT k, cardinality(ARRAY(SELECT i FROM T, generate_series(1, n) AS g(i))) FROM T", "SELECT k, 4 FROM T"),
        ("SELECT array_to_string(ARRAY(SELECT CAST(k AS VARCHAR) FROM T ORDER BY k DESC), ' ')", "SELECT '4 3 2 1'"),
    ],
)
def test_select_lists_equal_duckdb(session: LocalSession, sql: str, reference: str) -> None:
    assert asked(session, sql) == expected(reference)


@pytest.mark.parametrize(
    "select",
    [
        "SELECT k, generate_series(1, n) AS i FROM T",
        "SELECT k, i FROM T, generate_series(n, n + 2, 2) AS g(i)",
        "SELECT k, generate_series FROM T CROSS JOIN generate_series(1, n)",
    ],
)
def test_a_view_has_the_same_rows(session: LocalSession, select: str) -> None:
    session.execute(f"CREATE VIEW V AS {select}")
    assert asked(session, "SELECT * FROM V") == asked(session, select) != Counter()


def test_a_table_can_be_filled(session: LocalSession) -> None:
    session.execute("INSERT INTO T SELECT i, i * i FROM generate_series(10, 12) AS g(i)")
    assert asked(session, "SELECT k, n FROM T WHERE k >= 10") == Counter([(10, 100), (11, 121), (12, 144)])


def test_gaps_are_filled_by_a_series_of_days(session: LocalSession) -> None:
    session.execute("CREATE TABLE Sold (id INT PRIMARY KEY, at TIMESTAMP)")
    session.execute(
        "INSERT INTO Sold VALUES (1, TIMESTAMP '2026-01-01 10:00:00'), (2, TIMESTAMP '2026-01-03 09:00:00')"
    )
    rows = session.execute("""
        SELECT day, COUNT(id) AS n
        FROM generate_series(TIMESTAMP '2026-01-01', TIMESTAMP '2026-01-03', INTERVAL '1 day') AS g(day)
        LEFT JOIN Sold ON date_trunc('day', at) = day GROUP BY day ORDER BY day
    """)
    days = [dt.datetime(2026, 1, day) for day in (1, 2, 3)]  # noqa: DTZ001 a TIMESTAMP has no time zone
    assert [(row["day"], row["n"]) for row in rows] == list(zip(days, (1, 0, 1), strict=True))


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT k FROM T WHERE k = generate_series(1, 3)", "line 1, column 27: generate_series outside of FROM"),
        ("SELECT unnest(generate_series(1, 3))", "a second UNNEST or generate_series"),
        ("SELECT * FROM UNNEST(generate_series(1, 3)) AS u(x)", "generate_series outside of FROM"),
        ("SELECT SUM(generate_series(1, 3)) FROM T", "over groups"),
        ("SELECT * FROM generate_series(1, 3, 0)", "line 1, column 37: the step of generate_series is 0"),
        ("SELECT * FROM generate_series(1.5, 3)", "DECIMAL"),
    ],
)
def test_other_calls_are_refused(session: LocalSession, sql: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        session.execute(sql)
