"""The examples of "SyncSQL", with the paper's statements and tuples.

Streams and results are written as the paper writes them. Where it shows no numbers (examples 5, 6, 11-14, 16-19), the
streams are ours and the results are worked out by hand from its definitions.
"""

from __future__ import annotations

import pytest

from dsms.testing import LocalSession
from tests.papers.tables import CUTS, changes, listed, push, relations, snapshots, written

ROOMS = """
REGISTER SOURCE TemperatureSource (char RoomID, int Temperature) From port5501;
RoomTempStr: CREATE STREAM RoomTempStr OVER TemperatureSource KEY RoomID;
TempStr: CREATE STREAM TempStr OVER TemperatureSource KEY NULL;
"""
CARS = "REGISTER SOURCE Cars (CarID INT, CarType VARCHAR) FROM cars; CREATE STREAM S OVER Cars KEY NULL;"
LETTERS = "REGISTER SOURCE Raw (char Attr1) FROM raw; CREATE STREAM S OVER Raw KEY Attr1;"
HOT_ROOMS = """create STREAMED view HotRooms₁ as
select RoomID, Temperature
from ℜ(RoomTempStr) R
where R.Temperature > 80"""


def every(n: int) -> str:
    """The view of example 10, for any n."""
    return f"""create STREAMED view Sync{n} As
select C.Timepoint
from ℜ(clockStr) C
where C.Timepoint mod {n} = 0;"""


@pytest.fixture(params=CUTS, ids=str)
def session(request: pytest.FixtureRequest) -> LocalSession:
    return LocalSession(*request.param)


# --- section 2: streams, relations, views


def test_example_1_two_tagged_streams_over_one_source(session: LocalSession) -> None:
    session.execute(ROOMS)
    push(session, "TemperatureSource", "<a, 100>1, <b, 75>2, <c, 80>3, <a, 95>4, <b, 85>5")
    session.advance(6)
    assert changes(session, "RoomTempStr") == listed("+<a, 100>1, +<b, 75>2, +<c, 80>3, u<a, 95>4, u<b, 85>5")
    assert changes(session, "TempStr") == listed("+<a,100>1, +<b,75>2, +<c,80>3, +<a,95>4, +<b,85>5")


S = "+<a>1, +<b>3, -<a>4, +<c>5"


def test_example_2_the_relation_at_every_instant(session: LocalSession) -> None:
    session.execute(f"{LETTERS} create STREAMED view V as select Attr1, TS from ℜ(S)")
    push(session, "Raw", S)
    session.advance(7)
    assert relations(session, "S", 7) == snapshots("1:⟨a⟩ 2:⟨a⟩ 3:⟨a,b⟩ 4:⟨b⟩ 5:⟨b,c⟩ 6:⟨b,c⟩", 7)
    assert relations(session, "V", 7).splitlines() == [
        "1: (a,1)", "2: (a,1)", "3: (a,1) (b,3)", "4: (b,3)", "5: (b,3) (c,5)", "6: (b,3) (c,5)",
    ]  # fmt: skip


READINGS = "<a, 78>1, <a, 105>2, <b, 70>3, <c, 95>4, <a, 76>5, <c, 103>6"
FIGURE_2 = "+<a, 105>2, +<c, 95>4, -<a>5, u<c, 103>6"
FIGURE_3 = "+<a, 105>2, -<a>5, +<c, 103>6"


def test_example_3_rooms_above_80(session: LocalSession) -> None:
    session.execute(ROOMS)
    session.execute("Q3: select STREAMED RoomID, Temperature from ℜ(RoomTempStr) R where R.Temperature > 80")
    push(session, "TemperatureSource", READINGS)
    session.advance(7)
    assert changes(session, "Q3") == listed(FIGURE_2)


def test_example_4_a_view_and_queries_over_it(session: LocalSession) -> None:
    session.execute(ROOMS)
    session.execute(HOT_ROOMS)
    session.execute("Q3: select STREAMED RoomID, Temperature from ℜ(HotRooms₁) R")
    session.execute("Q4: select STREAMED RoomID, Temperature from ℜ(HotRooms₁) R where R.Temperature > 100")
    session.execute("Direct: select STREAMED RoomID, Temperature from ℜ(RoomTempStr) R where R.Temperature > 100")
    push(session, "TemperatureSource", READINGS)
    session.advance(7)
    assert changes(session, "HotRooms1") == changes(session, "Q3") == listed(FIGURE_2)
    assert changes(session, "Q4") == changes(session, "Direct") == listed(FIGURE_3)


