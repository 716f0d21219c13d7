"""A query that is computed from a query that contains it gives the same results as alone (SyncSQL, section 5, examples
17 to 19)."""

from __future__ import annotations

from collections import Counter
from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsms.planner.physical.explain import tree
from dsms.planner.physical.fragment_plan import compile_lane, plan_fragment
from dsms.testing import LocalSession
from tests.support.fake_environment import FakeEnvironment, apply_all
from tests.support.query_histories import SOURCES, histories, play
from tests.support.strategies import examples

SETTING = f"{SOURCES} CREATE STREAMED VIEW Late AS SELECT k FROM S WHERE v > 2;"
JOIN = "SELECT S.k, v, n, i FROM S JOIN A ON S.k = A.k"
ENTERING = JOIN.replace("S.k, v, n, i", "Istream(S.k, v, n, i)")
GROUPS = (
    "SELECT k, n, COUNT(*) AS c, COUNT(i) AS d, MIN(i) AS l, MAX(i) AS h, SUM(i) AS s, AVG(i) AS a FROM A GROUP BY k, n"
)
RANKED = "SELECT k, n, i, RANK() OVER (PARTITION BY k ORDER BY n) AS r FROM A"
KEYED = "SELECT k, v FROM S WHERE k IN (SELECT k FROM A)"
OVER = "SELECT k, n, i, SUM(n) OVER (PARTITION BY k ORDER BY TS) AS s, COUNT(*) OVER (PARTITION BY k) AS c FROM A"
SESSIONS = "TABLE(SESSION(TABLE A PARTITION BY k, DESCRIPTOR(n), 1))"
TUMBLED = "TABLE(TUMBLE(TABLE A, DESCRIPTOR(n), 2))"
LATEST = "A ASOF LEFT JOIN S ON A.k = S.k AND A.n >= S.v"
#: A running query, and a query that is computed from it.
MATCHED = {
    "example 17": ("SELECT k, v FROM R[Sync2](S)", "SELECT k, v FROM R[Sync4](S)"),
    "example 18": (
        "SELECT S.k, v FROM R[Sync2](S) S, R[Sync2](A) A WHERE S.k = A.k AND n > 0",
        "SELECT S.k FROM R[Sync4](S) S, R[Sync4](A) A WHERE A.k = S.k AND n > 1 AND v = 2",
    ),
    "example 19": ("SELECT k, v FROM R[Sync2](S) WHERE v > 0", "SELECT k, v FROM R[Sync4](S) WHERE v > 1"),
    "a part is synchronised": ("SELECT k, v FROM R[Sync2](S)", "SELECT k, COUNT(*) AS c FROM R[Sync4](S) GROUP BY k"),
    "narrower join": (f"{JOIN} WHERE v > 0", "SELECT A.k, n FROM A JOIN S ON S.k = A.k WHERE v > 1 AND n < v"),
    "in and like": (
        f"{JOIN} WHERE n IN (1, 2, 3) AND S.k LIKE '%'",
        f"{JOIN} WHERE n IN (1, 3) AND A.k LIKE 'a%'",
    ),
    "part of a join": (JOIN, "SELECT L.k, v, n FROM S JOIN A ON S.k = A.k JOIN Late L ON L.k = A.k WHERE i > 0"),
    "groups of a join": (JOIN, "SELECT A.k, MAX(n) AS s FROM A JOIN S ON S.k = A.k WHERE v > 1 GROUP BY A.k"),
    "key of a group": (GROUPS, "SELECT n, COUNT(*) AS c, AVG(i) AS x FROM A WHERE k = 'a' GROUP BY k, n"),
    "roll up": (
        GROUPS,
        "SELECT k, COUNT(*) AS c, COUNT(i) AS d, MIN(i) AS l, MAX(i) AS h, SUM(i) AS s FROM A WHERE n > 1 GROUP BY k",
    ),
    "roll up to all": (GROUPS, "SELECT COUNT(*) AS c, SUM(i) AS s FROM A WHERE n > 1"),
    "roll up computed": (
        GROUPS,
        "SELECT COALESCE(n, 9) AS m, SUM(i) AS s FROM A GROUP BY COALESCE(n, 9) HAVING COUNT(*) > 1",
    ),
    "roll up at points": (
        "SELECT k, n, COUNT(*) AS c FROM R[Sync2](A) GROUP BY k, n",
        "SELECT k, COUNT(*) AS c FROM R[Sync2](A) GROUP BY k",
    ),
    "groups in a window": (
        "SELECT k, COUNT(*) AS c, SUM(n) AS s FROM A [RANGE 5] GROUP BY k",
        "SELECT k, SUM(n) AS s2 FROM A [RANGE 5] WHERE k = 'a' GROUP BY k HAVING COUNT(*) > 1",
    ),
    "distinct": ("SELECT DISTINCT k, n FROM A WHERE n > 0", "SELECT DISTINCT k, n FROM A WHERE n = 3"),
    "distinct in a window": (
        "SELECT DISTINCT k, n FROM A [RANGE 3]",
        "SELECT DISTINCT k, n FROM A [RANGE 3] WHERE n > 1",
    ),
    "semi-join": (
        "SELECT k, n FROM A WHERE k IN (SELECT k FROM S)",
        "SELECT n FROM A WHERE n > 1 AND k IN (SELECT k FROM S)",
    ),
    "anti-join": (
        "SELECT k, n FROM A WHERE NOT EXISTS (SELECT 1 FROM S WHERE S.k = A.k AND v > 1)",
        "SELECT k FROM A WHERE n > 1 AND NOT EXISTS (SELECT 1 FROM S WHERE S.k = A.k AND v > 1)",
    ),
    "left join": (
        "SELECT A.k, n, v FROM A LEFT JOIN S ON A.k = S.k",
        "SELECT A.k, v FROM A LEFT JOIN S ON A.k = S.k WHERE n > 1 AND v IS NULL",
    ),
    "best of a partition": (
        f"SELECT k, n, i, r FROM ({RANKED}) AS x WHERE r <= 2",
        f"SELECT n, i FROM ({RANKED}) AS x WHERE r <= 2 AND k = 'a'",
    ),
    "fewer ranks": (
        f"SELECT k, n, i, r FROM ({RANKED}) AS x WHERE r <= 3",
        f"SELECT k, n FROM ({RANKED}) AS x WHERE r <= 1 AND i > 0",
    ),
    "fewer ranks without a column": (
        f"SELECT k, n, i FROM ({RANKED}) AS x WHERE r <= 3",
        f"SELECT n, k, i FROM ({RANKED}) AS x WHERE r <= 2 AND k <> 'b'",
    ),
    "rows by number with a key": (
        f"SELECT k, v FROM (SELECT k, v, ROW_NUMBER() OVER (ORDER BY v, k) AS r FROM ({KEYED}) AS y) AS x WHERE r <= 3",
        f"SELECT k, v FROM (SELECT k, v, ROW_NUMBER() OVER (ORDER BY v, k) AS r FROM ({KEYED}) AS y) AS x WHERE r <= 2",
    ),
    "later ranks": (
        f"SELECT k, n, i FROM ({RANKED.replace('RANK', 'DENSE_RANK')}) AS x WHERE r <= 3",
        f"SELECT k, n, i FROM ({RANKED.replace('RANK', 'DENSE_RANK')}) AS x WHERE r > 1 AND r <= 2",
    ),
    "full join, other columns": (
        "SELECT A.k, n, i, S.k AS sk, v FROM A FULL JOIN S ON A.k = S.k",
        "SELECT n, v FROM A FULL JOIN S ON A.k = S.k WHERE n IS NULL OR v > 1",
    ),
    "full join with conditions inside": (
        "SELECT A.k, n, i, v FROM A FULL JOIN (SELECT k, v FROM S WHERE v > 1) AS S ON A.k = S.k AND n > v",
        "SELECT v FROM A FULL JOIN (SELECT k, v FROM S WHERE v > 1) AS S ON A.k = S.k AND n > v WHERE n IS NULL",
    ),
    "left join, other columns of the right side": (
        "SELECT A.k, n, S.k AS sk, v FROM A LEFT JOIN S ON A.k = S.k AND n > v",
        "SELECT n, v FROM A LEFT JOIN S ON A.k = S.k AND n > v WHERE A.k = 'a'",
    ),
    "left join with itself": (
        "SELECT x.k, x.n, x.i, y.i AS j FROM A AS x LEFT JOIN A AS y ON x.n = y.i AND x.i < y.n",
        "SELECT x.n, y.i AS j FROM A AS x LEFT JOIN A AS y ON x.n = y.i AND x.i < y.n WHERE x.k = 'a'",
    ),
    "except": (
        "SELECT k, n FROM A EXCEPT SELECT k, v FROM S",
        "SELECT k FROM (SELECT k, n FROM A EXCEPT SELECT k, v FROM S) AS x WHERE k <> 'b' AND n > 0",
    ),
    "except, conditions inside": (
        "SELECT k, n FROM A WHERE i > 0 EXCEPT ALL SELECT k, v FROM S WHERE v > 0",
        "SELECT n, k FROM (SELECT n, k FROM A WHERE i > 0 EXCEPT ALL SELECT v, k FROM S WHERE v > 0) AS x "
        "WHERE k = 'a'",
    ),
    "a condition on the left of except": (
        "SELECT k, n FROM A EXCEPT SELECT k, v FROM S",
        "SELECT k, n FROM A WHERE n > 1 EXCEPT SELECT k, v FROM S",
    ),
    "intersect": (
        "SELECT k FROM A INTERSECT SELECT k FROM S",
        "SELECT k FROM A WHERE k > 'a' INTERSECT SELECT k FROM S WHERE k < 'c'",
    ),
    "over": (OVER, f"SELECT k, n, s FROM ({OVER}) AS x WHERE k = 'a' AND s > 1"),
    "over, one of the calls": (
        OVER,
        "SELECT n, m FROM (SELECT k, n, SUM(n) OVER (PARTITION BY k ORDER BY TS) AS m FROM A) AS x WHERE k = 'a'",
    ),
    "over rows that change": (
        "SELECT k, v, RANK() OVER (PARTITION BY v ORDER BY k) AS r FROM S",
        "SELECT k, r FROM (SELECT k, v, RANK() OVER (PARTITION BY v ORDER BY k) AS r FROM S) AS x WHERE v = 1",
    ),
    "as-of join": (
        f"SELECT A.k, n, i, v FROM {LATEST}",
        f"SELECT n, v FROM {LATEST} WHERE A.k = 'a' AND v IS NOT NULL",
    ),
    "as-of join with ties": (
        "SELECT x.k, x.n, x.i, y.i AS j FROM A AS x ASOF JOIN A AS y ON x.k = y.k AND x.n > y.n",
        "SELECT x.i, y.i AS j FROM A AS x ASOF JOIN A AS y ON x.k = y.k AND x.n > y.n WHERE x.i > 0",
    ),
    "session": (
        f"SELECT k, n, i, window_start, window_end FROM {SESSIONS}",
        f"SELECT n, window_end FROM {SESSIONS} WHERE k = 'a' AND n > 1",
    ),
    "groups of sessions": (
        f"SELECT k, window_start, COUNT(*) AS c, MAX(i) AS h FROM {SESSIONS} GROUP BY k, window_start",
        f"SELECT window_start, COUNT(*) AS c FROM {SESSIONS} WHERE k = 'a' GROUP BY k, window_start",
    ),
    "last rows of a partition": (
        "SELECT k, n, i FROM A [PARTITION BY k ROWS 2]",
        "SELECT n FROM A [PARTITION BY k ROWS 2] WHERE k = 'a' AND n > 0",
    ),
    "sum of last rows": (
        "SELECT k, SUM(n) AS s, COUNT(*) AS c FROM A [PARTITION BY k ROWS 2] GROUP BY k",
        "SELECT k, SUM(n) AS s FROM A [PARTITION BY k ROWS 2] WHERE k = 'a' GROUP BY k",
    ),
    "groups of tumbling windows": (
        f"SELECT k, window_start, COUNT(*) AS c, SUM(n) AS s FROM {TUMBLED} GROUP BY k, window_start",
        f"SELECT window_start, SUM(n) AS s FROM {TUMBLED} WHERE k = 'a' GROUP BY k, window_start",
    ),
    "by number with the rank": (
        f"SELECT k, n, i, r FROM ({RANKED.replace('RANK', 'ROW_NUMBER')}) AS x WHERE r <= 3",
        f"SELECT k, n, i FROM ({RANKED.replace('RANK', 'ROW_NUMBER')}) AS x WHERE r <= 2 AND k = 'a'",
    ),
    "sum of floats": (
        "SELECT k, SUM(n + 0.1e0) AS s, COUNT(*) AS c FROM A GROUP BY k",
        "SELECT k, SUM(n + 0.1e0) AS s FROM A WHERE k <> 'a' GROUP BY k",
    ),
}
NOT_MATCHED = {
    "full join of fewer rows": (
        "SELECT A.k, n, v FROM A FULL JOIN S ON A.k = S.k",
        "SELECT A.k, v FROM A FULL JOIN (SELECT k, v FROM S WHERE v > 1) AS S ON A.k = S.k",
    ),
    "a condition on the right of except": (
        "SELECT k, n FROM A EXCEPT SELECT k, v FROM S",
        "SELECT k, n FROM A EXCEPT SELECT k, v FROM S WHERE v > 1",
    ),
    "a condition inside over": (
        "SELECT k, n, i, SUM(n) OVER (PARTITION BY k ORDER BY TS) AS s FROM A",
        "SELECT k, n, SUM(n) OVER (PARTITION BY k ORDER BY TS) AS s FROM A WHERE n > 1",
    ),
    "ties among fewer columns": (
        "SELECT k, w, ROW_NUMBER() OVER (ORDER BY w) AS r FROM (SELECT k, v, v % 2 AS w FROM S) AS x",
        "SELECT k, ROW_NUMBER() OVER (ORDER BY w) AS r FROM (SELECT k, v % 2 AS w FROM S WHERE v > 1) AS x",
    ),
    "nearest of fewer rows": (
        f"SELECT A.k, n, i, v FROM {LATEST}",
        f"SELECT A.k, v FROM {LATEST.replace('JOIN S', 'JOIN (SELECT k, v FROM S WHERE v > 1) AS S')}",
    ),
    "sessions of fewer rows": (
        f"SELECT k, n, i, window_start FROM {SESSIONS}",
        f"SELECT k, window_start FROM {SESSIONS.replace('TABLE A', '(SELECT k, n FROM A WHERE i > 1)')}",
    ),
    "groups of sessions, which are not held": (
        f"SELECT k, window_start, COUNT(*) AS c FROM {SESSIONS} GROUP BY k, window_start",
        f"SELECT k, n, window_start FROM {SESSIONS} WHERE k = 'a'",
    ),
    "sessions, below groups": (
        f"SELECT k, n, i, window_start FROM {SESSIONS}",
        f"SELECT k, window_start, COUNT(*) AS c FROM {SESSIONS} WHERE k = 'a' GROUP BY k, window_start",
    ),
    "last rows among fewer": (
        "SELECT k, n, i FROM A [PARTITION BY k ROWS 2]",
        "SELECT k FROM A [PARTITION BY k ROWS 3] WHERE k = 'a'",
    ),
    "more ranks": (
        f"SELECT k, n, i, r FROM ({RANKED}) AS x WHERE r <= 2",
        f"SELECT k, n, i, r FROM ({RANKED}) AS x WHERE r <= 3",
    ),
    "ranks of fewer rows": (
        f"SELECT k, n, i, r FROM ({RANKED}) AS x WHERE r <= 2",
        f"SELECT k, n, i, r FROM ({RANKED} WHERE i > 1) AS x WHERE r <= 2",
    ),
    "ties by arrival": (
        f"SELECT k, n, i FROM ({RANKED.replace('RANK', 'ROW_NUMBER')}) AS x WHERE r <= 3",
        f"SELECT k, n, i FROM ({RANKED.replace('RANK', 'ROW_NUMBER')}) AS x WHERE r <= 2",
    ),
    "wider": (f"{JOIN} WHERE v > 1", f"{JOIN} WHERE v > 0"),
    "more points": ("SELECT k, v FROM R[Sync4](S) WHERE v > 0", "SELECT k, v FROM R[Sync2](S) WHERE v > 1"),
    "no points": ("SELECT k, v FROM R[Sync4](S) WHERE v > 0", "SELECT k, v FROM S WHERE v > 1"),
    "a sum that may overflow": (
        "SELECT k, n, SUM(n) AS s FROM A GROUP BY k, n",
        "SELECT k, SUM(n) AS s FROM A GROUP BY k",
    ),
    "an average": (GROUPS, "SELECT k, AVG(i) AS a FROM A GROUP BY k"),
    "inside the group": (
        "SELECT k, COUNT(*) AS c, SUM(n) AS s FROM A GROUP BY k",
        "SELECT k, COUNT(*) AS c FROM A WHERE n > 1 GROUP BY k",
    ),
    "another window": (
        "SELECT k, COUNT(*) AS c, SUM(n) AS s FROM A [RANGE 5] GROUP BY k",
        "SELECT k, COUNT(*) AS c FROM A [RANGE 4] GROUP BY k",
    ),
    "the order of rows matters": (JOIN, f"SELECT k, v FROM ({ENTERING} WHERE n > 1) AS j [ROWS 2]"),
    "a fault of its own": (f"{JOIN} WHERE n > 0", f"{JOIN} WHERE n > 0 AND 6 / v > 1"),
}


