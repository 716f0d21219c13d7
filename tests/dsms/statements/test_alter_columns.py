"""ALTER TABLE … ALTER COLUMN: rows that are written later have another default, and nothing else changes."""

from __future__ import annotations

from random import Random

import duckdb
import pytest

from dsms.model.objects import Table
from dsms.planner.physical.fragment_plan import plan_fragment
from dsms.runtime.lanes.manifest import Manifest
from dsms.runtime.lanes.revision import revised
from dsms.testing import LocalSession
from operators.core.errors import UserError

CREATED = (
    "CREATE TABLE T (k INT PRIMARY KEY, a INT DEFAULT 1 CHECK (a > -100), b VARCHAR, c INT NOT NULL DEFAULT (2 + 3))"
)
QUERIES = "CREATE VIEW V AS SELECT * FROM T; CREATE VIEW Sums AS SELECT sum(a) AS s, count(*) AS n FROM T"


def computed(session: LocalSession) -> dict[str, tuple[str, ...]]:
    """The names under which each query stores its state, by the name of the query."""
    lanes = revised(plan_fragment(session.catalog, 2), Manifest(), ()).lanes.values()
    return {output.name: lane.flow.keys for lane in lanes for output in lane.outputs}


def rows(session: LocalSession) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in session.execute("SELECT * FROM T ORDER BY k")]


def random_change(chance: Random) -> str:
    """A change of a default that DuckDB knows, too. No column that is NOT NULL loses its default."""
    column = chance.choice(["a", "A", "b", "c"])
    if column != "c" and chance.random() < 0.4:
        return f"ALTER TABLE T ALTER {column} DROP DEFAULT"
    values = ["'x, y'", "'it''s'", "upper('a')"] if column == "b" else ["7", "(1 + 2) * 3", "abs(-4)", "-8"]
    word = chance.choice(["", "COLUMN "])
    return f"ALTER TABLE T ALTER {word}{column} SET DEFAULT {chance.choice(values)}"


@pytest.mark.parametrize("seed", range(12))
def test_rows_have_the_defaults_of_duckdb(seed: int) -> None:
    """After each change later rows have the new default and earlier rows keep theirs; the plans of queries stay, and
    the text of the table creates one with the same defaults."""
    chance, session, duck = Random(f"defaults {seed}"), LocalSession(), duckdb.connect()
    for sql in (CREATED, "INSERT INTO T (k) VALUES (0)"):
        session.execute(sql)
        duck.execute(sql.replace(" CHECK (a > -100)", ""))  # DuckDB alters no column with a CHECK
    session.execute(QUERIES)
    plans = computed(session)
    for key in range(1, 8):
        updated = f"UPDATE T SET {chance.choice('abc')} = DEFAULT WHERE k = {chance.randrange(key)}"
        for sql in (random_change(chance), f"INSERT INTO T (k) VALUES ({key})", updated):
            session.execute(sql)
            duck.execute(sql)
        assert rows(session) == duck.execute("SELECT * FROM T ORDER BY k").fetchall()
        assert computed(session) == plans
        again = LocalSession()
        again.execute(session.catalog.find("T").sql)
        table, copy = session.catalog.find("T"), again.catalog.find("T")
        assert isinstance(table, Table) and isinstance(copy, Table)
        assert (copy.defaults, copy.checks, copy.keys) == (table.defaults, table.checks, table.keys)
        assert copy.source.columns == table.source.columns
    assert session.relation("V") == session.execute("SELECT * FROM T")


def test_the_text_of_the_table_has_the_default_in_its_place() -> None:
    session = LocalSession()
    session.execute("CREATE TABLE T (\n  k INT PRIMARY KEY, -- the key\n  a INT DEFAULT 1 NOT NULL, b STRUCT<x INT>)")
    session.execute("ALTER TABLE T ALTER a SET DEFAULT 5, ALTER COLUMN K SET DEFAULT (1 + 1)")
    columns = "k INT PRIMARY KEY DEFAULT (1 + 1), -- the key\n  a INT DEFAULT 5 NOT NULL, b STRUCT<x INT>"
    written = f"CREATE TABLE T (\n  {columns})"
    assert session.catalog.find("T").sql == written
    (done,) = session.run("ALTER TABLE T ALTER a DROP DEFAULT")
    assert done.message == 'default of column "a" of table "T" dropped'
    assert session.catalog.find("T").sql == written.replace(" DEFAULT 5", "")
    before = session.catalog
    (done,) = session.run("ALTER TABLE T ALTER a DROP DEFAULT")
    assert done.message == 'table "T" is unchanged' and session.catalog == before


