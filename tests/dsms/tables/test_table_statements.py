"""Tables: a statement sees the effects of earlier statements, and streams join the table as of each instant."""

from __future__ import annotations

import sqlite3
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as some

from dsms.statements.registry import parse
from dsms.testing import LocalSession
from operators.core.errors import SqlError, UserError
from tests.support import duck_engine

ROOMS = "CREATE TABLE Rooms (id INT PRIMARY KEY, name VARCHAR NOT NULL, area DECIMAL(6, 2))"
FILLED = f"{ROOMS}; INSERT INTO Rooms VALUES (1, 'hall', 12.5), (2, 'attic', NULL)"


def session(script: str = FILLED, partitions: int = 2) -> LocalSession:
    made = LocalSession(partitions=partitions)
    made.execute(script)
    return made


def rows(made: LocalSession, select: str = "SELECT * FROM Rooms ORDER BY id") -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in made.execute(select)]


@pytest.mark.parametrize(
    ("statement", "after"),
    [
        ("INSERT INTO Rooms (name, ID) VALUES ('roof', '7')", [(1, "hall"), (2, "attic"), (7, "roof")]),
        ("INSERT INTO Rooms VALUES (7, 'roof', DEFAULT)", [(1, "hall"), (2, "attic"), (7, "roof")]),
        (
            "INSERT INTO Rooms SELECT id + 2, name || '2', area FROM R(rooms)",
            [(1, "hall"), (2, "attic"), (3, "hall2"), (4, "attic2")],
        ),
        ("UPDATE Rooms SET name = upper(name) WHERE area > 1", [(1, "HALL"), (2, "attic")]),
        ("UPDATE Rooms SET id = 3 - id", [(1, "attic"), (2, "hall")]),
        ("UPDATE Rooms SET id = id + 1", [(2, "hall"), (3, "attic")]),
        ("DELETE FROM Rooms WHERE id = (SELECT max(id) FROM Rooms)", [(1, "hall")]),
        ("DELETE FROM Rooms", []),
        ("DELETE FROM Rooms WHERE id = 9", [(1, "hall"), (2, "attic")]),
    ],
)
def test_a_statement_is_visible_to_the_next(statement: str, after: list[tuple[object, ...]]) -> None:
    made = session()
    made.execute(statement)
    assert rows(made, "SELECT id, name FROM Rooms ORDER BY id") == after


def test_nan_and_zeros_of_both_signs_are_one_key_each() -> None:
    made = LocalSession()
    made.execute("CREATE TABLE F (k DOUBLE PRIMARY KEY, v INT)")
    twice = "INSERT INTO F VALUES ({0}, 1), ({1}, 2)"
    for pair in (("CAST('NaN' AS DOUBLE)",) * 2, ("0.0", "-0.0")):
        with pytest.raises(UserError, match="duplicate key"):
            made.execute(twice.format(*pair))
    made.execute("INSERT INTO F VALUES (CAST('NaN' AS DOUBLE), 1), (-0.0, 2)")
    made.execute("UPDATE F SET v = v + 1")
    made.execute("UPDATE F SET v = v + 1 WHERE k = 0")
    assert sorted(map(str, rows(made, "SELECT k, v FROM F"))) == ["(0.0, 4)", "(nan, 2)"]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("INSERT INTO Rooms VALUES (3, 'x', 1), (1, 'again', 1)", r'duplicate key \(id\) = \(1\) in table "Rooms"'),
        ("INSERT INTO Rooms VALUES (3, 'x', 1), (3, 'again', 1)", r"duplicate key \(id\) = \(3\)"),
        ("UPDATE Rooms SET id = 2 WHERE id = 1", r"duplicate key \(id\) = \(2\)"),
        ("UPDATE Rooms SET id = 5", r"duplicate key \(id\) = \(5\)"),
        ("INSERT INTO Rooms (id) VALUES (3)", 'column "name" of table "Rooms" is NOT NULL'),
        ("UPDATE Rooms SET name = NULL", 'column "name" of table "Rooms" is NOT NULL'),
        ("INSERT INTO Rooms VALUES ('x', 'y', 1)", """column "id" is INTEGER: cannot cast "x" to INTEGER"""),
        ("INSERT INTO Rooms VALUES (3, 'y', 123456)", r'column "area" is DECIMAL\(6, 2\)'),
        ("INSERT INTO Rooms VALUES (3, 'y')", "3 columns but 2 values in a row"),
        ("INSERT INTO Rooms (id, id) VALUES (3, 4)", 'column "id" is listed twice'),
        ("UPDATE Rooms SET nothing = 1", 'column "nothing" not found in table "Rooms"; have: id, name, area'),
        ("INSERT INTO nothing VALUES (1)", '"nothing" not found'),
        ("DELETE FROM Rooms WHERE nothing = 1", "nothing"),
    ],
)
def test_a_refused_statement_has_done_nothing(statement: str, message: str) -> None:
    made = session()
    before = rows(made)
    with pytest.raises(UserError, match=message):
        made.execute(statement)
    assert rows(made) == before == [(1, "hall", Decimal("12.50")), (2, "attic", None)]


