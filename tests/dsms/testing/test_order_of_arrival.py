"""Aggregates that depend on the order of rows, over windows in which a row leaves while an equal row enters."""

from __future__ import annotations

import pytest

from dsms.testing import LocalSession

SOURCE = "REGISTER SOURCE readings (room STRING, t INT) FROM readings; CREATE STREAM S OVER readings KEY NULL;"
OWN = """
CREATE AGGREGATE latest(x INT): INT {
  TABLE state(value INT);
  INITIALIZE: { INSERT INTO state VALUES (x); }
  ITERATE: { UPDATE state SET value = x; }
  TERMINATE: { INSERT INTO RETURN SELECT value FROM state; }
  EXPIRE: { }
};
CREATE AGGREGATE told(x INT): VARCHAR {
  TABLE state(value VARCHAR);
  INITIALIZE: { INSERT INTO state VALUES (CAST(x AS VARCHAR)); }
  ITERATE: { UPDATE state SET value = value || ',' || CAST(x AS VARCHAR); }
  TERMINATE: { INSERT INTO RETURN SELECT value FROM state; }
};
"""
WINDOWS = ["S [Partition By room Rows 2]", "S [Rows 2]", "S [Range 10]", "S WINDOW(ROWS 2)", "S WINDOW(RANGE 10)"]
CALLS = {
    "LAST(t)": 20, "FIRST(t)": 21, "STRING_AGG(CAST(t AS VARCHAR))": "21,20", "ARRAY_AGG(t)": [21, 20],
    "ANY_VALUE(t)": 21, "latest(t)": 20, "told(t)": "21,20", "LAST(t ORDER BY room)": 20,
    "LAST(t) FILTER (WHERE t > 0)": 20,
}  # fmt: skip


def session(view: str, own: str = "") -> LocalSession:
    session = LocalSession()
    session.execute(f"{SOURCE} {own} CREATE VIEW v AS {view}")
    return session


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("window", WINDOWS)
def test_entering_row_is_distinguished_from_an_equal_leaving_row(window: str, call: str) -> None:
    run = session(f"SELECT room, {call} AS l FROM {window} GROUP BY room", OWN)
    for t, at in ((20, 0), (21, 10), (20, 11)):
        run.push("readings", [{"room": "a", "t": t, "ts": at}])
    run.advance(12)
    assert run.relation("v", at=11) == [{"room": "a", "l": CALLS[call]}]


@pytest.mark.parametrize(
    "view",
    [
        "SELECT LAST(t) AS l FROM (SELECT room, t FROM S [Rows 2]) AS q GROUP BY room",
        "SELECT LAST(t) AS l FROM (SELECT * FROM S [Rows 2]) AS q WHERE room = 'a'",
        "SELECT LAST(q.t) AS l FROM S [Rows 2] AS q JOIN S [Rows 2] AS r ON q.room = r.room",
        "SELECT LAST(t) AS l FROM (SELECT t FROM S [Rows 2] UNION ALL SELECT t FROM S [Rows 1]) AS q",
        "WITH w AS (SELECT t FROM S [Rows 2]) SELECT LAST(t) AS l FROM w",
        "SELECT LAST(t) AS l FROM S [Rows 2] GROUP BY GROUPING SETS ((room))",
    ],
)
def test_projections_joins_and_unions_keep_the_order(view: str) -> None:
    run = session(view)
    for t, at in ((20, 0), (21, 10), (20, 11)):
        run.push("readings", [{"room": "a", "t": t, "ts": at}])
    run.advance(12)
    assert run.relation("v", at=11) == [{"l": 20}]


def test_repeated_equal_upsert_makes_its_key_the_last() -> None:
    run = LocalSession()
    run.execute(SOURCE.replace("KEY NULL", "KEY room") + "CREATE VIEW v AS SELECT LAST(t) AS l FROM R(S)")
    run.push(
        "readings", [{"room": room, "t": t, "ts": at} for room, t, at in (("a", 20, 0), ("b", 21, 10), ("a", 20, 11))]
    )
    run.advance(12)
    assert [run.relation("v", at=at) for at in (10, 11)] == [[{"l": 21}], [{"l": 20}]]


@pytest.mark.parametrize(
    "window", ["S [Range 9 Slide 10]", "S [Rows 3 Slide 3]", "S WINDOW(RANGE 9 SLIDE 10)", "R[Tick](S)"]
)
def test_rows_that_become_visible_together_are_in_the_order_of_their_instants(window: str) -> None:
    run = LocalSession()
    run.execute(
        "REGISTER SOURCE readings (room STRING, t INT) FROM readings SLACK 5; CREATE STREAM S OVER readings KEY NULL;"
        "CREATE STREAMED VIEW Tick AS SELECT Timepoint FROM R(clockStr) WHERE mod(Timepoint, 10) = 0;"
        f"CREATE VIEW v AS SELECT STRING_AGG(CAST(t AS VARCHAR)) AS l, LAST(t) AS z FROM {window}"
    )
    run.push("readings", [{"room": "a", "t": t, "ts": at} for t, at in ((7, 5), (9, 3), (8, 5))])
    run.advance(20)
    assert run.relation("v", at=10) == [{"l": "9,7,8", "z": 8}]


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        ("SELECT t FROM (SELECT room, t FROM S [Rows 2]) AS q ORDER BY room LIMIT 1", [{"t": 21}]),
        ("SELECT t FROM (SELECT t FROM S [Rows 2]) AS q LIMIT 1", [{"t": 21}]),
        ("SELECT t FROM (SELECT t FROM S [Rows 2] UNION ALL SELECT t FROM S [Rows 1] LIMIT 1) AS q", [{"t": 21}]),
        ("SELECT DISTINCT ON (room) room, t FROM (SELECT room, t FROM S [Rows 2]) AS q", [{"room": "a", "t": 21}]),
        (
            "SELECT t, ROW_NUMBER() OVER (ORDER BY room) AS n FROM (SELECT room, t FROM S [Rows 2]) AS q",
            [{"t": 20, "n": 2}, {"t": 21, "n": 1}],
        ),
        (
            "SELECT t, LAG(t) OVER (ORDER BY room) AS n FROM (SELECT room, t FROM S [Range 10]) AS q",
            [{"t": 20, "n": 21}, {"t": 21, "n": None}],
        ),
        (
            "SELECT t, SUM(t) OVER (ROWS 1 PRECEDING) AS n FROM (SELECT room, t FROM S [Range 10]) AS q",
            [{"t": 20, "n": 41}, {"t": 21, "n": 21}],
        ),
        (
            "SELECT t, RANK() OVER (ORDER BY room) AS n FROM (SELECT room, t FROM S [Range 10]) AS q",
            [{"t": 20, "n": 1}, {"t": 21, "n": 1}],
        ),
        (
            "SELECT * FROM (SELECT room, t FROM S [Rows 2]) AS q MATCH_RECOGNIZE "
            "(ORDER BY room MEASURES A.t AS first, B.t AS then PATTERN (A B) DEFINE B AS TRUE) AS m",
            [{"first": 21, "then": 20}],
        ),
    ],
)
def test_rows_that_tie_are_in_the_order_of_arrival(view: str, expected: list[dict[str, object]]) -> None:
    run = session(view)
    for t, at in ((20, 0), (21, 10), (20, 11)):
        run.push("readings", [{"room": "a", "t": t, "ts": at}])
    run.advance(12)
    assert sorted(run.relation("v", at=11), key=repr) == expected
