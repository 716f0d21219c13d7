"""SQLite files are read, and neither created nor changed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from connectors.tables.database import database_batches
from operators.core.errors import DsmsError, UserError


@pytest.fixture
def database(tmp_path: Path) -> Path:
    file = tmp_path / "rooms.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript("CREATE TABLE rooms (room TEXT, t INT); INSERT INTO rooms VALUES ('a', 7), ('b', 8);")
    return file


def rows(file: Path, query: str) -> list[dict[str, object]]:
    return [row for batch in database_batches(f"sqlite:///{file}", query) for row in batch.to_pylist()]


def test_a_file_is_read(database: Path) -> None:
    assert rows(database, "SELECT room, t + 1 AS t FROM rooms ORDER BY t") == [
        {"room": "a", "t": 8}, {"room": "b", "t": 9},
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["missing.db", "file:missing.db?mode=rwc&uri=true", "no/such/directory/x.db"])
def test_missing_file_is_not_created(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="there is no sqlite database"):
        rows(tmp_path / name, "SELECT 1")
    assert list(tmp_path.rglob("*")) == []


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO rooms VALUES ('c', 9) RETURNING room",
        "CREATE TABLE other (a INT)",
        "DELETE FROM rooms",
        "PRAGMA user_version = 7",
        "ATTACH DATABASE '{directory}/new.db' AS other",
        "ATTACH DATABASE 'file:{directory}/new.db?mode=rwc' AS other",
        "VACUUM INTO '{directory}/new.db'",
        "SELECT load_extension('{directory}/x.so')",
    ],
)
def test_statements_that_write_are_refused(database: Path, statement: str) -> None:
    before = database.read_bytes()
    with pytest.raises(DsmsError, match="the database"):
        rows(database, statement.format(directory=database.parent))
    assert database.read_bytes() == before
    assert [file.name for file in database.parent.iterdir()] == ["rooms.db"]


@pytest.mark.parametrize("query", ["x", "SELECT * FROM nothing", "SELECT nothing FROM rooms", ""])
def test_a_wrong_query_is_no_failure_of_the_database(database: Path, query: str) -> None:
    with pytest.raises(UserError, match="the database refused the query"):
        rows(database, query)
