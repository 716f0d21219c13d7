"""Rewrite rules of the PIPES thesis (section 10.2): both sides are equal at every instant; other pairs differ."""

from __future__ import annotations

from functools import cache

import pytest

from dsms.testing import LocalSession
from tests.papers.pipes_streams import LOGICAL, session_of
from tests.papers.tables import FEW_CUTS, relations, snapshots

UNTIL = 12
NOW = {f"S{n}": f"SELECT e FROM L{n} WINDOW(RANGE 1)" for n in (1, 2, 3)}
F = "CASE WHEN e = 'b' THEN 'a' ELSE e END AS e"
RULES = {
    "10_4": (
        "SELECT x.e || S3.e AS e FROM (SELECT S1.e || S2.e AS e FROM S1, S2) x, S3",
        "SELECT S1.e || x.e AS e FROM S1, (SELECT S2.e || S3.e AS e FROM S2, S3) x",
    ),
    "10_5": (
        "SELECT e FROM (SELECT e FROM S1 UNION ALL SELECT e FROM S2) x WHERE e <> 'a'",
        "SELECT e FROM S1 WHERE e <> 'a' UNION ALL SELECT e FROM S2 WHERE e <> 'a'",
    ),
    "10_6": (
        "SELECT DISTINCT S1.e AS e, S2.e AS f FROM S1, S2",
        "SELECT x.e, y.e AS f FROM (SELECT DISTINCT e FROM S1) x, (SELECT DISTINCT e FROM S2) y",
    ),
    "10_7": ("SELECT e FROM S1 WINDOW(RANGE 1)", "SELECT e FROM S1"),
    "10_8": (
        "SELECT e FROM L1 WINDOW(RANGE 3) WHERE e <> 'a'",
        "SELECT e FROM (SELECT e FROM L1 WHERE e <> 'a') WINDOW(RANGE 3)",
    ),
    "10_9": (f"SELECT {F} FROM L1 WINDOW(RANGE 3)", f"SELECT e FROM (SELECT {F} FROM L1) WINDOW(RANGE 3)"),
    "10_10": (
        "SELECT e FROM L1 WINDOW(RANGE 3) UNION ALL SELECT e FROM L2 WINDOW(RANGE 3)",
        "SELECT e FROM (SELECT e FROM L1 UNION ALL SELECT e FROM L2) WINDOW(RANGE 3)",
    ),
    "10_11": (f"SELECT {F} FROM L3 WINDOW(ROWS 2)", f"SELECT e FROM (SELECT {F} FROM L3) WINDOW(ROWS 2)"),
    # f keeps the partition column
    "10_12": (
        f"SELECT {F} FROM L3 WINDOW(PARTITION BY e ROWS 2)",
        f"SELECT e FROM (SELECT e AS g, {F} FROM L3) WINDOW(PARTITION BY g ROWS 2)",
    ),
    # section 8.2.3: a partitioned time window is a time window
    "8_2_3": ("SELECT e FROM L1 WINDOW(PARTITION BY e RANGE 3)", "SELECT e FROM L1 WINDOW(RANGE 3)"),
}
SIDES = {f"rule_{name}_{side}": query for name, pair in RULES.items() for side, query in zip("lr", pair, strict=True)}


@cache
def pipes(cut: tuple[int, int | None]) -> LocalSession:
    return session_of(cut, {name: LOGICAL[name] for name in ("L1", "L2", "L3")}, NOW | SIDES)


@pytest.mark.parametrize("cut", FEW_CUTS, ids=str)
@pytest.mark.parametrize("name", RULES)
def test_both_sides_are_equal(cut: tuple[int, int | None], name: str) -> None:
    left, right = (relations(pipes(cut), f"rule_{name}_{side}", UNTIL) for side in "lr")
    assert left == right
    assert left


#: Two queries that a wrong rule would take as equal, each with its result, and the streams.
NO_RULES = {
    "distinct and a time window": (
        ("SELECT DISTINCT e FROM L WINDOW(RANGE 2)", "1-3:⟨a⟩"),
        ("SELECT e FROM (SELECT DISTINCT e FROM L WINDOW(RANGE 1)) WINDOW(RANGE 2)", "1:⟨a⟩ 2:⟨a2⟩ 3:⟨a⟩"),
        {"L": "1:⟨a⟩ 2:⟨a⟩"},
    ),
    "filter and a count window": (
        ("SELECT e FROM L WINDOW(ROWS 1) WHERE e = 'a'", "1:⟨a⟩"),
        ("SELECT e FROM (SELECT e FROM L WHERE e = 'a') WINDOW(ROWS 1)", "1..∞:⟨a⟩"),
        {"L": "1:⟨a⟩ 2:⟨b⟩"},
    ),
    "union and a count window": (
        ("SELECT e FROM L WINDOW(ROWS 1) UNION ALL SELECT e FROM M WINDOW(ROWS 1)", "1:⟨a⟩ 2..∞:⟨a,b⟩"),
        ("SELECT e FROM (SELECT e FROM L UNION ALL SELECT e FROM M) WINDOW(ROWS 1)", "1:⟨a⟩ 2..∞:⟨b⟩"),
        {"L": "1:⟨a⟩", "M": "2:⟨b⟩"},
    ),
    "projection and a partitioned window that loses its groups": (
        (f"SELECT {F} FROM L WINDOW(PARTITION BY e ROWS 1)", "1:⟨a⟩ 2..∞:⟨a2⟩"),
        (f"SELECT e FROM (SELECT {F} FROM L) WINDOW(PARTITION BY e ROWS 1)", "1:⟨a⟩ 2..∞:⟨a⟩"),
        {"L": "1:⟨a⟩ 2:⟨b⟩"},
    ),
}


@pytest.mark.parametrize("cut", FEW_CUTS, ids=str)
@pytest.mark.parametrize("name", NO_RULES)
def test_plans_without_an_equivalence_differ(cut: tuple[int, int | None], name: str) -> None:
    left, right, streams = NO_RULES[name]
    session = session_of(cut, streams, {"A": left[0], "B": right[0]})
    assert relations(session, "A", UNTIL) == snapshots(left[1], UNTIL)
    assert relations(session, "B", UNTIL) == snapshots(right[1], UNTIL)
