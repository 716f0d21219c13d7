"""Sharing changes no record: queries that run together have the same results as alone, while queries are added and
dropped."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from dsms.planner.physical.fragment_plan import compile_lane, plan_fragment
from dsms.testing import LocalSession
from tests.support.fake_environment import FakeEnvironment, apply_all
from tests.support.query_histories import SOURCES, Push, histories, play
from tests.support.strategies import examples

QUERIES = {
    "Big": "SELECT k, v FROM S WHERE v > 1",
    "Big2": "SELECT k, v FROM S WHERE v > 1",
    "Counts": "SELECT k, COUNT(*) AS n FROM A GROUP BY k",
    "Sums": "SELECT k, COUNT(*) AS n, SUM(n) AS s FROM A GROUP BY k",
    "Total": "SELECT SUM(v) AS s FROM S WHERE v > 1",
    "Joined": "SELECT S.k, S.v, A.n FROM S JOIN A ON S.k = A.k",
    "Left": "SELECT S.k, S.v, C.n FROM S LEFT JOIN (SELECT k, COUNT(*) AS n FROM A GROUP BY k) C ON S.k = C.k",
    "Both": "SELECT k FROM S UNION ALL SELECT k FROM A",
    "Only": "SELECT k FROM S EXCEPT SELECT k FROM A",
    "Recent": "SELECT k, COUNT(*) AS n FROM A [RANGE 3] GROUP BY k",
    "Plus": "SELECT S.k, v, w FROM S, (VALUES (1), (2)) AS x(w) WHERE v >= w",
    "Faulty": "SELECT k, 6 / v AS q FROM S",
    "Top": "SELECT k, n FROM A ORDER BY n DESC, k LIMIT 2",
}


def statement(name: str, view: str) -> str:
    return f"CREATE STREAMED VIEW {view} AS {QUERIES[name]}"


@settings(max_examples=examples(60))
@given(histories(QUERIES), st.integers(1, 2), st.sampled_from([None, 1, 3]))
@example(
    [("create", "Counts"), Push("E", "a", 1, 1), ("create", "Left"), Push("T", "a", 2, 3), ("drop", "Counts")], 1, None
)
def test_each_query_gives_the_same_results_as_alone(steps, partitions: int, batch: int | None) -> None:
    together = play(made(LocalSession(partitions, batch)), steps, statement)
    for query, records in together.items():
        alone = play(made(LocalSession(sharing=False)), steps, statement, only=query)
        assert records == alone[query], query


def made(session: LocalSession) -> LocalSession:
    session.execute(SOURCES)
    return session


def operators_of(*selects: str) -> list[str]:
    views = "".join(f"CREATE STREAMED VIEW V{at} AS {select};" for at, select in enumerate(selects))
    plan = plan_fragment(apply_all(SOURCES + views, environment=FakeEnvironment({"t": {0: 0}, "e": {0: 0}}))[0], 1)
    vertices = compile_lane("lane", plan.queries.values()).flow.vertices
    return sorted(type(vertex.operator).__name__ for vertex in vertices if vertex.operator is not None)


def test_equal_queries_share_every_operator() -> None:
    select = "SELECT k, COUNT(*) AS n FROM A WHERE n > 1 GROUP BY k"
    assert operators_of(select, select, select) == operators_of(select)


def test_equal_parts_of_queries_are_one_vertex() -> None:
    big = "SELECT k, v FROM S WHERE v > 1"
    operators = operators_of(big, "SELECT SUM(v) AS s FROM S WHERE v > 1", "SELECT k, v FROM S")
    assert operators.count("Tagger") == 1
    assert operators.count("Filter") == 1
