"""Draws statements that write a table while a service runs, and compares the table and a query over it with DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import duckdb

from dsms.simulation.history import Statement
from dsms.simulation.world import World
from tests.simulation.rows import rows_left

CREATE = "CREATE TABLE tb (k INT PRIMARY KEY, w INT)"
#: A query over the table as it is, and one that counts its values.
ROWS = "CREATE STREAMED VIEW QT AS SELECT STREAMED k, w FROM tb"
COUNTS = "CREATE STREAMED VIEW QC AS SELECT STREAMED w, COUNT(*) AS n FROM tb GROUP BY w"
_QUERIES = {"QT": "SELECT k, w FROM tb", "QC": "SELECT w, COUNT(*) AS n FROM tb GROUP BY w"}
#: The seconds between which the table is written.
_BETWEEN_S = (2.0, 28.0)
_KEYS, _VALUES = range(1, 5), range(3)


def writes_a_table(seed: int, theme: str) -> bool:
    """Whether the history of a seed writes a table."""
    return not theme and Random(f"tables {seed}").random() < 0.3


def table_statements(seed: int) -> list[Statement]:
    """The creation of the table and of queries over it, and writes. No write fails, and each may be sent twice."""
    chance = Random(f"statements {seed}")
    begins = [Statement(1.5, CREATE), Statement(1.6, ROWS), Statement(1.7, COUNTS)]
    present = set[int]()
    times = sorted(round(chance.uniform(*_BETWEEN_S), 3) for _ in range(chance.randrange(1, 12)))
    return [*begins, *(Statement(at_s, _write(present, chance)) for at_s in times)]


def _write(present: set[int], chance: Random) -> str:
    """The text of a write; `present` are the keys in the table, which are changed accordingly."""
    key, value = chance.choice(_KEYS), chance.choice(_VALUES)
    if key not in present:
        present.add(key)
        return f"INSERT INTO tb VALUES ({key}, {value})"
    if chance.random() < 0.6:
        return f"UPDATE tb SET w = {value} WHERE k = {key}"
    present.remove(key)
    return f"DELETE FROM tb WHERE k = {key}"


def wrong_tables(world: World) -> Iterator[str]:
    """How the results of the queries over the table differ from DuckDB, which runs the same statements."""
    statements = [each.sql for each in world.history.statements]
    if CREATE not in statements or not {ROWS, COUNTS} <= {*statements}:
        return
    published = world.published()
    with duckdb.connect() as connection:
        for sql in statements:
            if sql == CREATE or " tb " in f"{sql} " and not sql.startswith("CREATE"):
                connection.execute(sql)
        for name, text in _QUERIES.items():
            expected = sorted(connection.sql(text).fetchall())
            found = sorted(rows_left(published.get(f"dsms.{name}", {})))
            if found != expected:
                yield f"{name} is {found}, but DuckDB has {expected} after the same statements"
