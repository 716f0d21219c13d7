"""VALUES as a query: run once, and as part of continuous queries. Its columns are column1, column2, …, as in
PostgreSQL."""

from __future__ import annotations

import duckdb
import pytest

from dsms.testing import LocalSession
from operators.core.errors import SqlError

SOURCES = """
REGISTER SOURCE A (k INT, v INT) FROM a; CREATE STREAM S OVER A KEY k; CREATE TABLE T (k INT PRIMARY KEY, v INT);
INSERT INTO T VALUES (1, 10), (2, 20)
"""
#: DuckDB names the columns of VALUES col0, col1, …; in the queries below it gets PostgreSQL's names.
ONCE = {
    "VALUES (1, 'a'), (2, NULL)": "SELECT * FROM (VALUES (1, 'a'), (2, NULL)) v (column1, column2)",
    "(VALUES (1), (2)) ORDER BY 1 DESC LIMIT 1": "SELECT 2 AS column1",
    "VALUES (1), (3), (2) ORDER BY column1 DESC OFFSET 1": "SELECT 2 AS column1 UNION ALL SELECT 1",
    "VALUES (1) UNION ALL VALUES (2) UNION ALL SELECT k FROM T":
        "SELECT * FROM (VALUES (1), (2), (1), (2)) v (column1)",
    "SELECT k FROM T WHERE k IN (VALUES (1), (5))": "SELECT 1 AS k",
    "SELECT k FROM T WHERE k NOT IN (VALUES (1), (5))": "SELECT 2 AS k",
    "SELECT column2 FROM (VALUES (1, 2), (3, 4))": "SELECT * FROM (VALUES (2), (4)) v (column2)",
    "SELECT * FROM (VALUES (1, 2)) AS v (a)": "SELECT 1 AS a, 2 AS column2",
    "WITH w AS (VALUES (1, 2), (3, 4)) SELECT column1 FROM w": "SELECT * FROM (VALUES (1), (3)) v (column1)",
    "WITH w (x, y) AS (VALUES (1, 2)) SELECT v, y FROM T JOIN w ON k = x": "SELECT 10 AS v, 2 AS y",
}  # fmt: skip
CONTINUOUS = {
    "SELECT k, v FROM S UNION ALL VALUES (7, 8)": "SELECT k, v FROM T UNION ALL SELECT 7, 8",
    "SELECT k FROM S WHERE k NOT IN (VALUES (1), (5))": "SELECT k FROM T WHERE k NOT IN (1, 5)",
    "WITH w AS (VALUES (1, 2), (3, 4)) SELECT v, column2 FROM S JOIN w ON k = column1": "SELECT 10 AS v, 2 AS column2",
    "SELECT k, (VALUES (5)) AS five FROM S": "SELECT k, 5 AS five FROM T",
}


def in_duck(query: str) -> list[dict]:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE T (k INT, v INT); INSERT INTO T VALUES (1, 10), (2, 20)")
    return connection.sql(query).to_arrow_table().to_pylist()


@pytest.mark.parametrize("query", ONCE)
def test_once(query: str) -> None:
    session = LocalSession()
    session.execute(SOURCES)
    assert session.execute(query) == in_duck(ONCE[query])


@pytest.mark.parametrize("query", CONTINUOUS)
def test_in_views(query: str) -> None:
    session = LocalSession()
    session.execute(f"{SOURCES}; CREATE VIEW V AS {query}")
    session.push("A", [{"k": 1, "v": 10, "ts": 0}, {"k": 2, "v": 20, "ts": 0}])
    session.advance(1)
    rows = sorted(map(repr, session.relation("V")))
    assert rows == sorted(map(repr, in_duck(CONTINUOUS[query])))


def test_insert_and_create_table_take_values() -> None:
    session = LocalSession()
    session.execute(SOURCES)
    session.execute("INSERT INTO T VALUES (3, 30); CREATE TABLE U AS VALUES (1, 'x')")
    assert session.execute("SELECT v FROM T WHERE k = 3") == [{"v": 30}]
    assert session.execute("SELECT column1, column2 FROM U") == [{"column1": 1, "column2": "x"}]


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("VALUES (1, 2), (3)", "the same length"),
        ("VALUES (1 / 0)", "division by zero"),
        ("CREATE VIEW V AS VALUES (1)", "the query reads no stream, so its result never changes"),
    ],
)
def test_wrong_values_are_refused(query: str, why: str) -> None:
    with pytest.raises(SqlError) as refused:
        LocalSession().execute(query)
    assert why in str(refused.value)