FIVE_UNITS = """create STREAMED view FiveUnitsWindow as
select *
from ℜ(S) R
where Now - 5 < R.TS ≤ Now"""
PASSING = "<1, car>1, <2, bus>3, <3, car>3, <4, truck>9"


def test_example_5_a_window_is_a_predicate(session: LocalSession) -> None:
    """A car that is reported at T is in the window at T, …, T + 4."""
    session.execute(CARS + FIVE_UNITS)
    push(session, "Cars", PASSING)
    session.advance(20)
    assert changes(session, "FiveUnitsWindow") == listed(
        "+<1,car>1, +<2,bus>3, +<3,car>3, -<1,car>6, -<2,bus>8, -<3,car>8, +<4,truck>9, -<4,truck>14"
    )


def test_section_2_2_1_a_window_join(session: LocalSession) -> None:
    """Two tuples are joined only if they are less than 5 time units apart."""
    session.execute(CARS.replace("STREAM S ", "STREAM S2 "))
    session.execute("REGISTER SOURCE Other (CarID INT, CarType VARCHAR) FROM other")
    session.execute("CREATE STREAM S1 OVER Other KEY NULL")
    session.execute("""Near: select STREAMED R1.CarID, R2.CarID AS Other from ℜ(S1) R1, ℜ(S2) R2
        where R2.TS - 5 < R1.TS AND R1.TS < R2.TS + 5 AND R1.CarType = R2.CarType""")
    push(session, "Other", "<10, car>1, <11, car>6, <12, car>12, <13, bus>12")
    push(session, "Cars", "<1, car>5, <2, car>8, <3, car>16, <4, car>17")
    session.advance(20)
    assert changes(session, "Near") == listed("+<10,1>5, +<11,1>6, +<11,2>8, +<12,2>12, +<12,3>16")


def test_example_6_a_query_over_the_window(session: LocalSession) -> None:
    session.execute(CARS + FIVE_UNITS)
    session.execute("Q4: select STREAMED COUNT(*) from ℜ(FiveUnitsWindow) groupby CarType")
    session.execute("CarCount: select STREAMED CarType, COUNT(*) AS n from ℜ(FiveUnitsWindow) groupby CarType")
    push(session, "Cars", PASSING)
    session.advance(20)
    # an update for a group only when a car enters or leaves it
    assert changes(session, "CarCount") == listed(
        "+<car,1>1, +<bus,1>3, u<car,2>3, u<car,1>6, -<bus>8, -<car>8, +<truck,1>9, -<truck>14"
    )
    counts = {(1, 3): ["1"], (3, 6): ["1", "2"], (6, 8): ["1", "1"], (9, 14): ["1"]}
    assert relations(session, "Q4", 15) == written({at: n for span, n in counts.items() for at in range(*span)})


# --- section 3: synchronisation


def test_example_7_a_synchronised_relation(session: LocalSession) -> None:
    session.execute(f"{every(2)} {LETTERS} create STREAMED view V as select Attr1 from ℜ_Sync₂(S)")
    push(session, "Raw", S)
    session.advance(8)
    assert relations(session, "V", 8) == snapshots("2-3:⟨a⟩ 4-5:⟨b⟩ 6-7:⟨b,c⟩", 8)


SYNCHRONISED = HOT_ROOMS.replace("ℜ(", "ℜ_Sync₂(")


def test_examples_8_and_9_figure_5(session: LocalSession) -> None:
    session.execute(f"{every(2)} {every(4)} {ROOMS} {SYNCHRONISED}")
    session.execute("Q4: select STREAMED RoomID, Temperature from ℜ_Sync₄(HotRooms₁) R where R.Temperature > 100")
    push(session, "TemperatureSource", "<a,105>1, <b,110>3, <c,97>4, <d,75>5, <a,75>7")
    session.advance(12)
    assert changes(session, "HotRooms1") == listed("+<a, 105>2, +<b, 110>4, +<c, 97>4, -<a>8")
    assert changes(session, "Q4") == listed("+<a, 105>4, +<b, 110>4, -<a>8")


def ticks(session: LocalSession, points: str) -> list[int]:
    """The instants at which a relation synchronised to `points` changes, if its stream changes at each instant."""
    session.execute(f"REGISTER SOURCE Tick (n INT) FROM tick; CREATE STREAM Ticks OVER Tick KEY NULL;"
                    f"T: select STREAMED n from R[{points}](Ticks)")  # fmt: skip
    push(session, "Tick", ", ".join(f"<{n}>{n}" for n in range(11)))
    session.advance(11)
    return sorted({ts for _, _, ts in session.changes("T")})


