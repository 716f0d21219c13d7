"""Only counts of windows over synchronised rows are pre-aggregated by panes, without a change of results."""

from __future__ import annotations

import datetime as dt
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsms.testing import LocalSession
from tests.support.fed_sessions import explained, fed

SOURCE = """REGISTER SOURCE T (k VARCHAR, at TIMESTAMP, v INT) FROM t PARTITIONS 2 IDLE NEVER;
CREATE STREAM S OVER T KEY NULL; CREATE STREAM U OVER T KEY k;
CREATE STREAMED VIEW Fives AS SELECT Timepoint FROM R(clockStr) WHERE MOD(Timepoint, 5) = 0;"""
WINDOWS = "TABLE(HOP(TABLE R[Fives](S), DESCRIPTOR(at), INTERVAL '4' SECOND, INTERVAL '6' SECOND))"
COUNTS = f"SELECT k, window_start, count(*) AS n FROM {WINDOWS} GROUP BY k, window_start, window_end"
OTHERS = {
    "not synchronised": COUNTS.replace("R[Fives](S)", "S"),
    "rows that leave": COUNTS.replace("R[Fives](S)", "R[Fives](U)"),
    "another aggregate": COUNTS.replace("count(*)", "sum(v)"),
    "counted for some": COUNTS.replace("count(*)", "count(*) FILTER (WHERE v > 1)"),
    "the time is read": COUNTS.replace("SELECT k", "SELECT k, at").replace("BY k", "BY k, at"),
}
BEGIN = dt.datetime.combine(dt.date(2024, 1, 1), dt.time())
END = 40


def test_counts_are_added_up_before_the_exchange() -> None:
    assert "PeriodicSync → Project → Panes → Assign → Project\nexchange" in explained(SOURCE, COUNTS)


@pytest.mark.parametrize("name", OTHERS)
def test_other_windows_are_not_preaggregated(name: str) -> None:
    assert "Assign" in explained(SOURCE, OTHERS[name]) and "Panes" not in explained(SOURCE, OTHERS[name])


#: Rows as (key, seconds of the window's time or None for NULL, instant).
ROWS = st.lists(
    st.tuples(st.sampled_from([None, "a", "b"]), st.none() | st.integers(-20, 20), st.integers(1, END - 1)), max_size=30
)


def answered(rows, partitions: int, batch: int | None, pieces: list[int]) -> LocalSession:
    records = [
        {"k": k, "at": None if at is None else BEGIN + dt.timedelta(seconds=at), "v": 1, "ts": ts} for k, at, ts in rows
    ]
    return fed(f"{SOURCE} CREATE STREAMED VIEW Counts AS {COUNTS}", records, END, partitions, batch, pieces)


@given(ROWS, st.integers(1, 3), st.sampled_from([None, 1, 3]), st.lists(st.integers(1, 5), max_size=8))
def test_counts_of_any_batches_and_partitions(rows, partitions, batch, pieces) -> None:
    rows = sorted(rows, key=lambda row: row[2])
    cut, whole = answered(rows, partitions, batch, pieces), answered(rows, 1, None, [])
    assert cut.changes("Counts") == whole.changes("Counts")
    for point in range(0, END, 5):
        seen = [(k, at) for k, at, ts in rows if at is not None and ts <= point]
        expected = Counter((k, start) for k, at in seen for start in range(-40, 40, 4) if start <= at < start + 6)
        counts = {
            (row["k"], round((row["window_start"] - BEGIN).total_seconds())): row["n"]
            for row in cut.relation("Counts", min(point + 4, END - 1))
        }
        assert counts == expected


def test_a_granularity_moves_what_comes_and_leaves_to_its_multiples() -> None:
    session = LocalSession()
    session.execute(
        "REGISTER SOURCE readings (t INT) FROM readings; CREATE STREAM S OVER readings KEY NULL;"
        "CREATE VIEW v AS SELECT COUNT(*) AS n FROM S WINDOW(RANGE 5) GRANULARITY(5);"
        "CREATE VIEW w AS SELECT t FROM S WINDOW(RANGE 2) GRANULARITY(3)"
    )
    session.push("readings", [{"t": ts, "ts": ts} for ts in (1, 3, 7)])
    session.advance(20)
    # valid in [1, 6), [3, 8), [7, 12), rounded up to [5, 10), [5, 10), [10, 15)
    assert [session.relation("v", at=at)[0]["n"] for at in (4, 5, 9, 10, 14, 15)] == [0, 2, 2, 1, 1, 0]
    # valid in [1, 3), [3, 5), [7, 9), rounded up to [3, 3), [3, 6), [9, 9)
    assert [session.relation("w", at=at) for at in (2, 3, 5, 6, 9)] == [[], [{"t": 3}], [{"t": 3}], [], []]
