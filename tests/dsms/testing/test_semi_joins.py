"""SEMI JOIN and ANTI JOIN: the same text gives the rows of DuckDB at every instant, and once over tables."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsms.testing import LocalSession
from operators.core.errors import SqlError
from tests.dsms.testing.test_select_forms import RECORD, SOURCES, check, duck
from tests.support import duck_engine
from tests.support.strategies import examples

JOINS = [
    "SELECT k, v FROM S SEMI JOIN M USING (k)",
    "SELECT * FROM S SEMI JOIN M USING (v, s)",
    "SELECT * FROM M ANTI JOIN S USING (v)",
    "SELECT S.k, S.v FROM S SEMI JOIN M ON S.v = M.v AND S.k < M.k",
    "SELECT k FROM M x ANTI JOIN S y ON x.v = y.v AND x.s > 'a'",
    "SELECT k FROM M x ANTI JOIN S y ON x.v > y.v OR y.s = 'b'",
    "SELECT k FROM S x SEMI JOIN S y ON x.k <> y.k WHERE x.v > 0",
    "SELECT k FROM S NATURAL SEMI JOIN M",
    "SELECT s, COUNT(*) AS n FROM M x SEMI JOIN (SELECT v FROM S WHERE k > 1) y ON x.v = y.v GROUP BY s",
    "SELECT x.k, z.v FROM S x SEMI JOIN M y ON x.v = y.v JOIN M z ON x.k = z.k",
    "SELECT x.k, y.k AS other FROM S x JOIN M y ON x.v = y.v ANTI JOIN S z ON z.k = y.k + 1 AND z.v = x.v",
    "SELECT x.k, y.v FROM S x LEFT JOIN M y ON x.k = y.k AND y.v > 1 ANTI JOIN M z ON z.v = y.v AND z.k <> x.k",
    "SELECT k, (SELECT COUNT(*) FROM M b SEMI JOIN S c ON b.v = c.v WHERE b.k = a.k) AS n FROM S a",
    "SELECT k FROM S a WHERE EXISTS (SELECT 1 FROM M b ANTI JOIN S c ON b.v = c.v WHERE b.k <> a.k)",
    "WITH w AS (SELECT v FROM M) SELECT k FROM S ANTI JOIN w ON S.v = w.v",
]
#: Forms that DuckDB does not parse, with the same query in its spelling.
SPELLED = {
    "SELECT k FROM S LEFT SEMI JOIN M USING (k)": "SELECT k FROM S SEMI JOIN M USING (k)",
    "SELECT k FROM S LEFT ANTI JOIN M ON S.v = M.v": "SELECT k FROM S ANTI JOIN M ON S.v = M.v",
}
#: DuckDB has no SEMI JOIN of a lateral item.
LATERAL = {
    "SELECT a.k FROM S a SEMI JOIN LATERAL (SELECT b.k FROM M b WHERE b.v = a.v AND b.k <> a.k) c ON TRUE":
        "SELECT a.k FROM S a WHERE EXISTS (SELECT 1 FROM M b WHERE b.v = a.v AND b.k <> a.k)",
}  # fmt: skip
MEANT = {**{query: query for query in JOINS}, **SPELLED, **LATERAL}
ROWS = [(1, 1, "a"), (2, 2, "b"), (3, 1, "a"), (1, 2, "b"), (2, None, "a")]


@settings(max_examples=examples(60))
@given(st.sampled_from(list(MEANT)), st.lists(RECORD, max_size=8))
def test_as_duckdb_at_every_instant(query: str, records: list[dict]) -> None:
    check(query, records, MEANT[query])


@pytest.mark.parametrize("query", MEANT)
def test_each_form(query: str) -> None:
    records = [{"k": k, "v": v, "s": s, "ts": ts, "op": "+"} for ts, (k, v, s) in enumerate(ROWS)]
    check(query, records, MEANT[query])


@pytest.mark.parametrize("query", [*JOINS, *SPELLED])
def test_once_over_tables(query: str) -> None:
    session = LocalSession()
    session.execute("CREATE TABLE S (k INT PRIMARY KEY, v INT, s TEXT); CREATE TABLE M (k INT, v INT, s TEXT)")
    session.execute("INSERT INTO S VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 1, 'a')")
    session.execute("INSERT INTO M VALUES (1, 1, 'a'), (1, 2, 'b'), (2, NULL, 'a')")
    duck_engine.fill(duck(), "S", [[1, 1, "a"], [2, 2, "b"], [3, 1, "a"]])
    duck_engine.fill(duck(), "M", [[1, 1, "a"], [1, 2, "b"], [2, None, "a"]])
    rows = Counter(repr(tuple(row.values())) for row in session.execute(query))
    assert rows == Counter(map(repr, duck().execute(MEANT[query]).fetchall()))


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT M.v FROM S SEMI JOIN M USING (k)", 'column "M.v" not found'),
        ("SELECT S.k FROM S SEMI JOIN M ON S.k = M.nope", 'column "M.nope" not found'),
        ("SELECT S.k FROM S RIGHT SEMI JOIN M USING (k)", "RIGHT SEMI JOIN is not supported here; b SEMI JOIN a"),
        ("SELECT S.k FROM S SEMI JOIN M", "SEMI JOIN needs a condition"),
        ("SELECT S.k FROM S ANTI JOIN M ON S.k = (SELECT MAX(k) FROM M)", "a subquery in ON of an ANTI join"),
        ("SELECT S.k FROM S SEMI JOIN UNNEST(ARRAY[1]) AS u(x) ON u.x = S.k", "SEMI JOIN of UNNEST"),
    ],
)
def test_other_joins_say_what_is_wrong(query: str, why: str) -> None:
    session = LocalSession()
    session.execute(SOURCES)
    with pytest.raises(SqlError) as refused:
        session.execute(f"CREATE VIEW V AS {query}")
    assert why in str(refused.value)
