"""Bound plans: schema, nullability, key and monotonicity."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dsms.model import logical, properties
from dsms.model.schema import schema
from dsms.sql.binder.bind import plan_of
from operators.core.errors import SqlError
from tests.support.fake_environment import apply_all

BASE = """REGISTER SOURCE T (a INT NOT NULL, b VARCHAR, c BIGINT) FROM t;
CREATE STREAM S OVER T KEY a, b; CREATE STREAM A OVER T KEY NULL;"""


def plan(select: str) -> logical.Node:
    catalog, _ = apply_all(f"{BASE} CREATE STREAMED VIEW V AS {select}")
    return plan_of("V", catalog)


@pytest.mark.parametrize(
    ("select", "keys", "append_only"),
    [
        ("SELECT * FROM S", ("a", "b"), False),
        ("SELECT b, a FROM R(S)", ("a", "b"), False),
        ("SELECT a AS x, b AS y, a AS z FROM ℜ(S)", ("x", "y"), False),
        ("SELECT a, c FROM S", (), False),
        ("SELECT a + 0 AS a, b FROM S", (), False),
        ("SELECT a, b FROM A", (), True),
        ("SELECT a, b FROM S WHERE c > 1", ("a", "b"), False),
    ],
)
def test_key_and_monotonicity(select, keys, append_only) -> None:
    assert properties.keys(plan(select)) == keys
    assert properties.append_only(plan(select)) is append_only


def test_schema_and_names() -> None:
    fields = schema(plan("SELECT X.A, c + 1, c IS NULL AS none, TS, COALESCE(c, 0) AS d FROM R(S) X"))
    assert fields.names == ["a", "column2", "none", "TS", "d"]
    assert [field.type for field in fields] == [pa.int32(), pa.int64(), pa.bool_(), pa.int64(), pa.int64()]
    assert [field.nullable for field in fields] == [False, True, False, False, False]


def test_a_star_has_no_ts_and_an_alias_hides_the_name() -> None:
    assert schema(plan("SELECT * FROM S WHERE TS > 1")).names == ["a", "b", "c"]
    assert schema(plan("SELECT x.* FROM S X")).names == ["a", "b", "c"]


def test_a_plan_is_memoized_while_everything_below_it_is_unchanged() -> None:
    views = "CREATE STREAMED VIEW V AS SELECT a FROM A; CREATE STREAMED VIEW W AS SELECT a FROM V"
    catalog, _ = apply_all(f"{BASE} {views}")
    more, _ = apply_all("CREATE STREAM Other OVER T KEY NULL", catalog)
    assert plan_of("W", more) is plan_of("w", catalog)
    changed, _ = apply_all("CREATE OR REPLACE STREAMED VIEW V AS SELECT a + 1 AS a FROM A", more)
    assert repr(plan_of("W", changed)) != repr(plan_of("W", catalog))
    assert plan_of("V", more) == plan("SELECT a FROM A")


@pytest.mark.parametrize(
    ("subquery", "message"),
    [
        (
            "(SELECT MAX(y.c) FROM A x RIGHT JOIN A y ON x.a = y.a AND y.c > s.c)",
            '"s.c" of the enclosing query in a RIGHT',
        ),
        (
            "(SELECT y.c FROM A x FULL JOIN A y ON x.a = S.a LIMIT 1)",
            '"S.a" of the enclosing query in a FULL JOIN is not',
        ),
        (
            "EXISTS (SELECT 1 FROM A x CROSS JOIN (A y JOIN A z ON y.a = s.a))",
            "enclosing query in joins in parentheses",
        ),
        (
            "EXISTS (SELECT 1 FROM A x RIGHT JOIN (SELECT a FROM A y WHERE y.a = s.a) z ON x.a = z.a)",
            '"s.a" of the enclosing query in a RIGHT JOIN is not supported here; write b LEFT JOIN a',
        ),
        ("EXISTS (SELECT 1 FROM A x RIGHT JOIN A y ON x.a = s.zz)", 'column "s.zz" not found; have: '),
        ("EXISTS (SELECT 1 FROM A x RIGHT JOIN A y ON x.zz = s.a)", 'column "x.zz" not found; have: '),
    ],
)
def test_a_join_that_cannot_use_a_column_of_the_enclosing_query_says_so(subquery: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        plan(f"SELECT a, {subquery} AS v FROM S s")


def test_query_advised_by_the_error_message_is_accepted() -> None:
    plan("SELECT a, (SELECT MAX(y.c) FROM A y LEFT JOIN A x ON x.a = y.a AND y.c > s.c) AS v FROM S s")
    plan("SELECT a, EXISTS (SELECT 1 FROM A x CROSS JOIN A y JOIN A z ON y.a = s.a) AS v FROM S s")
    joined = "SELECT y.c, x.a FROM A x FULL JOIN A y ON x.a = y.a"
    plan(f"SELECT a, (SELECT MAX(z.c) FROM ({joined}) z WHERE z.a = s.a) AS v FROM S s")
