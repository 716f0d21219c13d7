"""`CREATE VIEW v (a, b) AS …` renames all columns of a query."""

from __future__ import annotations

import pytest

from dsms.testing import LocalSession
from operators.core.errors import SqlError

SOURCES = "REGISTER SOURCE A (k INT, v INT) FROM a; CREATE STREAM S OVER A KEY k; CREATE STREAM M OVER A KEY NULL;"
ROWS = [{"k": 1, "v": 10, "ts": 0}, {"k": 2, "v": 20, "ts": 1}]


@pytest.mark.parametrize(
    "form",
    [
        "CREATE VIEW Q (a, b) AS SELECT k, v FROM S",
        "CREATE STREAMED VIEW Q (a, b) WITH (topic = 'q') AS SELECT * FROM S",
        "CREATE OR REPLACE VIEW Q (a, b) AS SELECT k, v FROM S",
        "CREATE QUERY Q (a, b) AS SELECT k, v FROM S",
        "CREATE COMPLETE VIEW Q (a, b) AS SELECT k, v FROM S EXCEPT SELECT 0, 0",
        "CREATE MATERIALIZED VIEW IF NOT EXISTS Q (a, b) AS WITH w AS (SELECT * FROM S) SELECT * FROM w",
        "CREATE VIEW Q (a, b) AS SELECT x.k, y.v FROM S x JOIN S y USING (k)",
        "CREATE VIEW Q (a, b) AS SELECT Istream(k, v) FROM M [Range 5]",
    ],
)
def test_the_names_of_the_list_are_those_of_the_columns(form: str) -> None:
    session = LocalSession()
    session.execute(f"{SOURCES} {form}")
    session.push("A", ROWS)
    session.advance(3)
    assert session.relation("Q") == [{"a": 1, "b": 10}, {"a": 2, "b": 20}]
    assert session.execute("SHOW CREATE Q")[0]["sql"] == form


def test_columns_of_one_name_are_told_apart_by_the_list() -> None:
    session = LocalSession()
    session.execute(f"{SOURCES} CREATE VIEW Q (a, b) AS SELECT x.k, y.k FROM S x JOIN S y ON x.v = y.v")
    session.push("A", ROWS)
    session.advance(3)
    assert session.relation("Q") == [{"a": 1, "b": 1}, {"a": 2, "b": 2}]


def test_the_key_and_what_is_replaced_have_the_new_names() -> None:
    session = LocalSession()
    session.execute(f"{SOURCES} CREATE VIEW Q (a, b) AS SELECT k, v FROM S")
    assert [(row["column"], row["key"]) for row in session.execute("DESCRIBE Q")] == [("a", True), ("b", False)]
    session.execute("CREATE OR REPLACE VIEW Q (a, b) AS SELECT k, v + 1 FROM S")
    session.push("A", ROWS)
    session.advance(3)
    assert session.execute("SELECT b FROM Q WHERE a = 1") == [{"b": 11}]


@pytest.mark.parametrize(
    ("form", "why"),
    [
        ("CREATE VIEW Q (a) AS SELECT k, v FROM S", "line 1, column 16: 1 names for 2 columns"),
        ("CREATE VIEW Q (a, b, c) AS SELECT * FROM S", "line 1, column 16: 3 names for 2 columns"),
        ("CREATE VIEW Q (a, A) AS SELECT k, v FROM S", 'line 1, column 19: two columns are named "A"'),
        ("CREATE VIEW Q (a, b) AS SELECT k, nope FROM S", 'line 1, column 35: column "nope" not found'),
        ("CREATE VIEW Q (a, b) AS SELECT NULL, k FROM S", "NULL has no type here"),
        ("CREATE STREAM Q (a) AS SELECT k, v FROM M", "1 names for 2 columns"),
    ],
)
def test_a_wrong_list_is_refused_with_the_reason(form: str, why: str) -> None:
    session = LocalSession()
    session.execute(SOURCES)
    with pytest.raises(SqlError) as refused:
        session.execute(form)
    assert why in str(refused.value)