def tried(session: LocalSession, pair: tuple[str, str], steps, only: str | None = None) -> dict[str, list]:
    """The results of both queries while they existed. Records with the same instant are sorted by value."""
    session.execute(SETTING)
    changes = play(session, steps, lambda at, name: f"CREATE STREAMED VIEW {name} AS {pair[at]}", only)
    return {name: [_by_instant(changes), dead] for name, (changes, dead) in changes.items()}


def _by_instant(changes: list) -> list:
    return [
        (instant, sorted(at_instant, key=repr))
        for instant, at_instant in groupby(changes, key=lambda change: change[2])
    ]


@pytest.mark.parametrize("pair", MATCHED.values(), ids=MATCHED)
@settings(max_examples=examples(10))
@given(histories([0, 1, 1]), st.integers(1, 2), st.sampled_from([None, 1, 3]))
def test_a_query_answered_from_a_view_gives_the_same_results(pair, steps, partitions: int, batch: int | None) -> None:
    steps = [("create", 0), *steps, ("create", 1)]
    for query, results in tried(LocalSession(partitions, batch), pair, steps).items():
        assert results == tried(LocalSession(sharing=False), pair, steps, only=query)[query], query


def registered(pair: tuple[str, str]):
    sql = f"{SETTING} CREATE STREAMED VIEW V AS {pair[0]}; CREATE STREAMED VIEW Q AS {pair[1]};"
    catalog, results = apply_all(sql, environment=FakeEnvironment({"t": {0: 0}, "e": {0: 0}}))
    queries = {query.name: query for query in plan_fragment(catalog, 1).queries.values()}
    return catalog, queries, results[-1]


