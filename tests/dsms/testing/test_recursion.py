"""WITH RECURSIVE at every instant, compared with DuckDB, with rows that are inserted and removed."""

from __future__ import annotations

from collections import Counter
from functools import cache

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsms.testing import LocalSession
from operators.core.errors import SqlError
from tests.support import duck_engine
from tests.support.strategies import examples

END = 8
SOURCES = """REGISTER SOURCE Edges (c INT, d INT, w INT) FROM e; REGISTER SOURCE Nodes (n INT, kind TEXT) FROM n;
CREATE STREAM E OVER Edges KEY (c, d); CREATE STREAM M OVER Edges KEY NULL; CREATE STREAM N OVER Nodes KEY n;"""
PATHS = "WITH RECURSIVE p (a, b) AS (SELECT c, d FROM E UNION SELECT p.a, E.d FROM p JOIN E ON p.b = E.c) "
#: A query whose types are widened here; DuckDB casts to the types of the first query.
WIDENED = "WITH RECURSIVE p (a) AS (SELECT c FROM E UNION SELECT a * 0.5e0 FROM p WHERE a > 0.3) SELECT a FROM p"
QUERIES = [
    PATHS + "SELECT a, b FROM p",
    PATHS + "SELECT a, count(*) AS reached FROM p GROUP BY a",
    PATHS + "SELECT p.a, q.b FROM p JOIN p q ON p.b = q.a WHERE p.a < q.b",
    PATHS + "SELECT n FROM N WHERE n NOT IN (SELECT b FROM p WHERE a = 0)",
    "WITH RECURSIVE p (a, b) AS (SELECT c, d FROM M UNION SELECT a, d FROM p, M WHERE b = c AND w > 0) SELECT * FROM p",
    # lengths of walks, up to a bound, and the shortest walk of each pair
    "WITH RECURSIVE p (a, b, l) AS (SELECT c, d, 1 FROM E UNION SELECT a, d, l + 1 FROM p, E WHERE b = c AND l < 5) "
    "SELECT a, b, min(l) AS hops FROM p GROUP BY a, b",
    # connected components: the least node that a node is connected to
    "WITH RECURSIVE u (x, y) AS (SELECT c, d FROM E UNION SELECT d, c FROM E), "
    "r (x, y) AS (SELECT x, x FROM u UNION SELECT u.y, r.y FROM u JOIN r ON u.x = r.x) "
    "SELECT x, min(y) AS component FROM r GROUP BY x",
    WIDENED,
    # a relation of constants, with a condition; an aggregate below the recursion
    "WITH RECURSIVE i AS (SELECT 0 AS k UNION SELECT k + 1 FROM i WHERE k < 4) SELECT k, n FROM i JOIN N ON n = k",
    "WITH RECURSIVE t AS (SELECT c, sum(w) AS s FROM M GROUP BY c), "
    "p (a, s) AS (SELECT c, s FROM t WHERE c = 0 UNION SELECT d, t.s FROM p JOIN E ON a = c JOIN t ON t.c = d) "
    "SELECT a, s FROM p",
    # IN and EXISTS of other relations, UNION ALL within a query, two base queries
    "WITH RECURSIVE p (a) AS (SELECT c FROM E WHERE c = 0 UNION SELECT d FROM p JOIN E ON a = c "
    "WHERE d IN (SELECT n FROM N WHERE kind = 'x')) SELECT a FROM p",
    "WITH RECURSIVE p (a) AS (SELECT n FROM N WHERE kind = 'x' UNION SELECT 2 UNION "
    "SELECT v FROM p JOIN (SELECT c AS u, d AS v FROM E UNION ALL SELECT d, c FROM E) ON a = u) SELECT a FROM p",
    "WITH RECURSIVE p (a) AS (SELECT 0 UNION SELECT DISTINCT d FROM p JOIN E ON a = c "
    "WHERE EXISTS (SELECT 1 FROM N WHERE n = d)) SELECT a FROM p",
    # one column compared with two columns of the other side
    "WITH RECURSIVE p (a, b) AS (SELECT c, d FROM E UNION SELECT a, d FROM p JOIN E ON b = c AND b = w) "
    "SELECT a, b FROM p",
    "WITH RECURSIVE p (a, b) AS (SELECT c, d FROM E UNION SELECT d, w FROM p JOIN E ON a = c AND b = c) "
    "SELECT a, b FROM p",
    "WITH RECURSIVE p (a, b) AS (SELECT c, d FROM E UNION SELECT b, a FROM p "
    "WHERE (a, a) IN (SELECT c, w FROM E)) SELECT a, b FROM p",
    "WITH RECURSIVE p (a, b) AS (SELECT c, d FROM E UNION SELECT b, b FROM p WHERE EXISTS (SELECT 1 FROM N "
    "WHERE n = a AND n = b) AND (b, a) IN (SELECT w, w FROM E)) SELECT a, b FROM p",
    # two recursions in one WITH, and one within a subquery
    "WITH RECURSIVE p (a) AS (SELECT 1 UNION SELECT d FROM p, E WHERE a = c), "
    "q (a) AS (SELECT a FROM p WHERE a > 1 UNION SELECT c FROM q, E WHERE a = d) SELECT a FROM q",
    "SELECT n, (WITH RECURSIVE p (a) AS (SELECT 0 UNION SELECT d FROM p, E WHERE a = c) SELECT count(*) FROM p) AS k "
    "FROM N",
]
NODE = st.sampled_from([None, 0, 1, 2, 3])
AT = st.integers(0, END - 1)
OP = st.sampled_from(["+", "+", "+", "-"])
EDGES = st.lists(
    st.fixed_dictionaries({"c": NODE, "d": NODE, "w": st.integers(-1, 2), "ts": AT, "op": OP}), max_size=10
)
NODES = st.lists(st.fixed_dictionaries({"n": NODE, "kind": st.sampled_from("xy"), "ts": AT, "op": OP}), max_size=4)
CUT = st.sampled_from([(1, None), (1, 1), (3, 2)])


