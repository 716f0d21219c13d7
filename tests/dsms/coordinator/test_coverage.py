"""Tokens, and when a result covers the records that they represent."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsms.coordinator.results.coverage import Coverage
from dsms.coordinator.results.positions import (
    MAX_SPANS,
    RecordToken,
    ResultPosition,
    parse_position,
    parse_records,
    token_of,
)
from dsms.coordinator.results.token_sources import sources_of_token
from dsms.model.declared_columns import Column
from dsms.model.objects import Query
from dsms.placement.leases import QueryStatus
from dsms.testing import LocalSession
from operators.core.errors import UserError
from tests.support.streaming_service import (
    SOURCE,
    MemoryLog,
    record,
)


@given(st.lists(st.integers(0, 2**62 - 1), min_size=1, max_size=9))
def test_a_position_is_its_text(offsets: list[int]) -> None:
    position = ResultPosition("o17", tuple(offsets))
    assert parse_position(str(position)) == position


@given(st.sets(st.tuples(st.integers(0, 5), st.integers(0, 400)), min_size=1, max_size=300))
def test_token_covers_its_records(places: set[tuple[int, int]]) -> None:
    token = token_of("o1", places)
    assert parse_records(str(token)) == token
    covered = {(span.partition, offset) for span in token.spans for offset in range(span.first, span.last + 1)}
    assert covered >= places
    assert len(token.spans) <= max(MAX_SPANS, 6)
    if len(token.spans) > 6:
        assert covered == places


@pytest.mark.parametrize("text", ["", "o1:", "o1:0", "o1:0/5-4", "o1:0/١", "x:0/1", "o1:0/" + "9" * 19, "o1:0/1,"])
def test_invalid_tokens_are_refused(text: str) -> None:
    with pytest.raises(UserError, match="not a token of published records"):
        parse_records(text)


def covering(instants: list[int], letters: list[dict[str, Any]]) -> Coverage:
    log = MemoryLog()
    for ts in instants:
        log.append(0, "+", ts, None, {"room": "a"}, "r")
    log.logs[("r", 0)].append(record((0, len(instants)), None, b"no json", ("dsms-ts", b"99")))

    class Standing:
        def lane(self, query: str) -> QueryStatus | None:
            return {"o2": QueryStatus(7, {"o1/0": 3})}.get(query)

    return Coverage(log, Standing(), lambda source, limit: letters, lambda source: lambda number: {})


@pytest.mark.parametrize(
    ("span", "instants", "covered"),
    [
        ("o1:0/0", [6, 1, 2], True),
        ("o1:0/0", [7, 1, 2], False),
        ("o1:0/0-2", [1, 9, 2], False),
        ("o1:0/0-2", [1, 6, 2], True),
        ("o1:0/2-3", [1, 9, 2, 3], False),
        ("o1:0/2", [9, 9, 3, 3], True),
    ],
)
def test_a_result_covers_what_is_processed_and_final(span: str, instants: list[int], covered: bool) -> None:
    """The query has reached offset 3 and instant 7."""
    query = Query(name="q", id="o2", sql="", kind="query", select="", topic="q")
    coverage = covering(instants, [])
    asked = coverage.question(query, (SOURCE,), parse_records(span))
    assert asked is not None and coverage.cover(asked).covered is covered


def test_refused_records_are_reported() -> None:
    query = Query(name="q", id="o2", sql="", kind="query", select="", topic="q")
    letter = {"partition": 0, "offset": 2, "reason": "not JSON", "query": None, "value": "no json"}
    others = [{**letter, "offset": 1}, {**letter, "query": "another"}, {**letter, "partition": 1}]
    coverage = covering([1, 1], [*others, letter])
    asked = coverage.question(query, (SOURCE,), RecordToken("o1", parse_records("o1:0/2").spans))
    assert asked is not None and asked.instant is None
    cover = coverage.cover(asked)
    assert cover.covered and list(cover.refused) == [{"partition": 0, "offset": 2, "reason": "not JSON", "query": None}]
    assert coverage.question(query, (SOURCE,), parse_records("o1:0/9")) is None


VERSION = msgspec.structs.replace(SOURCE, id="o4", columns=(*SOURCE.columns, Column("w", "INT")))


@pytest.mark.parametrize(
    ("offsets", "processed"),
    [({"o1/0": 2, "o4/0": 1}, False), ({"o1/0": 1, "o4/0": 2}, False), ({"o1/0": 2, "o4/0": 2}, True)],
)
def test_all_versions_of_a_source_that_a_query_reads_must_have_read_the_records(
    offsets: dict[str, int], processed: bool
) -> None:
    log = MemoryLog()
    log.append(0, "+", 5, None, {"room": "a", "w": 1}, "r")
    log.append(0, "+", 9, None, {"room": "a", "w": "no number"}, "r")

    class Standing:
        def lane(self, query: str) -> QueryStatus | None:
            return QueryStatus(10, offsets)

    letters = {"o1": [], "o4": [{"partition": 0, "offset": 1, "reason": "w", "query": None, "value": "…"}]}
    coverage = Coverage(log, Standing(), lambda source, limit: letters[source.id], lambda source: lambda number: {})
    query = Query(name="q", id="o2", sql="", kind="query", select="", topic="q")
    asked = coverage.question(query, (VERSION, SOURCE), parse_records("o1:0/0-1"))
    assert asked is not None and asked.instant == 9
    cover = coverage.cover(asked)
    assert (cover.covered, cover.processed, cover.offsets) == (processed, processed, {0: min(offsets.values())})
    assert [letter["offset"] for letter in cover.refused] == ([1] if processed else [])


def test_a_record_that_several_versions_refuse_is_reported_once() -> None:
    letter = {"partition": 0, "offset": 2, "reason": "not JSON", "query": None, "value": "no json"}
    coverage = covering([1, 1], [letter])
    query = Query(name="q", id="o2", sql="", kind="query", select="", topic="q")
    asked = coverage.question(query, (SOURCE, SOURCE), parse_records("o1:0/2"))
    assert asked is not None and [each["offset"] for each in coverage.cover(asked).refused] == [2]


def test_a_query_over_an_older_view_reads_two_versions() -> None:
    session = LocalSession()
    session.execute(
        "REGISTER SOURCE A (k INT) FROM a; CREATE STREAM S OVER A KEY k; CREATE VIEW V AS SELECT * FROM R(S)"
    )
    session.execute(
        "ALTER SOURCE A ADD COLUMN w INT; CREATE VIEW W AS SELECT V.k, w FROM V JOIN R(S) AS S ON V.k = S.k"
    )
    session.execute("CREATE VIEW X AS SELECT k, w FROM R(S)")
    ids = session.catalog.find("A").ids
    assert len(ids) == 2
    for name, read in (("V", ids[:1]), ("W", ids), ("X", ids[1:])):
        for token in ids:
            query = session.catalog.find(name)
            assert isinstance(query, Query)
            assert {source.id for source in sources_of_token(query, token, session.catalog)} == set(read)
    session.execute("REGISTER SOURCE B (k INT) FROM b")
    with pytest.raises(UserError, match='"W" does not read the source of the token; it reads: A$'):
        sources_of_token(session.catalog.find("W"), session.catalog.find("B").id, session.catalog)
