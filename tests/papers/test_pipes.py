"""The tables of the PIPES thesis that show logical streams (chapters 8 and 17.1): the relation at every instant.

Tables 8.5 and 8.11 are misprinted in the thesis; they are corrected by its formulas. The results of queries marked
"derived" are not printed, but follow from the formulas. D-4 and D-5 are defects of algorithms that the thesis prints.
"""

from __future__ import annotations

from functools import cache

import pytest

from dsms.testing import LocalSession
from tests.papers.pipes_streams import LOGICAL, session_of
from tests.papers.tables import FEW_CUTS, intervals, relations, snapshots

UNTIL = 15
#: The raw streams as relations: the rows of each instant (a time window of one instant).
DERIVED = {f"S{n}": f"SELECT e FROM L{n} WINDOW(RANGE 1)" for n in (1, 2, 3)}
STANDARD = {
    "T8_2": ("SELECT e FROM S1 WHERE e = 'a' OR e = 'c'", "1:⟨c⟩ 2:⟨a3⟩ 3:⟨a3⟩ 4:⟨a3,c⟩"),
    "T8_3": (
        "SELECT CASE WHEN e = 'b' THEN 'x' ELSE e END AS e FROM S1",
        "1:⟨c⟩ 2:⟨a3⟩ 3:⟨a3,x⟩ 4:⟨a3,x,c⟩ 5:⟨x2⟩ 6:⟨x2⟩",
    ),
    "T8_4": (
        "SELECT e FROM S1 UNION ALL SELECT e FROM S2",
        "1:⟨c⟩ 2:⟨a3,b2⟩ 3:⟨a3,b3⟩ 4:⟨a4,b2,c2⟩ 5:⟨a2,b3⟩ 6:⟨a,b2,c2⟩",
    ),
    "T8_5": (
        "SELECT A.e || B.e AS e FROM S1 A, S2 B",
        "2:⟨ab6⟩ 3:⟨ab6,bb2⟩ 4:⟨aa3,ab3,ac3,ba,bb,bc,ca,cb,cc⟩ 5:⟨ba4,bb2⟩ 6:⟨ba2,bc4⟩",
    ),
    "T8_6": ("SELECT DISTINCT e FROM S1", "1:⟨c⟩ 2:⟨a⟩ 3:⟨a,b⟩ 4:⟨a,b,c⟩ 5:⟨b⟩ 6:⟨b⟩"),
    "T8_7": ("SELECT e FROM S1 EXCEPT ALL SELECT e FROM S2", "1:⟨c⟩ 2:⟨a3⟩ 3:⟨a3⟩ 4:⟨a2⟩ 5:⟨b⟩ 6:⟨b2⟩"),
    "T8_8_group_1": ("SELECT e FROM S1 WHERE e = 'a'", "2-4:⟨a3⟩"),
    "T8_8_group_2": ("SELECT e FROM S1 WHERE e = 'b'", "3:⟨b⟩ 4:⟨b⟩ 5:⟨b2⟩ 6:⟨b2⟩"),
    "T8_8_group_3": ("SELECT e FROM S1 WHERE e NOT IN ('a', 'b')", "1:⟨c⟩ 4:⟨c⟩"),
    "T8_8_sizes": (
        "SELECT CASE e WHEN 'a' THEN 'p' WHEN 'b' THEN 'q' ELSE 'r' END || repeat('i', CAST(COUNT(*) AS INT)) AS e"
        " FROM S1 GROUP BY CASE e WHEN 'a' THEN 'p' WHEN 'b' THEN 'q' ELSE 'r' END",
        "1:⟨ri⟩ 2:⟨piii⟩ 3:⟨piii,qi⟩ 4:⟨piii,qi,ri⟩ 5:⟨qii⟩ 6:⟨qii⟩",
    ),
    # the symbolic SUM of the thesis; PIPES has no row for an empty snapshot
    "T8_9": (
        "SELECT string_agg(e, '+' ORDER BY e) AS e FROM S1 HAVING COUNT(*) > 0",
        "1:⟨c⟩ 2:⟨a+a+a⟩ 3:⟨a+a+a+b⟩ 4:⟨a+a+a+b+c⟩ 5:⟨b+b⟩ 6:⟨b+b⟩",
    ),
    "derived_intersection": ("SELECT e FROM S1 INTERSECT ALL SELECT e FROM S2", "3:⟨b⟩ 4:⟨a,b,c⟩ 5:⟨b⟩"),
    "derived_max_union": (
        "SELECT e FROM ((SELECT e FROM S1 EXCEPT ALL SELECT e FROM S2) UNION ALL"
        " (SELECT e FROM S2 EXCEPT ALL SELECT e FROM S1) UNION ALL"
        " (SELECT e FROM S1 INTERSECT ALL SELECT e FROM S2)) x",
        "1:⟨c⟩ 2:⟨a3,b2⟩ 3:⟨a3,b2⟩ 4:⟨a3,b,c⟩ 5:⟨a2,b2⟩ 6:⟨a,b2,c2⟩",
    ),
    "derived_semi_join": ("SELECT e FROM S1 WHERE e IN (SELECT e FROM S2)", "3:⟨b⟩ 4:⟨a3,b,c⟩ 5:⟨b2⟩"),
    "derived_anti_join": (
        "SELECT e FROM S1 WHERE NOT EXISTS (SELECT * FROM S2 WHERE S2.e = S1.e)",
        "1:⟨c⟩ 2:⟨a3⟩ 3:⟨a3⟩ 6:⟨b2⟩",
    ),
    # defect D-5: each tuple of S1 once, whatever the number of different tuples of S2 that match (θ is an inequality)
    "derived_semi_join_of_inequality": (
        "SELECT e FROM S1 WHERE EXISTS (SELECT * FROM S2 WHERE S2.e >= S1.e)",
        "2:⟨a3⟩ 3:⟨a3,b⟩ 4:⟨a3,b,c⟩ 5:⟨b2⟩ 6:⟨b2⟩",
    ),
}
#: The groups {a, c} and {b} of table 8.13.
GROUPED = "(SELECT e, CASE WHEN e = 'b' THEN 2 ELSE 1 END AS g FROM L3)"
WINDOWS = {
    "T8_10": (
        "SELECT e FROM L1 WINDOW(RANGE 2)",
        "1:⟨c⟩ 2:⟨a3,c⟩ 3:⟨a6,b⟩ 4:⟨a6,b2,c⟩ 5:⟨a3,b3,c⟩ 6:⟨b4⟩ 7:⟨b2⟩",
    ),
    "T8_12": ("SELECT e FROM L3 WINDOW(ROWS 3)", "1:⟨c⟩ 2:⟨a,c⟩ 3:⟨a,b,c⟩ 4:⟨a,b2⟩ 5:⟨a,b2⟩ 6..∞:⟨a,b,c⟩"),
    "T8_13": (
        f"SELECT e FROM {GROUPED} WINDOW(PARTITION BY g ROWS 1)",
        "1:⟨c⟩ 2:⟨a⟩ 3:⟨a,b⟩ 4:⟨a,b⟩ 5:⟨a,b⟩ 6..∞:⟨b,c⟩",
    ),
    # windows over derived streams: a tuple enters the window at every instant at which it is valid
    "T8_10_of_a_derived_stream": (
        "SELECT e FROM S1 WINDOW(RANGE 2)",
        "1:⟨c⟩ 2:⟨a3,c⟩ 3:⟨a6,b⟩ 4:⟨a6,b2,c⟩ 5:⟨a3,b3,c⟩ 6:⟨b4⟩ 7:⟨b2⟩",
    ),
    "T8_12_of_a_derived_stream": (
        "SELECT e FROM S3 WINDOW(ROWS 3)",
        "1:⟨c⟩ 2:⟨a,c⟩ 3:⟨a,b,c⟩ 4:⟨a,b2⟩ 5:⟨a,b2⟩ 6..∞:⟨a,b,c⟩",
    ),
}
CHRONONS = {
    "T11_11": ("SELECT e FROM C3 WINDOW(RANGE 50)", "b[1,51) a[3,53) c[4,54) a[7,57) b[10,60)"),
    "T11_12": ("SELECT e FROM C3 WINDOW(ROWS 1)", "b[1,3) a[3,4) c[4,7) a[7,10) b[10,∞)"),
    "derived_N_2": ("SELECT e FROM C3 WINDOW(ROWS 2)", "b[1,4) a[3,7) c[4,10) a[7,∞) b[10,∞)"),
    "derived_N_3": ("SELECT e FROM C3 WINDOW(ROWS 3)", "b[1,7) a[3,10) c[4,∞) a[7,∞) b[10,∞)"),
    "T11_13": ("SELECT e FROM C3 WINDOW(PARTITION BY e ROWS 1)", "b[1,10) a[3,7) c[4,∞) a[7,∞) b[10,∞)"),
    "T17_1": ("SELECT e FROM C3 WINDOW(RANGE 50 SLIDE 10)", "b[9,59) a[9,59) c[9,59) a[9,59) b[19,69)"),
    "T17_2": ("SELECT e FROM C3 WINDOW(ROWS 2 SLIDE 2)", "b[3,7) a[3,7) c[7,∞) a[7,∞)"),
}


