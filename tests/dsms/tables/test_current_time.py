"""now(), current_timestamp, localtimestamp and current_date in statements that run once."""

from __future__ import annotations

import datetime as dt
from itertools import count

import pytest

from dsms.testing import LocalSession
from operators.core.errors import SqlError, UserError

NOW = dt.datetime(2026, 5, 1, 23, 59, 30, 250_000, tzinfo=dt.UTC)
PLAIN, DAY = NOW.replace(tzinfo=None), NOW.date()
TABLE = "CREATE TABLE T (k INT PRIMARY KEY, at TIMESTAMP DEFAULT now(), day DATE DEFAULT current_date)"


def session_at(*statements: str) -> LocalSession:
    """A session whose clock shows NOW at the first call, and a second more at each later one."""
    session, ticks = LocalSession(), count()
    for statement in statements:
        session.execute(statement)
    session.now = lambda: round(NOW.timestamp() * 1_000) + 1_000 * next(ticks)
    return session


@pytest.mark.parametrize(
    ("query", "row"),
    [
        ("SELECT now()", {"now": PLAIN}),
        ("SELECT current_timestamp, localtimestamp", {"current_timestamp": PLAIN, "localtimestamp": PLAIN}),
        ("SELECT current_date", {"current_date": DAY}),
        ("SELECT now() = current_timestamp AS one, (SELECT now()) = now() AS same", {"one": True, "same": True}),
        ("SELECT now() - INTERVAL '1 day' AS t", {"t": PLAIN - dt.timedelta(days=1)}),
        ("SELECT date_trunc('hour', now()) AS h", {"h": PLAIN.replace(minute=0, second=0, microsecond=0)}),
        ("SELECT EXTRACT(YEAR FROM now()) AS y, now()::DATE AS d", {"y": 2026, "d": DAY}),
        ("SELECT now()::DATE", {"cast(current_timestamp as date)": DAY}),
        ("VALUES (now())", {"column1": PLAIN}),
        (
            "WITH w AS (SELECT now() AS t) SELECT 1 AS n FROM w WHERE t > TIMESTAMP '2026-05-01 23:00:00'",
            {"n": 1},
        ),
    ],
)
def test_a_select_has_the_time_of_the_statement(query: str, row: dict) -> None:
    [answer] = session_at().execute(query)
    assert {name.lower(): value for name, value in answer.items()} == row


def test_defaults_and_values_of_one_statement_have_one_time() -> None:
    session = session_at(TABLE)
    session.execute("INSERT INTO T (k) VALUES (1), (2)")
    session.execute("INSERT INTO T VALUES (3, DEFAULT, DEFAULT), (4, now(), current_date)")
    rows = session.execute("SELECT k, at, day FROM T ORDER BY k")
    times = {row["k"]: row["at"] for row in rows}
    assert times[1] == times[2]
    assert times[3] == times[4]
    assert PLAIN <= times[1] < times[3]
    assert {row["day"] for row in rows} == {DAY}


def test_update_delete_merge_and_returning_have_it() -> None:
    session = session_at(TABLE)
    [row] = session.execute("INSERT INTO T (k) VALUES (1) RETURNING at = now() AS same")
    assert row == {"same": True}
    [row] = session.execute("UPDATE T SET at = now() - INTERVAL '1 hour' WHERE at < now() RETURNING now() AS t, at")
    assert row["t"] - row["at"] == dt.timedelta(hours=1)
    session.execute("INSERT INTO T (k) VALUES (1) ON CONFLICT (k) DO UPDATE SET at = now()")
    assert session.execute("SELECT k FROM T WHERE at > now() - INTERVAL '1 minute'") == [{"k": 1}]
    session.execute(
        "MERGE INTO T USING (VALUES (1), (2)) AS v (x) ON T.k = v.x WHEN NOT MATCHED THEN INSERT (k) VALUES (v.x)"
    )
    assert session.execute("SELECT COUNT(at) AS n FROM T") == [{"n": 2}]
    session.execute("DELETE FROM T WHERE at < now()")
    assert session.execute("SELECT k FROM T") == []


def test_create_table_as_has_it() -> None:
    session = session_at()
    session.execute("CREATE TABLE U (PRIMARY KEY (k)) AS SELECT 1 AS k, current_date AS day")
    assert session.execute("SELECT * FROM U") == [{"k": 1, "day": DAY}]


def test_a_loaded_file_gets_the_defaults(tmp_path) -> None:
    (tmp_path / "rows.csv").write_text("k\n1\n2\n")
    session = session_at(TABLE)
    session.execute(f"COPY T FROM '{tmp_path / 'rows.csv'}'")
    assert session.execute("SELECT COUNT(DISTINCT at) AS n, MAX(day) AS d FROM T") == [{"n": 1, "d": DAY}]


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("CREATE VIEW V AS SELECT now() AS t FROM S", '"now" is not supported; results must depend on the logs alone'),
        ("CREATE VIEW V AS SELECT k FROM S WHERE current_date > DATE '2026-01-01'", '"current_date" is not supported'),
        ("CREATE TABLE U (k INT PRIMARY KEY, t TIMESTAMP CHECK (t < now()))", "reads the current time"),
        ("CREATE TABLE U (k INT PRIMARY KEY, t INT DEFAULT now())", "cannot cast TIMESTAMP to INTEGER"),
        ("SELECT current_timestamp(3)", "a precision of current_timestamp is not supported here"),
        ("INSERT INTO T (k) SELECT k FROM D", 'the default of "at" is now(), but rows of a continuous INSERT'),
    ],
)
def test_where_it_is_refused(statement: str, why: str) -> None:
    session = session_at(
        "REGISTER SOURCE a (k INT) FROM a; CREATE STREAM S OVER a KEY k; CREATE STREAM D (k INT) SOURCE 'd'", TABLE
    )
    with pytest.raises((SqlError, UserError)) as refused:
        session.execute(statement)
    assert why in str(refused.value)
