"""FRAGMENTS: which queries several fragments can run together, and what the catalog says about them."""

from __future__ import annotations

import msgspec
import pytest

from dsms.coordinator.service.cluster_copy import check_undivided
from dsms.planner.physical.fragment_plan import plan_fragment
from dsms.registration.placement import fragments_of
from dsms.registration.replacement import with_halted
from dsms.statements.registry import kind_of_statement, parse
from operators.core.errors import UserError
from tests.support.fake_environment import FakeEnvironment, apply_all

SOURCES = """REGISTER SOURCE T (k VARCHAR, v INT) FROM t; REGISTER SOURCE One (k VARCHAR, v INT) FROM one;
CREATE STREAM A OVER T KEY NULL; CREATE STREAM B OVER One KEY NULL;
CREATE TABLE Names (k VARCHAR PRIMARY KEY, name VARCHAR);
"""
COUNTS = "SELECT STREAMED k, COUNT(*) AS n FROM A GROUP BY k"


def environment(fragments: int = 3) -> FakeEnvironment:
    return FakeEnvironment({"t": dict.fromkeys(range(4), 0), "one": {0: 0}}, fragments)


def made(query: str, options: str = "FRAGMENTS = 2", fragments: int = 3):
    return apply_all(f"{SOURCES} CREATE QUERY q WITH ({options}) AS {query}", environment=environment(fragments))


def test_the_fragments_are_the_least_loaded_ones() -> None:
    catalog, results = made(COUNTS)
    query = catalog.get("q")
    assert query.shares == ("0", "1") and query.fragment == "0" and not query.shared
    assert any("fragments: 0, 1, each of which runs a shard of the keys" in result.notices for result in results)
    other = "SELECT STREAMED v, COUNT(*) AS n FROM A GROUP BY v"
    more = apply_all(f"CREATE QUERY r WITH (FRAGMENTS = 2) AS {other}", catalog, environment())[0]
    assert set(more.get("r").shares) > {"2"}
    assert fragments_of(catalog, 1) == ["0", "1"]


def test_each_fragment_plans_its_parts_and_nothing_else() -> None:
    catalog, _ = made(COUNTS)
    plans = {name: plan_fragment(catalog, 2, fragment=name) for name in ("0", "1", "2")}
    source = catalog.get("T")
    read = {
        name: {part.only for planned in plan.queries.values() for part in planned.sources if part.id == source.id}
        for name, plan in plans.items()
    }
    assert read == {"0": {(0, 2)}, "1": {(1, 3)}, "2": set()}
    assert plans["1"].foreign >= {(source.id, 0), (source.id, 2)} and source.homes == ("0", "1")
    assert plans["0"].links == plans["1"].links and set(plans["0"].links.values()) == {4}
    assert [planned.sink.name for planned in plan_fragment(catalog, 2).queries.values()] == ["q"]


def test_unchanged_plan_is_reused() -> None:
    catalog, _ = made(COUNTS)
    before = plan_fragment(catalog, 2, fragment="1")
    later = apply_all("CREATE STREAM C OVER T KEY k", catalog, environment())[0]
    after = plan_fragment(later, 2, before, "1")
    assert all(after.queries[id] is planned for id, planned in before.queries.items() if planned.part is not None)


@pytest.mark.parametrize(
    ("query", "options", "message"),
    [
        (COUNTS, "FRAGMENTS = 0", "FRAGMENTS needs a positive number, or AUTO"),
        (COUNTS, "FRAGMENTS = AUTO, MAX_ERROR = 0.1", "MAX_ERROR cannot be combined with FRAGMENTS"),
        ("SELECT STREAMED COUNT(*) AS n FROM A", "FRAGMENTS = AUTO", "its result has no key and is not append-only"),
        (COUNTS, "FRAGMENTS = 4", "the query needs 4 fragments, but there are 3"),
        (COUNTS, "FRAGMENTS = 3, PARTITIONS = 2", "the result has 2 partitions, fewer than the 3 fragments"),
        (COUNTS, "FRAGMENTS = 2, MAX_ERROR = 0.1", "MAX_ERROR cannot be combined with FRAGMENTS"),
        (COUNTS, "FRAGMENTS = 2, STATE_MEMORY = '1 MB'", "STATE_MEMORY cannot be combined with FRAGMENTS"),
        ("SELECT STREAMED k, v FROM B", "FRAGMENTS = 2", 'source "One" has 1 partition, fewer than the 2 fragments'),
        ("SELECT STREAMED A.k FROM A JOIN Names ON A.k = Names.k", "FRAGMENTS = 2", 'table "Names" has 1 partition'),
        ("SELECT STREAMED COUNT(*) AS n FROM A", "FRAGMENTS = 2", "its result has no key and is not append-only"),
    ],
)  # fmt: skip
def test_undividable_queries_are_refused_with_the_reason(query: str, options: str, message: str) -> None:
    with pytest.raises(UserError) as raised:
        made(query, options)
    assert message in raised.value.message


