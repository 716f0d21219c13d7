"""Notices of DDL statements: the defaults of a query, and the query with its defaults written out."""

from __future__ import annotations

import pytest

from dsms.planner.optimizer.optimize import optimize
from dsms.planner.physical.explain import tree
from tests.support.plan_parts import plan, register


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
        ("SELECT STREAMED R.id FROM NowView N, R(D) R WHERE R.TS > N.currTime - 5", "WHERE R.TS > Now - 5"),
    ],
)
def test_the_expanded_query_is_a_notice_and_means_the_same(query: str, expected: str) -> None:
    (text,) = expanded(query)
    assert expected in text
    again = text.replace("SELECT", "SELECT STREAMED", 1)
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
