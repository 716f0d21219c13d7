"""Synchronised relations, synchronisation streams, and the current instant as a view (SyncSQL section 3)."""

from __future__ import annotations

import pytest

from dsms.model import logical
from dsms.model.properties import sources
from dsms.model.schema import schema
from dsms.sql.binder.bind import plan_of
from operators.core.errors import SqlError
from operators.expressions import to_sql
from operators.sync.sync_points import Periodic
from tests.support.fake_environment import apply_all
from tests.support.plan_parts import base, item, made, plan, register, stream

S = stream()


@pytest.mark.parametrize(
    ("select", "period", "residues"),
    [
        ("SELECT Timepoint FROM R(clockStr)", 1, (0,)),
        ("SELECT * FROM clockStr WHERE Timepoint % 3 = 1", 3, (1,)),
        ("SELECT C.Timepoint FROM ℜ(clockStr) C WHERE C.Timepoint mod 2 = 0", 2, (0,)),
        ("SELECT Timepoint FROM R(clockStr) WHERE 0 = mod(Timepoint, 4)", 4, (0,)),
        ("SELECT Timepoint FROM R(clockStr) WHERE mod(Timepoint, 2) = 0 AND mod(Timepoint, 5) = 0", 10, (0,)),
        ("SELECT Timepoint FROM R(clockStr) WHERE Timepoint mod 4 = 0 OR Timepoint mod 6 = 3", 12, (0, 3, 4, 8, 9)),
        (
            "SELECT Timepoint FROM R(clockStr) WHERE Timepoint mod 4 IN (1, 2) AND NOT Timepoint mod 6 = 1",
            12,
            (2, 5, 6, 9, 10),
        ),
        ("SELECT Timepoint FROM R(clockStr) WHERE Timepoint mod 5 BETWEEN 1 AND 2", 5, (1, 2)),
        ("SELECT Timepoint FROM R(clockStr) WHERE Timepoint mod 5 < 7", 1, (0,)),
        ("SELECT Timepoint FROM R(clockStr) WHERE Timepoint mod 86400000 = 0", 86_400_000, (0,)),
        ("SELECT DISTINCT(Timepoint) FROM ℜ(Sync2) S₂ ∪ ℜ(Sync5) S₅", 10, (0, 2, 4, 5, 6, 8)),
        ("SELECT DISTINCT Timepoint FROM R(Sync2) A UNION R(Sync5) B", 10, (0, 2, 4, 5, 6, 8)),
        ("SELECT Timepoint FROM R(Sync2) UNION SELECT Timepoint FROM R(Sync5)", 10, (0, 2, 4, 5, 6, 8)),
        ("SELECT Timepoint FROM ℜ(Sync2) ∩ ℜ(Sync5)", 10, (0,)),
        ("SELECT Timepoint FROM Sync2 INTERSECT SELECT Timepoint FROM Sync5", 10, (0,)),
        ("SELECT Timepoint FROM ℜ(Sync5) − ℜ(Sync2)", 10, (5,)),
        ("SELECT Timepoint FROM ℜ(Sync2) − ℜ(Sync2) ∩ ℜ(Sync5)", 10, (2, 4, 6, 8)),
        ("SELECT Timepoint FROM R(clockStr) - R(Sync2) - R(Sync5)", 10, (1, 3, 7, 9)),
        ("SELECT Timepoint FROM R(clockStr) - (SELECT Timepoint FROM R(Sync2) ∪ R(Sync5)) x", 10, (1, 3, 7, 9)),
        ("SELECT Timepoint FROM clockStr EXCEPT SELECT Timepoint FROM Sync2", 2, (1,)),
        ("SELECT Timepoint FROM R(Sync2) WHERE mod(Timepoint, 3) = 0", 6, (0,)),
        ("SELECT Timepoint FROM (SELECT Timepoint FROM R(Sync2)) x", 2, (0,)),
    ],
)
def test_periodic_streams(select: str, period: int, residues: tuple[int, ...]) -> None:
    view = made(f"CREATE STREAMED VIEW V AS {select}")
    assert view.periodic == (period, residues)
    catalog, _ = register(f"CREATE STREAMED VIEW V AS {select}")
    above, (result,) = apply_all("SELECT STREAMED id FROM R[V](S)", catalog)
    query = plan_of(result.name or "", above)
    points = Periodic(period, residues)
    assert isinstance(query, logical.Project)
    assert query.input == (S if period == 1 else logical.Sync(S, points))


