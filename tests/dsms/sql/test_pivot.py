"""PIVOT and UNPIVOT in views, at every instant of histories with updates and deletions, and in SELECTs that run once,
compared with DuckDB's."""

from __future__ import annotations

from collections import Counter
from itertools import product

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsms.testing import LocalSession
from operators.core.errors import SqlError

DECLARED = "REGISTER SOURCE T (id INT, k VARCHAR, n INT, v INT) FROM t; CREATE STREAM S OVER T KEY id"
PLAIN = "(SELECT k, n, v FROM S)"
FROM = [
    f"{PLAIN} PIVOT (SUM(v) FOR k IN ('a', 'b'))",
    f"{PLAIN} PIVOT (SUM(v + n) FOR k IN ('a' AS x, 'b'))",
    f"{PLAIN} PIVOT (SUM(v) AS s, COUNT(*) AS c FOR k IN ('a', 'c'))",
    f"{PLAIN} PIVOT (COUNT(*) FOR k IN ('a', NULL))",
    f"{PLAIN} PIVOT (MAX(v) FOR n IN (0, -1, 1))",
    f"{PLAIN} PIVOT (MIN(v) FOR k IN ('a', 'b') n IN (0, 1))",
    f"{PLAIN} PIVOT (SUM(v) FOR (k, n) IN (('a', 0), ('b', 1)))",
    f"{PLAIN} PIVOT (SUM(v) FOR upper(k) IN ('A', 'B'))",
    "S PIVOT (SUM(v) FOR k IN ('a', 'b') GROUP BY n)",
    "S AS s PIVOT (SUM(v) FOR k IN ('a', 'b') GROUP BY n) AS p(key, first, second)",
    f"{PLAIN} PIVOT (SUM(v) FOR k IN ('a', 'b')) AS p JOIN (SELECT n AS m, COUNT(*) AS c FROM S GROUP BY n) ON m = p.n",
    "S UNPIVOT (x FOR name IN (n, v))",
    "S UNPIVOT INCLUDE NULLS (x FOR name IN (n AS first, v))",
    "(SELECT k, n, v FROM S) PIVOT (COUNT(*) FOR k IN ('a', 'b') GROUP BY n) UNPIVOT (x FOR name IN (a, b))",
]
ROW = st.tuples(
    st.integers(0, 3),
    st.sampled_from(["a", "b", "c", None]),
    st.sampled_from([0, 1, -1, None]),
    st.none() | st.integers(-9, 9),
    st.booleans(),
)
Rows = Counter[tuple[object, ...]]


def expected(item: str, rows: list[tuple[object, ...]]) -> tuple[list[str], Rows]:
    with duckdb.connect() as engine:
        engine.execute("CREATE TABLE S (id INT, k VARCHAR, n INT, v INT)")
        if rows:
            engine.executemany("INSERT INTO S VALUES (?, ?, ?, ?)", rows)
        found = engine.execute(f"SELECT * FROM {item}")
        return [column[0].lower() for column in found.description], Counter(found.fetchall())


@settings(max_examples=5)
@given(pushed=st.lists(ROW, max_size=6), batch=st.sampled_from([None, 1, 3]))
def test_views_equal_duckdb_at_every_instant(pushed, batch: int | None) -> None:
    session = LocalSession(2, batch)
    session.execute(DECLARED)
    for number, item in enumerate(FROM):
        session.execute(f"CREATE VIEW V{number} AS SELECT * FROM {item}")
    relation: dict[int, tuple[object, ...]] = {}
    relations = []
    for at, (id_, k, n, v, deleted) in enumerate(pushed, 1):
        record = {"id": id_, "k": k, "n": n, "v": v, "ts": at}
        session.push("T", [{"op": "-", **record} if deleted else record])
        relation = {key: row for key, row in relation.items() if key != id_}
        relation |= {} if deleted else {id_: (id_, k, n, v)}
        relations.append(relation)
    session.advance(len(pushed) + 2)
    for (at, rows), (number, item) in product(enumerate(relations, 1), enumerate(FROM)):
        names, values = expected(item, list(rows.values()))
        shown = session.relation(f"V{number}", at)
        assert Counter(tuple(row.values()) for row in shown) == values
        assert all([name.lower() for name in row] == names for row in shown)