@pytest.mark.parametrize("pair", MATCHED.values(), ids=MATCHED)
def test_a_query_shares_the_operators_of_the_one_that_contains_it(pair) -> None:
    _, queries, result = registered(pair)
    assert 'computed from "V", whose operators it shares' in result.notices
    view, query = (len(compile_lane("x", [queries[name]]).flow.vertices) for name in "VQ")
    both = compile_lane("x", [queries["V"], queries["Q"]]).flow.vertices
    plain = compile_lane("x", [queries["V"], plan_alone(queries["Q"])]).flow.vertices
    stateful = [sum(bool(vertex.operator and vertex.operator.traces()) for vertex in flow) for flow in (both, plain)]
    assert len(both) < view + query
    assert stateful[0] <= stateful[1]


#: Pairs whose second query has state of its own above that of the first: another join, groups, ranks or points.
WITH_MORE_STATE = {
    "example 18", "a part is synchronised", "part of a join", "groups of a join", "roll up", "roll up to all",
    "roll up computed", "roll up at points", "fewer ranks without a column", "rows by number with a key", "later ranks",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(MATCHED.keys() - WITH_MORE_STATE))
def test_a_query_that_only_selects_from_another_adds_no_state_but_its_output(name: str) -> None:
    _, queries, _ = registered(MATCHED[name])
    assert kinds_with_state(queries["V"], queries["Q"]) - kinds_with_state(queries["V"]) == {"StreamOutput": 1}


