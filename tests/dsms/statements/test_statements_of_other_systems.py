"""Statements in the syntax of other systems."""

from __future__ import annotations

import pytest

from dsms.testing import LocalSession
from operators.core.errors import SqlError


@pytest.fixture
def session() -> LocalSession:
    session = LocalSession()
    session.execute(
        "REGISTER SOURCE A (k INT) FROM a; CREATE STREAM S OVER A KEY k; CREATE TABLE T (a INT PRIMARY KEY)"
    )
    return session


@pytest.mark.parametrize("kind", ["MATERIALIZED VIEW", "STREAMED VIEW", "COMPLETE VIEW", "VIEW"])
def test_views_are_dropped_by_the_words_that_create_them(session: LocalSession, kind: str) -> None:
    session.execute(f"CREATE {kind} V AS SELECT k FROM S; DROP {kind} V; DROP {kind} IF EXISTS V")
    assert session.run("SHOW VIEWS")[0].rows == ()


def test_only_views_are_materialized(session: LocalSession) -> None:
    with pytest.raises(SqlError, match='unknown kind "MATERIALIZED"'):
        session.execute("DROP MATERIALIZED TABLE T")


@pytest.mark.parametrize("text", ["TRUNCATE T", "TRUNCATE TABLE T"])
def test_truncate_deletes_all_rows(session: LocalSession, text: str) -> None:
    session.execute(f"INSERT INTO T VALUES (1), (2); {text}")
    assert session.execute("SELECT * FROM T") == []


def test_refresh_of_a_view_has_no_effect(session: LocalSession) -> None:
    session.execute("CREATE MATERIALIZED VIEW W AS SELECT k FROM S")
    for text in ("REFRESH MATERIALIZED VIEW W", 'REFRESH MATERIALIZED VIEW CONCURRENTLY dsms.public."W" WITH DATA'):
        (result,) = session.run(text)
        assert result.message == "nothing was done"
        assert "no refresh is needed" in result.notices[0]
    with pytest.raises(SqlError, match='"T" is a table, not a view'):
        session.execute("REFRESH MATERIALIZED VIEW T")


CREATIONS = [
    "REGISTER SOURCE IF NOT EXISTS X (k INT) FROM x",
    "CREATE STREAM IF NOT EXISTS X OVER A KEY k",
    "CREATE TABLE IF NOT EXISTS X (a INT PRIMARY KEY)",
    "CREATE STREAMED VIEW IF NOT EXISTS X AS SELECT k FROM S",
    "CREATE MATERIALIZED VIEW IF NOT EXISTS X AS SELECT k FROM S",
    "CREATE QUERY IF NOT EXISTS X AS SELECT STREAMED k FROM S",
]


@pytest.mark.parametrize("text", CREATIONS)
def test_if_not_exists_creates_once(session: LocalSession, text: str) -> None:
    (created,), (again,) = session.run(text), session.run(text)
    assert "created" in created.message or "registered" in created.message
    assert "already exists; nothing was done" in again.message
    assert session.run("SHOW CREATE X")[0].rows == (("X", text),)


def test_if_not_exists_does_nothing_if_another_kind_has_the_name(session: LocalSession) -> None:
    assert (
        'table "T" already exists' in session.run("CREATE STREAMED VIEW IF NOT EXISTS T AS SELECT k FROM S")[0].message
    )


def test_if_not_exists_is_refused_where_unsupported(session: LocalSession) -> None:
    with pytest.raises(SqlError, match="line 1, column 18: IF NOT EXISTS is supported only for"):
        session.execute("CREATE AGGREGATE IF NOT EXISTS f(x INT): INT { INITIALIZE: ITERATE: { } }")
