"""A query that moves to another fragment continues there with its state, and publishes the records of one fragment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsms.model.catalog import Catalog
from dsms.model.subplans import with_subplans
from dsms.planner.physical.fragment_plan import plan_fragment
from dsms.runtime.lanes.handover import progress_left, queries_to_take_over, with_copied_runs
from dsms.runtime.lanes.manifest import LaneManifest, Manifest
from tests.dsms.runtime.test_shared_subplans import (
    DRAWN,
    GROUPS,
    JOIN,
    LOGS,
    QUERIES,
    TURN,
    placed_at,
    results,
    run_over,
    services_of,
    stateful_vertices,
)
from tests.support.fake_environment import FakeEnvironment, apply_all
from tests.support.pure_shares import Services, Turn, run_moves
from tests.support.strategies import examples

ROWS = "SELECT k, v, 6 / v AS q FROM A [Rows 3]"


def moved(catalog: Catalog, queries: int | Collection[int], fragment: int, count: int) -> Catalog:
    """The catalog after queries have moved together."""
    numbers = [queries] if isinstance(queries, int) else queries
    names = ", ".join(f"q{query}" for query in numbers)
    return apply_all(f"ALTER QUERY {names} SET (fragment = '{fragment}')", catalog, FakeEnvironment({}, count))[0]


def ended(catalog: Catalog) -> Catalog:
    """The catalog after all fragments have taken over what has moved to them."""
    subplans = {each.id: msgspec.structs.replace(each, former_fragment=None) for each in catalog.subplans()}
    return catalog.with_changed(
        *(
            msgspec.structs.replace(query, former_fragment=None, links=with_subplans(query.links, subplans))
            for query in catalog.running()
        )
    )


def run(logs, catalogs: list[Catalog], targets: int, turns: list[Turn]) -> tuple[Services, list[tuple[str, ...]]]:
    services = services_of(logs)
    return services, run_moves(services, catalogs, targets, turns)


@settings(max_examples=examples(100))
@given(
    LOGS,
    DRAWN,
    st.integers(2, 3),
    st.integers(1, 3),
    st.lists(TURN, min_size=6, max_size=24),
    st.lists(
        st.tuples(st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True), st.integers(0, 2), st.booleans()),
        min_size=1,
        max_size=3,
    ),
)
def test_queries_that_move_publish_the_records_of_one_fragment(logs, drawn, count, targets, turns, moves) -> None:
    texts, fragments = [text for text, _ in drawn], [at % count for _, at in drawn]
    whole = run_over(logs, [placed_at([0] * len(texts), texts, 1, len(logs))])
    catalogs = [placed_at(fragments, texts, count, len(logs))]
    for queries, fragment, over in moves:
        catalogs.append(moved(catalogs[-1], {query % len(texts) for query in queries}, fragment % count, count))
        catalogs += [ended(catalogs[-1])] if over else []
    services, _ = run(logs, catalogs, targets, turns)
    assert results(services) == results(whole)
    # rows in fault that the fragment of a shared subplan has reported for a query may be reported again after a move
    assert set(map(repr, services.dead)) == set(map(repr, whole.dead))


LOG = [("ab"[at % 2], at % 3, at, None) for at in range(12)]


@pytest.mark.parametrize("text", [GROUPS, JOIN, ROWS])
def test_a_query_moves_with_its_state(text: str) -> None:
    others = ["SELECT DISTINCT k FROM B", text]
    catalogs = [placed_at([1, 0], others, 2)]
    catalogs += [moved(catalogs[0], 1, 1, 2)]
    catalogs += [moved(ended(catalogs[1]), 1, 0, 2)]
    services, taken = run([LOG], catalogs, 2, [(0, 3, False), (1, 3, False)] * 3)
    assert taken == [(), ("q1",), ("q1",)]
    whole, _ = run([LOG], [placed_at([0, 0], others, 1)], 1, [])
    assert results(services) == results(whole)
    assert Counter(map(repr, services.dead)) == Counter(map(repr, whole.dead))


OVER_GROUPS = f"SELECT n, COUNT(*) AS c, MAX(m) AS m FROM ({GROUPS}) GROUP BY n"


def test_queries_that_share_operators_move_together_with_their_state() -> None:
    texts = ["SELECT DISTINCT k FROM B", GROUPS, OVER_GROUPS, ROWS]
    catalogs = [placed_at([1, 0, 0, 0], texts, 2)]
    catalogs += [moved(catalogs[0], [1, 2], 1, 2)]
    services, taken = run([LOG], catalogs, 2, [(0, 3, False), (1, 3, False)] * 3)
    assert taken == [(), ("q1", "q2")]
    whole, _ = run([LOG], [placed_at([0] * 4, texts, 1)], 1, [])
    assert results(services) == results(whole)
    assert stateful_vertices(catalogs[1]) == stateful_vertices(catalogs[0])
    assert not (catalogs[1].get("q1").links or catalogs[1].get("q2").links)


def test_runs_that_several_queries_share_are_copied_once() -> None:
    shared = LaneManifest(("q7",), {}, [{"v": [["3/1/0.0.0@5+"]], "w": [["3/1/0.0.1@5+"]]}])
    copied, names = with_copied_runs(shared, "8/2/q7", {"3/1/0.0.0": "8/2/q6.0"})
    assert names == {"3/1/0.0.0": "8/2/q6.0", "3/1/0.0.1": "8/2/q7.1"}
    assert copied.names() == set(names.values())


def test_a_query_that_reads_a_link_moves_with_its_state() -> None:
    """It goes on reading the link, also in the fragment that computes the shared subplan."""
    texts = [GROUPS, OVER_GROUPS]
    catalogs = [placed_at([0, 1], texts, 3)]
    catalogs += [moved(catalogs[0], 1, 2, 3)]
    catalogs += [moved(ended(catalogs[1]), 1, 0, 3)]
    services, taken = run([LOG], catalogs, 2, [(0, 2, False), (1, 2, False), (2, 2, False)] * 4)
    assert taken == [(), ("q1",), ("q1",)]
    assert results(services) == results(run([LOG], [placed_at([0, 0], texts, 1)], 1, [])[0])
    assert [catalog.get("q1").links for catalog in catalogs[1:]] == [catalogs[0].get("q1").links] * 2


def test_a_shared_subplan_moves_along_with_its_state() -> None:
    texts = [GROUPS, OVER_GROUPS, QUERIES[1][3]]
    catalogs = [placed_at([0, 1, 2], texts, 3)]
    catalogs += [moved(catalogs[0], 0, 1, 3)]
    for query in ("q1", "q2"):
        assert [(link.fragment, link.former_fragment) for link in catalogs[1].get(query).links] == [("1", "0")]
    services, taken = run([LOG], catalogs, 2, [(0, 2, False), (1, 2, False), (2, 2, False)] * 4)
    assert sorted(taken[1]) == ["q0", "q1", "q1", "q2"], "the subplan for q1 and q2, and a report for each of them"
    assert results(services) == results(run([LOG], [placed_at([0, 0, 0], texts, 1)], 1, [])[0])
    assert stateful_vertices(catalogs[1])["GroupBy"] == stateful_vertices(catalogs[0])["GroupBy"] == 2


def test_a_subplan_that_moves_to_the_home_of_its_source_leaves_out_no_dead_letters() -> None:
    """The other fragment has read the first records, and the home writes the dead letters of all."""
    log = [("a", 0, at, "bad" if at == 4 else None) for at in range(8)]
    catalogs = [placed_at([1, 0], [GROUPS, GROUPS], 2)]
    catalogs += [moved(catalogs[0], 0, 0, 2)]
    services, taken = run([log], catalogs, 1, [(1, 20, False)] * 2)
    assert sorted(taken[1]) == ["q0", "q1", "q1"]
    assert len(services.dead) == 1


@pytest.mark.parametrize("others", [[], ["SELECT DISTINCT k FROM B"]])
def test_a_query_that_is_ahead_of_the_home_does_not_hide_dead_letters(others: list[str]) -> None:
    """Fragment 1 is the home of the second source and has read nothing of it when the query comes, which refuses a
    later record at once."""
    log = [("a", 0, at, None) for at in (0, 3, 0, 0)]
    catalogs = [placed_at([0, *(1 for _ in others)], [JOIN, *others], 2)]
    catalogs += [moved(catalogs[0], 0, 1, 2)]
    services, taken = run([log], catalogs, 1, [(0, 1, False)] * 5 + [(1, 1, False)])
    assert taken == [(), ("q0",)]
    assert Counter((dead.source, dead.offset) for dead in services.dead) == Counter(
        [("T", 2), ("T", 3), ("U", 2), ("U", 3)]
    )


def test_subplans_that_one_query_reads_move_together() -> None:
    """Otherwise two fragments would read the source for it, and report rows in fault twice."""
    values = "SELECT v, COUNT(*) AS n FROM A GROUP BY v"
    both = f"SELECT G.k, G.n, H.n AS h FROM ({GROUPS}) AS G JOIN ({values}) AS H ON H.v = G.m"
    before = placed_at([0, 0, 1], [GROUPS, values, both], 3)
    assert [link.fragment for link in before.get("q2").links] == ["0", "0"]
    for queries, places in (([0], ["0", "0"]), ([0, 1], ["2", "2"])):
        after = moved(before, queries, 2, 3)
        assert [link.fragment for link in after.get("q2").links] == places
        assert bool(after.get("q0").links) == (queries == [0])


def test_a_query_that_leaves_operators_to_others_starts_from_the_logs() -> None:
    catalogs = [placed_at([0, 0], [GROUPS, OVER_GROUPS], 2)]
    catalogs += [moved(catalogs[0], 1, 1, 2)]
    services, taken = run([LOG], catalogs, 1, [(0, 3, False), (1, 3, False)] * 3)
    assert taken == [(), ()]
    assert results(services) == results(run([LOG], [placed_at([0, 0], [GROUPS, OVER_GROUPS], 1)], 1, [])[0])


def test_a_query_that_is_already_in_the_fragment_stays_halted_by_another_statement() -> None:
    catalog = placed_at([0, 1], [GROUPS, ROWS], 2)
    halted = catalog.with_changed(msgspec.structs.replace(catalog.get("q1"), halted=True))
    after = moved(halted, [0, 1], 1, 2)
    assert (after.get("q0").fragment, after.get("q0").halted, after.get("q1").halted) == ("1", False, True)


def test_a_query_that_comes_back_at_once_still_has_its_state() -> None:
    catalogs = [placed_at([0], [GROUPS], 2)]
    catalogs += [moved(catalogs[0], 0, 1, 2)]
    catalogs += [moved(catalogs[1], 0, 0, 2)]
    services, taken = run([LOG], catalogs, 1, [(0, 3, False)] * 3)
    assert taken == [(), ("q0",), ("q0",)]
    assert results(services) == results(run([LOG], [placed_at([0], [GROUPS], 1)], 1, [])[0])


def test_the_former_fragment_keeps_the_state_until_it_is_taken_over() -> None:
    first = placed_at([0], [GROUPS], 2)
    second = moved(first, 0, 1, 2)
    query = first.get("q0").id
    assert plan_fragment(first, 1, fragment="0").left == frozenset()
    assert plan_fragment(second, 1, fragment="0").left == {query}
    assert plan_fragment(second, 1, fragment="1").left == plan_fragment(second, 1).left == frozenset()
    assert plan_fragment(ended(second), 1, fragment="0").left == frozenset()
    assert plan_fragment(moved(second, 0, 0, 2), 1, fragment="0").left == frozenset()
    there = plan_fragment(second, 1, fragment="1")
    assert [(each.id, former) for each, former in queries_to_take_over(there, Manifest())] == [(query, "0")]
    assert progress_left(there.queries[query], Manifest()) is None