def test_one_statement_is_one_instant() -> None:
    made = session()
    made.execute("UPDATE Rooms SET area = 1; DELETE FROM Rooms WHERE id = 1")
    assert [(op, row["id"], ts) for op, row, ts in made.changes("Rooms")] == [
        ("+", 1, 0),
        ("+", 2, 0),
        ("u", 1, 1),
        ("u", 2, 1),
        ("-", 1, 2),
    ]
    assert made.relation("Rooms", at=0) == [
        {"id": 1, "name": "hall", "area": Decimal("12.50")},
        {"id": 2, "name": "attic", "area": None},
    ]


JOINED = """
    REGISTER SOURCE T (id INT, v INT) FROM t; CREATE STREAM S OVER T KEY NULL;
    CREATE STREAMED VIEW J AS SELECT S.v, Rooms.name FROM S JOIN Rooms ON S.id = Rooms.id
"""


def test_a_stream_meets_the_table_of_its_instant() -> None:
    made = session(f"{FILLED}; {JOINED}")
    made.push("T", [{"id": 1, "v": 10, "ts": 5}])
    made.advance(6)
    made.execute("UPDATE Rooms SET name = 'lobby' WHERE id = 1")
    made.push("T", [{"id": 1, "v": 20, "ts": 7}])
    made.advance(8)
    assert made.changes("J") == [
        ("+", {"v": 10, "name": "hall"}, 5),
        ("-", {"v": 10, "name": "hall"}, 6),
        ("+", {"v": 10, "name": "lobby"}, 6),
        ("+", {"v": 20, "name": "lobby"}, 7),
    ]
    assert made.dead_letters("T") == []


def test_an_empty_table_holds_back_nobody() -> None:
    made = session(f"{ROOMS}; {JOINED}; CREATE COMPLETE VIEW L AS SELECT S.v, name FROM S LEFT JOIN Rooms USING (id)")
    made.push("T", [{"id": 1, "v": 10, "ts": 5}])
    made.advance(6)
    assert (made.changes("J"), made.relation("L")) == ([], [{"v": 10, "name": None}])


def test_a_table_in_the_catalog() -> None:
    made = session(f"{FILLED}; {JOINED}")
    assert [row["name"] for row in made.execute("SHOW TABLES")] == ["Rooms"]
    assert [row["key"] for row in made.execute("DESCRIBE Rooms")] == [True, False, False]
    with pytest.raises(SqlError, match='"Rooms" is used by J'):
        made.execute("DROP TABLE Rooms")
    with pytest.raises(SqlError, match='"T" is a source, not a table'):
        made.execute("DELETE FROM T")
    with pytest.raises(UserError, match='"Rooms" is not a source'):
        made.push("Rooms", [])
    made.execute(f"DROP TABLE Rooms CASCADE; DROP TABLE IF EXISTS Rooms; {ROOMS}")
    assert rows(made) == []
    made.execute("CREATE TABLE K (a INT)")
    assert made.key("K") == ("_row",)


KEYS, VALUES = some.integers(1, 4), some.integers(0, 9)
CHANGES = some.lists(
    some.one_of(
        some.builds("INSERT INTO T VALUES ({}, {})".format, KEYS, VALUES),
        some.builds("UPDATE T SET v = v + {} WHERE k <= {}".format, VALUES, KEYS),
        some.builds("UPDATE T SET k = k + {} WHERE v >= {}".format, KEYS, VALUES),
        some.builds("DELETE FROM T WHERE v % {} = 0".format, KEYS),
    ),
    max_size=8,
)