def test_one_fragment_is_no_division() -> None:
    assert made(COUNTS, "FRAGMENTS = 1")[0].get("q").shares == ()


@pytest.mark.parametrize(
    "statement", ["CREATE OR REPLACE QUERY q AS", "CREATE OR REPLACE QUERY q WITH (FRAGMENTS = 3) AS"]
)
def test_a_divided_query_is_not_replaced(statement: str) -> None:
    catalog, _ = made(COUNTS)
    with pytest.raises(UserError, match="is run by several fragments"):
        apply_all(f"{statement} {COUNTS}", catalog, environment())


def test_a_whole_query_is_not_divided_by_a_replacement() -> None:
    catalog, _ = made(COUNTS, "FRAGMENTS = 1")
    with pytest.raises(UserError, match="FRAGMENTS cannot be changed"):
        apply_all(f"CREATE OR REPLACE QUERY q WITH (FRAGMENTS = 2) AS {COUNTS}", catalog, environment())


def test_source_with_other_readers_keeps_its_home() -> None:
    before = apply_all(f"{SOURCES} CREATE QUERY all_of_it AS SELECT STREAMED k FROM A", environment=environment())[0]
    catalog = apply_all(f"CREATE QUERY q WITH (FRAGMENTS = 2) AS {COUNTS}", before, environment())[0]
    assert catalog.get("T").homes == ()
    alone = apply_all("DROP QUERY all_of_it", catalog, environment())[0]
    reads = [
        part.only for planned in plan_fragment(alone, 2, fragment="0").queries.values() for part in planned.sources
    ]
    assert None in reads  # the whole source is read, for its dead letters


def test_the_fragments_of_a_query_change() -> None:
    catalog, _ = made(COUNTS, "FRAGMENTS = 1")
    id = catalog.get("q").id
    for count, shares in ((3, ("0", "1", "2")), (2, ("0", "1")), (1, ())):
        before = catalog
        catalog, results = apply_all(f"ALTER QUERY q SET (FRAGMENTS = {count})", catalog, environment())
        query = catalog.get("q")
        assert query.id == id and query.shares == shares and query.divided_at_version == catalog.version
        assert plan_fragment(catalog, 2, fragment="0").takes_over(plan_fragment(before, 2, fragment="0"))
        assert ("run by fragments" in results[-1].message) == (count > 1)
    again, _ = apply_all("ALTER QUERY q SET (FRAGMENTS = 1)", catalog, environment())
    assert again == catalog


def test_replacement_keeps_or_adds_fragments_by_load() -> None:
    catalog, _ = made(COUNTS, "FRAGMENTS = AUTO")
    kept, _ = apply_all(f"CREATE OR REPLACE QUERY q AS {COUNTS} HAVING COUNT(*) > 1", catalog, environment())
    assert kept.get("q").fragments_by_load
    plain, _ = apply_all(f"CREATE OR REPLACE QUERY p AS {COUNTS}", catalog, environment())
    added, results = apply_all(f"CREATE OR REPLACE QUERY p WITH (FRAGMENTS = AUTO) AS {COUNTS}", plain, environment())
    assert added.get("p").fragments_by_load and "unchanged" not in results[0].message


def test_fragments_by_load_begin_with_one() -> None:
    catalog, results = made(COUNTS, "FRAGMENTS = AUTO")
    query = catalog.get("q")
    assert query.fragments_by_load and query.shares == ()
    assert any("fragments: more are added when the query falls behind" in result.notices for result in results)
    fixed, _ = apply_all("ALTER QUERY q SET (FRAGMENTS = 2)", catalog, environment())
    assert fixed.get("q").shares == ("0", "1") and not fixed.get("q").fragments_by_load
    again, results = apply_all("ALTER QUERY q SET (FRAGMENTS = AUTO)", fixed, environment())
    assert again.get("q").shares == ("0", "1") and again.get("q").fragments_by_load
    assert "gets more fragments when it falls behind" in results[-1].message


