"""Statements applied to a catalog: the objects they create, their results, and refusals."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pytest

from dsms.model.catalog import Catalog
from dsms.model.objects import Query, Source, Stream
from operators.core.errors import SqlError, UserError
from tests.support.fake_environment import FakeEnvironment, apply_all

SOURCE = "REGISTER SOURCE T (k INT NOT NULL, v DECIMAL(9, 2), at TIMESTAMP) FROM t;"
STREAM = SOURCE + "CREATE STREAM S OVER T KEY K;"
VIEW = STREAM + "CREATE STREAMED VIEW V AS SELECT k, v FROM R(S) WHERE v > 1;"


def test_registered_source_has_the_default_clauses() -> None:
    catalog, (result,) = apply_all(SOURCE)
    source = catalog.find("t")
    assert isinstance(source, Source)
    assert source.schema == pa.schema(
        [pa.field("k", pa.int32(), False), pa.field("v", pa.decimal128(9, 2)), pa.field("at", pa.timestamp("us"))]
    )
    assert (source.topic, source.partitions, source.start) == ("t", 2, {0: 0, 1: 0})
    assert result.notices == (
        "FORMAT JSON",
        "TIMESTAMP FROM RECORD (header dsms-ts, else the record's timestamp in ms)",
        "SLACK 0",
        "IDLE AFTER 5 SECONDS",
        "AHEAD 1 DAY (of the record's own timestamp)",
        "TAGGED BY HEADER (dsms-op)",
    )
    assert (result.statement, result.name) == ("REGISTER SOURCE", "T")


def test_every_clause_sets_its_field_and_is_no_default_then() -> None:
    catalog, (result,) = apply_all(
        "REGISTER SOURCE T (k INT, at TIMESTAMP) FROM new FORMAT AVRO PARTITIONS 3 TIMESTAMP BY at SLACK 2 MINUTES "
        'IDLE AFTER 500 MS AHEAD 2 HOURS TAGGED BY op REGISTRY "registry.example"'
    )
    source = catalog.find("T")
    assert isinstance(source, Source)
    fields = ("format", "partitions", "timestamp", "slack", "idle_ms", "ahead_ms", "tagged", "registry")
    assert [getattr(source, name) for name in fields] == [
        "avro",
        3,
        "at",
        120_000,
        500,
        7_200_000,
        "op",
        "registry.example",
    ]
    assert result.notices == ()


def test_streams_views_and_queries() -> None:
    catalog, results = apply_all(VIEW + "CREATE QUERY Q WITH (TOPIC = out, PARTITIONS = 4) AS SELECT v FROM V")
    stream, view, query = catalog.find("S"), catalog.find("V"), catalog.find("Q")
    assert isinstance(stream, Stream)
    assert stream.keys == ("k",)
    assert isinstance(view, Query)
    assert (view.kind, view.topic, view.partitions) == ("view", "dsms.V", 2)
    assert isinstance(query, Query)
    assert (query.kind, query.topic, query.partitions) == ("query", "out", 4)
    assert [result.message for result in results[1:3]] == [
        'stream "S" created, keyed by k',
        'view "V" created; results in topic "dsms.V"',
    ]
    assert results[2].notices == ("key: k", "output: STREAMED", "FORMAT JSON")
    assert results[3].notices[0] == "no key: a deletion carries the whole row"


def test_an_anonymous_query_runs_once() -> None:
    catalog, (*_, first, again) = apply_all(VIEW + "SELECT STREAMED k FROM V; select  streamed K from v")
    assert first.name == again.name
    assert again.message == f'query "{first.name}" is already running'
    assert len(catalog.queries()) == 2


def test_ids_are_never_used_twice_and_versions_grow() -> None:
    before, _ = apply_all(VIEW)
    after, _ = apply_all("DROP VIEW V; CREATE STREAMED VIEW V AS SELECT k FROM S", before)
    assert (before.version, after.version) == (3, 5)
    assert [before.find("V").id, after.find("V").id] == ["o3", "o4"]


def test_a_catalog_is_a_json_document() -> None:
    catalog, _ = apply_all(VIEW + "CREATE QUERY Q AS SELECT v FROM V")
    assert msgspec.json.decode(msgspec.json.encode(catalog), type=Catalog) == catalog


def test_dropping_with_dependents() -> None:
    catalog, _ = apply_all(VIEW + "CREATE QUERY Q AS SELECT v FROM V; CREATE STREAM Other OVER T KEY NULL")
    with pytest.raises(SqlError, match='source "T" is used by S, V, Q, Other; drop these first or add CASCADE'):
        apply_all("DROP SOURCE T", catalog)
    after, (result,) = apply_all("DROP STREAM S CASCADE", catalog)
    assert list(after.objects) == ["t", "other"]
    assert result.message == "dropped S, V, Q"
    assert list(catalog.objects) == ["t", "s", "v", "q", "other"]
    same, (result,) = apply_all("DROP VIEW IF EXISTS Nope", catalog)
    assert same == catalog
    assert result.message == 'view "Nope" does not exist'


def test_show_and_describe() -> None:
    _, (shown, described, source) = (
        None,
        apply_all("SHOW VIEWS; DESCRIBE V; DESCRIBE SOURCE T", apply_all(VIEW)[0])[1],
    )
    assert [row[:3] for row in shown.rows] == [("V", "dsms.V", "known")]
    assert described.columns == ("column", "type", "nullable", "key", "comment")
    assert described.rows == (("k", "INTEGER", False, True, None), ("v", "DECIMAL(9, 2)", True, False, None))
    assert source.rows[2] == ("at", "TIMESTAMP", True, False, None)


def test_a_missing_topic_is_named() -> None:
    with pytest.raises(UserError, match='topic "nope" not found; add PARTITIONS n to make it'):
        apply_all("REGISTER SOURCE T (k INT) FROM nope", environment=FakeEnvironment())


def test_short_retention_is_reported_when_a_source_is_registered() -> None:
    environment = FakeEnvironment(
        {"t": {0: 0}, "u": {0: 0}}, warnings={"t": ('the retention of topic "t" is too short',)}
    )
    sql = "REGISTER SOURCE a (k INT) FROM t; REGISTER SOURCE b (k INT) FROM u"
    first, second = apply_all(sql, environment=environment)[1]
    assert [notice for notice in first.notices if notice not in second.notices] == [
        'the retention of topic "t" is too short'
    ]