def test_a_view_over_the_clock_is_described_and_dropped_like_others() -> None:
    catalog, result = register("CREATE STREAMED VIEW V AS SELECT Timepoint FROM R(Sync2) WHERE mod(Timepoint, 3) = 0")
    assert result.message == 'view "V" created over clockStr; its points are computed without running a query'
    assert result.notices == ("points: t mod 6 in {0}",)
    (described,) = apply_all("DESCRIBE V", catalog)[1]
    assert described.rows == (("Timepoint", "BIGINT", False, True, None),)
    (now,) = apply_all("DESCRIBE NowView", catalog)[1]
    assert now.rows == (("KEY", "INTEGER", False, True, None), ("currTime", "BIGINT", False, False, None))
    with pytest.raises(SqlError, match='view "Sync2" is used by TwoUnits, V; drop these first'):
        apply_all("DROP VIEW Sync2", catalog)
    above, _ = apply_all("CREATE STREAMED VIEW W AS SELECT id FROM R[V](S)", catalog)
    with pytest.raises(SqlError, match='view "V" is used by W'):
        apply_all("DROP VIEW V", above)


@pytest.mark.parametrize("text", ["R[Sync2](S) R", "ℜ[Sync₂](S) R", "R_Sync2(S) R", "ℜ_Sync₂(S) AS R", "r[sync2](s)"])
def test_spellings_of_a_synchronised_relation(text: str) -> None:
    assert item(text) == logical.Sync(S, Periodic(2))


def test_points_of_events_are_the_plan_of_their_stream() -> None:
    assert item("R[HotSync](D)") == logical.Sync(stream("D"), plan_of("HotSync", base()))
    assert item("R[S2](S)") == logical.Sync(S, stream("S2"))


def test_a_synchronised_relation_has_the_timestamps_of_arrival() -> None:
    bound_plan = plan("SELECT STREAMED id, TS FROM R[Sync2](S)")
    assert schema(bound_plan).names == ["id", "TS"]
    assert sources(bound_plan) == sources(S)


def test_two_points_in_one_query() -> None:
    """SyncSQL example 16."""
    bound_plan = plan("SELECT STREAMED X.id FROM R[Sync2](S) X, R[Sync5](S2) Y WHERE X.id = Y.id")
    assert isinstance(bound_plan, logical.Project)
    join = bound_plan.input
    assert isinstance(join, logical.Join)
    assert join.left == logical.Sync(S, Periodic(2))


def now_ranges(sql: str) -> list[tuple[str | None, ...]]:
    bound_plan = plan(sql)
    assert isinstance(bound_plan, logical.Project)
    assert isinstance(bound_plan.input, logical.NowFilter)
    bounds = [(now_range.lower, now_range.upper, now_range.condition) for now_range in bound_plan.input.ranges]
    return [tuple(None if part is None else to_sql(part) for part in parts) for parts in bounds]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT STREAMED * FROM ℜ(S) R WHERE Now - 5 < R.TS ≤ Now",
        "SELECT STREAMED R.* FROM ℜ(S) R, ℜ(NowView) N WHERE N.currTime -5 < R.TS ≤ N.currTime",
        "SELECT STREAMED R.* FROM ℜ(NowView) N, ℜ(S) R WHERE N.currTime -5 < R.TS ≤ N.currTime AND N.KEY = 1",
        "SELECT STREAMED R.* FROM ℜ(S) R JOIN NowView N ON N.currTime -5 < R.TS AND R.TS <= currTime",
        "SELECT STREAMED R.* FROM ℜ(NowView) N JOIN ℜ(S) R ON N.currTime -5 < R.TS AND R.TS <= currTime",
    ],
)
def test_the_current_instant_as_a_view_is_now(sql: str) -> None:
    (only,) = now_ranges(sql)
    assert only[:2] == ("TS", "TS + 5")


def test_a_slide_is_a_current_instant_that_moves_at_points() -> None:
    """SyncSQL example 14: each bound moves to its next even instant."""
    sql = "SELECT STREAMED R.* FROM ℜ_Sync2(S) R, ℜ(TwoUnits) N WHERE N.currTime - 5 < R.TS ≤ N.currTime"
    assert now_ranges(sql) == [("TS + ((0 - TS) % 2 + 2) % 2", "TS + 5 + ((0 - (TS + 5)) % 2 + 2) % 2", None)]


