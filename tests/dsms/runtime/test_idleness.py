"""When a silent partition stops holding back the frontier, and how far the frontier moves then."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsms.model.objects import Source
from dsms.planner.physical.fragment_plan import compile_lane, plan_fragment
from dsms.runtime.batching.idleness import SourceActivity, heartbeats_due, sources_of_queries
from dsms.runtime.lanes.manifest import Position
from dsms.testing import LocalSession
from operators.core.clock import Heartbeat
from operators.core.delta import BEGINNING
from tests.support.fake_environment import FakeEnvironment, apply_all

FOUND = apply_all("REGISTER SOURCE T (k INT) FROM t SLACK 10 IDLE AFTER 2 SECONDS")[0].find("T")
assert isinstance(FOUND, Source)
SOURCE = FOUND
AT = {0: Position(7, 90, 100), 1: Position(3, 40, 50)}
FOREVER = 9e9
ALONE = [frozenset({SOURCE.id})]


def due_alone(seen: SourceActivity) -> dict[int, Heartbeat]:
    """The heartbeats that are due for a source, if one query reads it without other sources."""
    return heartbeats_due({seen.source.id: seen}, [frozenset({seen.source.id})]).get(seen.source.id, {})


@pytest.mark.parametrize(
    ("silent", "ends", "expected"),
    [
        ({0: 0, 1: 1_999}, {0: 7, 1: 3}, {}),
        ({0: 0, 1: 2_000}, {0: 7, 1: 3}, {1: Heartbeat(3, 90)}),
        ({0: 0, 1: 2_000}, {0: 7, 1: 4}, {}),
        ({0: 2_000, 1: 0}, {0: 7, 1: 3}, {}),
        ({0: 2_000, 1: 2_000}, {0: 7, 1: 3}, {0: Heartbeat(7, 101), 1: Heartbeat(3, 101)}),
        ({}, {0: 7, 1: 3}, {}),
    ],
    ids=["not yet", "one is silent", "not read to its end", "the leader holds nothing", "all are silent", "unknown"],
)
def test_promises(silent, ends, expected) -> None:
    assert due_alone(SourceActivity(SOURCE, AT, ends, silent)) == expected


def test_no_heartbeat_for_idle_never_or_an_unread_source() -> None:
    ends, silent = {0: 7, 1: 3}, {0: FOREVER, 1: FOREVER}
    assert due_alone(SourceActivity(msgspec.structs.replace(SOURCE, idle_ms=None), AT, ends, silent)) == {}
    assert due_alone(SourceActivity(SOURCE, {0: Position(0)}, {0: 0}, {0: FOREVER})) == {}
    moved = {p: Position(at.offset, 101, at.high) for p, at in AT.items()}
    assert due_alone(SourceActivity(SOURCE, moved, ends, silent)) == {}


def source(name: str, **changed: object) -> Source:
    """A source without slack, which is idle after two seconds."""
    return msgspec.structs.replace(SOURCE, id=name, name=name, slack=0, **changed)


def at(name: str, instant: int, *, silent: bool = True, **changed: object) -> SourceActivity:
    """A source with one partition, whose last record has the instant; with BEGINNING it has no record."""
    position = Position(0) if instant == BEGINNING else Position(1, instant, instant)
    return SourceActivity(source(name, **changed), {0: position}, {0: position.offset}, {0: FOREVER if silent else 0.0})


def settled(seen: list[SourceActivity], groups: list[set[str]]) -> dict[str, int]:
    """The frontiers when no further heartbeats are due."""
    world = {each.source.id: each for each in seen}
    for _ in range(20):
        due = heartbeats_due(world, [frozenset(group) for group in groups])
        if not due:
            return {name: each.frontier for name, each in world.items()}
        for name, beats in due.items():
            moved = {
                part: msgspec.structs.replace(at, frontier=beats[part].time) if part in beats else at
                for part, at in world[name].positions.items()
            }
            world[name] = SourceActivity(
                world[name].source, moved, world[name].ends, world[name].silent_ms, world[name].passed_by_others
            )
    raise AssertionError("heartbeats are due for ever")


def test_three_silent_sources_of_one_query_pass_the_greatest_instant() -> None:
    """They do not stay at 2001, 1001 and 1001, where the rows at 2000 would never be final."""
    assert settled([at("L", 2000), at("R", 1000), at("Z", 5)], [{"L", "R", "Z"}]) == {"L": 2001, "R": 2001, "Z": 2001}


def test_two_silent_sources_follow_the_active_one() -> None:
    seen = [at("L", 30, silent=False), at("R", 2), at("Z", 1)]
    assert settled(seen, [{"L", "R", "Z"}]) == {"L": 30, "R": 30, "Z": 30}


def test_silent_sources_follow_the_slowest_active_source() -> None:
    seen = [at("L", 30, silent=False), at("R", 20, silent=False), at("Z", 1), at("Y", BEGINNING)]
    assert settled(seen, [{"L", "R", "Z", "Y"}]) == {"L": 30, "R": 20, "Z": 20, "Y": 20}


def test_a_source_that_is_never_idle_holds_back_only_its_own_queries() -> None:
    seen = [at("L", 30), at("R", 2, idle_ms=None), at("Z", 1)]
    assert settled(seen, [{"L", "R"}, {"L", "Z"}]) == {"L": 31, "R": 2, "Z": 31}


def test_unrelated_sources_do_not_move_each_other() -> None:
    seen = [at("slow", 1000), at("fast", 71_000, silent=False), at("click", 1_795_651_200_000)]
    groups: list[set[str]] = [{"slow"}, {"fast"}, {"click"}]
    assert settled(seen, groups) == {"slow": 1001, "fast": 71_000, "click": 1_795_651_200_001}


def test_a_shared_source_holds_back_none_of_its_queries() -> None:
    """A and B are not read together, but each is read with S: the slow B does not hold back the query over A."""
    seen = [at("S", 5), at("A", 500, silent=False), at("B", 70, silent=False)]
    assert settled(seen, [{"S", "A"}, {"S", "B"}]) == {"S": 500, "A": 500, "B": 70}
    seen = [at("S", 5), at("A", 500), at("B", 70, silent=False)]
    assert settled(seen, [{"S", "A"}, {"S", "B"}]) == {"S": 501, "A": 501, "B": 70}


def test_shares_of_a_divided_query_follow_the_others() -> None:
    seen = at("S", 5, only=(0,))
    elsewhere = SourceActivity(seen.source, seen.positions, seen.ends, seen.silent_ms, passed_by_others=800)
    assert settled([elsewhere], [{"S"}]) == {"S": 800}
    assert settled([elsewhere, at("A", 20, only=(0,))], [{"S", "A"}]) == {"S": 800, "A": 800}


SOURCES = "ABCD"


@given(
    st.lists(st.tuples(st.integers(0, 9) | st.none(), st.booleans()), min_size=4, max_size=4),
    st.lists(st.sets(st.sampled_from(SOURCES), min_size=1), min_size=1, max_size=4),
)
def test_silent_sources_hold_back_no_query(drawn, groups) -> None:
    """For any silent sources and any queries: a query reaches the least instant of its sources that continue, or all of
    its rows are final if no source continues. No source moves beyond the instants that the sources read with it have
    reached."""
    seen = [
        at(name, BEGINNING if instant is None else instant, silent=silent)
        for name, (instant, silent) in zip(SOURCES, drawn, strict=True)
    ]
    highs = {each.source.id: each.high for each in seen}
    goes_on = {each.source.id for each in seen if not each.all_idle}
    reached = settled(seen, groups)
    for group in groups:
        going = group & goes_on
        least = min(highs[name] for name in going) if going else max(highs[name] for name in group) + 1
        assert min(reached[name] for name in group) >= (
            least if max(highs[n] for n in group) > BEGINNING else BEGINNING
        )
    for name in SOURCES:
        together = set().union({name}, *(group for group in groups if name in group))
        assert reached[name] <= max(highs[other] for other in together) + (0 if name in goes_on else 1)


SQL = """
    REGISTER SOURCE TA (k INT, v INT) FROM a; CREATE STREAM A OVER TA KEY k;
    REGISTER SOURCE TB (k INT, v INT) FROM b; CREATE STREAM B OVER TB KEY k;
    REGISTER SOURCE TC (k INT, v INT) FROM c; CREATE STREAM C OVER TC KEY k;
    CREATE STREAMED VIEW V AS SELECT A.k, B.v FROM R(A) A, R(B) B WHERE A.k = B.k;
    CREATE STREAMED VIEW W AS SELECT V.k, C.v FROM R(V) V, R(C) C WHERE V.k = C.k;
    CREATE STREAMED VIEW X AS SELECT k, v FROM R(C) C;
