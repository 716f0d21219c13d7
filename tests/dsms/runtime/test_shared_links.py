"""Divided queries that share links publish the records of undivided ones, and compute what they share once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsms.model.catalog import Catalog
from dsms.planner.physical.fragment_plan import plan_fragment
from tests.dsms.registration.test_fragments import SOURCES
from tests.dsms.runtime.test_epoch import RECORD
from tests.dsms.runtime.test_shared_subplans import (
    GROUPS,
    JOIN,
    QUOTIENTS,
    SUMS,
    results,
    run_over,
    stateful_vertices,
    streamed,
)
from tests.support.fake_environment import FakeEnvironment, apply_all
from tests.support.pure_shares import Services
from tests.support.strategies import examples

_JOINED = f"SELECT k, COUNT(*) AS n, MAX(v) AS m, MAX(w) AS l FROM ({JOIN}) GROUP BY k"
_DIVIDED = f"SELECT k, COUNT(*) AS c, MAX(w) AS m FROM ({QUOTIENTS}) GROUP BY k"
_REFUSED = "SELECT k, v, 6 / v AS q, COUNT(*) AS n FROM A GROUP BY k, v"
#: Queries that contain each other's operators. "6 / v" puts rows in fault where records are read, "6 / (n - 2)" and the
#: sums do after an exchange.
FAMILIES = (
    (
        GROUPS,
        f"SELECT n, COUNT(*) AS c, MAX(m) AS m FROM ({GROUPS}) GROUP BY n",
        f"SELECT k, 6 / (n - 2) AS q, m FROM ({GROUPS})",
        f"SELECT S.k, S.v, G.n FROM R(S) AS S JOIN ({GROUPS}) AS G ON S.k = G.k",
    ),
    (
        SUMS,
        f"SELECT s, COUNT(*) AS c, MAX(m) AS m FROM ({SUMS}) GROUP BY s",
        f"SELECT k, s, 6 / m AS q FROM ({SUMS})",
        f"SELECT L.k, L.s, B.n FROM ({SUMS}) AS L JOIN (SELECT k, COUNT(*) AS n FROM B GROUP BY k) AS B ON B.k = L.k",
    ),
    (_REFUSED, f"SELECT n, COUNT(*) AS c FROM ({_REFUSED}) GROUP BY n", "SELECT k, v, 6 / v AS q FROM R(S)"),
    (_JOINED, f"SELECT n, COUNT(*) AS c, MAX(l) AS l FROM ({_JOINED}) GROUP BY n"),
    (_DIVIDED, f"SELECT c, COUNT(*) AS d FROM ({_DIVIDED}) GROUP BY c"),
    ("SELECT DISTINCT k FROM A UNION SELECT k FROM B", "SELECT DISTINCT k FROM A"),
)  # fmt: skip
LOGS = st.lists(st.lists(RECORD, max_size=8), min_size=3, max_size=3)
TURN = st.tuples(st.integers(0, 2), st.integers(1, 12), st.sampled_from([False, False, True]))
#: Two or three queries of a family, of which some may be equal.
DRAWN = st.sampled_from(FAMILIES).flatmap(lambda texts: st.lists(st.sampled_from(texts), min_size=2, max_size=3))


def divided(queries: Sequence[str], count: int) -> Catalog:
    """A catalog with queries q0, q1, …, each divided among `count` of three fragments."""
    known = {topic: dict.fromkeys(range(3), 0) for topic in "tu"}
    sql = ";".join(
        f"CREATE QUERY q{at} WITH (FRAGMENTS = {count}, PARTITIONS = 4) AS {streamed(text)}"
        for at, text in enumerate(queries)
    )
    return apply_all(SOURCES + sql, environment=FakeEnvironment(known, 3))[0]


def changed(catalog: Catalog, statement: str) -> Catalog:
    return apply_all(statement, catalog, FakeEnvironment({}, 3))[0]


def without_links(catalog: Catalog, *names: str) -> Catalog:
    """The catalog, in which some queries have links of their own, as those of earlier versions."""
    return catalog.with_changed(*(msgspec.structs.replace(catalog.get(name), shared_links=()) for name in names))


def all_dead(services: Services) -> Counter[str]:
    return Counter(map(repr, services.dead))


def _dead_of_readers(services: Services, catalog: Catalog) -> Counter[str]:
    """The dead letters of the queries of a catalog, and of the sources that they read."""
    read = {source for query in catalog.queries() for source in query.reads}
    sources = {source.name for source in catalog.sources() if source.id in read}
    writers = {None, *(query.name for query in catalog.queries())}
    return Counter(repr(dead) for dead in services.dead if dead.source in sources and dead.query in writers)


@settings(max_examples=examples(50))
@given(LOGS, DRAWN, st.integers(2, 3), st.integers(1, 3), st.lists(TURN, max_size=12))
def test_shared_links_do_not_change_the_records(logs, texts, count, targets, turns) -> None:
    whole = run_over(logs, [divided(texts, 1)])
    parts = run_over(logs, [divided(texts, count)], targets, turns)
    assert results(parts) == results(whole)
    assert all_dead(parts) == all_dead(whole)


@settings(max_examples=examples(30))
@given(LOGS, DRAWN, st.integers(2, 3), st.lists(TURN, min_size=6, max_size=20), st.integers(0, 2), st.booleans())
def test_queries_keep_their_links_when_others_go(logs, texts, count, turns, dropped, new) -> None:
    """The fragments begin again, without state, after a query was dropped or a first one was joined by others."""
    gone, whole = f"q{dropped % len(texts)}", run_over(logs, [divided(texts, 1)])
    before = divided(texts, count)
    after = changed(before, f"DROP QUERY {gone}")
    catalogs = [divided(texts[:1], count), before, after] if new else [before, after]
    parts = run_over(logs, catalogs, 2, turns)
    kept = {log: rows for log, rows in results(whole).items() if not log.startswith(f"{gone}/")}
    assert {log: rows for log, rows in results(parts).items() if not log.startswith(f"{gone}/")} == kept
    assert _dead_of_readers(parts, after) == _dead_of_readers(whole, after)


@settings(max_examples=examples(20))
@given(LOGS, DRAWN, st.lists(TURN, max_size=12))
def test_queries_of_earlier_versions_keep_their_links(logs, texts, turns) -> None:
    whole = run_over(logs, [divided(texts, 1)])
    earlier = without_links(divided(texts, 2), "q0")
    parts = run_over(logs, [earlier], 2, turns)
    assert results(parts) == results(whole)
    assert all_dead(parts) == all_dead(whole)
    own = [topic for topic in plan_fragment(earlier, 1, fragment="0").links if ".link." in topic]
    assert own and all(f".link.{earlier.get('q0').id}." in topic for topic in own)


@pytest.mark.parametrize(("texts", "stateful"), [
    (FAMILIES[0], {"GroupBy": 2, "Join": 1}),
    (FAMILIES[1], {"GroupBy": 3, "Join": 1}),
    (FAMILIES[3], {"GroupBy": 2, "Join": 1}),
    (FAMILIES[5], {"Distinct": 2}),
])  # fmt: skip
def test_shared_operators_run_once_in_each_fragment(texts, stateful) -> None:
    counts = stateful_vertices(divided(texts, 2))
    assert {kind: counts[kind] for kind in stateful} == {kind: 2 * once for kind, once in stateful.items()}


@pytest.mark.parametrize("texts", FAMILIES)
def test_each_link_is_written_once(texts) -> None:
    catalog = divided([*texts, texts[0]], 2)
    plans = [plan_fragment(catalog, 2, fragment=fragment) for fragment in "012"]
    written = Counter(
        (places.topic, partition)
        for plan in plans
        for places in plan.result_partitions.values()
        if places.topic.startswith("_dsms.")
        for partition in places.partitions
    )
    first, again = catalog.get("q0"), catalog.get(f"q{len(texts)}")
    assert first.shared_links == again.shared_links != ()
    assert written == dict.fromkeys(((link.topic, part) for link in catalog.links() for part in range(4)), 1)
    assert len(catalog.links()) < sum(len(query.shared_links) for query in catalog.queries()) - len(first.shared_links)


def test_a_link_goes_with_the_last_query_that_holds_it() -> None:
    catalog = divided(FAMILIES[0][:2], 2)
    common = {*catalog.get("q0").shared_links} & {*catalog.get("q1").shared_links}
    (link,) = common
    assert link.topic.startswith(f"_dsms.main.shared.{catalog.get('q0').id}.")
    without_first = changed(catalog, "DROP QUERY q0")
    assert link.topic not in without_first.dropped_topics
    assert without_first.dropped_topics.keys() == {each.topic for each in {*catalog.get("q0").shared_links} - common}
    assert link.topic in changed(without_first, "DROP QUERY q1").dropped_topics


def test_parts_stop_when_all_their_queries_are_paused() -> None:
    """So a part that has failed is tried again when they are resumed, like any query."""
    catalog = divided(FAMILIES[0][:2], 2)
    (link,) = {*catalog.get("q0").shared_links} & {*catalog.get("q1").shared_links}
    stopped = []
    for name in ("q0", "q1"):
        catalog = changed(catalog, f"PAUSE QUERY {name}")
        planned = plan_fragment(catalog, 1, fragment="0").queries
        first, second = (catalog.get(each).id for each in ("q0", "q1"))
        reports = [f"{query}~{link.digest[:12]}.0.faults" for query in (first, second)]
        stopped.append([planned[id].stopped for id in (f"{link.id}.0", *reports)])
    assert stopped == [[False, True, False], [True, True, True]]


@pytest.mark.parametrize(("first", "second"), [
    ("FRAGMENTS = 2", "FRAGMENTS = 3"),
    ("FRAGMENTS = 2, SHARED = FALSE", "FRAGMENTS = 2"),
    ("FRAGMENTS = 2", "FRAGMENTS = 2, SHARED = FALSE"),
    ("FRAGMENTS = 2, START = 4", "FRAGMENTS = 2"),
    ("FRAGMENTS = 2, PARTITIONS = 3", "FRAGMENTS = 2, PARTITIONS = 4"),
])  # fmt: skip
def test_queries_that_divide_or_read_their_input_differently_share_nothing(first, second) -> None:
    known = {topic: dict.fromkeys(range(3), 0) for topic in "tu"}
    sql = [f"CREATE QUERY q{at} WITH ({options}) AS {streamed(GROUPS)}" for at, options in enumerate((first, second))]
    catalog = apply_all(SOURCES + ";".join(sql), environment=FakeEnvironment(known, 3))[0]
    assert {*catalog.get("q0").shared_links}.isdisjoint(catalog.get("q1").shared_links)


def test_a_query_whose_fragments_change_leaves_the_links_to_others() -> None:
    catalog = changed(divided(FAMILIES[0][:2], 2), "ALTER QUERY q0 SET (FRAGMENTS = 3)")
    assert catalog.get("q0").shared_links == () != catalog.get("q1").shared_links
    assert not any(link.topic in catalog.dropped_topics for link in catalog.get("q1").shared_links)


def test_a_query_runs_on_the_fragments_of_the_one_with_which_it_shares_links() -> None:
    """Otherwise it would run on the least loaded ones."""
    known = {topic: dict.fromkeys(range(3), 0) for topic in "tu"}
    make = "CREATE QUERY {} WITH (FRAGMENTS = 2) AS {}"
    other = "SELECT STREAMED v, COUNT(*) AS n FROM B GROUP BY v"
    sql = [make.format("q0", streamed(GROUPS)), make.format("q1", other), make.format("q2", streamed(FAMILIES[0][1]))]
    catalog, done = apply_all(SOURCES + ";".join(sql), environment=FakeEnvironment(known, 4))
    assert [catalog.get(name).shares for name in ("q0", "q1", "q2")] == [("0", "1"), ("2", "3"), ("0", "1")]
    (notice,) = [notice for notice in done[-1].notices if "shares" in notice]
    assert notice == "shares 1 of its 3 links between fragments with q0, with all operators below"


def test_a_version_that_plans_a_query_differently_gives_it_links_of_its_own() -> None:
    catalog = divided(FAMILIES[0][:1], 2)
    query = catalog.get("q0")
    unknown = tuple(msgspec.structs.replace(link, digest="0" * 20) for link in query.shared_links)
    other = msgspec.structs.replace(query, shared_links=unknown)
    plan = plan_fragment(catalog.with_changed(other), 1, fragment="0")
    assert plan.links and all(f".link.{query.id}." in topic for topic in plan.links)


@pytest.mark.parametrize("renaming", ["ALTER QUERY q0", "ALTER STREAM S", "ALTER SOURCE T"])
def test_links_stay_when_an_object_is_renamed(renaming: str) -> None:
    before = divided(FAMILIES[0][:2], 2)
    after = changed(before, f"{renaming} RENAME TO renamed")
    known, now = ({name: plan_fragment(each, 3, fragment=name).links for name in "01"} for each in (before, after))
    assert known == now
    assert all(any(".shared." in topic for topic in links) for links in now.values())
