"""Statements through the whole system: the final relation equals DuckDB's over the same tables."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from dsms.testing import LocalSession
from tests.support.random_tables import STREAMS, bag, database, random_tables

COLUMNS = {"a": "abcd", "b": "abe", "c": ["k", "x", "xs"], "k": ["id", "v"]}
LINES = (Path(__file__).parent / "select_statements.sql").read_text().splitlines()
STATEMENTS = [line for line in LINES if " FROM A" in line or " FROM C" in line][::7]


@pytest.mark.parametrize("line", STATEMENTS)
def test_the_relation_at_the_end(line: str) -> None:
    select, _, other = line.partition(" ;; ")
    tables = random_tables(7)
    session = LocalSession(partitions=2)
    session.execute(STREAMS)
    session.execute(f"CREATE STREAMED VIEW V AS {select}")
    session.advance(0)
    for name, rows in tables.items():
        session.push(f"T{name.upper()}", _records(name, rows))
    session.advance(10)
    theirs = database(tables).execute(other or select).fetchall()
    assert bag([tuple(row.values()) for row in session.relation("V")]) == bag(theirs)


def _records(name: str, rows: list[tuple]) -> list[dict[str, object]]:
    """The rows at ascending instants from 1 to 6."""
    chance = random.Random(name)
    instants = sorted(chance.randint(1, 6) for _ in rows)
    values = [[list(value) if isinstance(value, tuple) else value for value in row] for row in rows]
    return [dict(zip(COLUMNS[name], row, strict=True)) | {"ts": ts} for row, ts in zip(values, instants, strict=True)]