"""


def test_which_sources_queries_read_together() -> None:
    catalog, _ = apply_all(SQL, environment=FakeEnvironment({"a": {0: 0}, "b": {0: 0}, "c": {0: 0}}))
    queries = list(plan_fragment(catalog, 1).queries.values())
    ids = {name: catalog.find(f"T{name}").id for name in "ABC"}
    expected = {frozenset(ids[name] for name in names) for names in ("AB", "ABC", "C")}
    assert set(sources_of_queries([compile_lane("all", queries)])) == expected
    assert set(sources_of_queries([compile_lane(query.id, [query]) for query in queries])) == expected


DIVIDED = """
    REGISTER SOURCE TA (k INT, v INT) FROM a; CREATE STREAM A OVER TA KEY k;
    REGISTER SOURCE TB (k INT, v INT) FROM b; CREATE STREAM B OVER TB KEY k;
    CREATE QUERY Q WITH (FRAGMENTS = 2, PARTITIONS = 2) AS
        SELECT STREAMED A.k, B.v FROM R(A) A, R(B) B WHERE A.k = B.k;
"""


def test_the_parts_of_a_divided_query_are_one_query() -> None:
    environment = FakeEnvironment({"a": {0: 0, 1: 0}, "b": {0: 0, 1: 0}}, fragments=2)
    catalog, _ = apply_all(DIVIDED, environment=environment)
    both = frozenset(catalog.find(f"T{name}").id for name in "AB")
    for fragment in ("0", "1"):
        parts = list(plan_fragment(catalog, 1, fragment=fragment).queries.values())
        assert len(parts) > 1
        assert set(sources_of_queries([compile_lane(part.id, [part]) for part in parts])) == {both}


FILLED = """
    CREATE STREAM A (k INT, v INT, at BIGINT) ORDER BY at SOURCE 'a';
    CREATE STREAM B (k INT, v INT, at BIGINT) ORDER BY at SOURCE 'b';
    CREATE TABLE Filled (k INT PRIMARY KEY, v INT);
    CREATE TABLE Written (k INT PRIMARY KEY, v INT);
    INSERT INTO Filled SELECT k, v FROM A;
    CREATE STREAMED VIEW V AS SELECT F.k, B.v FROM Filled F, Written W, B WHERE F.k = B.k AND W.k = B.k;
