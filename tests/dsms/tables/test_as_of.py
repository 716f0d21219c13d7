"""AS OF in one-time SELECTs: how the instant is written, and the rows that the relation had then."""

from __future__ import annotations

import datetime as dt

import pytest
import sqlglot
from sqlglot import exp

from dsms.sql.binder.scalars.current_time import at_instant
from dsms.sql.parser.dialect import Dsms
from dsms.tables.as_of import take_instant
from dsms.testing import LocalSession
from operators.core.errors import SqlError, UserError

NOW = dt.datetime(1970, 1, 1, 1, tzinfo=dt.UTC)


def instant(sql: str) -> int | None:
    query = at_instant(sqlglot.parse_one(sql, dialect=Dsms), NOW)
    return take_instant(list(query.find_all(exp.Table)))


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("AS OF 17", 17),
        ("AS OF -17", -17),
        ("FOR SYSTEM_TIME AS OF 17 AS x", 17),
        ("AS OF TIMESTAMP '1970-01-01 00:00:02.5' x", 2_500),
        ("AS OF '1970-01-01T00:00:02Z'", 2_000),
        ("AS OF DATE '1970-01-02'", 86_400_000),
        ("AS OF now() - INTERVAL '5' MINUTE", 3_300_000),
        ("AS OF current_timestamp - INTERVAL '10 ms'", 3_599_990),
        ("AS OF '1970-01-01T00:00:00.0019Z'", 1),
        ("AS OF TIMESTAMP '1970-01-01 00:00:02.000999'", 2_000),
        ("AS OF NULL", None),
        ("AS of", None),
        ("AS of (a, b)", None),
        ("", None),
    ],
)
def test_instants(written: str, expected: int | None) -> None:
    assert instant(f"SELECT * FROM v {written}") == expected
    assert instant(f"SELECT * FROM v {written} WHERE k = 1") == expected


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT * FROM v AS OF 1 JOIN w AS OF 2 USING (k)", "one instant"),
        ("SELECT * FROM v AS OF 1, w", "one instant"),
        ("SELECT * FROM v FOR SYSTEM_TIME BETWEEN 1 AND 2", "only AS OF"),
        ("SELECT * FROM v AS OF 'soon'", "needs an instant"),
        ("SELECT * FROM v AS OF now() - INTERVAL '1' MONTH", "needs an instant"),
    ],
)
def test_wrong_instants(sql: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        instant(sql)


@pytest.fixture
def session() -> LocalSession:
    made = LocalSession()
    made.execute("CREATE STREAM s (k INT, v INT) SOURCE 's'")
    made.execute("CREATE VIEW best AS SELECT k, max(v) AS v FROM s GROUP BY k")
    for at, k, v in ((1, 1, 10), (3, 2, 20), (5, 1, 30)):
        made.push("s_source", [{"k": k, "v": v, "ts": at}])
    made.advance(10)
    return made


@pytest.mark.parametrize(
    ("at", "rows"), [(0, []), (1, [(1, 10)]), (2, [(1, 10)]), (4, [(1, 10), (2, 20)]), (9, [(1, 30), (2, 20)])]
)
def test_the_rows_of_an_instant(session: LocalSession, at: int, rows: list[tuple[int, int]]) -> None:
    assert sorted(session.run(f"SELECT k, v FROM best AS OF {at}")[0].rows) == rows
    joined = f"SELECT a.k, b.v FROM best AS OF {at} AS a JOIN best AS OF {at} AS b ON a.k = b.k ORDER BY 1"
    assert list(session.run(joined)[0].rows) == rows


def test_an_instant_that_is_not_final(session: LocalSession) -> None:
    with pytest.raises(UserError, match="instant 10 is not final yet"):
        session.run("SELECT * FROM best AS OF 10")


def test_continuous_queries_have_no_as_of(session: LocalSession) -> None:
    with pytest.raises(SqlError, match="line 1, column 43: AS OF in FROM"):
        session.run("CREATE VIEW w AS SELECT * FROM best AS OF 3")


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO u SELECT k FROM best AS OF 1",
        "INSERT INTO u VALUES ((SELECT max(k) FROM best AS OF 1))",
        "DELETE FROM u WHERE k IN (SELECT k FROM best AS OF 1)",
        "CREATE TABLE w AS SELECT k FROM best AS OF 1",
    ],
)
def test_statements_that_write_read_the_present(session: LocalSession, statement: str) -> None:
    session.execute("CREATE TABLE u (k INT)")
    with pytest.raises(UserError, match="AS OF"):
        session.execute(statement)
    assert session.execute("SELECT count(*) FROM u") == [{"count": 0}]
