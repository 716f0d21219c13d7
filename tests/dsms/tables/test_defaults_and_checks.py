"""DEFAULT and CHECK of tables: all statements have the same effect as in DuckDB, and fail if they fail in DuckDB."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsms.testing import LocalSession
from operators.core.errors import SqlError, UserError
from tests.support.strategies import examples

TABLE = """CREATE TABLE t (
    k INT PRIMARY KEY, v INT DEFAULT 3 + 4 CHECK (v > 0), w VARCHAR DEFAULT 'a' || 'b' NOT NULL, x INT,
    CONSTRAINT small CHECK (length(w) < 4 OR v IS NULL), CHECK (x < v)
)"""
V, W, X = (
    st.sampled_from(["DEFAULT", "NULL", "0", "2", "9"]),
    st.sampled_from(["DEFAULT", "'x'", "'long'"]),
    st.integers(0, 8),
)
KEYS = st.integers(0, 9)
STATEMENTS = st.one_of(
    st.builds("INSERT INTO t VALUES ({}, {}, {}, {})".format, KEYS, V, W, X),
    st.builds("INSERT INTO t (w, k) VALUES ({1}, {0}), (DEFAULT, {0} + 10)".format, KEYS, W),
    st.builds("INSERT INTO t (x, k) SELECT x + {1}, k + {0} FROM t WHERE k < 3".format, KEYS, X),
    st.builds("INSERT INTO t (k, v) VALUES ({}, {}) ON CONFLICT DO NOTHING".format, KEYS, V),
    st.builds("INSERT INTO t (k, x) VALUES ({}, {}) ON CONFLICT (k) DO UPDATE SET x = EXCLUDED.x".format, KEYS, X),
    st.builds("UPDATE t SET v = {1}, w = {2} WHERE k < {0}".format, KEYS, V, W),
    st.builds("UPDATE t SET x = x + {1} WHERE k > {0}".format, KEYS, X),
    st.builds(
        "MERGE INTO t USING (SELECT {0} AS k, {1} AS x) AS s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = t.v + s.x "
        "WHEN NOT MATCHED THEN INSERT (k, x) VALUES (s.k, s.x)".format,
        KEYS,
        X,
    ),
)


@settings(max_examples=examples(25))
@given(st.lists(STATEMENTS, min_size=1, max_size=8))
def test_tables_equal_duckdb(statements: list[str]) -> None:
    session, database = LocalSession(), duckdb.connect()
    session.execute(TABLE)
    database.execute(TABLE)
    for statement in statements:
        ours = theirs = None
        try:
            database.execute(statement)
        except duckdb.ConstraintException as error:
            theirs = error
        try:
            session.execute(statement)
        except UserError as error:
            ours = error
        assert (ours is None) == (theirs is None), (statement, ours, theirs)
        rows = [tuple(row.values()) for row in session.execute("SELECT * FROM t")]
        assert sorted(map(repr, rows)) == sorted(map(repr, database.sql("SELECT * FROM t").fetchall()))


def test_the_error_names_the_row_and_the_condition() -> None:
    session = LocalSession()
    session.execute(TABLE)
    with pytest.raises(
        UserError, match=r"row \(k: 1, v: 7, w: 'ab', x: 9\) of table \"t\" violates check \"t_check\""
    ) as caught:
        session.execute("INSERT INTO t (k, x) VALUES (1, 9)")
    assert str(caught.value).endswith(": (x < v)")


@pytest.mark.parametrize(
    ("element", "message"),
    [
        (
            "v INT DEFAULT k",
            'line 1, column 50: the default of "v" reads column "k", but a default cannot read columns',
        ),
        ("v INT DEFAULT (SELECT 1)", 'column 58: the default of "v" has a subquery'),
        ("v INT DEFAULT nope(3)", 'column 50: function "nope" not found'),
        ("v INT DEFAULT 'x'", 'column 50: the default of "v": '),
        ("v INT DEFAULT DATE '2026-01-01'", "cannot cast"),
        ("v INT DEFAULT 1 DEFAULT 2", 'column 52: column "v" has two defaults'),
        ("v INT DEFAULT 1, CHECK (z > 1)", 'column "z" not found'),
        ("v INT CHECK (v + 1)", 'check "t_v_check" is INTEGER, not BOOLEAN'),
        ("v INT CHECK v > 1", "expected a condition in parentheses"),
        ("v INT CHECK (v IN (SELECT 1))", "has a subquery"),
        ("v INT UNIQUE", "column 42: UNIQUE is not supported in CREATE TABLE; use PRIMARY KEY"),
        ("v INT REFERENCES u (k)", "REFERENCES is not supported in CREATE TABLE; leave it out"),
        ("v INT, FOREIGN KEY (v) REFERENCES u (k)", "FOREIGN KEY is not supported"),
        ("v INT GENERATED ALWAYS AS IDENTITY", "GENERATED is not supported"),
        ("v INT FOO", 'type "INT FOO" not found'),
        ("v INT DEFAULT 3 AUTO_INCREMENT", "expected a single expression"),
        ("v INT CHECK (v > 0) ENFORCED", "expected a single expression"),
        ("v INT CONSTRAINT c", "column 42: CONSTRAINT needs a name and a condition"),
        ("v INT CONSTRAINT c CHECK (v > 0) CONSTRAINT c CHECK (v < 9)", 'two constraints are named "c"'),
        ("v TINYINT DEFAULT -300", 'the default of "v": '),
        ("v INT DEFAULT 1 / 0", 'the default of "v": division by zero'),
        ("v INT" + " CHECK (v > 0)" * 101, "a table has at most 100 checks"),
    ],
)
def test_refusals_have_a_location(element: str, message: str) -> None:
    session = LocalSession()
    with pytest.raises((SqlError, UserError)) as caught:
        session.execute(f"CREATE TABLE t (k INT PRIMARY KEY, {element})")
    assert message in str(caught.value)
    assert session.execute("SHOW TABLES") == []


def test_loads_have_defaults_and_are_checked(tmp_path: Path) -> None:
    session, path = LocalSession(), tmp_path / "rows.csv"
    session.execute(TABLE)
    path.write_text("k,x\n1,5\n2,\n")
    session.execute(f"COPY t FROM '{path}'")
    expected = [{"k": 1, "v": 7, "w": "ab", "x": 5}, {"k": 2, "v": 7, "w": "ab", "x": None}]
    assert session.execute("SELECT * FROM t ORDER BY k") == expected
    path.write_text("k,x\n3,5\n4,8\n")
    with pytest.raises(UserError, match='violates check "t_check"'):
        session.execute(f"COPY t FROM '{path}'")
    assert session.execute("SELECT * FROM t ORDER BY k") == expected


def test_a_stream_fills_missing_columns_with_defaults_and_no_table_with_a_check() -> None:
    session = LocalSession()
    session.execute(
        "CREATE STREAM S (a INT, at BIGINT) ORDER BY at;"
        "CREATE TABLE f (a INT PRIMARY KEY, b INT DEFAULT 2 * 3 NOT NULL);"
        "CREATE TABLE g (a INT PRIMARY KEY CHECK (a > 0)); INSERT INTO f (a) SELECT a FROM S"
    )
    session.push("S_source", [{"a": 4, "at": 1}])
    session.advance(2)
    assert session.execute("SELECT * FROM f") == [{"a": 4, "b": 6}]
    with pytest.raises(SqlError, match='table "g" has a CHECK: a stream cannot fill it'):
        session.execute("INSERT INTO g SELECT a FROM S")


def test_default_is_cast_to_the_type_of_its_column() -> None:
    session = LocalSession()
    session.execute(
        "CREATE TABLE t (k INT PRIMARY KEY, v VARCHAR DEFAULT 0, d DECIMAL(38, 10) DEFAULT 0e0,"
        "a INT[] DEFAULT ARRAY[NULL, 1], c INT DEFAULT CASE WHEN TRUE THEN NULL ELSE 1 END)"
    )
    session.execute("INSERT INTO t (k, v, d) VALUES (1, DEFAULT, DEFAULT), (2, '007', 1234567890123456789.0123456789)")
    assert [list(map(str, row.values())) for row in session.execute("SELECT * FROM t ORDER BY k")] == [
        ["1", "0", "0E-10", "[None, 1]", "None"], ["2", "007", "1234567890123456789.0123456789", "[None, 1]", "None"],
    ]  # fmt: skip


def test_show_create_has_the_constraints() -> None:
    session = LocalSession()
    session.execute(TABLE)
    assert session.execute("SHOW CREATE TABLE t")[0]["sql"] == TABLE
