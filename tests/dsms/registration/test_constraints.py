"""CONSTRAINT: its syntax, display and effect, for every type of column."""

from __future__ import annotations

from datetime import date, datetime, timedelta

import pytest

from dsms.testing import LocalSession

DAY, NOON = date(2024, 5, 1), datetime.fromisoformat("2024-05-01T12:00:00")


def pushed(columns: str, clause: str, rows: list[dict]) -> LocalSession:
    session = LocalSession()
    session.execute(f"REGISTER SOURCE T ({columns}) FROM t CONSTRAINT {clause}; CREATE STREAM S OVER T KEY NULL")
    session.push("T", [{**row, "ts": at} for at, row in enumerate(rows)])
    session.advance(1_000)
    return session


def refused(session: LocalSession) -> list[object]:
    return [letter["offset"] for letter in session.dead_letters("T")]


@pytest.mark.parametrize(
    ("type_", "k", "values", "wanted", "worst"),
    [
        ("BIGINT", "5", [10, 5, 4, 20, 15, 14], [2, 5], 6),
        ("INT", "0", [1, 1, 0, None, 2], [2], 1),
        ("TINYINT", "100", [127, 27, 26, -128], [2, 3], 255),
        ("BIGINT", "9", [2**63 - 1, -(2**63)], [1], 2**64 - 1),
        ("BIGINT", "9", [-(2**63) + 3, -(2**63)], [], 3),
        ("TIMESTAMP", "2 SECONDS", [NOON, NOON - timedelta(seconds=2), NOON - timedelta(seconds=2.001)], [2], 2_001),
        ("DATE", "2 DAYS", [DAY, DAY - timedelta(days=2), DAY - timedelta(days=3)], [2], 3 * 86_400_000),
        ("BIGINT", "2 SECONDS", [5_000, 3_000, 2_999], [2], 2_001),
    ],
)
def test_values_may_be_at_most_k_below_the_greatest(type_: str, k: str, values: list, wanted: list, worst: int) -> None:
    session = pushed(f"c {type_}", f"ORDERED BY c WITHIN {k}", [{"c": value} for value in values])
    assert refused(session) == wanted
    (shown,) = session.execute("SHOW CONSTRAINTS")
    assert (shown["largest k seen"], shown["violations"]) == (worst, len(wanted))
    assert [row for row in values if row not in [values[at] for at in wanted]] == [
        row["c"] for _, row, _ in session.changes("S")
    ]


def test_dead_letters_name_the_broken_promise() -> None:
    session = pushed("c TIMESTAMP", "ORDERED BY c WITHIN 1 SECOND", [{"c": NOON}, {"c": NOON - timedelta(seconds=9)}])
    (letter,) = session.dead_letters("T")
    least = "below 2024-05-01 11:59:59, the least value still allowed"
    assert letter["reason"] == f"violates ORDERED BY c WITHIN 1000: the value 2024-05-01 11:59:51 is {least}"


def test_several_columns_with_one_that_is_only_measured() -> None:
    rows = [{"ordered": a, "b": b, "w": w} for a, b, w in ((5, 5, 9), (4, 9, 1), (3, 9, 30), (5, 1, 13))]
    session = pushed(
        "ordered INT, b INT, w INT", "ORDERED BY ordered WITHIN 1, ordered by B within 3, ORDERED BY w", rows
    )
    assert refused(session) == [2, 3]
    shown = session.execute("SHOW CONSTRAINTS FOR S")
    assert [(row["promise"], row["largest k seen"], row["violations"]) for row in shown] == [
        ("ORDERED BY ordered WITHIN 1", 2, 1),
        ("ORDERED BY b WITHIN 3", 8, 1),
        ("ORDERED BY w (watched)", 17, 0),
    ]
    (described,) = session.run("DESCRIBE T")
    promises = "ORDERED BY ordered WITHIN 1, ORDERED BY b WITHIN 3, ORDERED BY w"
    assert described.message == f'source "T": registered, {promises}'


def test_a_measured_column_promises_nothing() -> None:
    session = pushed("c INT", "ORDERED BY c", [{"c": 9}, {"c": 1}])
    session.execute("CREATE STREAMED VIEW V AS SELECT c, count(*) AS n FROM S GROUP BY c")
    assert not refused(session)
    assert "forgets" not in session.explain("V")


def test_declared_stream_may_have_constraints_and_an_order() -> None:
    session = LocalSession()
    session.execute("CREATE STREAM s (c INT, tick BIGINT) ORDER BY tick SOURCE 'x' CONSTRAINT ORDERED BY c WITHIN 2")
    session.execute("CREATE STREAMED VIEW V AS SELECT c, count(*) AS n FROM s GROUP BY c")
    assert "GroupBy (forgets by c)" in session.explain("V")


FAMILY = {
    "grouped": "SELECT c, count(*) AS n FROM S WHERE v > {v} GROUP BY c",
    "distinct": "SELECT DISTINCT c FROM S WHERE v <= {v}",
    "one side": "SELECT f.c, f.v, S.v AS w FROM (SELECT c, v FROM S WHERE v > {v}) f JOIN S ON f.c = S.c",
    "both sides": "SELECT f.c, g.v FROM (SELECT c, v FROM S WHERE v > {v}) f "
    "JOIN (SELECT c, v FROM S WHERE v > {v}) g ON f.c = g.c",
}


@pytest.mark.parametrize("shape", FAMILY)
@pytest.mark.parametrize("promise", ["ORDERED", "CLUSTERED"])
def test_members_of_a_family_forget_state_and_may_join_later(shape: str, promise: str) -> None:
    rows = [{"c": at - at * 7 % 4, "v": at % 5, "ts": at} for at in range(60)]
    changes = {}
    for clause, sharing in ((f"CONSTRAINT {promise} BY c WITHIN 4", True), ("", False)):
        session = LocalSession(partitions=2, batch_records=9, sharing=sharing)
        session.execute(f"REGISTER SOURCE T (c INT, v INT) FROM t {clause}; CREATE STREAM S OVER T KEY NULL")
        for number in range(4):
            session.execute(f"CREATE STREAMED VIEW V{number} AS {FAMILY[shape].format(v=number)}")
            session.push("T", rows[15 * number : 15 * number + 15])
        session.advance(100)
        changes[clause] = [session.changes(f"V{number}") for number in range(4)]
        assert not session.dead_letters("T")
        assert clause == "" or "forgets by c" in session.explain("V3")
        assert session.execute("EXPLAIN ANALYZE V0")
    with_it, without = changes.values()
    assert with_it == without and all(without)


def test_only_consequences_of_the_promise_are_used() -> None:
    session = pushed("c INT, v INT", "ORDERED BY c WITHIN 2", [])
    session.execute("CREATE STREAM K OVER T KEY v")
    for query in (
        "SELECT v, count(*) AS n FROM S GROUP BY v",
        "SELECT c, count(*) AS n FROM K GROUP BY c",
        "SELECT c, count(*) AS n FROM S [RANGE 5] GROUP BY c",
        "SELECT c + 1 AS d, count(*) AS n FROM S GROUP BY c + 1",
        "SELECT n, count(*) AS m FROM (SELECT v, count(*) AS n FROM S GROUP BY v) x GROUP BY n",
    ):
        session.execute(f"CREATE STREAMED VIEW V AS {query}")
        assert "forgets" not in session.explain("V"), query
        session.execute("DROP VIEW V")
