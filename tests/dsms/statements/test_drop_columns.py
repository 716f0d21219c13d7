"""ALTER … DROP COLUMN: later queries do not see the column, running ones are not disturbed, and none may use it."""

from __future__ import annotations

import pytest

from dsms.model.catalog import Catalog
from dsms.model.objects import Source, Table
from dsms.statements.ddl.columns_text import with_columns, without_column
from dsms.testing import LocalSession
from operators.core.errors import UserError
from tests.dsms.statements.test_add_columns import computed

OBJECTS = """
REGISTER SOURCE Other (id INT, note VARCHAR, CONSTRAINT_free INT) FROM other
    CONSTRAINT CLUSTERED BY id WITHIN 50;
REGISTER SOURCE Raw (k INT, v INT, w VARCHAR, n INT NOT NULL, at BIGINT, op VARCHAR) FROM raw
    TIMESTAMP BY at TAGGED BY op CONSTRAINT v REFERENCES Other (id) WITHIN 100, ORDERED BY at WITHIN 1000;
CREATE STREAM S OVER Raw KEY k;
CREATE TABLE T (k INT PRIMARY KEY, x INT DEFAULT 7, y VARCHAR CHECK (y <> 'x'), z DATE)
"""
QUERIES = """
CREATE VIEW V AS SELECT k, v FROM R(S);
CREATE VIEW Wide AS SELECT S.k, w FROM R(S) AS S;
CREATE VIEW Over AS SELECT * FROM V;
CREATE QUERY Rows AS SELECT k, x FROM T
"""


@pytest.fixture
def session() -> LocalSession:
    made = LocalSession()
    made.execute(OBJECTS)
    return made


def source_of(catalog: Catalog, name: str = "Raw") -> Source:
    found = catalog.find(name)
    assert isinstance(found, Source | Table)
    return found.source if isinstance(found, Table) else found


def push(session: LocalSession, *records: dict[str, object]) -> None:
    session.push("Other", [{"id": 1, "ts": 1}, {"id": 1, "ts": 9}])
    session.push("Raw", [{"v": 1, "n": 0, "op": "+", **record} for record in records])


def test_running_queries_go_on_and_later_ones_do_not_see_the_column(session: LocalSession) -> None:
    session.execute("REGISTER SOURCE A (k INT, v INT, w INT) FROM a; CREATE STREAM B OVER A KEY k")
    session.execute("CREATE VIEW V AS SELECT k, v FROM R(B); CREATE QUERY Rows AS SELECT k, x FROM T")
    session.push("A", [{"k": 1, "v": 5, "w": 6, "ts": 1}])
    session.execute("INSERT INTO T VALUES (1, 2, 'a', NULL)")
    session.advance(3)
    before = computed(session.catalog)
    session.execute("ALTER SOURCE A DROP COLUMN w; ALTER TABLE T DROP z")
    assert computed(session.catalog) == before
    session.execute("CREATE VIEW New AS SELECT * FROM R(B); CREATE QUERY Columns AS SELECT * FROM T")
    session.push("A", [{"k": 2, "v": 7, "w": "of any type", "ts": 4}])
    session.execute("INSERT INTO T VALUES (2, 3, 'b')")
    session.advance(9)
    assert session.relation("New") == [{"k": 1, "v": 5}, {"k": 2, "v": 7}]
    assert session.relation("Columns") == [{"k": 1, "x": 2, "y": "a"}, {"k": 2, "x": 3, "y": "b"}]
    assert session.relation("Rows") == [{"k": 1, "x": 2}, {"k": 2, "x": 3}]
    # the earlier version still declares the column, so a record with a wrong value for it is a dead letter for V
    assert session.relation("V") == [{"k": 1, "v": 5}]
    assert [letter["reason"] for letter in session.dead_letters("A")] == ['column "w": expected INT, got "of any type"']


def test_a_dropped_column_of_a_source_can_be_added_again_with_another_type(session: LocalSession) -> None:
    session.execute(
        "ALTER SOURCE Other DROP COLUMN note, DROP COLUMN IF EXISTS nothing;CREATE STREAM O OVER Other KEY id"
    )
    session.execute("ALTER SOURCE Other ADD COLUMN note INT; CREATE VIEW N AS SELECT id, note FROM R(O)")
    session.push("Other", [{"id": 1, "note": 4, "ts": 1}, {"id": 2, "note": "text", "ts": 2}])
    session.advance(3)
    assert session.relation("N") == [{"id": 1, "note": 4}]


