"""ON CONFLICT, UPDATE … FROM and DELETE … USING: after each statement, tables equal DuckDB's."""

from __future__ import annotations

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsms.testing import LocalSession
from operators.core.errors import UserError
from tests.support.strategies import examples

TABLES = (
    "CREATE TABLE t (k INT PRIMARY KEY, v INT, w TEXT)",
    "CREATE TABLE two (a INT, b INT, v INT, PRIMARY KEY (a, b))",
    "CREATE TABLE u (k INT, v INT)",
)
#: The text of a row of t.
W = "({0}, {2}, 'w{1}')"
ROWS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 9)), min_size=1, max_size=5)


def _values(rows: list[tuple[int, int, int]], text: str) -> str:
    return ", ".join(text.format(*row) for row in rows)


STATEMENTS = st.one_of(
    ROWS.map(lambda rows: f"INSERT INTO t VALUES {_values(rows, W)} ON CONFLICT DO NOTHING"),
    ROWS.map(lambda rows: f"INSERT INTO t (v, k) VALUES {_values(rows, '({2}, {0})')} ON CONFLICT (k) DO NOTHING"),
    ROWS.map(lambda rows: f"INSERT INTO two VALUES {_values(rows, '({0}, {1}, {2})')} ON CONFLICT (b, a) DO NOTHING"),
    ROWS.map(lambda rows: f"INSERT INTO u VALUES {_values(rows, '({0}, {2})')}"),
    ROWS.map(
        lambda rows: (
            f"INSERT INTO t (k, v) VALUES {_values([*{row[0]: row for row in rows}.values()], '({0}, {2})')} "
            "ON CONFLICT (k) DO UPDATE SET v = t.v + EXCLUDED.v, w = 'new' || EXCLUDED.k"
        )
    ),
    ROWS.map(
        lambda rows: (
            f"INSERT INTO t (k, v) VALUES {_values([*{row[0]: row for row in rows}.values()], '({0}, {2})')} "
            "ON CONFLICT (k) DO UPDATE SET v = EXCLUDED.v WHERE t.v < EXCLUDED.v"
        )
    ),
    st.just(
        "INSERT INTO two SELECT DISTINCT ON (k) k, 1, v FROM u ORDER BY k, v "
        "ON CONFLICT (a, b) DO UPDATE SET v = EXCLUDED.v"
    ),
    st.just("UPDATE t SET v = s.v, w = 'u' || s.k FROM (SELECT k, MAX(v) AS v FROM u GROUP BY k) s WHERE t.k = s.k"),
    st.just("UPDATE t AS x SET v = y.v + x.v FROM two y JOIN t z ON z.k = y.b WHERE x.k = y.a AND y.b = 1"),
    st.just("UPDATE u SET v = t.v FROM t WHERE t.k = u.k AND t.v > 3"),
    st.just("DELETE FROM t USING u WHERE t.k = u.k AND u.v > 5"),
    st.just("DELETE FROM u AS x USING t, two WHERE x.k = t.k AND two.a = t.k"),
)


@settings(max_examples=examples(20))
@given(st.lists(STATEMENTS, min_size=1, max_size=8))
def test_tables_equal_duckdb(statements: list[str]) -> None:
    session, database = LocalSession(), duckdb.connect()
    for text in TABLES:
        session.execute(text)
        database.execute(text)
    for statement in statements:
        session.execute(statement)
        database.execute(statement)
        for name in ("t", "two", "u"):
            ours = [tuple(row.values()) for row in session.execute(f"SELECT * FROM {name}")]
            assert sorted(map(repr, ours)) == sorted(map(repr, database.sql(f"SELECT * FROM {name}").fetchall()))


RETURNING = (
    "INSERT INTO t VALUES (1, 11, 'b'), (7, 2, 'c') ON CONFLICT (k) DO UPDATE SET v = EXCLUDED.v RETURNING k + 1 AS n",
    "INSERT INTO t VALUES (1, 11, 'b'), (8, 20, 'c') ON CONFLICT DO NOTHING RETURNING *",
    "INSERT INTO u VALUES (1, 11), (1, 11) RETURNING *",
    "UPDATE t AS x SET v = v + 1 WHERE x.k < 3 RETURNING x.k, v * 2 AS double, w",
    "DELETE FROM t WHERE k > 1 RETURNING *",
    "DELETE FROM u RETURNING v, COALESCE(k, 0) AS k",
    "DELETE FROM t WHERE k > 100 RETURNING k",
)


