"""All forms of statements, including the paper's syntax, and the errors of wrong statements (golden/errors.txt)."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsms.model import statements as st
from dsms.statements.ddl.drop import Drop
from dsms.statements.explain.plan import Explain
from dsms.statements.registry import parse
from dsms.statements.show.describe import Describe
from dsms.testing import LocalSession
from operators.core.errors import UserError

WRONG = Path(__file__).parents[2] / "golden" / "wrong_statements.sql"
BASE = """REGISTER SOURCE T (k INT NOT NULL, v INT, s VARCHAR, xs INT[]) FROM t;
CREATE STREAM S OVER T KEY k; CREATE STREAM A OVER T KEY NULL;
CREATE STREAMED VIEW V AS SELECT k, v FROM R(S) WHERE v > 1;"""


def parse_one(sql: str) -> st.Statement:
    (statement,) = parse(sql)
    return statement


def test_register_source_as_the_paper_prints_it() -> None:
    statement = parse_one("REGISTER SOURCE TemperatureSource (char RoomID, int Temperature) From port5501")
    assert isinstance(statement, st.RegisterSource)
    assert (statement.name.text, statement.topic.text, statement.clauses) == ("TemperatureSource", "port5501", ())
    assert [(column.name.text, column.type) for column in statement.columns] == [
        ("RoomID", "char"),
        ("Temperature", "int"),
    ]


@pytest.mark.parametrize(
    ("text", "name", "type_", "nullable"),
    [
        ("a INT", "a", "INT", True),
        ("INT a", "a", "INT", True),
        ("a INT NOT NULL", "a", "INT", False),
        ("int a NOT NULL", "a", "int", False),
        ("a INT NULL", "a", "INT", True),
        ("a DECIMAL(9, 2)", "a", "DECIMAL(9, 2)", True),
        ("DECIMAL(9, 2) a", "a", "DECIMAL(9, 2)", True),
        ("a INT[]", "a", "INT[]", True),
        ("a STRUCT<x INT, y VARCHAR>", "a", "STRUCT<x INT, y VARCHAR>", True),
        ("date DATE", "date", "DATE", True),
        ('"a" INT', "a", "INT", True),
    ],
)
def test_columns(text: str, name: str, type_: str, nullable: bool) -> None:
    statement = parse_one(f"REGISTER SOURCE S ({text}, z INT) FROM t")
    assert isinstance(statement, st.RegisterSource)
    column = statement.columns[0]
    assert (column.name.text, column.type, column.nullable) == (name, type_, nullable)


def test_clauses_keep_their_words_and_places() -> None:
    statement = parse_one('REGISTER SOURCE S (a INT) FROM "my-topic.v1"\n  SLACK 5 SECONDS IDLE NEVER')
    assert isinstance(statement, st.RegisterSource)
    assert statement.topic.text == "my-topic.v1"
    assert statement.clauses == (
        st.Clause("slack", ("5", "SECONDS"), st.TextLocation(2, 3)),
        st.Clause("idle", ("NEVER",), st.TextLocation(2, 19)),
    )


@pytest.mark.parametrize(
    ("text", "keys"),
    [("KEY RoomID", ["RoomID"]), ("KEY a, b", ["a", "b"]), ("key (a, b)", ["a", "b"]), ("KEY NULL", [])],
)
def test_create_stream(text: str, keys: list[str]) -> None:
    for label in ("", "S: "):
        statement = parse_one(f"{label}create stream S over Raw {text}")
        assert isinstance(statement, st.CreateStream)
        assert (statement.name.text, statement.source.text, [key.text for key in statement.keys]) == ("S", "Raw", keys)


def test_views_and_queries() -> None:
    view = parse_one("CREATE STREAMED VIEW HotRooms₁ WITH (FORMAT = AVRO, TOPIC = hot) AS SELECT a FROM ℜ(S)")
    assert isinstance(view, st.ContinuousQuery)
    assert (view.kind, view.name and view.name.text) == ("view", "HotRooms1")
    assert [(clause.name, clause.words) for clause in view.clauses] == [("format", ("AVRO",)), ("topic", ("hot",))]
    assert view.select_sql == "SELECT a FROM ℜ(S)"
    query = parse_one("CREATE QUERY Q AS SELECT STREAMED a FROM S")
    assert isinstance(query, st.ContinuousQuery)
    assert (query.kind, query.name and query.name.text) == ("query", "Q")
    assert query.select_sql.split() == ["SELECT", "a", "FROM", "S"]


def test_a_select_with_streamed_is_continuous() -> None:
    labelled, alone, once = parse("Q3: SELECT STREAMED a FROM S; select streamed a from S; SELECT a FROM S")
    assert isinstance(labelled, st.ContinuousQuery)
    assert labelled.name is not None
    assert labelled.name.text == "Q3"
    assert isinstance(alone, st.ContinuousQuery)
    assert alone.name is None
    assert isinstance(once, st.Select)


def test_drop_show_describe_explain() -> None:
    drop = parse_one("DROP VIEW IF EXISTS V CASCADE")
    assert isinstance(drop, Drop)
    assert (drop.kind, drop.name.text, drop.if_exists, drop.cascade) == ("view", "V", True, True)
    kinds = [statement.kind for statement in parse("SHOW SOURCES; SHOW STREAMS; show views; SHOW QUERIES") if statement]
    assert kinds == ["source", "stream", "view", "query"]
    for sql in ("DESCRIBE S", "DESCRIBE STREAM S", "DESCRIBE stream"):
        assert isinstance(parse_one(sql), Describe)
    named, written = parse("EXPLAIN V; EXPLAIN SELECT STREAMED a FROM S")
    assert isinstance(named, Explain)
    assert isinstance(written, Explain)
    assert (named.select, written.name) == (None, None)


def test_comments_empty_statements_and_places_of_a_script() -> None:
    script = "-- first\n;; SHOW SOURCES; /* then */\n  DESCRIBE  Nope ;"
    _, describe = parse(script)
    assert isinstance(describe, Describe)
    assert describe.name.place == st.TextLocation(3, 13)


def test_streamed_is_a_word_only_after_select() -> None:
    statement = parse_one("SELECT STREAMED streamed FROM S WHERE s = 'select streamed'")
    assert isinstance(statement, st.ContinuousQuery)
    assert statement.select_sql.split(None, 1)[1].strip() == "streamed FROM S WHERE s = 'select streamed'"


def test_errors_of_wrong_statements(golden) -> None:
    """Every line of golden/wrong_statements.sql is refused with the location, the name and the choices."""
    refusals = []
    for sql in WRONG.read_text().splitlines():
        session = LocalSession()
        session.execute(BASE)
        with pytest.raises(UserError) as raised:
            session.execute(sql)
            pytest.fail(f"not refused: {sql}")
        refusals.append(f"{sql}\n    {raised.value}\n")
    golden("errors.txt", "".join(refusals))


def test_positions_are_those_of_the_whole_script() -> None:
    session = LocalSession()
    with pytest.raises(UserError, match=r'^line 4, column 8: column "tmp" not found; have: S\.a, S\.TS$'):
        session.execute(
            "REGISTER SOURCE T (a INT) FROM t;\nCREATE STREAM S OVER T KEY a;\n  CREATE QUERY Q AS\nSELECT tmp FROM S;"
        )


@pytest.mark.parametrize("name", ["t", "public.t", '"public"."t"', '"dsms"."public"."t"', 'DSMS."public".t'])
def test_the_schema_of_a_name_may_be_quoted(name: str) -> None:
    (statement,) = parse(f"CREATE TABLE {name} (a INT)")
    assert statement.name.text == "t"
