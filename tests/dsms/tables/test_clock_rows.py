"""One-time SELECTs over views of the clock: their points so far, and the last of them."""

from __future__ import annotations

import pytest

from dsms.testing import LocalSession
from operators.core.errors import UserError

SETUP = """
    REGISTER SOURCE T (room STRING, t INT) FROM temperatures; CREATE STREAM S OVER T KEY room;
    CREATE STREAMED VIEW Sync3 AS SELECT Timepoint FROM R(clockStr) WHERE Timepoint mod 3 = 1;
    CREATE STREAMED VIEW Last3 AS SELECT 'a' AS room, MAX(Timepoint) AS last FROM R(Sync3)
"""


@pytest.fixture
def session() -> LocalSession:
    session = LocalSession()
    session.execute(SETUP)
    return session


def test_a_synchronisation_stream_has_its_points_so_far(session: LocalSession) -> None:
    session.push("T", [{"room": "a", "t": 5, "ts": 2}])
    session.advance(8)
    assert session.execute("SELECT * FROM Sync3 ORDER BY 1") == [{"Timepoint": 1}, {"Timepoint": 4}, {"Timepoint": 7}]
    assert session.execute("SELECT Timepoint FROM R(Sync3) p WHERE Timepoint > 4") == [{"Timepoint": 7}]
    assert session.relation("Sync3", 4) == [{"Timepoint": 1}, {"Timepoint": 4}]
    assert session.relation("Sync3", 0) == []
    assert session.key("Sync3") == ("Timepoint",)
    joined = "SELECT S.t, COUNT(*) AS points FROM S, Sync3 GROUP BY S.t"
    assert session.execute(joined) == [{"t": 5, "points": 3}]


def test_the_last_point_is_one_row(session: LocalSession) -> None:
    assert session.execute("SELECT * FROM Last3") == []
    session.advance(7)
    assert session.execute("SELECT * FROM Last3") == [{"room": "a", "last": 4}]
    session.push("T", [{"room": "a", "t": 5, "ts": 9}])
    session.advance(10)
    assert session.execute("SELECT t, last FROM S JOIN Last3 USING (room)") == [{"t": 5, "last": 7}]


def test_too_many_points_are_refused_with_what_to_write_instead(session: LocalSession) -> None:
    session.advance(1_700_000_000_000)
    with pytest.raises(UserError, match=r'"Sync3" has 566,666,666,667 points up to instant 1699999999999') as refused:
        session.execute("SELECT * FROM Sync3")
    assert refused.value.hint == "list the points of a range: SELECT … FROM generate_series(first, last, 3)"
    assert session.execute("SELECT last FROM Last3") == [{"last": 1_699_999_999_999}]


def test_views_of_the_clock_publish_no_changes(session: LocalSession) -> None:
    with pytest.raises(UserError, match='"Sync3" is computed from the clock, so it publishes no changes'):
        session.changes("Sync3")


@pytest.mark.parametrize(
    ("select", "message", "hint"),
    [
        (
            "SELECT STREAMED * FROM Sync3",
            'a query over "Sync3" alone would list every point',
            "read a relation at its points: R[Sync3](S); or its points once: SELECT … FROM Sync3",
        ),
        (
            "SELECT STREAMED * FROM clockStr",
            'a query over "clockStr" alone would list every point',
            "make it a view and read a relation at its points: R[Sync](S)",
        ),
        (
            "SELECT * FROM clockStr",
            '"clockStr" is the clock, which has every instant',
            "create a view of its points: CREATE STREAMED VIEW Sync AS SELECT Timepoint FROM R(clockStr) WHERE …",
        ),
    ],
)
def test_queries_over_the_clock_are_refused(session: LocalSession, select: str, message: str, hint: str) -> None:
    with pytest.raises(UserError, match=message) as refused:
        session.execute(select)
    assert refused.value.hint == hint
