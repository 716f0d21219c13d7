"""OVER by a number of rows back, over a stream in its order: which queries keep only these rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from dsms.testing import LocalSession

SOURCE = """
REGISTER SOURCE r (k INT, x INT, at TIMESTAMP) FROM r TIMESTAMP BY at;
CREATE STREAM S OVER r KEY NULL; CREATE STREAM K OVER r KEY k;
CREATE STREAMED VIEW W AS SELECT x, k FROM S WHERE x > 0;
"""
BOUNDED = [
    "SELECT x, sum(x) OVER (ROWS 99 PRECEDING) AS s FROM S",
    "SELECT x, lag(x) OVER (ORDER BY at) AS s FROM S",
    "SELECT x, lag(x, 3) OVER (PARTITION BY k ORDER BY TS) AS s FROM S",
    "SELECT x, max(x) OVER (ORDER BY at, x DESC ROWS BETWEEN 9 PRECEDING AND 1 PRECEDING) AS s FROM S",
    "SELECT y, min(y) OVER (ORDER BY t ROWS 9 PRECEDING) AS s FROM (SELECT x AS y, at AS t FROM S WHERE k = 1) AS q",
    "SELECT x, avg(x) OVER (ROWS 9 PRECEDING) AS s, lag(x) OVER (PARTITION BY k ORDER BY at) AS l FROM S",
    "SELECT x, count(*) OVER (ROWS 9 PRECEDING) AS s FROM W",
]
WHOLE = [
    "SELECT x, lead(x) OVER (ORDER BY at) AS s FROM S",
    "SELECT x, lag(x) OVER (ORDER BY at DESC) AS s FROM S",
    "SELECT x, lag(x) OVER (ORDER BY x) AS s FROM S",
    "SELECT x, lag(x IGNORE NULLS) OVER (ORDER BY at) AS s FROM S",
    "SELECT x, sum(x) OVER (ORDER BY at ROWS 9 PRECEDING) AS s FROM S [Range 10]",
    "SELECT x, sum(x) OVER (ORDER BY TS ROWS 9 PRECEDING) AS s FROM K",
    "SELECT x, sum(x) OVER (ORDER BY at ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS s FROM S",
    "SELECT S.x, sum(S.x) OVER (ORDER BY S.at ROWS 9 PRECEDING) AS s FROM S JOIN W ON S.k = W.k",
]


@pytest.mark.parametrize("query", [*BOUNDED, *WHOLE])
def test_which_queries_keep_the_last_rows_only(query: str) -> None:
    session = LocalSession()
    session.execute(f"{SOURCE} CREATE VIEW v AS {query}")
    plan = " ".join(row["plan"] for row in session.execute("EXPLAIN v"))
    assert ("OverStream" in plan) == (query in BOUNDED)
    assert ("Over →" in plan) == (query in WHOLE)


@pytest.mark.parametrize(
    ("query", "last", "kept"),
    [
        ("SELECT x, sum(x) OVER (ROWS 99 PRECEDING) AS s FROM S", sum(range(19_900, 20_000)), 110),
        ("SELECT x, lag(x) OVER (ORDER BY at) AS s FROM S", 19_998, 10),
    ],
)
def test_twenty_thousand_rows_in_one_batch(query: str, last: int, kept: int) -> None:
    session = LocalSession()
    session.execute(f"{SOURCE} CREATE VIEW v AS {query}")
    session.push(
        "r", [{"k": 0, "x": x, "at": datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=x)} for x in range(20_000)]
    )
    session.advance(1_800_000_000_000)
    assert session.changes("v")[-1][1] == {"x": 19_999, "s": last}
    (operator,) = [row for row in session.execute("SHOW OPERATORS") if row["operator"] == "OverStream"]
    assert operator["state rows"] <= kept