def test_predicates_over_now_and_over_one_side_of_a_join() -> None:
    bound_plan = plan(
        "SELECT STREAMED x.id FROM S x, S2 y WHERE x.id = y.id AND x.TS > Now - 5 AND (y.c < Now OR x.c > Now)"
    )
    assert isinstance(bound_plan, logical.Project)
    over_both = bound_plan.input
    assert isinstance(over_both, logical.NowFilter)
    assert len(over_both.ranges) == 2
    assert isinstance(over_both.input, logical.Join)
    assert isinstance(over_both.input.left, logical.NowFilter)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT STREAMED Timepoint FROM R(clockStr)", 'line 1, column 17: a query over "clockStr" alone would list'),
        ("CREATE QUERY Q AS SELECT Timepoint FROM Sync2", 'a query over "Sync2" alone would list every point'),
        (
            "SELECT STREAMED S.id FROM S, R(Sync2) x WHERE x.Timepoint = S.TS",
            'line 1, column 30: "Sync2" is a stream over clockStr',
        ),
        ("SELECT STREAMED id FROM S WHERE TS IN (SELECT Timepoint FROM clockStr)", '"clockStr" is the clock'),
        (
            "CREATE VIEW V AS SELECT Timepoint FROM R(clockStr) WHERE Timepoint > 5",
            "line 1, column 58: the points of a clock must be periodic",
        ),
        (
            "CREATE VIEW V AS SELECT Timepoint FROM R(clockStr) WHERE Timepoint mod 2 = 0 AND Timepoint mod 4 = 1",
            "line 1, column 58: the synchronisation stream has no points",
        ),
        ("CREATE VIEW V AS SELECT Timepoint FROM R(clockStr) WHERE mod(Timepoint, 2) = 2", "has no points"),
        ("CREATE VIEW V AS SELECT Timepoint FROM R(clockStr) WHERE mod(Timepoint, 99999999) < 3", "at most 1000000"),
        ("CREATE VIEW V AS SELECT Timepoint FROM R(clockStr) WHERE mod(x, 2) = 0", 'column "x" not found'),
        ("CREATE VIEW V AS SELECT Timepoint + 1 FROM R(clockStr)", "a stream over the clock has only one column"),
        ("CREATE VIEW V AS SELECT Timepoint FROM R(clockStr) GROUP BY Timepoint", "not supported in a stream over the"),
        ("CREATE VIEW V AS SELECT Timepoint FROM Sync2 EXCEPT SELECT Timepoint FROM clockStr", "has no points"),
        ("CREATE VIEW V AS SELECT currTime FROM NowView", "a stream over the clock has only one column"),
        ("SELECT STREAMED * FROM R[NowView](S)", '"NowView" is the current instant'),
        ("SELECT STREAMED * FROM R[Sync2, Sync5](S)", "line 1, column 33: a relation can have only one"),
        ("SELECT STREAMED * FROM R[Nope](S)", 'line 1, column 26: "Nope" not found'),
        ("SELECT STREAMED * FROM R[Raw](S)", '"Raw" is a source, not a stream'),
        ("SELECT STREAMED * FROM R[Sync2](Nope)", '"Nope" not found'),
        ("SELECT STREAMED * FROM S, NowView N WHERE S.TS > N.currTime - 5", "\\* would include the current instant"),
        ("SELECT STREAMED S.id FROM S LEFT JOIN NowView N ON S.TS > N.currTime", "a comma or an inner join"),
        ("SELECT STREAMED Now FROM S", "line 1, column 17: Now is not supported here; use Now in WHERE"),
        ("SELECT STREAMED a FROM S GROUP BY Now", "Now is not supported here"),
        ("SELECT STREAMED a, COUNT(*) AS n FROM S GROUP BY a HAVING MAX(c) > Now", "Now is not supported here"),
        ("SELECT STREAMED S.id FROM S LEFT JOIN D ON S.id = D.id AND S.TS > Now", "Now in ON of an outer join is not"),
        ("SELECT STREAMED id FROM S WHERE Now * Now > 3", '"Now \\* Now" is not linear in Now'),
    ],
)
def test_refusals(sql: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        register(sql)
