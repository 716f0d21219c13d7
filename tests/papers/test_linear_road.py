"""Linear Road's toll and accident queries as the STREAM group writes them in CQL, against a direct computation."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from dsms.testing import LocalSession
from tests.papers.linear_road import SECOND, Road, tolls, traffic

QUERIES = """
REGISTER SOURCE Cars (car_id INT, speed INT, exp_way INT, lane INT, dir INT, x_pos INT) FROM cars;
CREATE STREAM CarLocStr OVER Cars KEY NULL;

CREATE VIEW CarSegStr AS
Select car_id, speed, exp_way, lane, dir, x_pos, x_pos / 1760 As seg From CarLocStr;

CREATE VIEW ActiveCars AS
Select Distinct car_id From CarSegStr [Range 30 Seconds];

CREATE VIEW CurCarSeg AS
Select S.car_id, S.exp_way, S.dir, S.seg
From CarSegStr [Partition By car_id Rows 1] As S, ActiveCars As A
Where S.car_id = A.car_id;

CREATE VIEW CarSegEntryStr AS
Select Istream(*) From CurCarSeg;

CREATE VIEW CongestedSeg AS
Select exp_way, dir, seg
From CarSegStr [Range 5 Minutes]
Group By exp_way, dir, seg
Having Avg(speed) < 40;

CREATE VIEW SegVolume AS
Select exp_way, dir, seg, Count(*) As volume
From CurCarSeg
Group By exp_way, dir, seg;

CREATE VIEW AccCars AS
Select car_id, exp_way, lane, dir, seg, x_pos
From CarSegStr [Partition By car_id Rows 4]
Group By car_id, exp_way, lane, dir, seg, x_pos
Having Count(*) = 4;

CREATE VIEW AccSeg AS
Select Distinct exp_way, dir, seg
From (Select exp_way, lane, dir, seg, x_pos From AccCars
      Group By exp_way, lane, dir, seg, x_pos Having Count(*) >= 2) As AccLoc;

CREATE QUERY TollStr AS
Select Rstream(E.car_id, 2 * (V.volume - 5) * (V.volume - 5) As toll)
From CarSegEntryStr [Now] As E, CongestedSeg As C, SegVolume As V
Where E.exp_way = C.exp_way And E.dir = C.dir And E.seg = C.seg
  And E.exp_way = V.exp_way And E.dir = V.dir And E.seg = V.seg
  And V.volume > 5
  And Not Exists (Select * From AccSeg A
                  Where A.exp_way = E.exp_way And A.dir = E.dir And A.seg = E.seg);
"""
MINUTES = 10
REPORTS = traffic(cars=30, minutes=MINUTES, seed=3)
END = (MINUTES + 6) * 60 * SECOND


@pytest.fixture(scope="module", params=[(1, None), (3, 20)], ids=str)
def session(request: pytest.FixtureRequest) -> LocalSession:
    session = LocalSession(*request.param)
    session.execute(QUERIES)
    session.push("Cars", [asdict(report) for report in REPORTS])
    session.advance(END)
    return session


def test_the_traffic_has_what_the_queries_are_about() -> None:
    charged, without_accidents = tolls(REPORTS), tolls(REPORTS, accidents=False)
    assert len(REPORTS) > 400
    assert len(charged) > 10
    assert len({toll for _, _, toll in charged}) > 3
    assert len(without_accidents) > len(charged)


def test_tolls(session: LocalSession) -> None:
    charged = [(ts, row["car_id"], row["toll"]) for op, row, ts in session.changes("TollStr") if op == "+"]
    assert len(charged) == len(session.changes("TollStr"))
    assert sorted(charged) == tolls(REPORTS)


def test_accidents_and_their_clearing(session: LocalSession) -> None:
    """At every instant at which a car reports."""
    expected = {at: Road(REPORTS, at).accidents() for at in sorted({report.ts for report in REPORTS})}
    by_instant = {at: {tuple(row.values()) for row in session.relation("AccSeg", at=at)} for at in expected}
    assert by_instant == expected
    assert {segment for segments in expected.values() for segment in segments} == {(0, 0, 1), (0, 0, 3)}
    assert expected[max(expected)] == set()


def test_congested_segments_and_volumes(session: LocalSession) -> None:
    """Also between reports, when old reports leave the windows, and after the last report."""
    instants = [*range(0, END, 47 * SECOND), *sorted({report.ts + 30 * SECOND + 1 for report in REPORTS})[::9]]
    for at in instants:
        road = Road(REPORTS, at)
        congested = {tuple(row.values()) for row in session.relation("CongestedSeg", at=at)}
        assert (at, congested) == (at, road.congested())
        current = {row.pop("car_id"): tuple(row.values()) for row in map(dict, session.relation("CurCarSeg", at=at))}
        assert (at, current) == (at, road.current())
