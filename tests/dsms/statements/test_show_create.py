"""SHOW CREATE: the text of the statement that created an object, in a session and on a cluster."""

from __future__ import annotations

import pytest

from dsms.coordinator.statements.statement_runner import permitted
from dsms.model.catalog import Catalog
from dsms.model.principal import Forbidden
from dsms.statements.registry import parse
from dsms.statements.show.create import ShowCreate
from dsms.testing import LocalSession
from operators.core.errors import SqlError
from tests.support.statement_cluster import StatementCluster

SOURCE = "REGISTER SOURCE T (k INT, v INT)\n  FROM t PARTITIONS 1"
STREAM = "CREATE STREAM S OVER T KEY k"
VIEW = "CREATE VIEW Base AS  -- as written\n  SELECT k, v FROM R(S)"
OBJECTS = ";\n".join((SOURCE, STREAM, VIEW))


@pytest.fixture
def session() -> LocalSession:
    session = LocalSession()
    session.run(OBJECTS)
    return session


@pytest.mark.parametrize(
    ("asked", "name", "text"),
    [("T", "T", SOURCE), ("stream s", "S", STREAM), ("VIEW base", "Base", VIEW), ('"Base"', "Base", VIEW)],
)
def test_a_session_and_a_cluster_answer_the_text(session: LocalSession, asked: str, name: str, text: str) -> None:
    assert session.execute(f"SHOW CREATE {asked}") == [{"name": name, "sql": text}]
    (result,) = StatementCluster(OBJECTS).execute(f"SHOW CREATE {asked}")
    assert (result.statement, result.columns, result.rows) == ("SHOW CREATE", ("name", "sql"), ((name, text),))


def test_the_text_creates_the_object_again(session: LocalSession) -> None:
    before = session.execute("DESCRIBE Base")
    (created,) = session.execute("SHOW CREATE Base")
    session.run(f"DROP VIEW Base; {created['sql']}")
    assert session.execute("DESCRIBE Base") == before


def test_replaced_view_is_shown_with_its_last_text(session: LocalSession) -> None:
    replacement = "CREATE OR REPLACE VIEW Base AS SELECT k, v FROM R(S) WHERE v > 1"
    session.run(replacement)
    assert session.execute("SHOW CREATE Base") == [{"name": "Base", "sql": replacement}]


def test_an_object_may_be_named_like_a_kind(session: LocalSession) -> None:
    (statement,) = parse("SHOW CREATE view")
    assert isinstance(statement, ShowCreate) and statement.name.text == "view"


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SHOW CREATE nope", 'line 1, column 13: "nope" not found'),
        ("SHOW CREATE", "line 1, column 12: unexpected end of statement"),
        ("SHOW CREATE Base now", 'line 1, column 18: unexpected "now"'),
    ],
)
def test_wrong_statements_are_refused_with_their_location(session: LocalSession, sql: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        session.run(sql)


def test_a_reader_may_ask() -> None:
    permitted(parse("SHOW CREATE Base"), Catalog(), "reader")
    with pytest.raises(Forbidden, match="statement 2 needs the role writer"):
        permitted(parse("SHOW CREATE Base; DROP VIEW Base"), Catalog(), "reader")