def kinds_with_state(*queries) -> Counter[str]:
    vertices = compile_lane("x", queries).flow.vertices
    return Counter(vertex.kind for vertex in vertices if vertex.operator is not None and vertex.operator.traces())


def plan_alone(query):
    return type(query)(query.id, query.name, query.node, query.sink)


@pytest.mark.parametrize("pair", NOT_MATCHED.values(), ids=NOT_MATCHED)
def test_queries_that_do_not_contain_it_are_not_used(pair) -> None:
    _, queries, result = registered(pair)
    assert queries["Q"].views == ()
    assert not [notice for notice in result.notices if "computed from" in notice]


def test_constants_of_in_and_like_are_not_replaced_by_view_columns() -> None:
    session = LocalSession()
    session.execute(SETTING)
    session.execute(
        f"CREATE STREAMED VIEW V AS {JOIN.replace('n, i', 'n, i, 1 AS one, $$a%$$ AS p')}".replace("$$", "'")
    )
    session.execute(f"CREATE STREAMED VIEW Q AS {JOIN} WHERE i IN (1, 3) AND A.k LIKE 'a%'")
    session.push("T", [{"k": "a", "v": 1, "ts": 1}])
    session.push("E", [{"k": "a", "n": 5, "i": i, "ts": 1} for i in (1, 2, 3)])
    session.advance(9)
    assert sorted(row["i"] for row in session.relation("Q")) == [1, 3]


