"""The running examples of SyncSQL, sections 2.1 and 2.2, with the paper's statements and numbers."""

from __future__ import annotations

import pytest

from dsms.testing import LocalSession

CUTS = [(1, None), (1, 1), (2, 1), (3, 2), (5, None)]
DEFINITIONS = """
REGISTER SOURCE TemperatureSource (char RoomID, int Temperature) From port5501;
RoomTempStr: CREATE STREAM RoomTempStr OVER TemperatureSource KEY RoomID;
TempStr: CREATE STREAM TempStr OVER TemperatureSource KEY NULL;
"""
Q3 = "select STREAMED RoomID, Temperature from ℜ(RoomTempStr) R where R.Temperature > 80"
HOT_ROOMS = """create STREAMED view HotRooms₁ as
select RoomID, Temperature from ℜ(RoomTempStr) R where R.Temperature > 80"""


def change(op, room, temperature, ts):
    return (op, {"RoomID": room} if op == "-" else {"RoomID": room, "Temperature": temperature}, ts)


@pytest.fixture(params=CUTS, ids=str)
def session(request: pytest.FixtureRequest) -> LocalSession:
    session = LocalSession(*request.param)
    session.execute(DEFINITIONS)
    return session


def push(session: LocalSession, readings: str) -> None:
    """Pushes readings: `a 78 1` is the paper's <a, 78>1."""
    for reading in readings.split(", "):
        room, temperature, ts = reading.split()
        session.push("TemperatureSource", [{"RoomID": room, "Temperature": int(temperature), "ts": int(ts)}])


def test_example_1_one_source_two_tagged_streams(session: LocalSession) -> None:
    push(session, "a 100 1, b 75 2, c 80 3, a 95 4, b 85 5")
    session.advance(6)
    assert session.changes("RoomTempStr") == [
        change("+", "a", 100, 1),
        change("+", "b", 75, 2),
        change("+", "c", 80, 3),
        change("u", "a", 95, 4),
        change("u", "b", 85, 5),
    ]
    assert session.changes("TempStr") == [
        change("+", "a", 100, 1),
        change("+", "b", 75, 2),
        change("+", "c", 80, 3),
        change("+", "a", 95, 4),
        change("+", "b", 85, 5),
    ]


@pytest.mark.parametrize("cut", CUTS, ids=str)
def test_example_2_the_relation_at_every_instant(cut) -> None:
    """+<a>1, +<b>3, -<a>4, +<c>5: R[S(T)] for every T, with its attribute TS."""
    session = LocalSession(*cut)
    session.execute(
        "REGISTER SOURCE Raw (char Attr1) FROM raw; CREATE STREAM S OVER Raw KEY Attr1;"
        "CREATE STREAMED VIEW V AS SELECT Attr1, TS FROM ℜ(S)"
    )
    for op, value, ts in (("+", "a", 1), ("+", "b", 3), ("-", "a", 4), ("+", "c", 5)):
        session.push("Raw", [{"Attr1": value, "ts": ts, "op": op}])
    session.advance(7)
    figure_1b = {
        0: [],
        1: [("a", 1)],
        2: [("a", 1)],
        3: [("a", 1), ("b", 3)],
        4: [("b", 3)],
        5: [("b", 3), ("c", 5)],
        6: [("b", 3), ("c", 5)],
    }
    for at, expected in figure_1b.items():
        assert sorted((row["Attr1"], row["TS"]) for row in session.relation("V", at=at)) == expected
        assert sorted(row["Attr1"] for row in session.relation("S", at=at)) == [value for value, _ in expected]


ROOMS = "a 78 1, a 105 2, b 70 3, c 95 4, a 76 5, c 103 6"
FIGURE_2 = [change("+", "a", 105, 2), change("+", "c", 95, 4), change("-", "a", None, 5), change("u", "c", 103, 6)]
FIGURE_3 = [change("+", "a", 105, 2), change("-", "a", None, 5), change("+", "c", 103, 6)]


def test_example_3_q3(session: LocalSession) -> None:
    session.execute(f"CREATE QUERY Q3 AS {Q3}")
    push(session, ROOMS)
    session.advance(7)
    assert session.changes("Q3") == FIGURE_2


def test_example_3_a_labelled_query_keeps_its_label(session: LocalSession) -> None:
    session.execute(f"Q3: {Q3}")
    push(session, ROOMS)
    session.advance(7)
    assert session.changes("Q3") == FIGURE_2


def test_example_4_q4_over_the_stream_and_over_the_view(session: LocalSession) -> None:
    session.execute(HOT_ROOMS)
    session.execute("Q3: select STREAMED RoomID, Temperature from ℜ(HotRooms₁) R")
    session.execute("Q4: select STREAMED RoomID, Temperature from ℜ(HotRooms₁) R where R.Temperature > 100")
    session.execute("Q5: select STREAMED RoomID, Temperature from ℜ(RoomTempStr) R where R.Temperature > 100")
    push(session, ROOMS)
    session.advance(7)
    assert session.changes("HotRooms1") == FIGURE_2
    assert session.changes("Q3") == FIGURE_2
    assert session.changes("Q4") == FIGURE_3
    assert session.changes("Q5") == FIGURE_3


def test_ts_of_a_view_is_the_instant_of_its_own_change(session: LocalSession) -> None:
    """Section 3.1: output tuples have timestamps; therefore ℜ of a view has TS too."""
    session.execute(HOT_ROOMS)
    session.execute("create streamed view Since as select RoomID, TS as since from ℜ(HotRooms₁)")
    push(session, ROOMS)
    session.advance(7)
    assert session.relation("Since", at=4) == [{"RoomID": "a", "since": 2}, {"RoomID": "c", "since": 4}]
    assert session.relation("Since") == [{"RoomID": "c", "since": 6}]


def test_nothing_is_published_before_its_instant_is_closed(session: LocalSession) -> None:
    session.execute(HOT_ROOMS)
    push(session, "a 105 2, a 76 5")
    assert session.changes("HotRooms1") == [change("+", "a", 105, 2)]
    session.advance(6)
    assert session.changes("HotRooms1") == [change("+", "a", 105, 2), change("-", "a", None, 5)]