def test_example_10_every_two_time_units(session: LocalSession) -> None:
    (made,) = session.run(every(2))
    assert made.notices == ("points: t mod 2 in {0}",)
    assert ticks(session, "Sync2") == [0, 2, 4, 6, 8, 10]


def test_the_clock_is_the_finest_synchronisation(session: LocalSession) -> None:
    assert ticks(session, "clockStr") == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]


def test_example_11_a_union_of_synchronisation_streams(session: LocalSession) -> None:
    session.execute(every(2) + every(5))
    session.execute("""create STREAMED view UnionSyncStr as
select DISTINCT(Timepoint)
from ℜ(Sync₂) S₂ ∪ ℜ(Sync₅) S₅""")
    assert ticks(session, "UnionSyncStr") == [0, 2, 4, 5, 6, 8, 10]


def test_an_intersection_of_synchronisation_streams(session: LocalSession) -> None:
    session.execute(every(2) + every(5))
    session.execute("create STREAMED view Both as select Timepoint from ℜ(Sync₂) S₂ ∩ ℜ(Sync₅) S₅")
    assert ticks(session, "Both") == [0, 10]


HOT_SYNC = """create STREAMED view HotSync as
select R.TS
from ℜ(TempStr) R
where R.Temperature > 120"""


def test_example_12_points_that_are_events(session: LocalSession) -> None:
    session.execute(ROOMS + HOT_SYNC)
    session.execute("Q5: select STREAMED RoomID, Temperature from R[HotSync](RoomTempStr) R where R.Temperature > 100")
    push(session, "TemperatureSource", "<a,105>1, <b,90>2, <b,121>4, <a,101>5, <b,80>6, <c,130>9, <c,70>10")
    session.advance(12)
    assert changes(session, "HotSync") == listed("+<4>4, +<9>9")
    assert changes(session, "Q5") == listed("+<a,105>4, +<b,121>4, u<a,101>9, -<b>9, +<c,130>9")


NOW_VIEW = """create STREAMED view NowView as
select 1 as KEY, MAX(T.Timepoint) as currTime
from ℜ(clockStr) T"""


def test_example_13_now_is_a_view(session: LocalSession) -> None:
    (made,) = session.run(NOW_VIEW)
    assert made.message == 'view "NowView" created over clockStr; its points are computed without running a query'
    session.execute(CARS)
    session.execute("""create STREAMED view FiveUnitsWindow as
select R.*
from ℜ(S) R, ℜ(NowView) N
where N.currTime -5 < R.TS ≤ N.currTime""")
    session.execute(FIVE_UNITS.replace("FiveUnitsWindow", "Example5"))
    push(session, "Cars", PASSING)
    session.advance(20)
    assert changes(session, "FiveUnitsWindow") == changes(session, "Example5")


def test_example_14_range_five_slide_two(session: LocalSession) -> None:
    """At 2, 4, 6, …: the cars of the last five time units."""
    session.execute(f"""{every(2)} {CARS} create STREAMED view TwoUnitsSlide as
select 1 as KEY, MAX(T.Timepoint) as currTime
from ℜ(Sync₂) T;
create STREAMED view RangeFiveSlideTwo as
select R.*
from ℜ_Sync₂(S) R, ℜ(TwoUnitsSlide) N
where N.currTime - 5 < R.TS ≤ N.currTime""")
    push(session, "Cars", PASSING)
    session.advance(20)
    assert changes(session, "RangeFiveSlideTwo") == listed(
        "+<1,car>2, +<2,bus>4, +<3,car>4, -<1,car>6, -<2,bus>8, -<3,car>8, +<4,truck>10, -<4,truck>14"
    )


# --- section 4: algebra


@pytest.mark.parametrize("example", ["15", "20"])
def test_examples_15_and_20_the_stream_of_a_synchronised_relation(session: LocalSession, example: str) -> None:
    """ξ(ℜ_Sync₂(S)) carries the arrival timestamp TS as a column; ζ_Sync₂(S) is the same stream."""
    session.execute(f"{every(2)} {LETTERS}")
    session.execute("Sout: select STREAMED Attr1, TS from ℜ_Sync₂(S)")
    push(session, "Raw", S)
    session.advance(8)
    assert changes(session, "Sout") == listed("+<a,1>2, -<a>4, +<b,3>4, +<c,5>6")


