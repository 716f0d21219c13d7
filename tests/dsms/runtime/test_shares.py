"""Queries that several fragments run together publish the records of one fragment, in the same order."""

from __future__ import annotations

import json
from collections import Counter

from hypothesis import example, given, settings
from hypothesis import strategies as st

from dsms.model.catalog import Catalog
from tests.dsms.registration.test_fragments import SOURCES
from tests.dsms.runtime.test_epoch import RECORD, message
from tests.support.fake_environment import FakeEnvironment, apply_all
from tests.support.pure_shares import Services, run_shares
from tests.support.strategies import examples

QUERIES = (
    "SELECT STREAMED k, v FROM A WHERE v > 0",
    "SELECT STREAMED k, v FROM R(S) WHERE v > 1",
    "SELECT STREAMED k, COUNT(*) AS n, SUM(v) AS s FROM A GROUP BY k",
    "SELECT STREAMED v, COUNT(*) AS n FROM (SELECT k, MAX(v) AS v FROM A GROUP BY k) GROUP BY v",
    "SELECT STREAMED S.k, S.v, M.m FROM R(S) AS S JOIN (SELECT k, MIN(v) AS m FROM B GROUP BY k) AS M ON S.k = M.k",
    "SELECT STREAMED S.k, S.v, n FROM R(S) AS S JOIN (SELECT v, COUNT(*) AS n FROM B GROUP BY v) AS C ON S.v = C.v",
    "SELECT STREAMED G.v, G.n, C.c FROM (SELECT v, COUNT(*) AS n FROM A GROUP BY v) AS G "
    "JOIN (SELECT DISTINCT c FROM (VALUES (1), (2)) AS t(c)) AS C ON G.n = C.c",
    "SELECT STREAMED k, v, 6 / v AS q FROM R(S)",
    "SELECT STREAMED v, 6 / v AS q, COUNT(*) AS n FROM A GROUP BY v",
    "SELECT STREAMED DISTINCT k FROM A UNION SELECT k FROM B",
    "SELECT STREAMED k, v, r FROM (SELECT k, v, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) AS r FROM A) WHERE r < 3",
)  # fmt: skip
#: The queries without rows in fault. Some rows in fault may be reported again when the fragments of a query change.
SPARED = tuple(query for query in QUERIES if "6 / v" not in query)
LOGS = st.lists(st.lists(RECORD, max_size=10), min_size=3, max_size=3)
TURN = st.tuples(st.integers(0, 2), st.integers(1, 12), st.sampled_from([False, False, True]))
TURNS = st.lists(TURN, max_size=12)


def _catalog(query: str, fragments: int) -> Catalog:
    known = {topic: dict.fromkeys(range(3), 0) for topic in "tu"}
    sql = f"{SOURCES} CREATE QUERY q WITH (FRAGMENTS = {fragments}, PARTITIONS = 4) AS {query}"
    return apply_all(sql, environment=FakeEnvironment(known, 3))[0]


def _run(logs, catalogs: list[Catalog], targets: int, turns, covered=()) -> Services:
    ended = [[*log, ("z", 1, 99, None)] for log in logs]  # makes all earlier instants final at the end
    messages = {part: [message(at, record) for at, record in enumerate(log)] for part, log in enumerate(ended)}
    return run_shares(Services({"t": messages, "u": messages}, covered=covered), catalogs, targets, turns)


def _same(parts: Services, whole: Services) -> None:
    assert {log: rows for log, rows in parts.results.items() if rows} == whole.results
    assert Counter(map(repr, parts.dead)) == Counter(map(repr, whole.dead))


@settings(max_examples=examples(100))
@given(LOGS, st.sampled_from(QUERIES), st.integers(2, 3), st.integers(1, 3), TURNS)
def test_fragments_together_give_the_records_of_one(logs, query, fragments, targets, turns) -> None:
    whole = _run(logs, [_catalog(query, 1)], 1, [])
    catalog = _catalog(query, fragments)
    parts = _run(logs, [catalog], targets, turns)
    _same(parts, whole)
    last = [json.loads(value) for key, value in parts.progress.items() if key.startswith(b"dsms.q/")]
    assert {progress["query"] for progress in last} == {
        f"{catalog.get('q').id}@{at}of{fragments}" for at in range(fragments)
    }


@settings(max_examples=examples(100))
@example(  # one shard is ahead when a fragment takes over, and this fragment crashes before all partitions are as far
    logs=[[("a", 1, at, None) for at in range(1, 11)]] * 3, query=QUERIES[0], counts=[2, 1], targets=1,
    turns=[(0, 12, False), (0, 12, False), (1, 3, False), (0, 3, False), (0, 3, False), (0, 12, True)], covered=[],
)  # fmt: skip
@given(
    st.lists(st.lists(RECORD, max_size=16), min_size=3, max_size=3),
    st.sampled_from(SPARED),
    st.lists(st.integers(1, 3), min_size=2, max_size=4),
    st.integers(1, 2),
    st.lists(TURN, min_size=6, max_size=30),
    st.lists(st.booleans(), max_size=8),
)
def test_query_moves_between_fragments_without_lost_or_repeated_records(
    logs, query, counts, targets, turns, covered
) -> None:
    """No record is published twice or lost, although some result partitions are further than others when the fragments
    change. Crashed fragments learn this again, even if another writer has overwritten their progress."""
    whole = _run(logs, [_catalog(query, 1)], 1, [])
    catalogs = [_catalog(query, counts[0])]
    for count in counts[1:]:
        environment = FakeEnvironment({topic: dict.fromkeys(range(3), 0) for topic in "tu"}, 3)
        catalogs.append(apply_all(f"ALTER QUERY q SET (FRAGMENTS = {count})", catalogs[-1], environment)[0])
    _same(_run(logs, catalogs, targets, turns, covered), whole)
