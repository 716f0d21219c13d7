"""Bound plans as trees in golden files, with their joins, keys and filters."""

from __future__ import annotations

import pytest

from dsms.model.properties import keys
from dsms.model.schema import schema
from dsms.planner.physical.explain import tree
from dsms.sql.binder.bind import plan_of
from tests.support.fake_environment import apply_all
from tests.support.random_tables import STREAMS

SHAPES = {
    "joins": [
        "SELECT A.c, e, x FROM A, B, C WHERE A.a = k AND k + 1 = B.a AND x > 0",
        "SELECT A.c, e FROM A LEFT JOIN B ON A.a = B.a AND A.c > 1 AND B.e > 2 WHERE A.d = 1",
        "SELECT a, A.b, e FROM A FULL JOIN B USING (a)",
        "SELECT k, y FROM C LEFT JOIN UNNEST(xs) AS t(y) ON TRUE",
        "SELECT A.a, z.e FROM A, LATERAL (SELECT e FROM B WHERE B.a = A.a) z",
    ],
    "groups": [
        "SELECT a % 2 AS p, SUM(c * 2) FILTER (WHERE d > 1) AS s FROM A GROUP BY 1 HAVING COUNT(*) > 1",
        "SELECT a, b, SUM(c) AS s, GROUPING(a) AS g FROM A GROUP BY ROLLUP (a, b)",
        "SELECT DISTINCT ON (a) a, c FROM A ORDER BY a, c DESC",
        "SELECT a, STRING_AGG(DISTINCT b, '-' ORDER BY b) AS s FROM A GROUP BY a",
    ],
    "sets": [
        "SELECT a FROM A UNION SELECT e FROM B ORDER BY 1 LIMIT 2",
        "SELECT c FROM A EXCEPT ALL SELECT e FROM B",
    ],
    "over": [
        "SELECT a, c FROM (SELECT a, c, ROW_NUMBER() OVER (PARTITION BY a ORDER BY c) AS n FROM A) z WHERE n <= 2",
        "SELECT a, RANK() OVER (PARTITION BY a ORDER BY c + 1) AS r, SUM(c) OVER (PARTITION BY b) AS s FROM A",
    ],
    "subqueries": [
        "SELECT a FROM A WHERE EXISTS (SELECT 1 FROM B WHERE B.a = A.a AND B.e > 1)",
        "SELECT a FROM A WHERE a NOT IN (SELECT a FROM B)",
        "SELECT a FROM A WHERE c NOT IN (SELECT e FROM B)",
        "SELECT a FROM A WHERE c >= ALL (SELECT e FROM B WHERE B.b = A.b)",
        "SELECT a, (SELECT COUNT(*) FROM B WHERE B.a = A.a) AS n FROM A",
        "SELECT a, (SELECT COUNT(*) + 1 FROM B WHERE B.e > A.c) AS n FROM A",
        "SELECT a, a IN (SELECT e FROM B) AS x FROM A",
    ],
}


def bound(select: str):
    catalog, _ = apply_all(f"{STREAMS} CREATE STREAMED VIEW V AS {select}")
    return plan_of("V", catalog)


@pytest.mark.parametrize("name", SHAPES)
def test_shape(name: str, golden) -> None:
    golden(f"plans/bind_{name}.txt", "\n".join(f"{select}\n{tree(bound(select))}\n" for select in SHAPES[name]))


def test_nullability_follows_outer_joins_and_aggregates() -> None:
    fields = schema(
        bound(
            "SELECT x.a AS kept, y.a AS padded, COUNT(*) AS n, COUNT(y.e) AS m, SUM(x.a) AS s"
            " FROM A x LEFT JOIN B y ON x.a = y.a GROUP BY x.a, y.a"
        )
    )
    assert {field.name: field.nullable for field in fields} == {
        "kept": False,
        "padded": True,
        "n": False,
        "m": False,
        "s": True,
    }


def test_names_of_a_star_over_a_join_differ() -> None:
    assert schema(bound("SELECT * FROM A x JOIN B y ON x.a = y.a")).names == ["a", "b", "c", "d", "y.a", "y.b", "e"]


@pytest.mark.parametrize(
    ("select", "expected"),
    [
        ("SELECT a, COUNT(*) AS n FROM A GROUP BY a", ("a",)),
        ("SELECT x.id, y.v FROM K x JOIN K y ON x.v = y.id", ("id",)),
        ("SELECT id FROM K WHERE v IN (SELECT e FROM B)", ("id",)),
        ("SELECT DISTINCT a, b FROM A", ("a", "b")),
        ("SELECT a, c FROM A QUALIFY ROW_NUMBER() OVER (PARTITION BY a ORDER BY c) = 1", ("a",)),
    ],
)
def test_keys_of_results(select: str, expected: tuple[str, ...]) -> None:
    assert keys(bound(select)) == expected


def test_ts_in_joins_is_that_of_the_named_item() -> None:
    fields = schema(bound("SELECT x.TS AS mine, y.TS AS theirs FROM A x JOIN B y ON x.a = y.a WHERE x.TS < y.TS"))
    assert fields.names == ["mine", "theirs"]
