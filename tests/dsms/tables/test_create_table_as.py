"""CREATE TABLE … AS SELECT …: the columns, the rows, and the stored statement."""

from __future__ import annotations

import pytest

from dsms.testing import LocalSession
from operators.core.errors import SqlError

TABLES = (
    "CREATE TABLE T (id INT PRIMARY KEY, n TEXT, x DECIMAL(9, 2)); INSERT INTO T VALUES (1, 'a', 1.5), (2, NULL, 2)"
)


@pytest.fixture
def session() -> LocalSession:
    made = LocalSession()
    made.execute(TABLES)
    return made


def test_the_table_has_the_columns_and_the_rows(session: LocalSession) -> None:
    session.execute('CREATE TABLE C AS SELECT id, n AS "A b", x * 2 AS twice FROM T')
    columns = {row["column"]: (row["type"], row["nullable"]) for row in session.execute("DESCRIBE C")}
    assert columns["id"] == ("INTEGER", False)
    assert columns["A b"] == ("VARCHAR", True)
    assert columns["twice"][0].startswith("DECIMAL")
    rows = session.execute("SELECT * FROM C ORDER BY id")
    assert [(row["id"], row["A b"], str(row["twice"])) for row in rows] == [(1, "a", "3.00"), (2, None, "4.00")]


def test_created_table_is_independent_of_its_query(session: LocalSession) -> None:
    """Its statement is stored and shown without the query, and it does not get later rows of the tables that were
    read."""
    session.execute("CREATE TABLE C (PRIMARY KEY (id)) AS SELECT id, n FROM T WHERE n IS NOT NULL")
    session.execute("INSERT INTO T VALUES (3, 'c', 3)")
    assert session.execute("SELECT count(*) AS n FROM C") == [{"n": 1}]
    (shown,) = session.execute("SHOW CREATE C")
    other = LocalSession()
    other.execute(str(shown["sql"]))
    assert other.execute("DESCRIBE C") == session.execute("DESCRIBE C")
    session.execute("INSERT INTO C VALUES (1, 'z') ON CONFLICT (id) DO UPDATE SET n = 'z'")
    assert session.execute("SELECT n FROM C") == [{"n": "z"}]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE TABLE C (PRIMARY KEY (k)) AS SELECT id FROM T", 'key column "k" not found'),
        ("CREATE TABLE T AS SELECT id FROM T", "exists"),
        ("CREATE TABLE C (a INT) AS SELECT id FROM T", "unexpected"),
        ("CREATE TABLE C AS SELECT nothing FROM T", 'column "nothing" not found'),
        ("CREATE TABLE C AS DELETE FROM T", "expected a query after AS"),
        ("CREATE TABLE IF NOT EXISTS C AS SELECT id FROM T", "IF NOT EXISTS is supported only for"),
    ],
)
def test_selects_that_cannot_define_a_table_are_refused(session: LocalSession, statement: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        session.execute(statement)
    assert [row["name"] for row in session.execute("SHOW TABLES")] == ["T"]