"""


def test_table_filled_by_a_query_depends_on_its_sources() -> None:
    session = LocalSession()
    session.run(FILLED)
    queries = list(plan_fragment(session.catalog, 1).queries.values())
    a, b = (source.id for source in session.catalog.sources())
    groups = set(sources_of_queries([compile_lane(query.id, [query]) for query in queries]))
    assert groups == {frozenset({a}), frozenset({a, b})}


def test_a_silent_source_follows_the_sources_that_other_fragments_read_for_its_query() -> None:
    """A query joins T, which is read here, with U, which another fragment reads for it."""
    silent = {0: FOREVER, 1: FOREVER}
    at = SourceActivity(source("T"), AT, {0: 7, 1: 3}, silent)

    def due(passed: int) -> set[int]:
        beats = heartbeats_due({"T": at}, [frozenset({"T", "U"})], {"U": passed}.__getitem__)
        return {beat.time for beat in beats["T"].values()}

    assert due(5_000) == {5_000}
    assert due(50) == {101}  # it passes its own greatest instant in any case
    assert due(BEGINNING) == {101}


def test_the_sources_below_a_link_belong_to_the_group_of_its_reader() -> None:
    texts = ["SELECT k, COUNT(*) AS n FROM A GROUP BY k", "SELECT G.k, B.v FROM ({}) AS G JOIN B ON B.k = G.k"]
    known = {topic: {0: 0} for topic in "tu"}
    sources = "".join(
        f"REGISTER SOURCE {name} (k INT, v INT) FROM {name}; CREATE STREAM {stream} OVER {name} KEY NULL;"
        for name, stream in (("t", "A"), ("u", "B"))
    )
    catalog, _ = apply_all(
        f"{sources} CREATE QUERY p WITH (fragment = '0') AS {texts[0].replace('SELECT', 'SELECT STREAMED', 1)};"
        f"CREATE QUERY q WITH (fragment = '1') AS SELECT STREAMED {texts[1].format(texts[0])[7:]}",
        environment=FakeEnvironment(known, 2),
    )
    ids = frozenset(catalog.find(name).id for name in "tu")
    plans = [plan_fragment(catalog, 1, fragment=fragment) for fragment in "01"]
    here, reader = ([compile_lane("all", plan.queries.values())] for plan in plans)
    assert ids in sources_of_queries(reader)
    assert sources_of_queries(here) == {frozenset({catalog.find("t").id})}
    assert plans[0].sources_of_readers == {ids}
    assert plans[1].sources_of_readers == {ids}


def test_the_sources_of_a_query_that_fills_a_table_in_another_fragment_belong_to_the_group_of_its_reader() -> None:
    """The query f fills a table in fragment 1; q reads the table and U in fragment 0."""
    environment = FakeEnvironment({topic: {0: 0} for topic in "tu"}, 2)
    sql = """REGISTER SOURCE T (k INT, v INT) FROM t; CREATE STREAM A OVER T KEY NULL;
    REGISTER SOURCE U (k INT, v INT) FROM u; CREATE STREAM B OVER U KEY NULL;
    CREATE TABLE Filled (k INT PRIMARY KEY, v INT);
    CREATE QUERY f WITH (fragment = '1') AS SELECT STREAMED k, v FROM A;
    CREATE QUERY q WITH (fragment = '0') AS SELECT STREAMED F.k, B.v FROM Filled F JOIN B ON F.k = B.k"""
    catalog, _ = apply_all(sql, environment=environment)
    filling = msgspec.structs.replace(catalog.get("f"), fills=catalog.get("Filled").source.id)
    plans = [plan_fragment(catalog.with_changed(filling), 1, fragment=at) for at in "01"]
    ids = frozenset(source.id for source in catalog.sources())
    assert [plan.sources_of_readers for plan in plans] == [{ids}, {ids}]
