"""CREATE TABLE, INSERT, UPDATE, DELETE, and streams declared with their source."""

from __future__ import annotations

import pytest
from sqlglot import exp

from dsms.model import statements as st
from dsms.model.objects import Source, Stream
from dsms.statements.registry import parse
from operators.core.errors import SqlError
from tests.support.fake_environment import FakeEnvironment, apply_all


def parse_one(sql: str) -> st.Statement:
    (statement,) = parse(sql)
    return statement


@pytest.mark.parametrize(
    ("columns", "expected", "keys"),
    [
        ("a INT PRIMARY KEY, b VARCHAR", [("a", "INT", False), ("b", "VARCHAR", True)], ["a"]),
        ("a INT NOT NULL PRIMARY KEY", [("a", "INT", False)], ["a"]),
        ("a INT primary key NOT NULL", [("a", "INT", False)], ["a"]),
        (
            "a INT, b DECIMAL(9, 2), PRIMARY KEY (a, B)",
            [("a", "INT", False), ("b", "DECIMAL(9, 2)", False)],
            ["a", "B"],
        ),
        ("a INT, key INT NOT NULL", [("a", "INT", True), ("key", "INT", False)], []),
    ],
)
def test_create_table(columns: str, expected: list[tuple[str, str, bool]], keys: list[str]) -> None:
    table = parse_one(f"CREATE TABLE t ({columns})")
    assert isinstance(table, st.CreateTable)
    assert [(column.name.text, column.type, column.nullable) for column in table.columns] == expected
    assert [key.text for key in table.keys] == keys


def test_insert() -> None:
    statement = parse_one("INSERT INTO t VALUES (1, 'a'), (2, NULL)")
    assert isinstance(statement, st.Insert)
    assert (statement.table, statement.columns) == (st.Name("t", st.TextLocation(1, 13)), ())
    assert isinstance(statement.rows, exp.Values)
    assert len(statement.rows.expressions) == 2
    named = parse_one("INSERT INTO t (b, a) SELECT 1, 2")
    assert isinstance(named, st.Insert)
    assert [column.text for column in named.columns] == ["b", "a"]
    assert isinstance(named.rows, exp.Select)


def test_update_and_delete() -> None:
    statement = parse_one("UPDATE t SET a = 1, b = b || 'x' WHERE a > 2")
    assert isinstance(statement, st.Update)
    assert statement.table.text == "t"
    assert [(name.text, value.sql()) for name, value in statement.changes] == [("a", "1"), ("b", "b || 'x'")]
    assert statement.where is not None
    assert statement.where.sql() == "a > 2"
    gone = parse_one("DELETE FROM t WHERE a = 1")
    assert isinstance(gone, st.Delete)
    assert (gone.table.text, gone.where and gone.where.sql()) == ("t", "a = 1")
    everything = parse_one("delete from t")
    assert isinstance(everything, st.Delete)
    assert everything.where is None


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (
            "CREATE TABLE t (a INT PRIMARY KEY, b INT PRIMARY KEY)",
            "line 1, column 42: a table has only one PRIMARY KEY",
        ),
        ("CREATE TABLE t (a INT, PRIMARY KEY (z))", 'line 1, column 37: key column "z" not found; have: a'),
        ("CREATE TABLE t ()", "a column needs a name and a type"),
        ("CREATE TABLE t (a INT) x", 'unexpected "x"'),
        ("INSERT INTO t VALUES (1) ON CONFLICT DO UPDATE SET a = 1", "line 1, column 52: ON CONFLICT DO UPDATE needs"),
        ("INSERT INTO t VALUES (1) RETURNING (SELECT 1)", "a subquery in RETURNING is not supported"),
        ("INSERT INTO t VALUES (1", "expecting \\)"),
        ("UPDATE t SET a = 1 ORDER BY a", "ORDER BY in UPDATE is not supported"),
        ("UPDATE t SET a", "SET needs column = expression"),
        ("DELETE FROM t LIMIT 1", "LIMIT in DELETE is not supported"),
        ("CREATE STREAM s (a INT) SOURCE a b", "invalid SOURCE clause; have: SOURCE 'topic'"),
        ("CREATE STREAM s (a INT) ORDERED a", "invalid ORDERED BY clause"),
        ("CREATE STREAM s (a INT) ORDERED BY a TIMESTAMP BY a", "both name the timestamp"),
        ("CREATE STREAM s (a INT) SPEED 3", 'line 1, column 25: unknown clause "SPEED"; have: SOURCE, ORDERED'),
    ],
)
def test_refusals(sql: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        parse(sql)


@pytest.mark.parametrize(
    ("clauses", "topic", "ordered"),
    [
        ("", "s", None),
        ("SOURCE 'my-topic'", "my-topic", None),
        ("SOURCE topic1 ORDERED BY ts", "topic1", "ts"),
        ("ORDER BY ts SOURCE 'x'", "x", "ts"),
        ("SOURCE establishConnection('port34100', 'converter') ORDERED BY timestamp", "port34100", "timestamp"),
        ("ORDERED BY timestamp FORMAT AVRO SLACK 5 SECONDS", "s", "timestamp"),
    ],
)
def test_a_stream_declared_with_its_source(clauses: str, topic: str, ordered: str | None) -> None:
    statement = parse_one(f"CREATE STREAM s (a INT, ts BIGINT, timestamp TIMESTAMP) {clauses}")
    assert isinstance(statement, st.DeclareStream)
    assert [column.name.text for column in statement.columns] == ["a", "ts", "timestamp"]
    assert (statement.topic.text, statement.ordered and statement.ordered.text) == (topic, ordered)


def test_declared_stream_creates_a_source_and_an_append_only_stream() -> None:
    sql = "CREATE STREAM Bid (item INT, at BIGINT) SOURCE connect('bids') ORDERED BY AT SLACK 5 SECONDS FORMAT AVRO"
    catalog, (result,) = apply_all(sql, environment=FakeEnvironment({"bids": {0: 7, 1: 3}}))
    source, stream = catalog.find("Bid_source"), catalog.find("Bid")
    assert isinstance(source, Source)
    assert isinstance(stream, Stream)
    assert (source.topic, source.timestamp, source.slack, source.format) == ("bids", "at", 5_000, "avro")
    assert (stream.source, stream.keys) == ("Bid_source", ())
    assert result.message == 'stream "Bid" created, append-only over source "Bid_source" of topic "bids"'
    assert result.notices[0] == "SOURCE connect: read from topic bids"


def test_a_refused_declaration_changes_nothing() -> None:
    with pytest.raises(SqlError, match='line 1, column 34: column "z" not found in "s"; have: a'):
        apply_all("CREATE STREAM s (a INT) SOURCE t ORDERED BY z")
