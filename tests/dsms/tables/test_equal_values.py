"""The values that a query wants of columns: the query over the rows with these values alone has the same answer."""

from __future__ import annotations

import duckdb
import pytest
import sqlglot

from dsms.tables.equal_values import equal_values
from dsms.tables.one_time_query import OneTimeQuery

T = '"relation 0"'


def values(sql: str) -> object:
    return equal_values(OneTimeQuery(sql, {"relation 0": "v"}, query=sqlglot.parse_one(sql, read="duckdb"))).get("v")


RESTRICTED = {
    f"SELECT * FROM {T} AS v WHERE k = 7": {"k": (7,)},
    f"SELECT * FROM {T} AS v WHERE (7 = v.K) AND x > 1": {"k": (7,)},
    f"SELECT count(*) FROM {T} AS v WHERE k = -1 AND k = 2": {"k": (-1,)},
    f"SELECT * FROM {T} AS v WHERE k = 7.0": {"k": (7,)},
    f"SELECT * FROM {T} AS v WHERE k = CAST('7' AS INT) AND n = CAST('a' AS TEXT)": {"k": (7,), "n": ("a",)},
    f"SELECT * FROM {T} AS v WHERE CAST(k AS BIGINT) IN (7::bigint, (-1)::smallint)": {"k": (7, -1)},
    f"SELECT * FROM {T} AS v WHERE k IN (1, 2) AND n = 'a'": {"k": (1, 2), "n": ("a",)},
    f"SELECT * FROM (SELECT k, sum(x) AS s FROM {T} AS v WHERE k = 1 GROUP BY k) WHERE s = 3": {"k": (1,)},
    f"WITH w AS (SELECT * FROM {T} AS v WHERE k = 2) SELECT a.x, b.x FROM w AS a, w AS b": {"k": (2,)},
    f"SELECT x, row_number() OVER (ORDER BY x) FROM {T} AS v WHERE k = 1 ORDER BY x LIMIT 1": {"k": (1,)},
}
UNRESTRICTED = [
    f"SELECT * FROM {T} AS v",
    f"SELECT * FROM {T} AS v WHERE k = 1 OR x = 2",
    f"SELECT * FROM {T} AS v WHERE NOT k = 1",
    f"SELECT * FROM {T} AS v WHERE k = 1.5",
    f"SELECT * FROM {T} AS v WHERE k = CAST('1.5' AS INT)",
    f"SELECT * FROM {T} AS v WHERE k = TRY_CAST('x' AS INT)",
    f"SELECT * FROM {T} AS v WHERE CAST(k AS SMALLINT) = 1",
    f"SELECT * FROM {T} AS v WHERE CAST(n AS BIGINT) = 'x'",
    f"SELECT * FROM {T} AS v WHERE k = NULL",
    f"SELECT * FROM {T} AS v WHERE k IN (1, NULL)",
    f"SELECT * FROM {T} AS v WHERE k NOT IN (1)",
    f"SELECT * FROM {T} AS v WHERE k IN (SELECT 1)",
    f"SELECT * FROM {T} AS v WHERE k = k",
    f"SELECT x AS k FROM {T} AS v WHERE k = 1",
    f"SELECT * FROM {T} AS v(x, k, n) WHERE k = 1",
    f"SELECT * FROM {T} AS v, {T} AS w WHERE v.k = 1 AND w.k = 2",
    f"SELECT (SELECT count(*) FROM {T} AS v) FROM {T} AS v WHERE k = 1",
    f"SELECT * FROM {T} AS v LEFT JOIN (SELECT 1 AS y) ON k = 1",
    f"SELECT count(*) FROM {T} AS v HAVING count(*) = 1",
]


@pytest.mark.parametrize("sql", RESTRICTED)
def test_the_answer_over_the_wanted_rows_is_the_answer_over_all(sql: str) -> None:
    wanted = values(sql)
    assert wanted == RESTRICTED[sql]
    rows = [(k, x, n) for k in (-1, 1, 2, 7) for x in (1, 2) for n in ("a", "b")]
    kept = [row for row in rows if all(row["kxn".index(name)] in each for name, each in wanted.items())]  # type: ignore[attr-defined]
    assert 0 < len(kept) < len(rows)
    assert answer(sql, kept) == answer(sql, rows)


@pytest.mark.parametrize("sql", UNRESTRICTED)
def test_other_conditions_want_all_rows(sql: str) -> None:
    assert not values(sql)


def answer(sql: str, rows: list[tuple[int, int, str]]) -> list[tuple[object, ...]]:
    with duckdb.connect() as database:
        database.execute('CREATE TABLE "relation 0" (k INTEGER, x INTEGER, n VARCHAR)')
        database.executemany('INSERT INTO "relation 0" VALUES (?, ?, ?)', rows)
        return sorted(database.execute(sql).fetchall())