def current(records: list[dict], columns: str, at: int, *keys: str) -> list[tuple]:
    """The last row of each key up to an instant, unless it is a deletion; without keys all insertions."""
    seen = [record for record in records if record["ts"] <= at]
    last = {tuple(record[key] for key in keys) if keys else place: record for place, record in enumerate(seen)}
    kept = (record for record in last.values() if record["op"] == "+")
    return [tuple(record[name] for name in columns.split()) for record in kept]


@cache
def duck() -> duckdb.DuckDBPyConnection:
    connection = duck_engine.connection()
    for name, columns in {"E": "c INT, d INT, w INT", "M": "c INT, d INT, w INT", "N": "n INT, kind TEXT"}.items():
        connection.execute(f"CREATE TEMP TABLE {name} ({columns})")
    return connection


def answer(query: str, edges: list[dict], nodes: list[dict], at: int) -> Counter:
    tables = {
        "E": current(edges, "c d w", at, "c", "d"),
        "M": current(edges, "c d w", at),
        "N": current(nodes, "n kind", at, "n"),
    }
    for name, rows in tables.items():
        duck_engine.fill(duck(), name, rows)
    text = query.replace("SELECT c FROM", "SELECT c::DOUBLE FROM") if query == WIDENED else query
    return Counter(duck().execute(text).fetchall())


@settings(max_examples=examples(60))
@given(st.sampled_from(QUERIES), EDGES, NODES, CUT)
def test_as_duckdb_at_every_instant(query, edges, nodes, cut) -> None:
    check(query, edges, nodes, cut)


@pytest.mark.parametrize("query", QUERIES)
def test_each_query(query) -> None:
    edges = [
        {"c": c, "d": d, "w": 1, "ts": ts, "op": op}
        for c, d, ts, op in [
            (0, 1, 0, "+"),
            (1, 2, 1, "+"),
            (2, 0, 2, "+"),
            (2, 3, 2, "+"),
            (0, 1, 4, "-"),
            (3, 2, 5, "+"),
        ]
    ]
    nodes = [{"n": n, "kind": kind, "ts": n, "op": "+"} for n, kind in enumerate("xyxx")]
    for cut in ((1, None), (3, 2)):
        check(query, edges, nodes, cut)


