"""Frames in GROUPS, in views at every instant of histories with updates and deletions, compared with DuckDB."""

from __future__ import annotations

from collections import Counter
from itertools import product

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsms.testing import LocalSession
from operators.core.errors import SqlError

DECLARED = "REGISTER SOURCE T (id INT, k VARCHAR, n INT, v INT) FROM t; CREATE STREAM S OVER T KEY id"
LISTS = [
    "SUM(v) OVER (ORDER BY n GROUPS 1 PRECEDING) AS x",
    "COUNT(*) OVER (PARTITION BY k ORDER BY n DESC GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS x",
    "MAX(v) OVER (ORDER BY k, n GROUPS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS x",
    "SUM(v) OVER (ORDER BY n GROUPS CURRENT ROW) AS x, SUM(v) OVER (PARTITION BY k ORDER BY n) AS y",
    "SUM(v) OVER w AS x, COUNT(v) OVER w AS y",
    "MIN(v) OVER (ORDER BY n NULLS FIRST GROUPS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS x",
]
ROW = st.tuples(
    st.integers(0, 4),
    st.sampled_from(["a", "b", None]),
    st.sampled_from([0, 1, 2, None]),
    st.none() | st.integers(-9, 9),
    st.booleans(),
)


def query(items: str) -> str:
    window = " WINDOW w AS (PARTITION BY k ORDER BY n GROUPS BETWEEN 2 PRECEDING AND 1 PRECEDING)"
    return f"SELECT id, {items} FROM S{window if ' w ' in items else ''}"


def expected(items: str, rows: list[tuple[object, ...]]) -> Counter[tuple[object, ...]]:
    with duckdb.connect() as engine:
        engine.execute("CREATE TABLE S (id INT, k VARCHAR, n INT, v INT)")
        if rows:
            engine.executemany("INSERT INTO S VALUES (?, ?, ?, ?)", rows)
        return Counter(engine.execute(query(items)).fetchall())


@settings(max_examples=6)
@given(pushed=st.lists(ROW, max_size=7), batch=st.sampled_from([None, 1, 3]))
def test_views_equal_duckdb_at_every_instant(pushed, batch: int | None) -> None:
    session = LocalSession(2, batch)
    session.execute(DECLARED)
    for number, items in enumerate(LISTS):
        session.execute(f"CREATE VIEW V{number} AS {query(items)}")
    relation: dict[int, tuple[object, ...]] = {}
    relations = []
    for at, (id_, k, n, v, deleted) in enumerate(pushed, 1):
        record = {"id": id_, "k": k, "n": n, "v": v, "ts": at}
        session.push("T", [{"op": "-", **record} if deleted else record])
        relation = {key: row for key, row in relation.items() if key != id_}
        relation |= {} if deleted else {id_: (id_, k, n, v)}
        relations.append(relation)
    session.advance(len(pushed) + 2)
    for (at, rows), (number, items) in product(enumerate(relations, 1), enumerate(LISTS)):
        shown = Counter(tuple(row.values()) for row in session.relation(f"V{number}", at))
        assert shown == expected(items, list(rows.values())), items


@pytest.mark.parametrize(
    ("over", "message"),
    [
        ("PARTITION BY k GROUPS 1 PRECEDING", "a frame in GROUPS needs ORDER BY"),
        ("ORDER BY n GROUPS 1.5 PRECEDING", "must be whole with ROWS and GROUPS"),
        ("ORDER BY n GROUPS INTERVAL '1 day' PRECEDING", "the bound of a frame must be a constant"),
        ("ORDER BY n GROUPS 1 PRECEDING EXCLUDE TIES", "EXCLUDE TIES is not supported"),
    ],
)
def test_other_frames_are_refused(over: str, message: str) -> None:
    session = LocalSession()
    session.execute(DECLARED)
    with pytest.raises(SqlError, match=message):
        session.execute(f"CREATE VIEW V AS SELECT SUM(v) OVER ({over}) AS x FROM S")
