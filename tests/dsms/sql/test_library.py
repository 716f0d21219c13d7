"""The library's aggregates: small examples of their use, and comparisons with exact answers, within their errors."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from dsms.testing import LocalSession


def over(call: str, rows: list[dict[str, object]], columns: str) -> list[object]:
    """The results of a call over a stream, one for each change."""
    session = LocalSession()
    session.execute(f"CREATE STREAM S ({columns}, at BIGINT) ORDER BY at SOURCE 's'")
    session.execute(f"CREATE STREAM o AS SELECT {call} AS v FROM S")
    session.push("S_source", [{**row, "at": at} for at, row in enumerate(rows, 1)])
    session.advance(len(rows) + 100)
    return [row["v"] for _, row, _ in session.changes("o")]


def test_decaying_average() -> None:
    values = [{"x": x} for x in (8.0, 4.0, 6.0)]
    # (8, 1), then (4 + 4, 1.5), then (4 + 6, 1.75)
    assert over("decay_avg(x, 0.5)", values, "x DOUBLE") == [8.0, 8 / 1.5, 10 / 1.75]


def test_frequencies_are_never_too_small_and_mostly_exact() -> None:
    items = random.Random(7).choices(range(40), k=400)
    found = over("approx_frequency(x) OVER (ROWS 99 PRECEDING)", [{"x": x} for x in items], "x INT")
    exact = [Counter(items[max(0, at - 99) : at + 1])[item] for at, item in enumerate(items)]
    assert all(estimate >= count for estimate, count in zip(found, exact, strict=True))  # type: ignore[operator]
    assert sum(estimate == count for estimate, count in zip(found, exact, strict=True)) >= 396


def test_priority_sample_is_the_row_of_the_highest_priority() -> None:
    priorities = [0.3, 0.9, 0.5, 0.2, 0.4, 0.1]
    rows: list[dict[str, object]] = [{"x": f"r{at}", "p": p} for at, p in enumerate(priorities)]
    found = over("priority_sample(x, p) OVER (ROWS 2 PRECEDING)", rows, "x VARCHAR, p DOUBLE")
    assert found == ["r0", "r1", "r1", "r1", "r2", "r4"]


def test_ones_of_a_window_are_counted_within_half_of_the_oldest_bucket() -> None:
    bits = [int(random.Random(at).random() < 0.7) for at in range(300)]
    found = over("approx_ones(x, 64)", [{"x": bit} for bit in bits], "x INT")
    exact = [sum(bits[max(0, at - 63) : at + 1]) for at in range(300)]
    assert found[:3] == exact[:3]
    assert all(abs(estimate - count) <= max(1, count / 2) for estimate, count in zip(found, exact, strict=True))  # type: ignore[operator]


def test_variance_of_a_window() -> None:
    values = [1.0, 3.0, 5.0, 5.0]
    found = over("running_variance(x) OVER (ROWS 2 PRECEDING)", [{"x": x} for x in values], "x DOUBLE")
    # the variances of (1), (1, 3), (1, 3, 5), (3, 5, 5)
    assert found == [None, pytest.approx(2.0), pytest.approx(4.0), pytest.approx(4 / 3)]


def test_texts_are_joined_in_the_order_of_their_rows_by_panes() -> None:
    rows: list[dict[str, object]] = [{"x": letter} for letter in "abcdefgh"]
    assert over("text_concat(x) OVER (ROWS 3 PRECEDING SLIDE 2)", rows, "x VARCHAR") == ["ab", "abcd", "cdef", "efgh"]


def test_a_reservoir_has_its_size_and_every_row_the_same_chance() -> None:
    session = LocalSession()
    session.execute("CREATE STREAM S (g INT, x INT, at BIGINT) ORDER BY at SOURCE 's'")
    session.execute("CREATE VIEW v AS SELECT g, reservoir_sample(x, 3) AS x FROM R(S) GROUP BY g")
    session.push("S_source", [{"g": g, "x": x, "at": 1 + 10 * g + x} for g in range(200) for x in range(10)])
    session.advance(9000)
    samples = Counter(row["g"] for row in session.relation("v"))
    assert set(samples.values()) == {3}
    chances = Counter(row["x"] for row in session.relation("v"))
    assert all(30 <= chances[x] <= 95 for x in range(10))  # 60 each on average, with a deviation of 6.5


def test_rfid_groups_and_theft() -> None:
    session = LocalSession()
    session.execute("CREATE STREAM S (tag VARCHAR, kind VARCHAR, at TIMESTAMP) ORDER BY at SOURCE 's'")
    session.execute("CREATE STREAM g AS SELECT tag, rfid_group(at, 2.0) OVER (ROWS UNBOUNDED PRECEDING) AS n FROM S")
    alarm = "theft_alarm(tag, kind) OVER (RANGE 5 SECONDS PRECEDING ACTIVE EXPIRATION)"
    session.execute(f"CREATE STREAM t AS SELECT tag, {alarm} AS a FROM S")
    seen = [("a", "item", 1), ("b", "item", 3), ("p", "ap", 6), ("c", "item", 20)]
    session.push("S_source", [{"tag": t, "kind": k, "at": f"1970-01-01T00:00:{s:02}Z"} for t, k, s in seen])
    session.advance(60_000)
    assert [(row["tag"], row["n"]) for _, row, _ in session.changes("g")] == [("a", 1), ("b", 1), ("p", 2), ("c", 3)]
    assert [(row["tag"], row["a"], ts) for _, row, ts in session.changes("t")] == [("c", "theft", 25_001)]
