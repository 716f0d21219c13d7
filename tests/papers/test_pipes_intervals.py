"""The tables of the PIPES thesis that show streams of intervals (chapter 11), as the relations that these represent.

A relation may be divided into intervals in any way (snapshot equivalence), so split and coalesce change nothing. D-1
and D-3 are defects of algorithms that the thesis prints.
"""

from __future__ import annotations

from functools import cache

import pytest

from dsms.testing import LocalSession
from operators.core.errors import SqlError
from tests.papers.pipes_streams import PHYSICAL, interval_session
from tests.papers.tables import FEW_CUTS, intervals, relations

UNTIL = 25
Cut = tuple[int, int | None]
TABLES = {
    "T11_2": ("SELECT e FROM S1 WHERE e = 'a'", "a[5,11) a[9,10)"),
    "T11_3": (
        "SELECT CASE e WHEN 'a' THEN 'x' WHEN 'b' THEN 'y' ELSE e END AS e FROM S1",
        "c[1,8) x[5,11) d[6,14) x[9,10) y[12,17)",
    ),
    "T11_4": (
        "SELECT e FROM S1 UNION ALL SELECT e FROM S2",
        "c[1,8) b[1,7) d[3,9) a[4,5) a[5,11) d[6,14) b[7,15) a[9,10) e[10,18) b[12,17)",
    ),
    "T11_6": ("SELECT S1.e FROM S1, S2 WHERE S1.e = S2.e", "d[6,9) b[12,15)"),
    "derived_product": (
        "SELECT S1.e || S2.e AS e FROM S1, S2",
        "cb[1,7) cd[3,8) ca[4,5) ab[5,7) ad[5,9) db[6,7) dd[6,9) cb[7,8) ab[7,11) db[7,14)"
        " ab[9,10) ae[10,11) de[10,14) bb[12,15) be[12,17)",
    ),
    "T11_7": ("SELECT DISTINCT e FROM S1", "c[1,8) a[5,11) d[6,14) b[12,17)"),
    "derived_distinct_union": (
        "SELECT e FROM S1 UNION SELECT e FROM S2",
        "c[1,8) b[1,7) d[3,9) a[4,5) a[5,11) b[7,15) d[9,14) e[10,18) b[15,17)",
    ),
    "T11_8": ("SELECT e FROM S1 EXCEPT ALL SELECT e FROM S2", "c[1,8) a[5,11) d[9,14) a[9,10) b[15,17)"),
    "derived_difference": (
        "SELECT e FROM S2 EXCEPT ALL SELECT e FROM S1",
        "b[1,7) d[3,6) a[4,5) b[7,12) e[10,18)",
    ),
    "T11_9": (
        "SELECT string_agg(e, '+' ORDER BY e) AS e FROM S1 HAVING COUNT(*) > 0",
        "c[1,5) a+c[5,6) a+c+d[6,8) a+d[8,9) a+a+d[9,10) a+d[10,11) d[11,12) b+d[12,14) b[14,17)",
    ),
    "T11_10": (
        "SELECT e, COUNT(*) AS n FROM S1 GROUP BY e",
        "(c,1)[1,8) (a,1)[5,9) (d,1)[6,14) (a,2)[9,10) (a,1)[10,11) (b,1)[12,17)",
    ),
    "T11_14_split": ("SELECT e FROM S1", "c[1,5) c[5,8) a[5,9) d[6,10) a[9,11) a[9,10) d[10,14) b[12,16) b[16,17)"),
    "T11_15_coalesce": ("SELECT e FROM S2", "b[1,15) d[3,9) a[4,5) e[10,18)"),
}


@cache
def pipes(cut: Cut, fed: str) -> LocalSession:
    return interval_session(cut, PHYSICAL, {name: query for name, (query, _) in TABLES.items()}, fed)


@pytest.mark.parametrize(("cut", "fed"), [(FEW_CUTS[0], "changes"), (FEW_CUTS[1], "ends")], ids=str)
@pytest.mark.parametrize("name", TABLES)
def test_table(cut: Cut, fed: str, name: str) -> None:
    assert relations(pipes(cut, fed), name, UNTIL) == intervals(TABLES[name][1], UNTIL)


@pytest.mark.parametrize("fed", ["changes", "ends"])
def test_d_1_duplicates_that_end_before_their_first(fed: str) -> None:
    """The algorithm in the thesis returns a[3,4) twice."""
    session = interval_session(
        FEW_CUTS[1], {"S": "a[1,5) a[2,8) a[3,4)"}, {"D": "SELECT DISTINCT e FROM S"}, fed
    )  # fmt: skip
    assert relations(session, "D", UNTIL) == intervals("a[1,8)", UNTIL)


@pytest.mark.parametrize("fed", ["changes", "ends"])
def test_a_difference_of_duplicates(fed: str) -> None:
    streams = {"A": "a[1,10) a[5,8)", "B": "a[2,4) a[3,6) a[9,12)"}
    session = interval_session(FEW_CUTS[1], streams, {"D": "SELECT e FROM A EXCEPT ALL SELECT e FROM B"}, fed)
    assert relations(session, "D", UNTIL) == intervals("a[1,2) a[5,8) a[6,9)", UNTIL)


def test_coalesce_bounds_nothing() -> None:
    """The example of defect D-3: two adjacent intervals are one."""
    session = interval_session((1, None), {"S": "a[11,17) b[14,22) a[17,24)"}, {"V": "SELECT e FROM S"}, "ends")
    assert relations(session, "V", 30) == intervals("a[11,24) b[14,22)", 30)


def test_a_window_over_intervals_counts_every_instant_of_a_clock() -> None:
    """The window of size 3 over a[1,4), 1:⟨a⟩ 2:⟨a2⟩ 3:⟨a3⟩ 4:⟨a2⟩ 5:⟨a⟩, on a clock that ticks at even instants."""
    session = interval_session(
        FEW_CUTS[1],
        {"S": "a[2,8)"},
        {
            "Sync2": "SELECT Timepoint FROM ℜ(clockStr) WHERE Timepoint mod 2 = 0",
            "W": "SELECT e FROM (SELECT Rstream(e) FROM ℜ[Sync2](S)) x WINDOW(RANGE 6)",
        },
        "ends",
    )
    assert relations(session, "W", UNTIL) == intervals("a[2,8) a[4,10) a[6,12)", UNTIL)


def test_a_window_over_intervals_is_refused_at_the_finest_granularity() -> None:
    """By section 12.2.2, a row enters the window at each instant of a[1,4): one element for every millisecond."""
    with pytest.raises(SqlError, match="WINDOW counts a row at each instant at which it is valid"):
        interval_session((1, None), {"S": "a[1,4)"}, {"W": "SELECT e FROM S WINDOW(RANGE 3)"}, "ends")
