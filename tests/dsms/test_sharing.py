"""Sharing alters no record: queries that run together give what each gives alone, whenever it came or another went."""

from __future__ import annotations

from dataclasses import dataclass

from facts import Topics, apply_all
from hypothesis import example, given, settings
from hypothesis import strategies as st
from strategies import examples

from dsms.plan.lane import compile_lane, plan_fragment
from dsms.testing import LocalSession

SOURCES = """
REGISTER SOURCE T (k VARCHAR NOT NULL, v BIGINT) FROM t SLACK 2; CREATE STREAM S OVER T KEY k;
REGISTER SOURCE E (k VARCHAR NOT NULL, n BIGINT) FROM e SLACK 1; CREATE STREAM A OVER E KEY NULL;
"""
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


@dataclass(frozen=True)
class Push:
    source: str
    k: str
    n: int | None
    ts: int


NUMBERS = st.sampled_from([None, 0, 1, 2, 3])
STEPS = st.one_of(
    st.builds(Push, st.sampled_from("TE"), st.sampled_from("abc"), NUMBERS, st.integers(0, 9)),
    st.builds(lambda ts: ("advance", ts), st.integers(0, 12)),
    st.builds(lambda name: ("create", name), st.sampled_from(sorted(QUERIES))),
    st.builds(lambda name: ("drop", name), st.sampled_from(sorted(QUERIES))),
)  # fmt: skip


def play(session: LocalSession, steps, only: str | None = None) -> dict[str, list]:
    """What each query had published when it was dropped, or at the end; `only` is the one query that is made."""
    session.execute(SOURCES)
    published: dict[str, list] = {}
    there: set[str] = set()
    for number, step in enumerate([*steps, ("advance", 20)]):
        if isinstance(step, Push):
            session.push(step.source, [{"k": step.k, "v" if step.source == "T" else "n": step.n, "ts": step.ts}])
        elif step[0] == "advance":
            session.advance(step[1])
        elif step[0] == "create" and step[1] not in there and only in (None, f"{step[1]} {number}"):
            there.add(step[1])
            session.execute(f"CREATE STREAMED VIEW {step[1]} AS {QUERIES[step[1]]}")
            published[f"{step[1]} {number}"] = []
        elif step[0] == "drop" and step[1] in there:
            there.remove(step[1])
            published[_last(published, step[1])] = _told(session, step[1])
            session.execute(f"DROP VIEW {step[1]}")
    for name in there:
        published[_last(published, name)] = _told(session, name)
    return published


def _last(published: dict[str, list], name: str) -> str:
    return [one for one in published if one.split()[0] == name][-1]


def _told(session: LocalSession, name: str) -> list:
    dead = [(one["reason"], one["record"]) for one in session.dead_letters("T") if one["query"] == name]
    return [session.changes(name), dead]


@settings(max_examples=examples(60))
@given(st.lists(STEPS, max_size=24), st.integers(1, 2), st.sampled_from([None, 1, 3]))
@example(
    [("create", "Counts"), Push("E", "a", 1, 1), ("create", "Left"), Push("T", "a", 2, 3), ("drop", "Counts")], 1, None
)
def test_each_query_gives_what_it_gives_alone(steps, partitions: int, batch: int | None) -> None:
    together = play(LocalSession(partitions, batch), steps)
    for query, found in together.items():
        alone = play(LocalSession(sharing=False), steps, only=query)
        assert found == alone[query], query


def operators_of(*selects: str) -> list[str]:
    views = "".join(f"CREATE STREAMED VIEW V{at} AS {select};" for at, select in enumerate(selects))
    plan = plan_fragment(apply_all(SOURCES + views, topics=Topics({"t": {0: 0}, "e": {0: 0}}))[0], 1)
    vertices = compile_lane("lane", plan.queries.values()).flow.vertices
    return sorted(type(vertex.operator).__name__ for vertex in vertices if vertex.operator is not None)


def test_equal_queries_share_every_operator() -> None:
    one = operators_of("SELECT k, COUNT(*) AS n FROM A WHERE n > 1 GROUP BY k")
    assert operators_of(*["SELECT k, COUNT(*) AS n FROM A WHERE n > 1 GROUP BY k"] * 3) == one


def test_equal_parts_of_different_queries_are_there_once() -> None:
    big = "SELECT k, v FROM S WHERE v > 1"
    found = operators_of(big, "SELECT SUM(v) AS s FROM S WHERE v > 1", "SELECT k, v FROM S")
    assert found.count("Tagger") == 1
    assert found.count("Filter") == 1
