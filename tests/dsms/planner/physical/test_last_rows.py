"""OVER with a number of preceding rows, in the order of a stream: which queries keep only these rows."""

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
    "SELECT x, sum(x) OVER (ORDER BY at) AS s FROM S",
    "SELECT x, row_number() OVER (ORDER BY at) AS s FROM S",
    "SELECT x, row_number() OVER () AS s FROM S",
    "SELECT x, rank() OVER (PARTITION BY k ORDER BY TS) AS s, avg(x) OVER (PARTITION BY k ORDER BY TS) AS a FROM S",
    "SELECT x, max(x) OVER (PARTITION BY k ORDER BY at ROWS UNBOUNDED PRECEDING) AS s FROM S",
    "SELECT x, count(*) OVER (ROWS UNBOUNDED PRECEDING) AS s FROM W",
    "SELECT x, sum(x) OVER (ORDER BY at, x) AS s, lag(x, 2) OVER (ORDER BY at, x) AS l FROM S",
    "SELECT x, first_value(x) OVER (PARTITION BY k ORDER BY at) AS f FROM S",
    "SELECT x, s, row_number() OVER (ORDER BY at) AS n FROM (SELECT x, at, sum(x) OVER (ORDER BY at) AS s FROM S) AS q",
]
WHOLE = [
    "SELECT x, sum(x) OVER () AS s FROM S",
    "SELECT x, sum(x) OVER (ORDER BY x) AS s FROM S",
    "SELECT x, row_number() OVER (ORDER BY at DESC) AS s FROM S",
    "SELECT x, sum(x) OVER (ORDER BY at) AS s FROM S [Range 10]",
    "SELECT x, row_number() OVER (ORDER BY TS) AS s FROM K",
    "SELECT x, percent_rank() OVER (ORDER BY at) AS s FROM S",
    "SELECT x, nth_value(x, 2) OVER (ORDER BY at) AS s FROM S",
    "SELECT x, sum(x) OVER (ORDER BY at ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING) AS s FROM S",
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
def test_which_queries_keep_only_the_last_rows(query: str) -> None:
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
    session.push("r", records(20_000))
    session.advance(1_800_000_000_000)
    assert session.changes("v")[-1][1] == {"x": 19_999, "s": last}
    assert held(session) <= kept


def test_a_hundred_thousand_running_totals_in_one_batch() -> None:
    session = LocalSession()
    session.execute(
        f"{SOURCE} CREATE VIEW v AS SELECT x, sum(x) OVER (PARTITION BY k ORDER BY at) AS s,"
        " row_number() OVER (PARTITION BY k ORDER BY at) AS n FROM S"
    )
    session.push("r", records(100_000))
    session.advance(1_800_000_000_000)
    assert session.changes("v")[-1][1] == {"x": 99_999, "s": sum(range(9, 100_000, 10)), "n": 10_000}
    assert held(session) <= 20, "a row of each of ten partitions"


@pytest.mark.parametrize("end", [1, 2])
def test_running_totals_continue_for_any_batches(end: int) -> None:
    session = LocalSession()
    session.execute(
        f"{SOURCE} CREATE VIEW v AS SELECT x, sum(x) OVER (ORDER BY at) AS s,"
        " row_number() OVER (ORDER BY at, x) AS n FROM S"
    )
    for at in ([1, 1, 2], [2], [3])[: end + 1]:
        session.push("r", [{"k": 0, "x": 5, "at": datetime.fromtimestamp(second, UTC)} for second in at])
    session.advance(60_000)
    totals = [(row["s"], row["n"]) for _, row, _ in session.changes("v")]
    assert sorted(totals) == [(10, 1), (10, 2), (20, 3), (20, 4), (25, 5)][: 4 if end == 1 else 5]


def records(count: int) -> list[dict[str, object]]:
    begin = datetime(2024, 1, 1, tzinfo=UTC)
    return [{"k": x % 10 * (count > 20_000), "x": x, "at": begin + timedelta(seconds=x)} for x in range(count)]


def held(session: LocalSession) -> int:
    return sum(row["state rows"] for row in session.execute("SHOW OPERATORS") if row["operator"] == "OverStream")
