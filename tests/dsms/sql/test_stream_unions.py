"""UNION of streams: equal tuples with the same timestamp are duplicates (ESL, section 2.2). UNION of relations is a
set."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsms.model import logical
from dsms.model.objects import Query
from dsms.model.properties import append_only
from dsms.sql.binder.from_clause.catalog_relations import plan_of
from dsms.testing import LocalSession
from tests.support.fake_environment import FakeEnvironment, apply_all
from tests.support.strategies import examples

STREAMS = """
CREATE STREAM A (k INT, at BIGINT) ORDER BY at SOURCE 'a'; CREATE STREAM B (k INT, at BIGINT) ORDER BY at SOURCE 'b';
REGISTER SOURCE plain (k INT, at BIGINT) FROM c TIMESTAMP BY at; CREATE STREAM C OVER plain KEY NULL;
CREATE STREAM D AS SELECT k FROM A WHERE k > 0; CREATE STREAMED VIEW V AS SELECT k FROM C;
"""
TOPICS = FakeEnvironment({"a": {0: 0}, "b": {0: 0}, "c": {0: 0}})
MERGED = [
    "SELECT k FROM A UNION SELECT k FROM B",
    "SELECT k FROM A UNION SELECT k FROM D",
    "SELECT k FROM A UNION ALL SELECT k FROM B UNION SELECT k FROM D",
    "(SELECT k FROM A WHERE k > 1) UNION (SELECT k + 1 AS k FROM B)",
    "SELECT k FROM (SELECT k FROM A UNION SELECT k FROM B) AS u WHERE k > 0",
    "WITH m AS (SELECT k FROM A) SELECT k FROM m UNION SELECT k FROM B",
]
SETS = [
    "SELECT k FROM R(A) UNION SELECT k FROM R(B)",
    "SELECT k FROM A [RANGE 5] UNION SELECT k FROM B [RANGE 5]",
    "SELECT k FROM A UNION SELECT k FROM B [ROWS 2]",
    "SELECT k FROM C UNION SELECT k FROM C",
    "SELECT k FROM A UNION SELECT k FROM C",
    "SELECT k FROM A UNION SELECT k FROM V",
    "SELECT k FROM A UNION SELECT COUNT(*) AS k FROM R(B)",
    "SELECT DISTINCT k FROM A",
]


def plan(select: str) -> logical.Node:
    catalog, _ = apply_all(f"{STREAMS} CREATE VIEW Q AS {select}", environment=TOPICS)
    return plan_of("Q", catalog)


@pytest.mark.parametrize("select", MERGED)
def test_streams_are_merged(select: str) -> None:
    node = plan(select)
    assert append_only(node), "a stream again, over which windows are possible"
    assert "Distinct" not in repr(node)


@pytest.mark.parametrize("select", SETS)
def test_relations_are_sets(select: str) -> None:
    assert "Distinct(" in repr(plan(select))


def test_a_query_that_an_older_version_stored_keeps_its_meaning() -> None:
    catalog, _ = apply_all(f"{STREAMS} CREATE VIEW Q AS {MERGED[0]}", environment=TOPICS)
    stored = msgspec.json.decode(msgspec.json.encode(catalog.find("Q")))
    del stored["streams_united"]
    older = catalog.with_changed(msgspec.convert(stored, Query))
    assert "Distinct(" in repr(plan_of("Q", older))


ROWS = st.lists(st.tuples(st.sampled_from("AB"), st.integers(0, 2), st.integers(0, 3)), max_size=14)


@settings(max_examples=examples(25), deadline=None)
@given(ROWS, st.lists(st.integers(1, 14), max_size=3).map(sorted))
def test_union_removes_duplicates_only_within_an_instant(steps: list[tuple[str, int, int]], cuts: list[int]) -> None:
    rows = [(name, k, sum(step for _, _, step in steps[: at + 1])) for at, (name, k, _) in enumerate(steps)]
    session = LocalSession()
    session.execute(f"{STREAMS} CREATE VIEW Q AS {MERGED[0]}")
    for begin, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        for name in "AB":
            session.push(f"{name}_source", [{"k": k, "at": at} for own, k, at in rows[begin:end] if own == name])
    session.advance(100)
    made = Counter((row["k"], at) for op, row, at in session.changes("Q") if op == "+")
    assert made == Counter({(k, at) for _, k, at in rows})


def test_union_of_streams_keeps_no_past_rows() -> None:
    session = LocalSession()
    session.execute(f"{STREAMS} CREATE VIEW Q AS {MERGED[0]}")
    for begin in range(0, 8_000, 2_000):
        for name in "AB":
            rows = [{"k": at, "at": at} for at in range(begin, begin + 2_000)]
            session.push(f"{name}_source", rows)
    session.advance(9_000)
    assert len(session.changes("Q")) == 8_000
    assert sum(row["state rows"] or 0 for row in session.execute("SHOW OPERATORS")) <= 10
