"""Texts of intervals in views and in one-time SELECTs have the values that they have in DuckDB."""

from __future__ import annotations

import datetime

import duckdb
import pytest

from dsms.testing import LocalSession

AT = datetime.datetime(2026, 1, 31, 12, 0, tzinfo=datetime.UTC)
WRITTEN = "TIMESTAMP '2026-01-31 12:00:00'"
TEXTS = (
    "INTERVAL '1 day 02:03:04.5'",
    "INTERVAL '00:01:00'",
    "INTERVAL '1:30'",
    "INTERVAL '-00:00:01.25'",
    "INTERVAL '1 month 2 days 03:00'",
    "INTERVAL '36:00:00'",
    "INTERVAL '1 day 2 hours'",
    "INTERVAL '5' MINUTE",
    "INTERVAL 3 DAYS",
)


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_is_the_same_everywhere(text: str) -> None:
    session = LocalSession()
    session.execute("CREATE STREAM S (k INT, at TIMESTAMP) ORDER BY at")
    session.execute(f"CREATE VIEW V AS SELECT at + {text} AS later, at - {text} AS sooner FROM S")
    session.push("S_source", [{"k": 1, "at": AT.isoformat()}])
    session.advance(int(AT.timestamp() * 1000) + 1)
    wanted = duckdb.sql(f"SELECT {WRITTEN} + {text} AS later, {WRITTEN} - {text} AS sooner").fetchall()
    assert [tuple(row.values()) for row in session.execute("SELECT * FROM V")] == wanted
    once = session.execute(f"SELECT {WRITTEN} + {text} AS later, {WRITTEN} - {text} AS sooner")
    assert [tuple(row.values()) for row in once] == wanted


def test_a_time_of_day_before_another_clause() -> None:
    session = LocalSession()
    session.execute("CREATE STREAM S (v INT, at TIMESTAMP) ORDER BY at")
    pattern = "MEASURES MATCH_NUMBER() AS n, A.v AS v PATTERN (A B) WITHIN {} DEFINE B AS v > PREV(v)"
    for name, length in (("One", "INTERVAL '00:00:02'"), ("Two", "INTERVAL '2 seconds'")):
        session.execute(f"CREATE VIEW {name} AS SELECT * FROM S MATCH_RECOGNIZE (ORDER BY at {pattern.format(length)})")
    instants = (0, 1, 5, 8, 9)
    session.push("S_source", [{"v": at, "at": f"1970-01-01T00:00:0{at}Z"} for at in instants])
    session.advance(20_000)
    assert session.execute("SELECT * FROM One") == session.execute("SELECT * FROM Two") != []
