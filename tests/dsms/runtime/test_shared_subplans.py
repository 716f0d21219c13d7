"""Queries of several fragments that read shared subplans through links publish the records of one fragment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsms.model.catalog import Catalog
from dsms.planner.physical.fragment_plan import compile_lane, plan_fragment
from dsms.registration.placement import fragments_of
from dsms.runtime.epoch.progress_log import ResultProgress, result_key
from tests.dsms.registration.test_fragments import SOURCES
from tests.dsms.runtime.test_epoch import RECORD, message
from tests.support.fake_environment import FakeEnvironment, apply_all
from tests.support.pure_shares import Member, Services, run_shares
from tests.support.strategies import examples

JOIN = "SELECT X.k, X.v, Y.v AS w FROM A [Range 5] AS X JOIN B [Range 5] AS Y ON X.k = Y.k"
GROUPS = "SELECT k, COUNT(*) AS n, MAX(v) AS m FROM A GROUP BY k"
RANKS = "SELECT k, v, RANK() OVER (PARTITION BY k ORDER BY v) AS r FROM B [Range 4]"
#: Sums of three and more can exceed BIGINT, so that a group has no value for a while.
SUMS = "SELECT k, SUM(v * CAST(4611686018427387903 AS BIGINT)) AS s, MAX(v) AS m FROM A GROUP BY k"
#: A stage after the exchange puts rows in fault.
QUOTIENTS = "SELECT X.k, X.v, 6 / (Y.v - 1) AS w FROM A [Range 5] AS X JOIN B [Range 5] AS Y ON X.k = Y.k"
WINDOWS = (
    "SELECT k, window_end, COUNT(*) AS n, MAX(v) AS m FROM TABLE(TUMBLE(TABLE A, DESCRIPTOR(TS), 4)) "
    "GROUP BY k, window_end"
)
#: The groups by such a session are one operator with it, unless the session is read through a link.
BARE_SESSIONS = (
    "SELECT k, v, 6 / v AS q, window_start, window_end FROM TABLE(SESSION(TABLE B PARTITION BY k, DESCRIPTOR(TS), 2))"
)
SESSIONS = (
    "SELECT k, window_end, COUNT(*) AS n, MAX(v) AS m FROM TABLE(SESSION(TABLE B PARTITION BY k, DESCRIPTOR(TS), 2)) "
    "GROUP BY k, window_start, window_end"
)
PATTERNS = (
    "SELECT * FROM A MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES X.v AS v, 6 / (Y.v - 2) AS q "
    "PATTERN (X Y) DEFINE Y AS Y.v > X.v)"
)
PATHS = (
    "WITH RECURSIVE p(k, v) AS (SELECT k, v FROM A [Range 4] UNION "
    "SELECT p.k, B.v FROM p JOIN B [Range 4] AS B ON p.v = B.v - 1) SELECT k, v FROM p"
)
TOTALS = "SELECT k, v, SUM(v * CAST(4611686018427387903 AS BIGINT)) OVER (PARTITION BY k) AS s FROM B [Range 4]"
#: Queries that contain each other's operators; "6 / v" puts rows in fault where records are read, "6 / (n - 2)" right
#: above a link.
QUERIES = (
    (
        JOIN,
        f"SELECT k, COUNT(*) AS n, MAX(v) AS m, MAX(w) AS l FROM ({JOIN}) GROUP BY k",
        f"SELECT n, COUNT(*) AS c, MAX(m) AS m, MAX(l) AS l "
        f"FROM (SELECT k, COUNT(*) AS n, MAX(v) AS m, MAX(w) AS l FROM ({JOIN}) GROUP BY k) GROUP BY n",
        f"SELECT J.k, J.v, J.w, S.v AS s FROM ({JOIN}) AS J JOIN R(S) AS S ON S.k = J.k",
    ),
    (
        GROUPS,
        f"SELECT n, COUNT(*) AS c, MAX(m) AS m FROM ({GROUPS}) GROUP BY n",
        f"SELECT k, 6 / (n - 2) AS q, m FROM ({GROUPS})",
        f"SELECT G.k, G.n, G.m, B.v FROM ({GROUPS}) AS G JOIN B [Range 3] AS B ON B.k = G.k",
    ),
    (
        "SELECT k, v, 6 / v AS q FROM A [Rows 3]",
        "SELECT k, v, 6 / v AS q, COUNT(*) AS n FROM A [Rows 3] GROUP BY k, v",
        "SELECT k, COUNT(*) AS n FROM (SELECT k, 6 / v AS q FROM A) GROUP BY k",
        "SELECT n, COUNT(*) AS c "
        "FROM (SELECT k, COUNT(*) AS n FROM (SELECT k, 6 / v AS q FROM A) GROUP BY k) GROUP BY n",
    ),
    (RANKS, f"SELECT r, COUNT(*) AS n, MAX(v) AS m, MIN(k) AS k FROM ({RANKS}) GROUP BY r"),
    ("SELECT DISTINCT k FROM B", "SELECT COUNT(*) AS n FROM (SELECT DISTINCT k FROM B)"),
    (
        SUMS,
        f"SELECT s, COUNT(*) AS c, MAX(m) AS m FROM ({SUMS}) GROUP BY s",
        f"SELECT k, s, 6 / m AS q FROM ({SUMS})",
        f"SELECT L.k, L.s, L.m, B.v FROM ({SUMS}) AS L JOIN B [Range 3] AS B ON B.k = L.k",
    ),
    (
        QUOTIENTS,
        f"SELECT k, COUNT(*) AS c, MAX(w) AS m FROM ({QUOTIENTS}) GROUP BY k",
        f"SELECT c, COUNT(*) AS d FROM (SELECT k, COUNT(*) AS c, MAX(w) AS m FROM ({QUOTIENTS}) GROUP BY k) GROUP BY c",
    ),
    (WINDOWS, f"SELECT n, COUNT(*) AS c, MAX(m) AS m FROM ({WINDOWS}) GROUP BY n"),
    (SESSIONS, f"SELECT n, COUNT(*) AS c, MAX(m) AS m FROM ({SESSIONS}) GROUP BY n"),
    (
        BARE_SESSIONS,
        "SELECT k, window_start, window_end, SUM(v) AS s "
        "FROM TABLE(SESSION(TABLE B PARTITION BY k, DESCRIPTOR(TS), 2)) GROUP BY k, window_start, window_end",
        f"SELECT k, window_start, window_end, COUNT(*) AS n, SUM(v) AS s FROM ({BARE_SESSIONS}) "
        f"GROUP BY k, window_start, window_end",
    ),
    (PATTERNS, f"SELECT v, COUNT(*) AS c, MAX(q) AS m FROM ({PATTERNS}) GROUP BY v"),
    (PATHS, f"SELECT v, COUNT(*) AS c, MAX(k) AS m FROM ({PATHS}) GROUP BY v"),
    (TOTALS, f"SELECT s, COUNT(*) AS n, MAX(v) AS m FROM ({TOTALS}) GROUP BY s"),
    (
        "SELECT k, v, 6 / v AS q FROM S [Rows 3]",
        "SELECT k, COUNT(*) AS c, MAX(q) AS m FROM (SELECT k, v, 6 / v AS q FROM S [Rows 3]) GROUP BY k",
    ),
    (
        f"{WINDOWS} EMIT FINAL",
        f"SELECT n, COUNT(*) AS c, MAX(m) AS m FROM ({WINDOWS} EMIT FINAL) GROUP BY n",
    ),
)
DRAWN = st.lists(st.sampled_from(QUERIES), min_size=1, max_size=2).flatmap(
    lambda groups: st.lists(
        st.tuples(st.sampled_from([text for group in groups for text in group]), st.integers(0, 2)),
        min_size=2,
        max_size=6,
    )
)
LOGS = st.lists(st.lists(RECORD, max_size=10), min_size=1, max_size=2)
TURN = st.tuples(st.integers(0, 2), st.integers(1, 12), st.sampled_from([False, False, True]))


def streamed(text: str) -> str:
    return text.replace("SELECT", "SELECT STREAMED", 1)


def placed_at(fragments: Sequence[int], queries: Sequence[str], count: int, partitions: int = 1) -> Catalog:
    """A catalog with queries q0, q1, …, each in the given fragment."""
    known = {topic: dict.fromkeys(range(partitions), 0) for topic in "tu"}
    sql = ";".join(
        f"CREATE QUERY q{at} WITH (FRAGMENT = '{fragment}') AS {streamed(text)}"
        for at, (fragment, text) in enumerate(zip(fragments, queries, strict=True))
    )
    return apply_all(SOURCES + sql, environment=FakeEnvironment(known, count))[0]


def services_of(logs) -> Services:
    """Kafka with these records in both topics."""
    ended = [[*log, ("z", 1, 99, None)] for log in logs]  # makes all earlier instants final at the end
    messages = {part: [message(at, record) for at, record in enumerate(log)] for part, log in enumerate(ended)}
    return Services({"t": messages, "u": messages})


def run_over(logs, catalogs: list[Catalog], targets: int = 1, turns: Sequence = ()) -> Services:
    return run_shares(services_of(logs), catalogs, targets, turns)


def check_sources(catalog: Catalog) -> None:
    """Each part of a plan reads the sources and links that it declares, and no others."""
    for fragment in fragments_of(catalog, 1):
        for planned in plan_fragment(catalog, 1, fragment=fragment).queries.values():
            read = {source.id for source in compile_lane("one", [planned]).sources.values()}
            assert read == {source.id for source in planned.sources}, planned.id


def results(services: Services) -> Mapping[str, list]:
    return {log: rows for log, rows in services.results.items() if rows}


def dead_letters(services: Services, without: str) -> Counter[str]:
    """The dead letters of sources and of all queries but one."""
    return Counter(repr(dead) for dead in services.dead if dead.query != without)


def stateful_vertices(catalog: Catalog) -> Counter[str]:
    """How often each operator with state runs in the fragments, apart from those that only hold elements back."""
    counts: Counter[str] = Counter()
    for fragment in fragments_of(catalog, 1):
        flow = compile_lane("all", plan_fragment(catalog, 1, fragment=fragment).queries.values()).flow
        for vertex in flow.vertices:
            if vertex.operator is not None and vertex.operator.traces():
                counts[vertex.kind] += 1
    return counts


@settings(max_examples=examples(150))
@given(
    LOGS,
    DRAWN,
    st.integers(2, 3),
    st.integers(1, 3),
    st.lists(TURN, max_size=12),
)
def test_links_do_not_change_the_records(logs, drawn, count, targets, turns) -> None:
    texts, fragments = [text for text, _ in drawn], [at % count for _, at in drawn]
    whole = run_over(logs, [placed_at([0] * len(texts), texts, 1, len(logs))])
    parts = run_over(logs, [placed_at(fragments, texts, count, len(logs))], targets, turns)
    assert results(parts) == results(whole)
    assert Counter(map(repr, parts.dead)) == Counter(map(repr, whole.dead))


@settings(max_examples=examples(60))
@given(LOGS, DRAWN, st.integers(2, 3), st.lists(TURN, min_size=6, max_size=20), st.integers(0, 4))
def test_readers_keep_what_they_read_when_other_queries_go(logs, drawn, count, turns, dropped) -> None:
    """The fragments begin again, without state, after a query was dropped whose operators others read."""
    texts, fragments = [text for text, _ in drawn], [at % count for _, at in drawn]
    gone, partitions = f"q{dropped % (len(texts) - 1)}", len(logs)
    whole = run_over(logs, [placed_at([0] * len(texts), texts, 1, partitions)])
    before = placed_at(fragments, texts, count, partitions)
    after, _ = apply_all(f"DROP QUERY {gone}", before, FakeEnvironment({}, count))
    parts = run_over(logs, [before, after], 2, turns)
    kept = {log: rows for log, rows in results(whole).items() if not log.startswith(f"{gone}/")}
    assert {log: rows for log, rows in results(parts).items() if not log.startswith(f"{gone}/")} == kept
    assert dead_letters(parts, gone) == dead_letters(whole, gone)


def test_a_shared_join_runs_once_in_the_cluster() -> None:
    texts = QUERIES[0][:3]
    catalog, alone = placed_at([0, 1, 2], texts, 3), placed_at([0, 0, 0], texts, 1)
    assert [catalog.get(f"q{at}").fragment for at in range(3)] == ["0", "1", "2"]
    for kind in ("Join", "GroupBy"):
        assert stateful_vertices(catalog)[kind] == stateful_vertices(alone)[kind]
    (groups,) = catalog.get("q2").links
    assert groups.fragment == "1"
    assert [join.fragment for join in groups.links] == ["0"]


@settings(max_examples=examples(60))
@given(
    LOGS, DRAWN, st.integers(2, 3), st.lists(TURN, min_size=6, max_size=20), st.lists(st.integers(0, 30), max_size=3)
)
def test_queries_move_between_fragments(logs, drawn, count, turns, moves) -> None:
    """A moved query starts from the logs, and other fragments start again without state."""
    texts, fragments = [text for text, _ in drawn], [at % count for _, at in drawn]
    whole = run_over(logs, [placed_at([0] * len(texts), texts, 1, len(logs))])
    catalogs = [placed_at(fragments, texts, count, len(logs))]
    for move in moves:
        moved = f"ALTER QUERY q{move % len(texts)} SET (fragment = '{move % count}')"
        catalogs.append(apply_all(moved, catalogs[-1], FakeEnvironment({}, count))[0])
    assert all(query.fragment in "012" for query in catalogs[-1].queries())
    assert results(run_over(logs, catalogs, 2, turns)) == results(whole)


@pytest.mark.parametrize("texts", QUERIES)
def test_every_shape_is_read_through_a_link(texts) -> None:
    catalog = placed_at([at % 2 for at in range(len(texts))], texts, 2)
    assert catalog.get("q1").links
    check_sources(catalog)


def test_a_report_does_not_begin_where_its_query_has_published() -> None:
    """The reader is further than the report on its subplan, which begins again without state."""
    texts = [SUMS, f"SELECT s, COUNT(*) AS c, MAX(m) AS m FROM ({SUMS}) GROUP BY s"]
    logs = [[("a", 2, at, None) for at in range(4)]]
    catalog = placed_at([0, 1], texts, 2)
    whole = run_over(logs, [placed_at([0, 0], texts, 1)])
    services = services_of(logs)
    report = next(id for id in plan_fragment(catalog, 1, fragment="0").queries if id.endswith(".faults"))
    reader = catalog.get("q1").id
    services.progress[result_key("q1", 0)] = msgspec.json.encode(ResultProgress(reader, 90, 1))
    run_shares(services, [catalog], 1, [])
    assert report.startswith(reader)
    assert dead_letters(services, "q0") == dead_letters(whole, "q0") != Counter()


def test_the_link_goes_with_its_last_reader() -> None:
    catalog = placed_at([0, 1, 1], QUERIES[0][:3], 2)
    (join,) = catalog.get("q1").links
    without_owner, _ = apply_all("DROP QUERY q1", catalog, FakeEnvironment({}, 2))
    assert without_owner.subplans() == [join]
    assert without_owner.dropped_topics.keys() == set()
    without_readers, _ = apply_all("DROP QUERY q2", without_owner, FakeEnvironment({}, 2))
    assert without_readers.subplans() == []
    assert without_readers.dropped_topics.keys() == {join.topic}
    assert join.topic.startswith("_dsms.main.subplan.o")


def test_a_row_in_fault_right_above_a_link_is_reported_with_the_record_that_caused_it() -> None:
    texts = [GROUPS, f"SELECT k, 6 / (n - 2) AS q, m FROM ({GROUPS})"]
    logs = [[("a", 1, 1, None), ("b", 2, 2, None), ("b", 3, 3, None)]]
    (dead,) = run_over(logs, [placed_at([0, 1], texts, 2)]).dead
    assert (dead.source, dead.partition, dead.offset, dead.query) == ("T", 0, 2, "q1")


def test_rows_in_fault_below_two_links_are_reported_whatever_is_read_first() -> None:
    """One group reads only A, the other one A and B; B has been read before the query begins that joins them."""
    one = "SELECT k, COUNT(*) AS n FROM (SELECT k, 6 / v AS q FROM A) GROUP BY k"
    two = "SELECT X.k, COUNT(*) AS m FROM (SELECT k, 5 / (v - 1) AS q FROM A) AS X JOIN B ON X.k = B.k GROUP BY X.k"
    both = f"SELECT L.k, L.n, M.m FROM ({one}) AS L JOIN ({two}) AS M ON L.k = M.k"
    others = [message(at, ("a", at, at, None)) for at in range(6)]
    records = [message(at, ("a", v, at, None)) for at, v in enumerate([0, 1, 2, 0, 1])]
    services = Services({"t": {0: []}, "u": {0: others}})
    members = [_member(at, placed_at([0, 0], [one, two], 2), services) for at in range(2)]
    for member in members:
        member.turn(100, 1)
    after = placed_at([0, 0, 1], [one, two, both], 2)
    for at, member in enumerate(members):
        member.plan = plan_fragment(after, 1, member.plan, str(at))
        services.logs |= {topic: {0: []} for topic in member.plan.links if topic not in services.logs}
    for known in (records[:3], records[3:]):
        services.logs["t"][0] += known
        while any([member.turn(1 if known[0].offset() == 0 else 5, 1) for member in members]):
            pass
    assert sorted(dead.offset for dead in services.dead if dead.query == "q2") == [0, 1, 3, 4]


def _member(at: int, catalog: Catalog, services: Services) -> Member:
    return Member(plan_fragment(catalog, 1, fragment=str(at)), services, 1)


def test_a_fragment_plans_a_query_that_reads_its_subplans_once() -> None:
    catalog = placed_at([0, 1], QUERIES[0][:2], 2)
    first = plan_fragment(catalog, 1, fragment="0")
    again = plan_fragment(catalog.with_objects(catalog.objects), 1, first, "0")
    assert again.readers["o7"] is first.readers["o7"]
    assert [again.queries[id] is planned for id, planned in first.queries.items()] == [True] * len(first.queries)


def test_the_parts_for_a_query_stop_when_it_is_paused_unless_others_read_them() -> None:
    """So a subplan that has failed is tried again when its readers are resumed, like any query."""
    texts = [*QUERIES[0][:2], f"SELECT w, COUNT(*) AS n FROM ({JOIN}) GROUP BY w"]
    catalog, environment = placed_at([0, 1, 1], texts, 2), FakeEnvironment({}, 2)
    stopped = []
    for name in ("q1", "q2"):
        catalog, _ = apply_all(f"PAUSE QUERY {name}", catalog, environment)
        parts = [each for each in plan_fragment(catalog, 1, fragment="0").queries.values() if each.part is not None]
        stopped.append({each.id.partition("~")[0] + each.id[-7:]: each.stopped for each in parts})
    assert stopped[0] == {"o7subplan": False, "o7.faults": True, "o8.faults": False}
    assert stopped[1] == {"o7subplan": True, "o7.faults": True, "o8.faults": True}


def dead_of(catalogs: list[Catalog], services: Services, turns: Sequence) -> Counter[str]:
    run_shares(services, catalogs, 1, turns)
    return Counter(repr(dead) for dead in services.dead)


#: Fragment 0 and fragment 1 take turns, without crashes.
SOME_TURNS = [(at % 2, 3, False) for at in range(8)]


def test_faults_above_a_link_do_not_hide_how_far_those_below_are_written() -> None:
    """The reader and the report write dead letters of one source, in two fragments; both begin again without state."""
    texts = [QUERIES[2][2], f"SELECT k, 6 / (n - 2) AS z FROM ({QUERIES[2][2]})"]
    logs = [[("a", 0, 1, None), ("a", 1, 2, None), ("b", 0, 3, None), ("a", 2, 4, None), ("b", 1, 5, None)]]
    catalog = placed_at([0, 1], texts, 2)
    whole = dead_of([placed_at([0, 0], texts, 1)], services_of(logs), [])
    assert dead_of([catalog, catalog, catalog], services_of(logs), SOME_TURNS * 3) == whole


def test_a_row_in_fault_without_a_record_is_reported_at_the_first_source_of_its_query() -> None:
    texts = [
        GROUPS,
        "SELECT q, COUNT(*) AS c FROM (SELECT 6 / n AS q FROM (SELECT COUNT(*) AS n FROM B)) GROUP BY q",
        "SELECT A.k, N.c FROM A JOIN (SELECT q, COUNT(*) AS c "
        "FROM (SELECT 6 / n AS q FROM (SELECT COUNT(*) AS n FROM B)) GROUP BY q) AS N ON A.v = N.q",
        f"SELECT n, COUNT(*) AS c FROM ({GROUPS}) GROUP BY n",
    ]
    logs = [[("a", 1, 1, None)]]
    one, two = placed_at([0] * 4, texts, 1), placed_at([0, 1, 0, 1], texts, 2)
    assert two.subplans()
    assert dead_of([two], services_of(logs), []) == dead_of([one], services_of(logs), []) != Counter()


def test_reports_that_meet_after_a_move_lose_nothing() -> None:
    """The fragment of one subplan was ahead; a query has moved to the fragment of the other one."""
    other = SUMS.replace("FROM A", "FROM B")
    both = f"SELECT L.k, L.s, R.s AS t FROM ({SUMS}) AS L JOIN ({other}) AS R ON L.k = R.k"
    logs = [[("a", 2, at, None) for at in range(4)]]
    for moved_one, ahead in ((0, 0), (1, 1)):
        before = placed_at([0, 1, 2], [SUMS, other, both], 3)
        statement = f"ALTER QUERY q{moved_one} SET (fragment = '{1 - moved_one}')"
        after = apply_all(statement, before, FakeEnvironment({}, 3))[0]
        whole = dead_of([placed_at([0, 0, 0], [SUMS, other, both], 1)], services_of(logs), [])
        found = dead_of([before, after], services_of(logs), [(ahead, 12, False)] * 4)
        assert whole - found == Counter()