@pytest.mark.parametrize("statement", RETURNING)
def test_returning_shows_the_changed_rows(statement: str) -> None:
    session, database = LocalSession(), duckdb.connect()
    for text in (
        *TABLES,
        "INSERT INTO t VALUES (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c')",
        "INSERT INTO u VALUES (1, 5)",
    ):
        session.execute(text)
        database.execute(text)
    (result,) = session.run(statement)
    answer = database.sql(statement)
    assert list(result.columns) == answer.columns
    assert sorted(result.rows) == sorted(answer.fetchall())


def test_names_that_are_words_of_the_language() -> None:
    session = LocalSession()
    session.execute('CREATE TABLE "Order" ("group" INT PRIMARY KEY, "Select" INT); INSERT INTO "Order" VALUES (1, 2)')
    rows = session.execute(
        'INSERT INTO "Order" VALUES (1, 3) ON CONFLICT ("group") DO UPDATE SET "Select" = EXCLUDED."Select" + 1 '
        "RETURNING *"
    )
    assert rows == [{"group": 1, "Select": 4}]
    assert session.execute('UPDATE "Order" AS "from" SET "Select" = "from"."group" RETURNING "Select"') == [
        {"Select": 1}
    ]


def test_on_conflict_publishes_its_changes() -> None:
    session = LocalSession()
    session.execute(f"{TABLES[0]}; CREATE STREAMED VIEW V AS SELECT * FROM t; INSERT INTO t VALUES (1, 10, 'a')")
    session.execute(
        "INSERT INTO t VALUES (1, 11, 'b'), (2, 20, 'c') ON CONFLICT (k) DO UPDATE SET v = EXCLUDED.v; "
        "INSERT INTO t VALUES (1, 12, 'd') ON CONFLICT DO NOTHING"
    )
    changes = [(op, row["k"], row.get("v")) for op, row, _ in session.changes("V")]
    assert changes[0] == ("+", 1, 10)
    assert sorted(changes[1:]) == [("+", 2, 20), ("u", 1, 11)]


REFUSED = {
    "INSERT INTO t VALUES (1, 1, 'a') ON CONFLICT (v) DO NOTHING": "has the primary key \\(k\\)",
    "INSERT INTO u VALUES (1, 1) ON CONFLICT (k) DO NOTHING": "has no primary key",
    "INSERT INTO t VALUES (1, 1, 'a') ON CONFLICT DO UPDATE SET v = 1": "needs the key",
    "INSERT INTO t VALUES (7, 1, 'a') ON CONFLICT ON CONSTRAINT c DO NOTHING": "can only name the columns of the",
    "INSERT INTO t VALUES (1, 2, 'a'), (1, 3, 'b') ON CONFLICT (k) DO UPDATE SET v = 5": "would change a row twice",
    "INSERT INTO t VALUES (1, 2, 'a') ON CONFLICT (k) DO UPDATE SET z = 5": "z",
    "INSERT INTO t VALUES (1, 2, 'a'), (7, 3, 'b') ON CONFLICT (k) DO UPDATE SET k = 7": "duplicate key",
    "UPDATE t SET v = u.v FROM u WHERE t.k = u.k": "FROM has several rows for one row of",
    "UPDATE t SET v = x.v FROM missing x WHERE t.k = x.k": "missing",
    "DELETE FROM t RETURNING (SELECT MAX(v) FROM u)": "a subquery in RETURNING is not supported",
}


@pytest.mark.parametrize("statement", REFUSED)
def test_refused_statements_change_nothing(statement: str) -> None:
    session = LocalSession()
    session.execute("; ".join([*TABLES, "INSERT INTO t VALUES (1, 10, 'a')", "INSERT INTO u VALUES (1, 5), (1, 6)"]))
    with pytest.raises(UserError, match=REFUSED[statement]):
        session.execute(statement)
    assert session.execute("SELECT * FROM t") == [{"k": 1, "v": 10, "w": "a"}]


def test_a_stream_that_fills_a_table_has_no_conflicts() -> None:
    session = LocalSession()
    session.execute(f"{TABLES[0]}; CREATE STREAM S (k INT, v INT, w TEXT, at BIGINT) ORDER BY at")
    with pytest.raises(UserError, match="ON CONFLICT is not supported when a stream fills a table"):
        session.execute("INSERT INTO t SELECT k, v, w FROM S ON CONFLICT DO NOTHING")