def test_example_19_is_rewritten_as_the_paper_says() -> None:
    """Q4 = σ_{Temp > 100}(ℜ_Sync4(ξ(ℜ(HotRooms1)))), with σ below ℜ_Sync4."""
    _, queries, _ = registered(MATCHED["example 19"])
    plan = [line.strip().split("  [")[0] for line in tree(queries["Q"].optimized).splitlines()]
    assert plan == [
        "Sync every 4 at 0",
        "Filter v > 1",
        "Sync every 2 at 0",
        "Project k, v",
        "Filter v > 0",
        "ℜ(S) over source T",
    ]


def test_explain_shows_from_which_queries_one_is_answered() -> None:
    session = LocalSession()
    session.execute(f"{SETTING} CREATE STREAMED VIEW V AS {JOIN}; CREATE STREAMED VIEW Q AS {JOIN} WHERE v > 1")
    lines = [line.strip() for line in session.explain("Q").splitlines()]
    over = lines[lines.index("computed from queries that contain it:") + 1 :]
    assert over[0] == "Filter v > 1  [key: none]"
    assert over[-1].startswith("shared with V: ")
    assert over[-1].endswith(" → Join → Project")


def test_narrower_of_two_containing_views_is_used() -> None:
    sql = f"{SETTING} CREATE STREAMED VIEW V AS {JOIN}; CREATE STREAMED VIEW W AS {JOIN} WHERE v > 1;"
    _, results = apply_all(
        f"{sql} CREATE STREAMED VIEW Q AS {JOIN} WHERE v > 2;", environment=FakeEnvironment({"t": {0: 0}, "e": {0: 0}})
    )
    assert [notice for notice in results[-1].notices if "computed from" in notice] == [
        'computed from "W", whose operators it shares'
    ]


def test_a_query_that_is_not_shared_is_not_matched() -> None:
    sql = f"{SETTING} CREATE STREAMED VIEW V AS {JOIN}; CREATE QUERY q WITH (shared = false) AS SELECT STREAMED"
    _, results = apply_all(
        f"{sql} {JOIN.removeprefix('SELECT')} WHERE v > 1;", environment=FakeEnvironment({"t": {0: 0}, "e": {0: 0}})
    )
    assert not [notice for notice in results[-1].notices if "computed from" in notice]