def check(query: str, edges: list[dict], nodes: list[dict], cut: tuple[int, int | None]) -> None:
    session = LocalSession(*cut)
    session.execute(f"{SOURCES} CREATE STREAMED VIEW V AS {query}")
    edges, nodes = (sorted(records, key=lambda record: record["ts"]) for records in (edges, nodes))
    session.push("Edges", edges)
    session.push("Nodes", nodes)
    session.advance(END)
    for at in range(END):
        rows = Counter(tuple(row.values()) for row in session.relation("V", at=at))
        assert rows == answer(query, edges, nodes, at), f"at {at}"


REFUSED = {
    "WITH RECURSIVE p AS (SELECT c FROM E UNION ALL SELECT d FROM p, E) SELECT * FROM p": "UNION ALL in WITH RECURSIVE",
    "WITH RECURSIVE p AS (SELECT c FROM p) SELECT * FROM p": '"p" has no query that does not read itself',
    "WITH RECURSIVE p AS (SELECT c FROM E UNION SELECT max(c) FROM p) SELECT * FROM p": "under an aggregate",
    "WITH RECURSIVE p AS (SELECT c FROM E UNION SELECT E.d FROM E LEFT JOIN p ON p.c = E.c) SELECT * FROM p":
        "under an outer join",
    "WITH RECURSIVE p AS (SELECT c FROM E UNION SELECT d FROM E WHERE c NOT IN (SELECT c FROM p)) SELECT * FROM p":
        "under NOT IN or NOT EXISTS",
    "WITH RECURSIVE p AS (SELECT c FROM E UNION SELECT c FROM p ORDER BY c LIMIT 3) SELECT * FROM p": "ORDER BY in a",
    "WITH RECURSIVE p AS (SELECT c FROM E UNION SELECT 'a' FROM p) SELECT * FROM p": 'column "c" of "p" has no common',
    "WITH RECURSIVE p AS (SELECT c FROM E UNION SELECT c, c FROM p) SELECT * FROM p": "differ in the number of",
    "WITH RECURSIVE p AS ((SELECT c FROM E UNION SELECT d FROM p, E) LIMIT 3) SELECT * FROM p": "LIMIT in a recursive",
    "WITH RECURSIVE r (a) AS (SELECT c FROM E UNION SELECT x.a FROM (WITH RECURSIVE s (a) AS (SELECT a FROM r UNION "
    "SELECT d FROM s JOIN E ON s.a = E.c) SELECT * FROM s) x) SELECT * FROM r": "a nested recursive query cannot read",
    "WITH RECURSIVE a (x) AS (SELECT x FROM (WITH RECURSIVE b (x) AS (SELECT x FROM (WITH RECURSIVE c (x) AS (SELECT c "
    "FROM E UNION SELECT x FROM c) SELECT x FROM c) q UNION SELECT x FROM b) SELECT x FROM b) r UNION SELECT x FROM a) "
    "SELECT x FROM a": "nested in 2 others",
    "WITH RECURSIVE p AS (SELECT c FROM E UNION SELECT x0.c FROM "
    + ", ".join(f"(SELECT c FROM p UNION ALL SELECT c FROM p) x{at}" for at in range(7))
    + ") SELECT * FROM p": "more than 64 combinations",
    "WITH RECURSIVE p AS (SELECT c, c FROM E UNION SELECT 1, 2 FROM p) SELECT * FROM p":
        'two columns of "p" are named "c"',
}  # fmt: skip


@pytest.mark.parametrize("query", REFUSED)
def test_refused_recursions_have_the_reason(query) -> None:
    session = LocalSession()
    session.execute(SOURCES)
    with pytest.raises(SqlError) as refused:
        session.execute(f"CREATE STREAMED VIEW V AS {query}")
    assert REFUSED[query] in str(refused.value)
