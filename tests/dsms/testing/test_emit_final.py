"""EMIT FINAL compared with DuckDB: at every instant the results of the windows that have ended, each inserted once."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsms.testing import LocalSession
from operators.core.errors import SqlError
from tests.support import duck_engine
from tests.support.strategies import examples

END = 40
SOURCES = """REGISTER SOURCE A (k TEXT, x BIGINT) FROM a;
CREATE STREAM S OVER A KEY NULL; CREATE STREAM D OVER A KEY k;
CREATE STREAMED VIEW W AS SELECT k, x FROM S WHERE x > 0;"""
#: Window functions, and the condition in DuckDB that an instant e is the end of a window that contains the instant ts.
WINDOWS = {
    "TUMBLE(TABLE S, DESCRIPTOR(TS), 5)": "e > ts AND e <= ts + 5 AND e % 5 = 0",
    "HOP(TABLE S, DESCRIPTOR(TS), 2, 5)": "e > ts AND e <= ts + 5 AND (e - 5) % 2 = 0",
    "CUMULATE(TABLE S, DESCRIPTOR(TS), 3, 6)": "e > ts AND e <= ts // 6 * 6 + 6 AND e % 3 = 0",
}
RECORDS = st.lists(
    st.fixed_dictionaries({"k": st.sampled_from([None, "a", "b"]), "x": st.integers(-1, 4), "ts": st.integers(5, 25)}),
    max_size=12,
)
DUCK = duck_engine.connection()
DUCK.execute("CREATE TEMP TABLE R (k TEXT, x INT, ts INT)")
CUT = st.sampled_from([(1, None), (1, 1), (3, 2)])


def run(query: str, records: list[dict], cut: tuple[int, int | None]) -> LocalSession:
    session = LocalSession(*cut)
    session.execute(f"{SOURCES} CREATE STREAMED VIEW V AS {query}")
    session.push("A", sorted(records, key=lambda record: record["ts"]))
    session.advance(END)
    return session


def check_finals(session: LocalSession, expected: list[tuple], end: int, after: int = 0) -> None:
    """Asserts that the final results are `expected`; column number `end` of a result is the end of its window."""
    assert {op for op, _, _ in session.changes("V")} <= {"+"}
    for at in range(END):
        rows = Counter(tuple(row.values()) for row in session.relation("V", at=at))
        assert rows == Counter(row for row in expected if row[end] + after <= at), f"at {at}"


@settings(max_examples=examples(60))
@given(st.sampled_from(sorted(WINDOWS)), RECORDS, CUT)
def test_results_of_ended_windows(window, records, cut) -> None:
    session = run(
        f"SELECT k, window_end, count(*) AS n, sum(x) AS s, max(x) - min(x) AS d FROM {window} "
        "GROUP BY k, window_start, window_end HAVING sum(x) > 0 EMIT FINAL",
        records,
        cut,
    )
    duck_engine.fill(DUCK, "R", [(record["k"], record["x"], record["ts"]) for record in records])
    expected = DUCK.execute(
        f"""SELECT k, e, count(*), sum(x), max(x) - min(x) FROM R, range(60) ends(e) WHERE {WINDOWS[window]}
            GROUP BY k, e HAVING sum(x) > 0"""
    ).fetchall()
    check_finals(session, expected, end=1)


def sessions(records: list[dict], gap: int) -> list[tuple]:
    """(key, end, count) of every session, from all records."""
    sessions = []
    for key in {record["k"] for record in records}:
        times = sorted(record["ts"] for record in records if record["k"] == key)
        start = 0
        for at, time in enumerate(times):
            if at + 1 == len(times) or times[at + 1] > time + gap:
                sessions.append((key, time + gap, at + 1 - start))
                start = at + 1
    return sessions


@settings(max_examples=examples(60))
@given(RECORDS, CUT, st.sampled_from(["count(*)", "count(x)"]))
def test_sessions_that_no_row_joins_any_more(records, cut, count) -> None:
    session = run(
        f"SELECT k, window_end, {count} AS n FROM SESSION(TABLE S PARTITION BY k, DESCRIPTOR(TS), 2) "
        "GROUP BY k, window_start, window_end EMIT FINAL",
        records,
        cut,
    )
    check_finals(session, sessions(records, 2), end=1, after=1)


def test_views_aliases_and_further_parts_of_a_query() -> None:
    records = [{"k": "a", "x": x, "ts": ts} for x, ts in ((1, 5), (0, 6), (2, 9), (3, 11))]
    query = """SELECT Istream(total) FROM (SELECT e AS til, sum(x) AS total FROM
        (SELECT x, window_end AS e FROM TUMBLE(TABLE W, DESCRIPTOR(TS), 5)) AS w GROUP BY e EMIT FINAL) AS f
        WHERE total > 2"""
    session = run(query, records, (1, None))
    assert session.changes("V") == [("+", {"total": 3}, 10), ("+", {"total": 3}, 15)]
    assert "Final at e" in session.explain("V")


def test_emit_final_distinguishes_queries() -> None:
    session = LocalSession()
    session.execute(SOURCES)
    text = "SELECT STREAMED window_end, count(*) AS n FROM TUMBLE(TABLE S, DESCRIPTOR(TS), 5) GROUP BY window_end"
    session.execute(text)
    session.execute(f"{text} EMIT FINAL")
    assert len({row["name"] for row in session.execute("SHOW QUERIES")}) == 2


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k FROM S EMIT FINAL",
        "SELECT k, count(*) AS n FROM S [Range 5] GROUP BY k EMIT FINAL",
        "SELECT window_end, count(*) AS n FROM TUMBLE(TABLE D, DESCRIPTOR(TS), 5) GROUP BY window_end EMIT FINAL",
        "SELECT window_end, count(*) AS n FROM TUMBLE(TABLE S, DESCRIPTOR(x), 5) GROUP BY window_end EMIT FINAL",
        "SELECT k, count(*) AS n FROM TUMBLE(TABLE S, DESCRIPTOR(TS), 5) GROUP BY k EMIT FINAL",
        "SELECT * FROM TUMBLE(TABLE S, DESCRIPTOR(TS), 5) EMIT FINAL",
    ],
)
def test_emit_final_without_final_groups_is_refused(query) -> None:
    session = LocalSession()
    with pytest.raises(SqlError, match=r"EMIT FINAL needs groups") as refused:
        session.execute(f"{SOURCES} CREATE STREAMED VIEW V AS {query}")
    assert refused.value.line is not None