TWO = """REGISTER SOURCE A (ID INT, x VARCHAR) FROM a; CREATE STREAM S₂ OVER A KEY NULL;
REGISTER SOURCE B (ID INT, y VARCHAR) FROM b; CREATE STREAM S₃ OVER B KEY NULL;"""
OF_A, OF_B = "<1,a>1, <2,b>2, <3,c>3, <4,d>5", "<1,p>0, <2,q>2, <3,r>4, <4,s>6"
EXAMPLE_16 = """select STREAMED *
from ℜ_Sync₂(S₂) R₂, ℜ_Sync₃(S₃) R₃
where R₂.ID = R₃.ID"""


def test_example_16_a_join_of_synchronised_relations(session: LocalSession) -> None:
    """At 2 it joins S₂ up to 2 and S₃ up to 0; at 3, 2 and 3; at 4, 4 and 3; at 6, all of both."""
    session.execute(f"{every(2)} {every(3)} {TWO} Q: {EXAMPLE_16}")
    push(session, "A", OF_A)
    push(session, "B", OF_B)
    session.advance(8)
    assert changes(session, "Q") == listed("+<1,a,1,p>2, +<2,b,2,q>3, +<3,c,3,r>6, +<4,d,4,s>6")


def test_example_17_a_coarser_relation_from_a_finer_one(session: LocalSession) -> None:
    """ℜ_Sync₄(S) = ℜ_Sync₄(ξ(ℜ_Sync₂(S)))."""
    session.execute(f"{every(2)} {every(4)} {LETTERS}")
    session.execute("create STREAMED view S₂ as select Attr1 from ℜ_Sync₂(S)")
    session.execute("create STREAMED view A as select Attr1 from ℜ_Sync₄(S)")
    session.execute("create STREAMED view B as select Attr1 from ℜ_Sync₄(S₂)")
    push(session, "Raw", S)
    session.advance(12)
    expected = snapshots("4-7:⟨b⟩ 8-11:⟨b,c⟩", 12)
    assert relations(session, "A", 12) == relations(session, "B", 12) == expected


def test_example_18_a_query_and_its_normal_form(session: LocalSession) -> None:
    """σ(ℜ_Sync₂(S₂) ⋈ ℜ_Sync₃(S₃)) and ℜ_{Sync₂ ∩ Sync₃}(ξ(σ(ℜ(S₂) ⋈ ℜ(S₃)))) agree at the full points: 0, 6, 12."""
    session.execute(f"{every(2)} {every(3)} {TWO}")
    session.execute("create STREAMED view Both as select Timepoint from ℜ(Sync₂) ∩ ℜ(Sync₃)")
    session.execute("create STREAMED view Q as select x from ℜ_Sync₂(S₂) R₂, ℜ_Sync₃(S₃) R₃"
                    " where R₂.ID = R₃.ID and y <> 'q'")  # fmt: skip
    session.execute("create STREAMED view Fine as select x from ℜ(S₂) R₂, ℜ(S₃) R₃ where R₂.ID = R₃.ID and y <> 'q'")
    session.execute("create STREAMED view Normal as select x from R[Both](Fine)")
    push(session, "A", f"{OF_A}, <5,e>7, <6,f>11")
    push(session, "B", f"{OF_B}, <5,t>8, <6,u>12")
    session.advance(14)
    assert relations(session, "Q", 14) == snapshots("2-5:⟨a⟩ 6-8:⟨a,c,d⟩ 9-11:⟨a,c,d,e⟩ 12-13:⟨a,c,d,e,f⟩", 14)
    assert relations(session, "Normal", 14) == snapshots("6-11:⟨a,c,d⟩ 12-13:⟨a,c,d,e,f⟩", 14)


def test_example_19_a_query_over_the_view_that_contains_it(session: LocalSession) -> None:
    """Q4 = σ_{Temp > 100}(ℜ_Sync₄(RoomTempStr)) = σ_{Temp > 100}(ℜ_Sync₄(ξ(ℜ(HotRooms₁))))."""
    session.execute(f"{every(2)} {every(4)} {ROOMS} {SYNCHRONISED}")
    session.execute("Q4: select STREAMED RoomID, Temperature from ℜ_Sync₄(RoomTempStr) R where R.Temperature > 100")
    session.execute("Over: select STREAMED RoomID, Temperature from ℜ_Sync₄(HotRooms₁) R where R.Temperature > 100")
    push(session, "TemperatureSource", "<a,105>1, <b,110>3, <c,97>4, <d,75>5, <c,101>6, <a,75>7, <b,99>9, <a,120>10")
    session.advance(16)
    expected = listed("+<a,105>4, +<b,110>4, -<a>8, +<c,101>8, -<b>12, +<a,120>12")
    assert changes(session, "Q4") == changes(session, "Over") == expected