def test_a_default_can_be_changed_after_columns_were_added_and_the_table_renamed() -> None:
    session = LocalSession()
    session.execute(f"{CREATED}; {QUERIES}; INSERT INTO T (k) VALUES (1)")
    session.execute(
        "ALTER TABLE T ADD COLUMN d INT DEFAULT 9; ALTER TABLE T ALTER d SET DEFAULT 10, ALTER b SET DEFAULT 'b'"
    )
    plans = computed(session)
    session.execute("ALTER TABLE T RENAME TO U; ALTER TABLE U ALTER d SET DEFAULT 11; ALTER TABLE U DROP COLUMN d")
    session.execute(
        "ALTER TABLE U ADD COLUMN e INT; ALTER TABLE U ALTER e SET DEFAULT 12; INSERT INTO U (k) VALUES (2)"
    )
    assert computed(session) == plans
    assert session.execute("SELECT b, e FROM U ORDER BY k") == [{"b": None, "e": None}, {"b": "b", "e": 12}]
    other = LocalSession()
    other.execute(session.catalog.find("U").sql + "; INSERT INTO U (k) VALUES (1)")
    assert other.execute("SELECT * FROM U") == [{"k": 1, "a": 1, "b": "b", "c": 5, "e": 12}]


def test_columns_with_the_names_of_words_have_defaults() -> None:
    session = LocalSession()
    session.execute('CREATE TABLE T ("default" INT DEFAULT 3, "check" VARCHAR, "column" INT, k INT PRIMARY KEY)')
    session.execute('ALTER TABLE T ALTER "default" SET DEFAULT 4, ALTER "check" SET DEFAULT \'DEFAULT\'')
    session.execute('ALTER TABLE T ALTER "column" SET DEFAULT 6; INSERT INTO T (k) VALUES (1)')
    assert rows(session) == [(4, "DEFAULT", 6, 1)]


def test_a_table_that_a_select_created_gets_defaults() -> None:
    session = LocalSession()
    session.execute("CREATE TABLE T AS SELECT 1 AS k, 'a' AS b; ALTER TABLE T ALTER b SET DEFAULT 'c'")
    session.execute("INSERT INTO T (k) VALUES (2)")
    assert rows(session) == [(1, "a"), (2, "c")]


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("ALTER TABLE T ALTER n SET DEFAULT 1", 'line 1, column 21: column "n" not found in "T"; have: k, a, b, c'),
        ("ALTER TABLE T ALTER a SET DEFAULT 'x'", 'line 1, column 36: the default of "a"'),
        ("ALTER TABLE T ALTER a SET DEFAULT b", 'the default of "a" reads column "b"'),
        ("ALTER TABLE T ALTER a SET DEFAULT (SELECT 1)", 'the default of "a" has a subquery'),
        ("ALTER TABLE T ALTER a SET DEFAULT", "expected something before"),
        ("ALTER TABLE T ALTER a SET DEFAULT 1, b SET DEFAULT 'b'", "expected ALTER"),
        ("ALTER TABLE T ALTER a SET DEFAULT 1, ALTER A DROP DEFAULT", 'column 44: column "a" is named twice'),
        ("ALTER TABLE T ALTER a DROP DEFAULT CASCADE", 'unexpected "CASCADE"'),
        ("ALTER TABLE T ALTER a TYPE BIGINT", "only SET DEFAULT and DROP DEFAULT are supported in ALTER COLUMN"),
        ("ALTER TABLE T ALTER a SET DATA TYPE BIGINT", "CREATE TABLE new AS SELECT CAST(column AS type) … FROM old"),
        ("ALTER TABLE T ALTER b SET NOT NULL", "only SET DEFAULT and DROP DEFAULT are supported in ALTER COLUMN"),
        ("ALTER TABLE Numbered ALTER _row SET DEFAULT 1", 'column "_row" not found in "Numbered"; have: a'),
        ("ALTER TABLE F ALTER a SET DEFAULT 1", 'table "F" is filled by query "F_insert"'),
        ("ALTER TABLE nope ALTER a SET DEFAULT 1", '"nope" not found'),
        ("ALTER TABLE Raw ALTER a SET DEFAULT 1", '"Raw" is a source, not a table'),
        ("ALTER SOURCE Raw ALTER a SET DEFAULT 1", "only columns of tables have a DEFAULT: records have NULL"),
        ("ALTER STREAM E ALTER a DROP DEFAULT", "only columns of tables have a DEFAULT: records have NULL"),
        ("ALTER TABLE T SET (a = 1)", "only RENAME TO, SET SCHEMA, ADD COLUMN, DROP COLUMN and ALTER COLUMN are"),
    ],
)  # fmt: skip
def test_what_cannot_be_altered_is_refused(statement: str, why: str) -> None:
    session = LocalSession()
    session.execute(
        f"{CREATED}; CREATE TABLE Numbered (a INT); CREATE TABLE F (a INT PRIMARY KEY);"
        "REGISTER SOURCE Raw (a INT) FROM raw; CREATE STREAM E (a INT); INSERT INTO F SELECT a FROM E"
    )
    before = session.catalog
    with pytest.raises(UserError) as refused:
        session.execute(statement)
    assert why in str(refused.value)
    assert session.catalog == before
