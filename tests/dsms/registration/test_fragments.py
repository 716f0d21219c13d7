"""Queries distributed over fragments: together the fragments give the results of one, and each refused record is
reported once."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsms.coordinator.watcher.autoscaler import load_of
from dsms.placement.leases import RUNNING, ExecutorStatus
from dsms.planner.physical.fragment_plan import plan_fragment
from dsms.registration.placement import fragments_of
from operators.core.errors import UserError
from tests.dsms.runtime.test_epoch import LOGS, message
from tests.support.fake_environment import FakeEnvironment, apply_all
from tests.support.pure_executor import World, run

SOURCES = """REGISTER SOURCE T (k VARCHAR, v INT) FROM t SLACK 2; REGISTER SOURCE U (k VARCHAR, v INT) FROM u SLACK 2;
CREATE STREAM S OVER T KEY k; CREATE STREAM A OVER T KEY NULL; CREATE STREAM B OVER U KEY NULL;
"""
QUERIES = (
    "SELECT STREAMED k, v FROM R(S) WHERE v > 1",
    "SELECT STREAMED k, COUNT(*) AS n FROM A GROUP BY k",
    "SELECT STREAMED v, 6 / v AS q FROM R(A)",
    "SELECT STREAMED k, MAX(v) AS m FROM B GROUP BY k",
    "SELECT STREAMED k, COUNT(*) AS n FROM A WHERE v > 0 GROUP BY k",
    "SELECT STREAMED S.k, B.v FROM S JOIN B ON S.k = B.k",
    "SELECT STREAMED k FROM B",
)


def dealt(queries: list[str], fragments: int, partitions: int = 1):
    sql = SOURCES + ";".join(f"CREATE QUERY q{at} AS {text}" for at, text in enumerate(queries))
    known = {topic: dict.fromkeys(range(partitions), 0) for topic in "tu"}
    return apply_all(sql, environment=FakeEnvironment(known, fragments))[0]


@given(
    LOGS,
    st.lists(st.sampled_from(QUERIES), min_size=1, max_size=5),
    st.integers(2, 3),
    st.integers(1, 9),
    st.none() | st.integers(0, 4),
)
def test_all_fragments_together_give_the_results_of_one(logs, queries, fragments, limit, crash_at) -> None:
    whole = _run(logs, queries, 1, 1000, None)
    parts = _run(logs, queries, fragments, limit, crash_at)
    assert _results(parts) == _results(whole)
    assert _dead(parts) == _dead(whole)


def _results(worlds: list[World]) -> dict[str, list]:
    return {log: rows for world in worlds for log, rows in world.written.items()}


def _dead(worlds: list[World]) -> Counter[str]:
    return Counter(repr(letter) for world in worlds for letter in world.dead)


def _run(logs, queries, fragments: int, limit: int, crash_at: int | None) -> list[World]:
    messages = {p: [message(at, record) for at, record in enumerate(log)] for p, log in enumerate(logs)}
    catalog = dealt(queries, fragments, len(logs))
    done = []
    for fragment in fragments_of(catalog, fragments):
        if plan_fragment(catalog, 1, fragment=fragment).queries:
            world = World({"t": messages, "u": messages})
            done.append(run(world, catalog, 2, [limit], crash_at, fragment=fragment))
    return done


def test_queries_that_share_state_stay_together_and_others_are_spread() -> None:
    sums = [f"SELECT STREAMED k, SUM(v) AS s FROM A WHERE v > {at} GROUP BY k" for at in range(4)]
    catalog = dealt([*sums, QUERIES[5], QUERIES[6]], 3)
    family = {catalog.get(f"q{at}").fragment for at in range(4)}
    assert len(family) == 1
    assert {catalog.get("q4").fragment, catalog.get("q5").fragment} == set("012") - family


def test_an_unshared_query_goes_to_the_least_loaded_fragment() -> None:
    catalog = dealt([QUERIES[1]], 2)
    alone, _ = apply_all(f"CREATE QUERY alone WITH (shared = false) AS {QUERIES[1]}", catalog, FakeEnvironment({}, 2))
    assert alone.get("alone").fragment != alone.get("q0").fragment


def test_queries_stay_where_they_are_when_there_are_fewer_fragments() -> None:
    catalog = dealt(list(QUERIES), 3)
    assert fragments_of(catalog, 1) == ["0", "1", "2"]
    more, _ = apply_all("CREATE QUERY more AS SELECT STREAMED v FROM B", catalog, FakeEnvironment({}, 1))
    assert more.get("more").fragment == "0"


@pytest.mark.parametrize("fragments", [1, 2, 3])
def test_each_source_is_reported_by_one_fragment_that_reads_it(fragments: int) -> None:
    catalog = dealt(list(QUERIES), fragments)
    plans = {name: plan_fragment(catalog, 1, fragment=name) for name in fragments_of(catalog, fragments)}
    for source in catalog.sources():
        writers = [name for name, plan in plans.items() if (source.id, 0) not in plan.foreign]
        assert writers == [source.home]
    assert sorted(query for plan in plans.values() for query in plan.queries if query != plan) >= sorted(
        query.id for query in catalog.running()
    )


def test_home_reads_a_source_for_dead_letters_if_only_others_read_it() -> None:
    catalog = dealt([QUERIES[0]], 2)
    moved = msgspec.structs.replace(catalog.get("q0"), fragment="1")
    catalog = msgspec.structs.replace(catalog, objects={**catalog.objects, "q0": moved})
    assert catalog.get("T").home == "0"
    assert list(plan_fragment(catalog, 1, fragment="0").queries) == [catalog.get("T").id]
    assert list(plan_fragment(catalog, 1, fragment="1").queries) == [moved.id]


def test_a_query_leaves_a_busy_fragment_and_reads_what_it_shares_from_there() -> None:
    groups = "SELECT k, MAX(v) AS m FROM B GROUP BY k"
    texts = [groups.replace("SELECT", "SELECT STREAMED"), f"SELECT STREAMED m FROM ({groups})"]
    few = dealt(texts, 2)
    assert few.get("q1").fragment == few.get("q0").fragment
    assert few.get("q1").links == ()
    many = dealt([texts[0], *[texts[1]] * 23], 2)
    places = Counter(query.fragment for query in many.queries())
    assert places.keys() == {"0", "1"}
    assert min(places.values()) >= 8
    (home,) = {subplan.fragment for subplan in many.subplans()}
    assert home == many.get("q0").fragment
    assert len(many.subplans()) == 1
    assert all(bool(query.links) == (query.fragment != home) for query in many.queries())


@pytest.mark.parametrize(
    ("options", "message"),
    [("FRAGMENT = '7'", 'there is no fragment "7"'), ("FRAGMENT = '1', FRAGMENTS = 2", "cannot be combined")],
)
def test_a_wrong_fragment_is_refused(options: str, message: str) -> None:
    catalog = dealt([], 2)
    with pytest.raises(UserError, match=message):
        apply_all(f"CREATE QUERY q WITH ({options}) AS {QUERIES[1]}", catalog, FakeEnvironment({}, 2))


def test_a_query_needs_the_fragments_that_compute_what_it_reads() -> None:
    """For example, executors are not taken away from them, and a statement that halts the query waits for them."""
    text = "SELECT STREAMED k, COUNT(*) AS n FROM A GROUP BY k"
    sql = ";".join(f"CREATE QUERY q{at} WITH (FRAGMENT = '{at}') AS {text}" for at in range(2))
    catalog, _ = apply_all(SOURCES + sql, environment=FakeEnvironment({"t": {0: 0}, "u": {0: 0}}, 2))
    assert catalog.get("q0").needed_fragments == {"0"}
    assert catalog.get("q1").needed_fragments == {"0", "1"}
    alive = {"e": ExecutorStatus(RUNNING)}
    without_owner = catalog.without(["q0"])
    assert load_of(2, alive, without_owner, {}).fragments == 2
