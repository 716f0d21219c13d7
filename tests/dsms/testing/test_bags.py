"""Streams with KEY NULL WITH DELETIONS: a keyless result is read back as the relation that it publishes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsms.testing import LocalSession
from operators.core.errors import SqlError
from tests.support.strategies import examples

SETUP = "REGISTER SOURCE T (a INT, b VARCHAR) FROM t; CREATE STREAM S OVER T KEY NULL WITH DELETIONS;"
CUTS = [(1, None), (2, 2), (3, 1)]
Record = tuple[str, int, str | None, int]


def session(cut: tuple[int, int | None], *records: Record, queries: str = "") -> LocalSession:
    made = LocalSession(*cut)
    made.execute(SETUP + "CREATE VIEW V AS SELECT a, b FROM R(S);" + queries)
    made.push("T", [{"op": op, "a": a, "b": b, "ts": ts} for op, a, b, ts in records])
    made.advance(100)
    return made


def bag(records: list[Record], at: int) -> list[tuple[int, str | None]]:
    """The bag at an instant, by its definition: instant by instant, row by row."""
    counts: dict[tuple[int, str | None], int] = {}
    for instant in sorted({ts for *_, ts in records if ts <= at}):
        here = [(op, (a, b)) for op, a, b, ts in records if ts == instant]
        for row in {row for _, row in here}:
            change = sum(1 if op == "+" else -1 for op, changed in here if changed == row)
            counts[row] = max(0, counts.get(row, 0) + change)
    return sorted((row for row, count in counts.items() for _ in range(count)), key=str)


RECORD = st.tuples(st.sampled_from("++-"), st.integers(1, 2), st.sampled_from(["x", None]), st.integers(1, 9))


@settings(max_examples=examples(25), deadline=None)
@given(st.lists(RECORD, max_size=14), st.sampled_from(CUTS))
def test_the_relation_is_that_of_the_definition(records: list[Record], cut: tuple[int, int | None]) -> None:
    records.sort(key=lambda record: record[3])
    made = session(cut, *records)
    for at in range(10):
        rows = sorted(((row["a"], row["b"]) for row in made.relation("V", at)), key=str)
        assert rows == bag(records, at), at


@pytest.mark.parametrize("cut", CUTS, ids=str)
def test_a_keyless_result_is_read_back(cut: tuple[int, int | None]) -> None:
    """A window in which equal rows come and go: (1) from 1 to 4, from 2 to 5 and from 9 to 12; (2) from 3 to 6."""
    first, second = LocalSession(*cut), LocalSession(*cut)
    first.execute(
        "REGISTER SOURCE Raw (id INT, a INT) FROM raw; CREATE STREAM W OVER Raw KEY NULL;"
        "CREATE VIEW V AS SELECT a FROM W [Range 2]"
    )
    first.push("Raw", [{"id": at, "a": a, "ts": at} for at, a in ((1, 1), (2, 1), (3, 2), (9, 1))])
    first.advance(20)
    second.execute(
        "REGISTER SOURCE Back (a INT) FROM published; CREATE STREAM B OVER Back KEY NULL WITH DELETIONS;"
        "CREATE VIEW V AS SELECT a FROM B"
    )
    second.push("Back", [{"op": op, **row, "ts": ts} for op, row, ts in first.changes("V")])
    second.advance(20)
    expected = {1: [1], 2: [1, 1], 3: [1, 1, 2], 4: [1, 2], 5: [2], 6: [], 9: [1], 11: [1], 12: []}
    for at, rows in expected.items():
        for session in (first, second):
            assert sorted(row["a"] for row in session.relation("V", at)) == rows, at


def test_ts_is_that_of_the_rows_that_stay() -> None:
    """The older of two equal rows leaves first."""
    made = session(
        (1, None),
        ("+", 1, "x", 1),
        ("+", 1, "x", 4),
        ("-", 1, "x", 7),
        queries="CREATE VIEW T2 AS SELECT TS AS at FROM S",
    )
    assert [row["at"] for row in made.relation("T2", 5)] == [1, 4]
    assert [row["at"] for row in made.relation("T2", 8)] == [4]


def test_a_bag_is_no_stream_and_has_no_key() -> None:
    made = session((1, None), queries="CREATE VIEW N AS SELECT COUNT(*) AS n FROM S")
    assert made.key("S") == ()
    (result,) = made.run("CREATE VIEW W AS SELECT a FROM S [Rows 2]")
    assert "Istream is applied by default to S: its rows can leave" in result.notices
    assert "no key: a deletion carries the whole row" in result.notices
    assert made.run("SELECT a FROM S [Range Unbounded]")  # the rows that enter


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("CREATE STREAM X OVER T KEY a WITH DELETIONS", "WITH"),
        ("REGISTER SOURCE U (a INT) FROM u TAGGED NONE; CREATE STREAM X OVER U KEY NULL WITH DELETIONS", "TAGGED NONE"),
        ("REGISTER SOURCE U (a INT[]) FROM u; CREATE STREAM X OVER U KEY NULL WITH DELETIONS", "cannot be a key"),
    ],
)
def test_refusals(sql: str, message: str) -> None:
    made = session((1, None))
    with pytest.raises(SqlError, match=message):
        made.execute(sql)
