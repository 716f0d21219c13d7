"""Families change no record: queries that differ in constants run as one plan, with the same results as alone."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dsms.planner.physical.fragment_plan import compile_lane, plan_fragment
from dsms.registration import queries
from dsms.testing import LocalSession
from tests.support.fake_environment import FakeEnvironment, apply_all
from tests.support.query_histories import SOURCES, Push, histories, play
from tests.support.strategies import examples

SHAPES = {
    "where": "SELECT k, n FROM A WHERE n = {c}",
    "keyed": "SELECT k, v FROM S WHERE v > {c}",
    "computed": "SELECT k, n FROM A WHERE n > 2 * {c} - 1",
    "between": "SELECT k, n FROM A WHERE n BETWEEN {c} AND 2 AND k > 'a'",
    "sums": "SELECT k, COUNT(*) AS n, SUM(n) AS s FROM A WHERE n >= {c} GROUP BY k",
    "having": "SELECT k, COUNT(*) AS n FROM A GROUP BY k HAVING COUNT(*) > {c}",
    "both": "SELECT k, COUNT(*) AS n FROM A WHERE n > {c} GROUP BY k HAVING COUNT(*) > {c}",
    "window": "SELECT k, MAX(n) AS m FROM A [RANGE 3] WHERE n < {c} GROUP BY k",
    "rows": "SELECT k, n FROM (SELECT k, n FROM A WHERE n > {c}) AS f [ROWS 2]",
    "distinct": "SELECT DISTINCT k FROM A WHERE n <= {c}",
    "left side": "SELECT S.k, v, n FROM S JOIN A ON S.k = A.k WHERE v > {c}",
    "right side": "SELECT S.k, v, n FROM S JOIN A ON S.k = A.k WHERE n = {c}",
    "both sides": "SELECT S.k, v, n FROM S JOIN A ON S.k = A.k WHERE v > {c} AND n < {c}",
    "outer": "SELECT f.k, f.n, S.v FROM (SELECT k, n FROM A WHERE n > {c}) AS f LEFT JOIN S ON f.k = S.k",
    "outer both": "SELECT f.k, n, v FROM (SELECT k, n FROM A WHERE n > {c}) f "
    "LEFT JOIN (SELECT k, v FROM S WHERE v > {c}) g ON f.k = g.k",
    "in": "SELECT k, n FROM A WHERE n > {c} AND k IN (SELECT k FROM S WHERE v > {c})",
    "not exists": "SELECT k, n FROM A WHERE n > {c} AND NOT EXISTS (SELECT 1 FROM S WHERE S.k = A.k)",
    "union": "SELECT k FROM A WHERE n > {c} UNION ALL SELECT k FROM S WHERE v > {c}",
    "except": "SELECT k FROM A WHERE n > {c} EXCEPT SELECT k FROM S WHERE v > {c}",
    "top": "SELECT k, n FROM A WHERE n > {c} ORDER BY n DESC, k LIMIT 2",
    "over": "SELECT k, n, COUNT(*) OVER (PARTITION BY k ORDER BY TS) AS c FROM A WHERE n > {c}",
    "session": "SELECT k, window_start, COUNT(*) AS n FROM TABLE(SESSION(TABLE A, DESCRIPTOR(TS), 2)) "
    "WHERE n > {c} GROUP BY k, window_start, window_end",
    "istream": "SELECT Istream(k, n) FROM A [RANGE 2] WHERE n > {c}",
    "synchronised": "SELECT k, COUNT(*) AS n FROM R[Sync4](A) WHERE n > {c} GROUP BY k",
    "faulty": "SELECT k, 6 / n AS q FROM A WHERE n >= {c}",
    "restamped": "SELECT k, TS AS since FROM R(Seen) WHERE k > '{c}'",
    "twice": "SELECT x.k, y.n FROM (SELECT k, n FROM A WHERE n > {c}) x "
    "JOIN (SELECT k, n FROM A WHERE n > {c}) y ON x.k = y.k",
    "as of": "SELECT f.k, f.n, S.v FROM (SELECT k, n, TS AS t FROM A WHERE n > {c}) f "
    "ASOF LEFT JOIN (SELECT k, v, TS AS t FROM S) S ON f.k = S.k AND f.t >= S.t",
}
SETTING = f"{SOURCES} CREATE STREAMED VIEW Seen AS SELECT k, v FROM S;"


def tried(session: LocalSession, shape: str, steps, only: str | None = None) -> dict[str, list]:
    """The published records of the query with each constant."""
    kind = "" if "Istream" in SHAPES[shape] else "STREAMED "

    def statement(constant: int, name: str) -> str:
        return f"CREATE {kind}VIEW {name} AS {SHAPES[shape].format(c=constant)}"

    session.execute(SETTING)
    return play(session, steps, statement, only)


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=examples(8))
@example([Push("E", "a", 0, 0), ("create", 0)], 1, None)
@example([("create", 2), Push("T", "a", None, 0), Push("E", "a", 3, 0), ("create", 0)], 1, None)
@given(histories(range(4)), st.integers(1, 2), st.sampled_from([None, 1, 3]))
def test_each_member_gives_the_same_results_as_alone(shape: str, steps, partitions: int, batch: int | None) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queries, "MAX_SEPARATE", 0)
        together = tried(LocalSession(partitions, batch), shape, steps)
    for query, records in together.items():
        alone = tried(LocalSession(sharing=False), shape, steps, only=query)
        assert records == alone[query], query


def planned(*selects: str):
    sql = SETTING + "".join(f"CREATE QUERY q{at} AS SELECT STREAMED {select};" for at, select in enumerate(selects))
    catalog, results = apply_all(sql, environment=FakeEnvironment({"t": {0: 0}, "e": {0: 0}}))
    plan = plan_fragment(catalog, 1)
    return compile_lane("lane", [query for query in plan.queries.values() if query.name.startswith("q")]), results


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if "Istream" not in SHAPES[shape]])
def test_from_the_third_query_of_a_shape_on_one_plan_runs_all(shape: str) -> None:
    def operators(count: int) -> int:
        return len(
            planned(*(SHAPES[shape].format(c=at).removeprefix("SELECT ") for at in range(count)))[0].flow.vertices
        )

    assert operators(3) < operators(2) + 1.6 * operators(1)
    assert operators(9) == operators(3)


def test_a_notice_says_which_family_a_query_joins() -> None:
    _, results = planned(*(f"k FROM A WHERE n = {at}" for at in range(5)))
    notices = [[notice for notice in result.notices if notice.startswith("shares one plan")] for result in results[-5:]]
    assert notices == [
        [],
        [],
        [],
        ["shares one plan with 1 query that differs only in constants"],
        ["shares one plan with 2 queries that differ only in constants"],
    ]


def test_query_equal_to_a_running_one_shares_its_vertex() -> None:
    lane, _ = planned(*(f"k FROM A WHERE n = {at}" for at in (1, 2, 1, 3)))
    assert [output.member is None for output in lane.outputs] == [True, True, True, False]
    assert lane.outputs[0].vertex == lane.outputs[2].vertex


@pytest.mark.parametrize(
    "select",
    [
        "COUNT(*) AS n FROM A WHERE n > {}",  # has a row even for members that no input row belongs to
        "k, 6 / n AS q FROM A WHERE 6 / n > {}",  # a row in fault is reported by the queries that read it
        "k FROM A WHERE n > 1 AND k LIKE '{}%'",
        "f.k FROM S f RIGHT JOIN (SELECT k FROM A) g ON f.k = g.k AND f.v > {}",
    ],
)
def test_queries_that_cannot_distinguish_members_run_alone(select: str) -> None:
    lane, _ = planned(*(select.format(at) for at in range(4)))
    assert all(output.member is None for output in lane.outputs)


def test_a_query_that_is_not_shared_runs_by_itself() -> None:
    session = LocalSession()
    session.execute(SOURCES)
    for at in range(4):
        session.execute(f"CREATE QUERY q{at} WITH (shared = false) AS SELECT STREAMED k FROM A WHERE n = {at}")
        session.execute(f"CREATE QUERY s{at} AS SELECT STREAMED k FROM A WHERE n = {at}")
    session.push("E", [{"k": "a", "n": at, "ts": at} for at in range(4)])
    session.advance(9)
    assert sorted(len(lane.outputs) for lane in session.runtime.revision.lanes.values()) == [1, 1, 1, 1, 6]
    assert all(session.changes(f"q{at}") == session.changes(f"s{at}") != [] for at in range(4))


def test_explain_shows_the_plan_of_a_family_and_its_members() -> None:
    session = LocalSession()
    session.execute(SOURCES)
    for at in range(5):
        session.execute(f"CREATE QUERY q{at} AS SELECT STREAMED k FROM A WHERE n = {at}")
    lines = session.explain("q3").splitlines()
    assert "  Filter n = 3  [key: none]" in lines
    assert "  Members n = __constant0  [key: none]" in lines
    assert "shared with q2, q4: Members → Project → StreamOutput" in lines
    assert "Members" not in session.explain("q0")