def test_the_present_number_of_fragments_halts_nothing_for_long() -> None:
    """The coordinator halts the query before it knows that its fragments do not change."""
    catalog, _ = made(COUNTS)
    asleep = with_halted(catalog, [catalog.get("q")])
    after, _ = apply_all("ALTER QUERY q SET (FRAGMENTS = 2, WEIGHT = 3)", asleep, environment())
    query = after.get("q")
    assert not query.halted and query.weight == 3 and query.shares == catalog.get("q").shares


def test_new_writer_of_dead_letters_takes_over_from_the_previous_one() -> None:
    """The new fragment reads the marks of the previous one; therefore it restarts. If the writer does not change, no
    fragment restarts."""
    before = apply_all(f"{SOURCES} CREATE QUERY q AS SELECT STREAMED k FROM A", environment=environment())[0]
    alone = apply_all("DROP QUERY q", before, environment())[0]
    catalog = apply_all(f"CREATE QUERY r WITH (FRAGMENTS = 2) AS {COUNTS}", alone, environment())[0]
    home, homes = alone.get("T").home, catalog.get("T").homes
    gaining = next(name for name in homes if name != home)
    as_if_known = apply_all("ALTER QUERY r SET (WEIGHT = 2)", catalog, environment())[0]
    for name, early, late in ((gaining, alone, catalog), (gaining, catalog, as_if_known)):
        plan, earlier = plan_fragment(late, 2, fragment=name), plan_fragment(early, 2, fragment=name)
        assert plan.takes_over(earlier) == (late is catalog)


def test_other_fragments_use_other_links() -> None:
    catalog, _ = made(COUNTS)
    links = set(plan_fragment(catalog, 2, fragment="0").links)
    for count in (3, 2):
        catalog = apply_all(f"ALTER QUERY q SET (FRAGMENTS = {count})", catalog, environment())[0]
        others = set(plan_fragment(catalog, 2, fragment="0").links)
        assert not links & others
        links |= others


def test_a_cluster_with_a_divided_query_is_not_copied() -> None:
    catalog, _ = made(COUNTS)
    with pytest.raises(UserError, match="is run by several fragments"):
        check_undivided(catalog)
    check_undivided(apply_all("ALTER QUERY q SET (FRAGMENTS = 1)", catalog, environment())[0])


def test_a_cluster_with_links_is_not_copied() -> None:
    """The copy would write the links of the original."""
    text = "SELECT STREAMED k, COUNT(*) AS n FROM A GROUP BY k"
    sql = ";".join(f"CREATE QUERY {name} WITH (fragment = '{at}') AS {text}" for at, name in enumerate("pr"))
    catalog, _ = apply_all(SOURCES + sql, environment=environment())
    assert catalog.subplans()
    with pytest.raises(UserError, match='"r" reads shared subplans of other fragments'):
        check_undivided(catalog)
    check_undivided(apply_all("ALTER QUERY r SET (FRAGMENTS = 1)", catalog, environment())[0])


def test_a_query_that_moves_keeps_the_order_of_its_joins() -> None:
    joins = "SELECT STREAMED X.k, X.v FROM A AS X JOIN A AS Y ON X.k = Y.k JOIN A AS Z ON X.k = Z.k"
    catalog, _ = made(joins, "FRAGMENT = '0'")
    ordered = catalog.with_changed(msgspec.structs.replace(catalog.get("q"), join_orders=((2, 1, 0),)))
    moved = apply_all("ALTER QUERY q SET (FRAGMENT = '1')", ordered, environment())[0].get("q")
    assert (moved.fragment, moved.former_fragment, moved.join_orders) == ("1", "0", ((2, 1, 0),))


def test_a_query_is_assigned_to_its_own_fragment_without_a_halt() -> None:
    catalog, _ = made(COUNTS, "WEIGHT = 1")
    query = catalog.get("q")
    for text, halted in ((query.fragment, ()), ("auto", ()), ("2", (query,))):
        (statement,) = parse(f"ALTER QUERY q SET (FRAGMENT = '{text}')")
        halts = kind_of_statement(statement).halts
        assert halts is not None and halts(statement, catalog).queries == halted
    assert apply_all(f"ALTER QUERY q SET (FRAGMENT = '{query.fragment}')", catalog, environment())[0].get("q").pinned
