"""Tables without a primary key can contain equal rows, as in DuckDB."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsms.testing import LocalSession
from operators.core.errors import SqlError, UserError
from tests.support import duck_engine
from tests.support.strategies import examples

CREATE = "CREATE TABLE T (a INT, b VARCHAR)"
VALUE = st.sampled_from(["NULL", "1", "2"])
TEXT = st.sampled_from(["NULL", "'x'", "'y'"])
STATEMENT = st.one_of(
    st.builds("INSERT INTO T VALUES ({}, {}), (1, 'x')".format, VALUE, TEXT),
    st.builds("INSERT INTO T (b) VALUES ({})".format, TEXT),
    st.builds("INSERT INTO T SELECT * FROM T WHERE a = {}".format, VALUE),
    st.builds("UPDATE T SET a = a + 1 WHERE b = {}".format, TEXT),
    st.builds("UPDATE T SET b = {}".format, TEXT),
    st.builds("DELETE FROM T WHERE a = {}".format, VALUE),
    st.just("TRUNCATE T"),
)
QUERIES = ["SELECT * FROM T", "SELECT b, count(*) AS n, sum(a) AS s FROM T GROUP BY b", "SELECT DISTINCT a FROM T",
           "SELECT x.a, y.b FROM T x JOIN T y ON x.a = y.a"]  # fmt: skip


def session_of(*statements: str) -> LocalSession:
    session = LocalSession()
    for statement in statements:
        session.execute(statement)
    return session


@settings(max_examples=examples(25))
@given(st.lists(STATEMENT, max_size=6), st.sampled_from(QUERIES))
def test_statements_and_views_equal_duckdb(statements: list[str], query: str) -> None:
    session = session_of(CREATE, f"CREATE STREAMED VIEW V AS {query}")
    duck: duckdb.DuckDBPyConnection = duck_engine.connection()
    duck.execute("CREATE OR REPLACE TEMP TABLE T (a INT, b VARCHAR)")
    for statement in statements:
        session.execute(statement)
        duck.execute(statement)
        wanted = Counter(duck.execute(query).fetchall())
        assert Counter(tuple(row.values()) for row in session.execute(query)) == wanted
        assert Counter(tuple(row.values()) for row in session.relation("V")) == wanted


def test_star_has_the_declared_columns() -> None:
    session = session_of(CREATE, "INSERT INTO T VALUES (1, 'x'), (1, 'x')", "CREATE STREAMED VIEW V AS SELECT * FROM T")
    assert session.execute("SELECT * FROM T") == [{"a": 1, "b": "x"}] * 2
    assert session.relation("V") == [{"a": 1, "b": "x"}] * 2
    assert session.key("V") == ()


def test_no_query_sees_the_numbers_of_rows() -> None:
    session = session_of(CREATE, "CREATE TABLE P (a INT PRIMARY KEY, n INT)", "INSERT INTO T VALUES (1, 'x'), (1, 'x')")
    session.execute("INSERT INTO P VALUES (1, 0), (2, 0)")
    session.execute("UPDATE P SET n = (SELECT count(*) FROM (SELECT DISTINCT * FROM T) x)")
    session.execute("DELETE FROM P WHERE (a, 'x') IN (SELECT * FROM T)")
    assert session.execute("SELECT * FROM P") == [{"a": 2, "n": 1}]


def test_a_column_of_that_name_elsewhere_is_a_column() -> None:
    session = session_of(CREATE, "CREATE STREAMED VIEW V AS SELECT a AS _row, count(*) AS n FROM T GROUP BY a")
    session.execute("CREATE STREAMED VIEW W AS SELECT * FROM V; INSERT INTO T VALUES (1, 'x')")
    assert session.relation("W") == [{"_row": 1, "n": 1}]


def test_rows_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("b,a\nx,1\nx,1\n")
    session = session_of(CREATE, f"COPY T FROM '{tmp_path / 'rows.csv'}'")
    assert session.execute("SELECT * FROM T") == [{"a": 1, "b": "x"}] * 2


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("CREATE TABLE U (_row BIGINT, a INT)", 'column name "_row" is reserved: it numbers the rows'),
        ("INSERT INTO T (_row) VALUES (1)", 'column "_row" not found'),
        ("UPDATE T SET _row = 1", 'column "_row" not found'),
        ("INSERT INTO T SELECT k, 'x' FROM S", "has no primary key: a stream cannot fill it"),
        ("INSERT INTO T VALUES (1)", "2 columns but 1 values"),
    ],
)
def test_what_is_refused(statement: str, why: str) -> None:
    session = session_of(CREATE, "CREATE STREAM S (k INT, at BIGINT) ORDER BY at SOURCE 'ks'")
    with pytest.raises((SqlError, UserError)) as refused:
        session.execute(statement)
    assert why in str(refused.value)
