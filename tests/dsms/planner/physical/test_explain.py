"""Plans as text, in golden files."""

from __future__ import annotations

import pytest

from dsms.testing import LocalSession

SOURCE = """REGISTER SOURCE TemperatureSource (char RoomID, int Temperature) From port5501;
CREATE STREAM RoomTempStr OVER TemperatureSource KEY RoomID; CREATE STREAM TempStr OVER TemperatureSource KEY NULL;
CREATE STREAMED VIEW HotRooms1 AS SELECT RoomID, Temperature FROM R(RoomTempStr) R WHERE R.Temperature > 80;"""
PLANS = {
    "stream": "SELECT * FROM R(RoomTempStr)",
    "hot_rooms": "SELECT RoomID, Temperature FROM R(RoomTempStr) R WHERE R.Temperature > 80",
    "view_over_view": "SELECT RoomID AS room, Temperature * 2 AS twice FROM R(HotRooms1) WHERE Temperature > 100",
    "ts_of_a_view": "SELECT RoomID, TS AS since FROM R(HotRooms1) WHERE TS > 5",
    "append_only": "SELECT Temperature FROM R(TempStr) WHERE TS BETWEEN 3 AND 9",
    "no_key": "SELECT Temperature FROM R(RoomTempStr)",
}


@pytest.mark.parametrize("name", PLANS)
def test_plan(name: str, golden) -> None:
    session = LocalSession()
    session.execute(SOURCE)
    lines = [row["plan"] for row in session.execute(f"EXPLAIN {PLANS[name]}")]
    golden(f"plans/{name}.txt", PLANS[name] + "\n\n" + "\n".join(map(str, lines)) + "\n")
    session.execute(f"CREATE QUERY Q AS {PLANS[name]}")
    assert session.explain("Q").splitlines() == lines