def test_texts_defaults_and_comments_go_with_the_column(session: LocalSession) -> None:
    session.execute("COMMENT ON COLUMN T.x IS 'a number'; COMMENT ON COLUMN T.y IS 'a text'")
    session.execute("ALTER TABLE T DROP COLUMN x")
    table = session.catalog.find("T")
    assert isinstance(table, Table)
    assert table.sql == "CREATE TABLE T (k INT PRIMARY KEY, y VARCHAR CHECK (y <> 'x'), z DATE)"
    assert table.defaults == {}
    assert session.catalog.comments == {"t": {"y": "a text"}}
    with pytest.raises(UserError, match='rows of "T" have values of the column "x" that was dropped'):
        session.execute("ALTER TABLE T ADD COLUMN x INT")


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("ALTER SOURCE Raw DROP COLUMN k", 'line 1, column 30: column "k" cannot be dropped: it is used by the key'),
        ("ALTER SOURCE Raw DROP COLUMN v", "it is used by constraint v REFERENCES Other (id) WITHIN 100"),
        ("ALTER SOURCE Raw DROP COLUMN at", "it is used by TIMESTAMP, as the instant of a record"),
        ("ALTER SOURCE Raw DROP COLUMN op", "it is used by TAGGED BY, as the operation of a record"),
        ("ALTER SOURCE Other DROP COLUMN id", 'a constraint of source "Raw"'),
        ("ALTER SOURCE Raw DROP COLUMN W", 'column "w" cannot be dropped: it is used by Wide; drop these'),
        ("ALTER SOURCE Raw DROP COLUMN n", "it is NOT NULL, so records without it would be refused for V, Wide, Over"),
        ("ALTER SOURCE Raw DROP COLUMN nope", 'column "nope" not found in "Raw"; have: k, v, w, n, at, op'),
        ("ALTER SOURCE Raw DROP COLUMN w CASCADE", "CASCADE is not supported in DROP COLUMN"),
        ("ALTER TABLE T DROP COLUMN k", "it is used by the primary key"),
        ("ALTER TABLE T DROP COLUMN x", "it is used by Rows"),
        ("ALTER TABLE T DROP COLUMN y", 'it is used by check "T_y_check"'),
        ("ALTER STREAM S DROP COLUMN w", 'stream "S" has the columns of source "Raw"; ALTER SOURCE Raw'),
        ("ALTER VIEW V DROP COLUMN w", "the columns of a view are those of its SELECT"),
        ("ALTER STREAM E DROP COLUMN a", '"E" would have no columns'),
    ],
)  # fmt: skip
def test_a_column_that_is_needed_cannot_be_dropped(session: LocalSession, statement: str, why: str) -> None:
    session.execute(QUERIES + "; CREATE STREAM E (a INT)")
    before = session.catalog
    with pytest.raises(UserError) as refused:
        session.execute(statement)
    assert why in str(refused.value)
    assert session.catalog is before


def test_only_queries_that_read_the_column_use_it(session: LocalSession) -> None:
    session.execute("CREATE VIEW All_Of_First AS SELECT * FROM T; ALTER TABLE T ADD COLUMN q INT")
    session.execute("CREATE VIEW All_Of_Second AS SELECT * FROM T; CREATE VIEW Same AS SELECT k FROM All_Of_Second")
    with pytest.raises(UserError, match="it is used by All_Of_Second; drop"):
        session.execute("ALTER TABLE T DROP COLUMN q")
    with pytest.raises(UserError, match="it is used by All_Of_First, All_Of_Second; drop"):
        session.execute("ALTER TABLE T DROP COLUMN z")
    session.execute("DROP VIEW Same; DROP VIEW All_Of_Second; ALTER TABLE T DROP COLUMN q")
    assert source_of(session.catalog, "T").schema.names == ["k", "x", "y", "z"]


