"""Small random tables with NULLs and duplicates, declared as streams for us and as tables for DuckDB."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from decimal import Decimal

import duckdb

from tests.support import duck_engine
from tests.support.plan_files import declarations

STREAMS = declarations("binding")
_TABLES = """
CREATE TEMP TABLE a (a INT, b VARCHAR, c BIGINT, d INT); CREATE TEMP TABLE b (a INT, b VARCHAR, e BIGINT);
CREATE TEMP TABLE c (k INT, x DOUBLE, xs INT[]); CREATE TEMP TABLE k (id INT, v INT);
SET SESSION default_null_order = 'postgres';
"""
Tables = dict[str, list[tuple]]


def random_tables(seed: int) -> Tables:
    """Tables of 0 to 9 rows; the ids of `k` differ."""
    chance = random.Random(seed)

    def maybe(value: Callable[[], object]) -> object:
        return None if chance.random() < 0.25 else value()

    def small() -> int:
        return chance.randint(0, 3)

    def letter() -> str:
        return chance.choice("pqr")

    def array() -> tuple:
        return tuple(maybe(small) for _ in range(small()))

    def rows(row: Callable[[], tuple]) -> list[tuple]:
        return [row() for _ in range(chance.choice([0, 1, 3, 6, 9]))]

    return {
        "a": rows(lambda: (small(), maybe(letter), maybe(lambda: chance.randint(0, 4)), maybe(small))),
        "b": rows(lambda: (small(), maybe(letter), maybe(lambda: chance.randint(0, 4)))),
        "c": rows(lambda: (maybe(small), maybe(lambda: float(small())), maybe(array))),
        "k": [(at, maybe(small)) for at in range(4) if chance.random() < 0.6],
    }


def database(tables: Tables) -> duckdb.DuckDBPyConnection:
    """A DuckDB connection with these tables."""
    connection = duck_engine.connection()
    connection.execute(_TABLES)
    for name, rows in tables.items():
        plain = [[list(value) if isinstance(value, tuple) else value for value in row] for row in rows]
        duck_engine.fill(connection, name, plain)
    return connection


def bag(rows: list[tuple]) -> Counter:
    """The rows as a multiset; numbers of different types are equal if their values are."""
    return Counter(tuple(_plain(value) for value in row) for row in rows)


def _plain(value: object) -> object:
    if isinstance(value, list | tuple):
        return tuple(_plain(element) for element in value)
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return round(float(value), 9)
    return value
