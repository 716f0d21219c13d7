"""Which group-bys above session windows become one operator, and that it publishes the same as two operators."""

from __future__ import annotations

import random
from collections import Counter
from unittest.mock import patch

import pytest

from dsms.testing import LocalSession

SESSION = "TABLE(SESSION(TABLE S PARTITION BY k, DESCRIPTOR(t), 4))"
ONE = [
    f"SELECT k, COUNT(*) AS n, window_start, window_end FROM {SESSION} GROUP BY k, window_start, window_end",
    f"SELECT window_end AS w, k AS who, SUM(COALESCE(x, 7)) AS s FROM {SESSION} GROUP BY window_end, k",
    f"SELECT k, COUNT(*) FILTER (WHERE x > 1) AS n FROM {SESSION} GROUP BY k, window_start HAVING COUNT(*) > 1",
    f"SELECT k AS a, COUNT(x), AVG(x) AS m, window_start AS f FROM {SESSION} GROUP BY k, window_start, window_end",
    "SELECT COUNT(*) AS n, window_start FROM TABLE(SESSION(TABLE S, DESCRIPTOR(t), 2)) GROUP BY window_start",
]
TWO = [
    f"SELECT k, MAX(x) AS m FROM {SESSION} GROUP BY k, window_start, window_end",
    f"SELECT k, COUNT(DISTINCT x) AS m FROM {SESSION} GROUP BY k, window_start, window_end",
    f"SELECT k, SUM(CAST(x AS DOUBLE)) AS m FROM {SESSION} GROUP BY k, window_start, window_end",
    f"SELECT k, COUNT(*) AS n FROM {SESSION} GROUP BY k",
    f"SELECT COUNT(*) AS n, window_start FROM {SESSION} GROUP BY window_start",
    f"SELECT k, x, COUNT(*) AS n FROM {SESSION} GROUP BY k, x, window_start",
    f"SELECT k, SUM(window_end - t) AS n FROM {SESSION} GROUP BY k, window_start",
    f"SELECT k, SUM(x * 2) AS n FROM {SESSION} GROUP BY k, window_start",
    f"SELECT k, SUM(6 / x) AS n FROM {SESSION} GROUP BY k, window_start",
    f"SELECT k, COUNT(*) AS n FROM {SESSION} WHERE window_end > 5 GROUP BY k, window_start",
]


def answered(query: str, key: str, seed: int = 0) -> LocalSession:
    chance = random.Random(seed)
    session = LocalSession(partitions=2, batch_records=13)
    session.execute("REGISTER SOURCE src (id INT NOT NULL, k VARCHAR, t BIGINT, x BIGINT) FROM s")
    session.execute(f"CREATE STREAM S OVER src KEY {key}; CREATE STREAMED VIEW V AS {query}")
    session.push(
        "src",
        [
            {
                "id": chance.randrange(12),
                "k": chance.choice("ab"),
                "t": chance.randrange(at // 4 + 2),
                "ts": at // 2,
                "x": chance.choice([None, 1, 2, 3]),
            }
            for at in range(90)
        ],
    )
    session.advance(100)
    return session


@pytest.mark.parametrize("key", ["NULL", "id"])
@pytest.mark.parametrize("query", ONE)
def test_session_group_publishes_the_same_as_two_operators(query: str, key: str) -> None:
    answer = answered(query, key)
    assert "SessionGroup" in answer.explain("V")
    with patch("dsms.planner.physical.lower.one_input.session_groups", lambda _: None):
        two = answered(query, key)
        assert "SessionGroup" not in two.explain("V")
    assert Counter(map(repr, answer.changes("V"))) == Counter(map(repr, two.changes("V")))
    assert [op for op, *_ in answer.changes("V")] == [op for op, *_ in two.changes("V")]
    assert len(answer.changes("V")) > 20


@pytest.mark.parametrize("query", TWO)
def test_two_operators(query: str) -> None:
    assert "SessionGroup" not in answered(query, "NULL").explain("V")
