"""Notices of DDL statements: the defaults of a query, and the query with its defaults written out."""

from __future__ import annotations

import pytest

from dsms.planner.optimizer.optimize import optimize
from dsms.planner.physical.explain import tree
from tests.support.plan_parts import made, plan, register


def expanded(sql: str) -> list[str]:
    """The queries with their defaults in the notices."""
    _, result = register(sql)
    return [notice.removeprefix("expanded: ") for notice in result.notices if notice.startswith("expanded: ")]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT STREAMED S.id FROM S, S2 [Now] WHERE S.id = S2.id", "FROM S [RANGE UNBOUNDED], S2 [NOW] WHERE"),
        ("SELECT STREAMED id FROM S WINDOW(RANGE 5) x JOIN S2 USING (id)", "JOIN S2 WINDOW(RANGE 1) USING (id)"),
        ("SELECT STREAMED id FROM (SELECT id FROM S [Range Unbounded]) [Range 5] AS x", "FROM ISTREAM((SELECT id FROM"),
        ("SELECT STREAMED id FROM D [Rows 2]", "FROM ISTREAM(D) [ROWS 2]"),
        ("SELECT STREAMED h.id FROM R(D) AS h [Rows 2], S [Now]", "FROM ISTREAM(R(D) AS h) [ROWS 2], S [NOW]"),
        ("SELECT STREAMED id FROM D Sample(10) [Range 5]", "FROM ISTREAM(D SAMPLE(10)) [RANGE 5]"),
        ("SELECT STREAMED id FROM R[Sync2](D) [Range 5]", "FROM ISTREAM(R[Sync2](D)) [RANGE 5]"),
        (
            "WITH h AS (SELECT id FROM D), g AS (SELECT id FROM h [Now]) SELECT STREAMED id FROM g [Range 3]",
            "FROM ISTREAM(h) [NOW]) SELECT id FROM ISTREAM(g) [RANGE 3]",
        ),
        ("SELECT STREAMED R.id FROM NowView N, R(D) R WHERE R.TS > N.currTime - 5", "WHERE R.TS > Now - 5"),
    ],
)
def test_the_expanded_query_is_a_notice_and_means_the_same(query: str, expected: str) -> None:
    (text,) = expanded(query)
    assert expected in text
    main = text.rindex("SELECT") if text.startswith("WITH") else 0
    again = text[:main] + text[main:].replace("SELECT", "SELECT STREAMED", 1)
    assert expanded(again) == []
    assert tree(optimize(plan(again))) == tree(optimize(plan(query)))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT STREAMED id FROM S",
        "SELECT STREAMED id FROM S [Range 5]",
        "SELECT Istream(id) FROM S [Now]",
        "SELECT STREAMED a, COUNT(*) AS n FROM TUMBLE(TABLE S, DESCRIPTOR(TS), 5) GROUP BY a, window_end EMIT FINAL",
        "SELECT STREAMED S.id FROM S ASOF LEFT JOIN S2 ON S.a = S2.a AND S.c >= S2.c",
    ],
)
def test_a_query_without_defaults_has_no_expanded_notice(query: str) -> None:
    assert expanded(query) == []


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT id FROM S [Range Unbounded]", "SELECT * FROM ISTREAM((SELECT id FROM S [RANGE UNBOUNDED]))"),
        (
            "SELECT id FROM S [Range Unbounded] UNION ALL SELECT id FROM S2",
            "SELECT * FROM ISTREAM((SELECT id FROM S [RANGE UNBOUNDED] UNION ALL SELECT id FROM S2 [RANGE UNBOUNDED]))",
        ),
    ],
)
def test_the_default_istream_of_a_query_is_written_out(query: str, expected: str) -> None:
    assert expanded(query) == [expected]
    assert expanded(expected) == []
    assert made(expected).output == made(query).output == "istream"
    assert "Istream is applied by default: rows never leave the result" in register(query)[1].notices


@pytest.mark.parametrize(
    ("query", "notices"),
    [
        ("SELECT STREAMED id FROM D [Rows 2]", ["Istream is applied by default to D: its rows can leave"]),
        ("SELECT STREAMED id FROM R(D) d [Rows 2]", ["Istream is applied by default to D: its rows can leave"]),
        ("SELECT STREAMED id FROM R[Sync2](D) [Now]", ["Istream is applied by default to D: its rows can leave"]),
        (
            "SELECT STREAMED id FROM (SELECT id FROM S) AS x [Now]",
            ["Istream is applied by default to subquery x"],
        ),
        ("SELECT STREAMED id FROM Istream(D) [Rows 2]", []),
        ("SELECT STREAMED id FROM S [Rows 2]", []),
        ("SELECT STREAMED id FROM R[Sync2](S) [Rows 2]", []),
    ],
)
def test_the_default_istream_of_a_windowed_relation_is_a_notice(query: str, notices: list[str]) -> None:
    assert [notice for notice in register(query)[1].notices if "Istream" in notice] == notices
