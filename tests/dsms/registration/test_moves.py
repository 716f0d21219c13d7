"""Queries share operators whichever is registered first: a query moves onto a new one that contains it, and back when
that one is dropped. Its records do not change."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsms.registration.next_plans import switched_to_next_plan, without_failed_plan
from dsms.testing import LocalSession
from tests.dsms.registration.test_view_matching import JOIN, MATCHED, SETTING, kinds_with_state, tried
from tests.support.fake_environment import FakeEnvironment, apply_all
from tests.support.query_histories import Push, histories
from tests.support.strategies import examples

#: Pairs in which the second query has as many operators with state over the first as alone.
NOT_MOVED = {
    "example 17", "example 18", "example 19", "a part is synchronised", "rows by number with a key", "later ranks",
    "roll up", "roll up to all", "roll up computed", "roll up at points", "fewer ranks without a column",
}  # fmt: skip
MOVED = {name: pair for name, pair in MATCHED.items() if name not in NOT_MOVED}


def session_of(*queries: str, then: str = "") -> LocalSession:
    session = LocalSession()
    session.execute(SETTING)
    for at, query in enumerate(queries):
        session.execute(f"CREATE STREAMED VIEW Q{at} AS {query}")
    session.execute(then)
    return session


def with_records(session: LocalSession) -> LocalSession:
    for ts, k in enumerate("abcab"):
        session.push("T", [{"k": k, "v": ts, "ts": ts}])
        session.push("E", [{"k": k, "n": ts % 3, "i": ts, "ts": ts}])
    session.advance(9)
    return session


def states(session: LocalSession):
    """How many operators of each kind keep state in the lane of all queries."""
    (lane,) = session.runtime.revision.lanes.values()
    return kinds_with_state(*(session.runtime.revision.plan.queries[output.id] for output in lane.outputs))


@pytest.mark.parametrize("pair", MOVED.values(), ids=MOVED)
def test_the_order_of_registration_makes_no_difference(pair) -> None:
    wide, narrow = pair
    first, second = with_records(session_of(wide, narrow)), with_records(session_of(narrow, wide))
    assert states(first) == states(second)
    moved = second.catalog.find("Q0")
    assert moved.over and moved.next_over is None
    assert sorted(map(repr, first.relation("Q1"))) == sorted(map(repr, second.relation("Q0")))


#: Pairs of queries neither of which contains the other: they have operators with equal rows and different columns.
MERGED = {
    "columns of a join": ("SELECT S.k FROM S JOIN A ON S.k = A.k", "SELECT n FROM S JOIN A ON S.k = A.k"),
    "aggregates": ("SELECT k, COUNT(*) AS c FROM A GROUP BY k", "SELECT k, SUM(n) AS s, AVG(i) AS a FROM A GROUP BY k"),
    "aggregates with conditions": (
        "SELECT k, COUNT(*) FILTER (WHERE n > 1) AS c FROM A GROUP BY k HAVING COUNT(*) > 1",
        "SELECT MAX(i) AS m, COUNT(DISTINCT n) AS d FROM A GROUP BY k",
    ),
    "aggregates of a window": (
        "SELECT k, COUNT(*) AS c, MAX(i) AS m FROM A [RANGE 5] WHERE n > 0 GROUP BY k",
        "SELECT SUM(n) AS s FROM A [RANGE 5] WHERE n > 0 GROUP BY k",
    ),
    "aggregates of a join": (
        "SELECT x.k, COUNT(*) AS c FROM (SELECT S.k AS k FROM S JOIN A ON S.k = A.k) AS x GROUP BY x.k",
        "SELECT A.k, SUM(n) AS c FROM S JOIN A ON S.k = A.k GROUP BY A.k",
    ),
    "full join": ("SELECT A.k, n FROM A FULL JOIN S ON A.k = S.k", "SELECT i, v FROM A FULL JOIN S ON A.k = S.k"),
    "last rows": ("SELECT k, n FROM A [PARTITION BY k ROWS 2]", "SELECT k, i FROM A [PARTITION BY k ROWS 2]"),
    "sessions": (
        "SELECT k, n, window_start FROM TABLE(SESSION(TABLE A PARTITION BY k, DESCRIPTOR(n), 1))",
        "SELECT i, window_end FROM TABLE(SESSION(TABLE A PARTITION BY k, DESCRIPTOR(n), 1))",
    ),
}
BOTH = MOVED | MERGED


@pytest.mark.parametrize("pair", MERGED.values(), ids=MERGED)
def test_operators_with_other_columns_become_one(pair) -> None:
    first, second = with_records(session_of(*pair)), with_records(session_of(*pair[::-1]))
    alone = with_records(session_of(pair[0]))
    assert states(first) == states(second) == states(alone) + Counter(StreamOutput=1)


@pytest.mark.parametrize("pair", BOTH.values(), ids=BOTH)
@settings(max_examples=examples(4))
@given(histories([0, 1, 1]), st.integers(1, 2), st.sampled_from([None, 1, 3]))
def test_a_query_that_moves_publishes_the_same_records(pair, steps, partitions: int, batch: int | None) -> None:
    reverse = pair[::-1]
    steps = [("create", 0), Push("E", "a", 1, 1), *steps, ("create", 1), Push("T", "a", 2, 9), ("drop", 1)]
    for query, results in tried(LocalSession(partitions, batch), reverse, steps).items():
        assert results == tried(LocalSession(sharing=False), reverse, steps, only=query)[query], query


NARROW = f"{JOIN} WHERE v > 1"
NARROWER = f"{JOIN} WHERE v > 2"


def catalog_of(*queries: str, environment: FakeEnvironment | None = None):
    views = "".join(f"CREATE STREAMED VIEW Q{at} AS {query};" for at, query in enumerate(queries))
    known = environment or FakeEnvironment({"t": {0: 0}, "e": {0: 0}})
    return apply_all(SETTING + views, environment=known)


def ids(formers) -> list[str]:
    return [former.id for former in formers]


def test_a_query_moves_back_when_the_one_that_contains_it_is_dropped() -> None:
    session = with_records(session_of(NARROW, JOIN, then="DROP VIEW Q1"))
    assert session.catalog.find("Q0").over == ()
    assert states(session) == states(with_records(session_of(NARROW)))
    assert session.relation("Q0") == with_records(session_of(NARROW)).relation("Q0")


def test_a_query_that_is_dropped_before_others_moved_ends_the_move() -> None:
    catalog, _ = catalog_of(NARROW, JOIN)
    assert catalog.find("Q0").next_over is not None
    after, _ = apply_all("DROP VIEW Q1;", catalog)
    assert (after.find("Q0").over, after.find("Q0").next_over) == ((), None)


def test_queries_that_share_move_together() -> None:
    catalog, results = catalog_of(NARROW, NARROWER, JOIN)
    wide = catalog.find("Q2").id
    assert ids(catalog.find("Q1").over) == [catalog.find("Q0").id]
    assert [ids(catalog.find(name).next_over) for name in ("Q0", "Q1")] == [[wide], [wide]]
    assert "2 running queries move onto its operators; results stay the same" in results[-1].notices
    session = with_records(session_of(NARROW, NARROWER, JOIN))
    assert states(session)["Join"] == 1


def test_after_a_drop_queries_share_what_is_left() -> None:
    session = with_records(session_of(JOIN, NARROW, NARROWER, then="DROP VIEW Q0"))
    assert ids(session.catalog.find("Q2").over) == [session.catalog.find("Q1").id]
    assert states(session)["Join"] == 1


def test_a_query_whose_records_were_deleted_stays_where_it_is() -> None:
    catalog, _ = catalog_of(NARROW)
    gone = FakeEnvironment({"t": {0: 0}, "e": {0: 0}}, earliest_known={"e": {0: 5}})
    after, _ = apply_all(f"CREATE STREAMED VIEW Q1 AS {JOIN}", catalog, environment=gone)
    assert after.find("Q0").next_over is None


@pytest.mark.parametrize("option", ["shared = false", "max_error = 0.1"])
def test_a_query_of_its_own_does_not_move(option: str) -> None:
    groups = "SELECT STREAMED k, COUNT(*) AS c FROM A WHERE k = 'a' GROUP BY k"
    catalog, _ = apply_all(
        f"{SETTING} CREATE QUERY q WITH ({option}) AS {groups};"
        "CREATE QUERY r AS SELECT STREAMED k, COUNT(*) AS c, SUM(n) AS s FROM A GROUP BY k",
        environment=FakeEnvironment({"t": {0: 0}, "e": {0: 0}}),
    )
    assert catalog.find("q").next_over is None


def test_a_move_that_fails_is_not_tried_again() -> None:
    catalog, _ = catalog_of(NARROW, JOIN)
    query = catalog.find("Q0")
    assert list(switched_to_next_plan(catalog, {query.id: "another plan"})) == []
    (moved,) = switched_to_next_plan(catalog, {query.id: query.next_plan_id})
    assert (ids(moved.over), moved.next_over) == ([catalog.find("Q1").id], None)
    (kept,) = without_failed_plan(catalog, {query.id: query.next_plan_id})
    assert (kept.over, kept.next_over, kept.orders_by_statistics) == ((), None, True)


def test_a_third_query_gets_its_columns_too() -> None:
    groups = [
        f"SELECT k, {aggregate} AS x FROM A [RANGE 9] GROUP BY k" for aggregate in ("COUNT(*)", "SUM(n)", "MAX(i)")
    ]
    session = with_records(session_of(*groups))
    assert (states(session)["GroupBy"], states(session)["RetractEnds"]) == (1, 1)
    assert [row["x"] for row in sorted(session.relation("Q2"), key=lambda row: row["k"])] == [3, 4, 2]
    session.execute("DROP VIEW Q1")
    session.advance(40)
    assert states(session)["GroupBy"] == 2  # each has its own again


def test_a_query_that_cannot_move_is_not_merged_with() -> None:
    gone = FakeEnvironment({"t": {0: 0}, "e": {0: 0}}, earliest_known={"e": {0: 5}})
    catalog, _ = catalog_of("SELECT k, COUNT(*) AS c FROM A GROUP BY k")
    after, _ = apply_all(
        "CREATE STREAMED VIEW Q1 AS SELECT k, SUM(n) AS s FROM A GROUP BY k", catalog, environment=gone
    )
    assert (after.find("Q0").next_over, after.find("Q1").over) == (None, ())


def test_a_query_moves_back_when_the_one_that_contains_it_is_replaced() -> None:
    session = with_records(session_of(NARROW, JOIN))
    session.execute(f"CREATE OR REPLACE STREAMED VIEW Q1 AS {JOIN} WHERE n > 0")
    assert session.catalog.find("Q0").over == ()
    assert session.relation("Q0") == with_records(session_of(NARROW)).relation("Q0")


def test_an_operator_has_the_columns_of_few_queries() -> None:
    """Otherwise every new query would make all others move again."""
    aggregates = [f"SUM(n) FILTER (WHERE n > {limit})" for limit in range(9)]
    session = session_of(*(f"SELECT k, {aggregate} AS x FROM A GROUP BY k" for aggregate in aggregates))
    assert states(with_records(session))["GroupBy"] == 3
    for limit, aggregate in enumerate(aggregates):
        expected = with_records(session_of(f"SELECT k, {aggregate} AS x FROM A GROUP BY k")).relation("Q0")
        assert session.relation(f"Q{limit}") == expected
