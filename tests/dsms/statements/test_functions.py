"""CREATE FUNCTION … LANGUAGE PYTHON, its versions and refusals; Python functions that are registered in a session."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from dsms.coordinator.statements.statement_runner import permitted
from dsms.model.catalog import Catalog
from dsms.model.principal import Forbidden
from dsms.statements.registry import parse
from dsms.testing import LocalSession
from operators.core.errors import DsmsError, SqlError

BASE = "REGISTER SOURCE T (id INT, price DOUBLE, name VARCHAR) FROM t; CREATE STREAM S OVER T KEY id;"
ADD = (
    "CREATE FUNCTION plus(a BIGINT) RETURNS BIGINT LANGUAGE PYTHON "
    "AS $$def plus(a): return [v.as_py() + {} for v in a]$$"
)


def push(session: LocalSession, *ids: int) -> None:
    start = session.reached()
    session.push("T", [{"id": id, "price": id / 2, "name": "x" * id, "ts": start + at} for at, id in enumerate(ids, 1)])
    session.advance(start + len(ids) + 1)


def values(session: LocalSession, name: str) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for op, row, _ in session.changes(name) if op == "+"]


@pytest.mark.parametrize("cut", [(1, None), (3, 1)], ids=str)
def test_a_function_anywhere_in_a_query(cut: tuple[int, int | None]) -> None:
    """The function is called in the select list, within another call, in WHERE and GROUP BY, and in the argument of an
    aggregate."""
    session = LocalSession(*cut)
    session.execute(BASE + ADD.format(10))
    session.execute("CREATE STREAMED VIEW V AS SELECT plus(plus(id)) * 2 AS x, price FROM S WHERE plus(id) <> 12")
    session.execute(
        "CREATE STREAMED VIEW G AS SELECT plus(id % 2) AS k, SUM(plus(id)) AS n FROM S GROUP BY plus(id % 2)"
    )
    push(session, 1, 2, 3)
    assert values(session, "V") == [(42, 0.5), (46, 1.5)]
    assert sorted(tuple(row.values()) for row in session.relation("G")) == [(10, 12), (11, 24)]


def test_arguments_are_widened_and_null_is_passed_on() -> None:
    session = LocalSession()
    session.execute(BASE)
    session.register_function("half(x DOUBLE) RETURNS DOUBLE", lambda x: pc.divide(x, 2.0))
    session.execute("CREATE STREAMED VIEW V AS SELECT half(id) AS a, half(NULLIF(price, 1)) AS b, half(7) AS c FROM S")
    push(session, 1, 2)
    assert values(session, "V") == [(0.5, 0.25, 3.5), (1.0, None, 3.5)]
    with pytest.raises(SqlError, match=r'"half" does not take \(VARCHAR\); it takes \(DOUBLE\)'):
        session.execute("SELECT STREAMED half(name) FROM S")
    with pytest.raises(SqlError, match=r'"half" does not take \(INTEGER, INTEGER\)'):
        session.execute("SELECT STREAMED half(id, id) FROM S")


def test_a_query_keeps_the_version_that_it_was_made_with() -> None:
    """A replay uses the same version, even after a view is planned again, and while another query uses the new
    version."""
    session = LocalSession()
    session.execute(BASE + ADD.format(1))
    session.execute("CREATE STREAMED VIEW Old AS SELECT id, plus(id) AS x FROM S")
    (replaced,) = session.run(ADD.format(100).replace("CREATE", "CREATE OR REPLACE"))
    assert "still on the old version: Old; CREATE OR REPLACE them to use the new one" in replaced.notices
    session.execute("CREATE STREAMED VIEW New AS SELECT id, plus(id) AS x FROM S")
    session.execute("CREATE STREAMED VIEW Above AS SELECT x FROM Old")
    push(session, 1)
    assert values(session, "Old") == [(1, 2)]
    assert values(session, "New") == [(1, 101)]
    assert values(session, "Above") == [(2,)]
    session.execute("CREATE OR REPLACE VIEW Old AS SELECT id, plus(id) AS x FROM S")
    push(session, 2)
    assert [tuple(row.values()) for row in session.relation("Old")] == [(1, 101), (2, 102)]


def test_equal_calls_share_operators_and_versions_do_not() -> None:
    session = LocalSession()
    session.execute(BASE + ADD.format(1))
    session.execute("CREATE STREAMED VIEW A AS SELECT id FROM S WHERE plus(id) > 1")
    session.execute("CREATE STREAMED VIEW B AS SELECT id FROM S WHERE plus(id) > 1")
    session.execute(ADD.format(2).replace("CREATE", "CREATE OR REPLACE"))
    session.execute("CREATE STREAMED VIEW C AS SELECT id FROM S WHERE plus(id) > 1")
    assert "shared with B" in session.explain("A")
    assert "Filter" not in session.explain("C").rpartition("shared with")[2]


def test_failing_function_is_reported_with_query_and_row() -> None:
    session = LocalSession()
    session.execute(BASE + "CREATE FUNCTION inverse(a DOUBLE) : DOUBLE LANGUAGE PYTHON HANDLER 'f' AS "
                    "$$def f(a): return [1 / v.as_py() for v in a]$$")  # fmt: skip
    session.execute("CREATE STREAMED VIEW V AS SELECT inverse(price) AS x FROM S")
    with pytest.raises(DsmsError, match='query "V" failed: function "inverse" failed at the row a = 0.0: ZeroDivision'):
        push(session, 1, 0, 2)


def test_show_and_drop() -> None:
    session = LocalSession()
    session.execute(BASE + ADD.format(1) + "; CREATE QUERY q AS SELECT plus(id) AS x FROM S")
    (shown,) = session.execute("SHOW FUNCTIONS")
    assert (shown["name"], shown["parameters"], shown["returns"], shown["used_by"]) == (
        "plus",
        "a BIGINT",
        "BIGINT",
        "q",
    )
    with pytest.raises(SqlError, match='function "plus" is used by q; drop these first'):
        session.execute("DROP FUNCTION plus")
    session.execute("DROP QUERY q; DROP FUNCTION plus(); DROP FUNCTION IF EXISTS plus")
    assert session.execute("SHOW FUNCTIONS") == []
    with pytest.raises(SqlError, match='function "plus" not found'):
        session.execute("SELECT STREAMED plus(id) FROM S")


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        (ADD.format(1).replace("plus", "round"), '"round" is a built-in SQL function; choose another name'),
        (ADD.format(1).replace("plus", "sum"), '"sum" is a built-in SQL function'),
        ("CREATE FUNCTION f(a INT) RETURNS INT LANGUAGE PYTHON", "no source"),
        ("CREATE FUNCTION f(a INT) RETURNS INT LANGUAGE SQL AS 'x'", "expected PYTHON"),
        ("CREATE FUNCTION f(a INT) RETURNS NOTHING LANGUAGE PYTHON AS 'x'", 'type "NOTHING" not found'),
        ("CREATE FUNCTION f(a INT) RETURNS INT LANGUAGE PYTHON PACKAGE '?'", "needs a zip archive in base64"),
        ("CREATE FUNCTION f(a INT) RETURNS INT LANGUAGE PYTHON PACKAGE 'é'", "needs a zip archive in base64"),
        ("CREATE FUNCTION f(a INT) RETURNS INT LANGUAGE PYTHON AS 'x' AS 'y'", "AS is given twice"),
        ("CREATE FUNCTION f(a INT) RETURNS INT LANGUAGE PYTHON AS 'x' PACKAGE 'AAAA'", "has two sources"),
        ("CREATE FUNCTION f() RETURNS INT LANGUAGE PYTHON AS 'x'", "a column needs a name and a type"),
        ("CREATE FUNCTION f(a INT) RETURNS INT LANGUAGE PYTHON WITH (time_limit = 'soon') AS 'x'", "TIME_LIMIT needs"),
        ("CREATE FUNCTION f(a INT) RETURNS INT LANGUAGE PYTHON WITH (memory = 'much') AS 'x'", "needs a size"),
        (f"CREATE FUNCTION f(a INT) RETURNS INT LANGUAGE PYTHON AS '{'x' * 300_000}'", "at most 256 KiB"),
        ("SELECT STREAMED * FROM (VALUES (plus(1))) v, S", "VALUES cannot call a function written in Python"),
        ("DROP FUNCTION f", 'function "f" not found; have: plus'),
    ],
)
def test_what_is_refused(sql: str, why: str) -> None:
    session = LocalSession()
    session.execute(BASE + ADD.format(1))
    with pytest.raises(SqlError, match=why):
        session.execute(sql)


def test_only_administrators_bring_code() -> None:
    for statement in (ADD.format(1), "DROP FUNCTION plus"):
        permitted(parse(statement), Catalog(), "administrator")
        with pytest.raises(Forbidden):
            permitted(parse(statement), Catalog(), "writer")
    permitted(parse("SHOW FUNCTIONS"), Catalog(), "reader")


def test_method_can_be_registered_as_a_function() -> None:
    class Shop:
        rate = 3

        def price(self, a: pa.Array) -> pa.Array:
            return pc.multiply(a, self.rate)

    session = LocalSession()
    session.execute(BASE)
    session.register_function("price(a INT) RETURNS INT", Shop().price)
    session.execute("CREATE STREAMED VIEW V AS SELECT price(id) AS x FROM S")
    push(session, 2)
    assert values(session, "V") == [(6,)]