@given(CHANGES)
def test_statements_do_what_duckdb_does(statements: list[str]) -> None:
    """DuckDB has no constraint here: a statement must be refused exactly if it would leave a key twice in DuckDB."""
    made = session("CREATE TABLE T (k INT PRIMARY KEY, v INT)")
    with duck_engine.connection() as theirs:
        theirs.execute("CREATE TEMP TABLE T (k INT, v INT)")
        for statement in statements:
            theirs.execute("BEGIN")
            theirs.execute(statement)
            twice = theirs.execute("SELECT k FROM T GROUP BY k HAVING count(*) > 1").fetchall()
            theirs.execute("ROLLBACK" if twice else "COMMIT")
            if twice:
                with pytest.raises(UserError, match="duplicate key"):
                    made.execute(statement)
            else:
                made.execute(statement)
            assert rows(made, "SELECT * FROM T ORDER BY k") == theirs.execute("SELECT * FROM T ORDER BY k").fetchall()


def test_files_and_databases_are_loaded_at_one_instant(tmp_path: Path) -> None:
    file = tmp_path / "rooms.csv"
    file.write_text('name,ID,area\nhall,1,12.5\n"",2,\n')
    made = session(ROOMS)
    made.execute(f"COPY Rooms FROM '{file}'")
    assert rows(made) == [(1, "hall", Decimal("12.50")), (2, "", None)]
    duckdb.sql("SELECT 3 AS id, 'attic' AS name UNION ALL SELECT 4, 'roof'").write_parquet(str(tmp_path / "r.parquet"))
    made.execute(f"COPY Rooms FROM '{tmp_path / 'r.parquet'}'")
    with sqlite3.connect(tmp_path / "db") as database:
        database.execute("CREATE TABLE r (id INT, name TEXT, area REAL)")
        database.execute("INSERT INTO r VALUES (5, 'cellar', 7.25)")
    database.close()
    made.execute(f"LOAD TABLE Rooms FROM DATABASE 'sqlite:///{tmp_path / 'db'}' QUERY 'SELECT * FROM r'")
    assert rows(made)[2:] == [(3, "attic", None), (4, "roof", None), (5, "cellar", Decimal("7.25"))]
    assert sorted({ts for _, _, ts in made.changes("Rooms")}) == [0, 1, 2]
    with pytest.raises(UserError, match=r"duplicate key \(id\) = \(1\)"):
        made.execute(f"COPY Rooms FROM '{file}'")


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("id,colour\n1,red\n", "", 'column "colour" not found in table "Rooms"'),
        ("id,name\nx,hall\n", "", 'column "id" is INTEGER'),
        ("id,name\n1,\n", "", 'column "name" of table "Rooms" is NOT NULL'),
        ("1\n", "WITH (FORMAT xml)", 'unknown file format "xml"'),
        ("1\n", "WITH (COLOUR red)", 'unknown option "COLOUR"'),
        ("id,name\n1,a,b\n", "", "cannot read .* as csv"),
    ],
)
def test_file_with_an_invalid_row_is_refused_completely(text: str, options: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "rooms.csv"
    file.write_text(text)
    made = session(ROOMS)
    with pytest.raises(UserError, match=message):
        made.execute(f"COPY Rooms FROM '{file}' {options}")
    assert rows(made) == []


def test_the_layout_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "rooms.txt"
    file.write_text("1;hall;-\n2;attic;3\n")
    made = session(ROOMS)
    made.execute(f"COPY Rooms FROM '{file}' WITH (FORMAT csv, DELIMITER ';', HEADER false, NULL '-')")
    assert rows(made) == [(1, "hall", None), (2, "attic", Decimal("3.00"))]


def test_places_are_those_of_the_script() -> None:
    with pytest.raises(SqlError, match="line 2, column 8: expected FROM"):
        parse("SELECT 1;\nCOPY t 'rows.csv'")


def test_a_select_reads_no_files(tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("a\n1\n")
    for source in (f"'{tmp_path}/secret.csv'", f'"{tmp_path}/secret.csv"', f"read_csv('{tmp_path}/secret.csv')"):
        with pytest.raises(UserError):
            session().execute(f"SELECT * FROM {source}")