ROWS = [(1, "a", 0, 5), (2, "b", 0, 7), (3, "a", 1, None), (4, None, 1, 4), (5, "a", 0, 6), (6, "c", None, 1)]


@pytest.mark.parametrize("item", FROM)
@pytest.mark.parametrize("rows", [ROWS, []])
def test_selects_that_run_once_equal_duckdb(item: str, rows: list[tuple[object, ...]]) -> None:
    session = LocalSession()
    session.execute("CREATE TABLE S (id INT PRIMARY KEY, k VARCHAR, n INT, v INT)")
    for row in rows:
        session.execute(f"INSERT INTO S VALUES {row}".replace("None", "NULL"))
    answer = session.execute(f"SELECT * FROM {item}")
    names, values = expected(item, rows)
    assert Counter(tuple(row.values()) for row in answer) == values
    assert all([name.lower() for name in row] == names for row in answer)


def test_several_aggregates_are_named_after_their_functions() -> None:
    session = LocalSession()
    session.execute(
        f"{DECLARED}; CREATE VIEW V AS SELECT * FROM {PLAIN} PIVOT (SUM(v), COUNT(*) FOR k IN (TRUE, 2))".replace(
            "k IN (TRUE, 2)", "n IN (1, 2 AS two)"
        )
    )
    described = [row["column"] for row in session.execute("DESCRIBE V")]
    assert described == ["k", "1_sum", "1_count", "two_sum", "two_count"]


def test_statements_that_write_read_pivots() -> None:
    session = LocalSession()
    session.execute("CREATE TABLE S (id INT PRIMARY KEY, k VARCHAR, v INT); CREATE TABLE W (id INT PRIMARY KEY, a INT)")
    session.execute("INSERT INTO S VALUES (1, 'a', 5), (2, 'b', 6)")
    session.execute("INSERT INTO W SELECT id, a FROM S PIVOT (SUM(v) FOR k IN ('a'))")
    session.execute("UPDATE W SET a = p.b FROM S PIVOT (SUM(v) FOR k IN ('b')) AS p WHERE p.id = W.id")
    assert [tuple(row.values()) for row in session.execute("SELECT * FROM W ORDER BY id")] == [(1, None), (2, 6)]


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("S PIVOT (SUM(v) FOR k IN (SELECT k FROM S))", "PIVOT .* is not supported here; list the values"),
        ("S PIVOT (SUM(v) FOR k IN (ANY))", "list the values"),
        ("S PIVOT (SUM(v) FOR k IN ('a', 'a'))", 'two columns are named "a"'),
        ("S PIVOT (SUM(v) FOR missing IN ('a'))", '"missing"; have: id, k, n, v'),
        ("S PIVOT (SUM(v) FOR (k, n) IN (('a', 1, 2)))", "3 values for 2 columns"),
        ("S PIVOT (v + 1 FOR k IN ('a'))", "expecting an aggregation function"),
        ("S UNPIVOT ((a, b) FOR name IN ((n, v)))", "UNPIVOT of several columns at once"),
        ("S UNPIVOT (x FOR name IN (n, k))", "VARCHAR"),
        (f"S PIVOT (SUM({' + '.join(['v'] * 30)}) FOR n IN ({', '.join(map(str, range(500)))}))", "too large"),
    ],
)
def test_other_pivots_are_refused_with_their_location(item: str, message: str) -> None:
    session = LocalSession()
    session.execute(DECLARED)
    with pytest.raises(SqlError, match=f"^line 1, column \\d+: .*{message}"):
        session.execute(f"CREATE VIEW V AS SELECT * FROM {item}")


def test_the_statement_of_duckdb_is_refused() -> None:
    with pytest.raises(SqlError, match="PIVOT is not supported; SELECT … FROM table PIVOT"):
        LocalSession().execute("PIVOT S ON k USING SUM(v)")


def test_a_sample_of_a_subquery_is_a_sample() -> None:
    """TABLESAMPLE after a subquery has the meaning of Sample."""
    session = LocalSession()
    session.execute(DECLARED)
    session.execute("CREATE VIEW V AS SELECT id FROM (SELECT id FROM S) TABLESAMPLE (10 PERCENT)")
    assert "Sample" in session.explain("V")