@pytest.mark.parametrize(
    ("sql", "name", "left"),
    [
        ("REGISTER SOURCE s (a INT, b STRUCT<x INT, y DECIMAL(4, 1)>, c INT) FROM t", "b",
         "REGISTER SOURCE s (a INT, c INT) FROM t"),
        ("REGISTER SOURCE s (INT a, -- the first\n  char b) FROM t", "a",
         "REGISTER SOURCE s (-- the first\n  char b) FROM t"),
        ('CREATE STREAM s (a INT, "from" INT, at BIGINT) ORDER BY at', "from",
         "CREATE STREAM s (a INT, at BIGINT) ORDER BY at"),
        ("CREATE TABLE IF NOT EXISTS t (a INT CHECK (a > 1), b INT DEFAULT (2 + 1), PRIMARY KEY (a))", "b",
         "CREATE TABLE IF NOT EXISTS t (a INT CHECK (a > 1), PRIMARY KEY (a))"),
    ],
)  # fmt: skip
def test_the_text_without_a_column(sql: str, name: str, left: str) -> None:
    assert without_column(sql, name) == left
    assert with_columns(left, ["z STRUCT<x INT, y INT>"]).count("z STRUCT<x INT, y INT>)") == 1


PAIR = """CREATE TABLE P (k INT PRIMARY KEY, x INT, y INT); CREATE TABLE Q (k INT PRIMARY KEY, x INT, y INT);
INSERT INTO P VALUES (1, 1, 1), (2, 2, 2); INSERT INTO Q VALUES (1, 1, 1), (2, 9, 2)"""


@pytest.mark.parametrize(
    "select",
    [
        "SELECT k FROM P NATURAL JOIN Q",
        "SELECT a, b FROM Q AS t(a, b)",
        "SELECT a, q FROM (SELECT * FROM Q) AS t(a, q)",
        "SELECT count(*) AS n FROM (SELECT DISTINCT * EXCLUDE (k) FROM Q)",
        "SELECT k FROM P WHERE EXISTS (SELECT 1 FROM Q WHERE Q.k = P.k AND x = 1)",
        "SELECT k, row_number() OVER (ORDER BY x) AS n FROM Q",
    ],
)
def test_a_query_uses_a_column_however_it_names_it(select: str) -> None:
    """Of these columns, the text of the query would only get another meaning without the dropped one."""
    session = LocalSession()
    session.execute(f"{PAIR}; CREATE VIEW N AS {select}")
    with pytest.raises(UserError, match='column "x" cannot be dropped: it is used by N'):
        session.execute("ALTER TABLE Q DROP x")


def test_a_query_whose_text_has_become_ambiguous_uses_only_what_it_reads() -> None:
    session = LocalSession()
    session.execute("CREATE TABLE A (k INT PRIMARY KEY, y INT); CREATE TABLE B (b INT PRIMARY KEY)")
    session.execute("CREATE VIEW V AS SELECT k FROM A JOIN B ON b = k; ALTER TABLE B ADD k INT")
    session.execute("ALTER TABLE A DROP y")
    assert source_of(session.catalog, "A").schema.names == ["k"]


def test_a_check_is_bound_over_the_columns_that_are_left() -> None:
    session = LocalSession()
    session.execute("CREATE TABLE T (k INT PRIMARY KEY, s STRUCT<x INT, y INT>, x INT, CHECK (s.x > 0))")
    with pytest.raises(UserError, match='column "s" cannot be dropped: it is used by check'):
        session.execute("ALTER TABLE T DROP COLUMN s")
    session.execute("ALTER TABLE T DROP COLUMN x; INSERT INTO T VALUES (1, {'x': 1, 'y': 2})")
    with pytest.raises(UserError, match="check"):
        session.execute("INSERT INTO T VALUES (2, {'x': 0, 'y': 2})")


def test_a_renamed_table_is_declared_by_its_present_name() -> None:
    session = LocalSession()
    session.execute("CREATE TABLE P (k INT PRIMARY KEY, x INT, z INT); ALTER TABLE P RENAME TO R")
    session.execute("ALTER TABLE R ADD COLUMN y INT; ALTER TABLE R DROP COLUMN x")
    assert session.catalog.find("R").sql == "CREATE TABLE R (k INT PRIMARY KEY, z INT, y INT)"


def test_comments_go_with_the_column_on_all_objects_over_the_log() -> None:
    session = LocalSession()
    session.execute("REGISTER SOURCE A (k INT, v INT, w INT) FROM a; CREATE STREAM S OVER A KEY k")
    session.execute("COMMENT ON COLUMN S.w IS 'gone'; COMMENT ON COLUMN S.v IS 'kept'; ALTER SOURCE A DROP COLUMN w")
    assert session.catalog.comments == {"s": {"v": "kept"}}


def test_a_column_is_named_once(session: LocalSession) -> None:
    with pytest.raises(UserError, match='column "w" is named twice'):
        session.execute("ALTER SOURCE Raw DROP w, DROP W")
