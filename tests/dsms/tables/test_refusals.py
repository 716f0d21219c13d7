"""Errors of one-time queries have the place of the wrong word; columns without a name are named as in PostgreSQL."""

from __future__ import annotations

import pytest

from dsms.tables.refusals import UnknownColumn
from dsms.testing import LocalSession
from operators.core.errors import SqlError


@pytest.fixture(scope="module")
def session() -> LocalSession:
    session = LocalSession()
    session.execute("REGISTER SOURCE r (k INT) FROM r; CREATE STREAM s OVER r KEY NULL")
    session.execute("CREATE TABLE t (k INT PRIMARY KEY, v TEXT); CREATE TABLE u (k INT PRIMARY KEY, w TEXT)")
    session.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    return session


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("SELECT nope FROM t", 'line 1, column 8: column "nope" not found; have: k, v'),
        ("SELECT k,\n  t.nope FROM t", 'line 2, column 5: column "nope" not found; have: k, v'),
        ("SELECT k FROM t WHERE k > 1 AND nope = 2", 'line 1, column 33: column "nope" not found; have: k, v'),
        ("SELECT k FROM t GROUP BY nope", 'line 1, column 26: column "nope" not found; have: k, v'),
        ("SELECT k FROM t ORDER BY nope", 'line 1, column 26: column "nope" not found; have: k, v'),
        ("SELECT upper(nope) FROM t", 'line 1, column 14: column "nope" not found; have: k, v'),
        ("SELECT vv FROM t, u", 'line 1, column 8: column "vv" not found; have: v, k, w'),
    ],
)
def test_an_unknown_column_is_found_in_the_text(session: LocalSession, sql: str, error: str) -> None:
    with pytest.raises(UnknownColumn) as refused:
        session.execute(sql)
    assert str(refused.value) == error


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("SELECT k AS x FROM t WHERE x.k = 1", 'line 1, column 28: referenced table "x" not found!'),
        ("SELECT 1 AS a, x.k FROM t", 'line 1, column 16: referenced table "x" not found!'),
        ("SELECT 1 AS a, k FROM t, u", 'line 1, column 16: ambiguous reference to column name "k"'),
        ("SELECT 1 AS a, 10 / (k - k) FROM t", 'line 1, column 16: division by zero in "10 / (k - k)"'),
        ("SELECT count(*), v FROM t", 'line 1, column 18: column "v" must appear in the GROUP BY clause'),
    ],
)
def test_other_refusals_are_at_the_first_word_that_they_name(session: LocalSession, sql: str, error: str) -> None:
    with pytest.raises(SqlError) as refused:
        session.execute(sql)
    assert str(refused.value).startswith(error)


@pytest.mark.parametrize(
    "item",
    ["s [Range 5]", "s [Now]", "Istream(s)", "s Sample(10)", "TUMBLE(s, k, 5)", "t EMIT FINAL",
     "t MATCH_RECOGNIZE (ORDER BY k MEASURES A.k AS k PATTERN (A) DEFINE A AS k > 1)"],
)  # fmt: skip
@pytest.mark.parametrize("statement", ["INSERT INTO t (k) {}", "DELETE FROM t WHERE k IN ({})"])
def test_what_only_continuous_queries_have_is_refused_where_rows_are_written(
    session: LocalSession, statement: str, item: str
) -> None:
    text = statement.format(f"SELECT k FROM {item}")
    with pytest.raises(SqlError, match="are supported in continuous queries only") as refused:
        session.execute(text)
    assert refused.value.hint == "create a view that has it, and read the view"
    assert session.execute("SELECT count(*) AS n FROM t") == [{"n": 2}]


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        ("count(*), sum(k), max(v)", ["count", "sum", "max"]),
        ("k + 1 AS k1, v || 'x' AS vx, -count(*)", ["k1", "vx", "?column?"]),
        ("CAST(k AS TEXT), '7'::INT, k::BIGINT", ["k", "int", "k_1"]),
        ("CASE k WHEN 1 THEN 2 END, upper(v), coalesce(v, 'x')", ["case", "upper", "coalesce"]),
        ("(SELECT max(w) FROM u), sum(k) OVER ()", ["max", "sum"]),
    ],
)
def test_columns_are_named_as_in_postgresql(session: LocalSession, columns: str, names: list[str]) -> None:
    grouped = "" if "OVER" in columns else " GROUP BY k, v"
    (first, *_) = session.execute(f"SELECT {columns} FROM t{grouped}")
    assert list(first) == names


def test_the_first_query_of_a_union_names_the_columns(session: LocalSession) -> None:
    rows = session.execute("SELECT count(*) FROM t UNION ALL SELECT k + 1 FROM t ORDER BY 1")
    assert rows == [{"count": 2}, {"count": 2}, {"count": 3}]


@pytest.mark.parametrize(
    ("sql", "first"),
    [
        ("SELEKT 1", "SELECT"),
        ("CREAT VIEW v AS SELECT 1", "CREATE"),
        ("SHOW QUERYS", "QUERIES"),
        ("DROP TABEL t", "TABLE"),
        ("SELECT lowr(v) FROM t", "lower"),
        ("SELECT K FROM tt", "t"),
    ],
)
def test_a_mistyped_word_comes_with_the_nearest_one_first(session: LocalSession, sql: str, first: str) -> None:
    with pytest.raises(SqlError) as refused:
        session.execute(sql)
    assert refused.value.hint.startswith(f"have: {first}")
    assert len(refused.value.hint.split(", ")) <= 25


def test_columns_of_a_union_by_name_have_one_name_on_both_sides(session: LocalSession) -> None:
    rows = session.execute("SELECT count(*) FROM t UNION ALL BY NAME SELECT count(*) FROM u")
    assert rows == [{"count": 2}, {"count": 0}]