@cache
def pipes(cut: tuple[int, int | None]) -> LocalSession:
    queries = {name: query for table in (STANDARD, WINDOWS, CHRONONS) for name, (query, _) in table.items()}
    return session_of(cut, LOGICAL, DERIVED | queries)


@pytest.mark.parametrize("cut", FEW_CUTS, ids=str)
@pytest.mark.parametrize("name", STANDARD | WINDOWS)
def test_logical_table(cut: tuple[int, int | None], name: str) -> None:
    expected = (STANDARD | WINDOWS)[name][1]
    assert relations(pipes(cut), name, UNTIL) == snapshots(expected, UNTIL)


@pytest.mark.parametrize("cut", FEW_CUTS, ids=str)
@pytest.mark.parametrize("name", CHRONONS)
def test_table_of_windows_over_chronons(cut: tuple[int, int | None], name: str) -> None:
    assert relations(pipes(cut), name, 80) == intervals(CHRONONS[name][1], 80)


@pytest.mark.parametrize("cut", FEW_CUTS, ids=str)
def test_d_4_ties_leave_no_empty_interval(cut: tuple[int, int | None]) -> None:
    session = session_of(
        cut, {"L": "1:⟨b⟩ 10:⟨a,b⟩"}, {"W": "SELECT e FROM L WINDOW(PARTITION BY e ROWS 1)"}
    )  # fmt: skip
    assert relations(session, "W", UNTIL) == intervals("b[1,10) a[10,∞) b[10,∞)", UNTIL)


def test_sql_has_a_row_for_an_empty_snapshot_and_pipes_has_none() -> None:
    """Scalar aggregates follow SQL here, not PIPES; with HAVING COUNT(*) > 0 they have the rows of PIPES."""
    session = session_of((1, None), {"L": "2:⟨a3⟩"}, {"N": "SELECT COUNT(*) AS n FROM L WINDOW(RANGE 1)"})
    assert relations(session, "N", 4) == "0: 0\n1: 0\n2: 3\n3: 0"
