"""ALTER … ADD COLUMN: running queries keep the columns that they read, new ones read the new columns."""

from __future__ import annotations

import duckdb
import msgspec
import polars as pl
import pyarrow as pa
import pytest

from connectors.formats.record_formats import FORMATS
from dsms.model.catalog import Catalog
from dsms.model.objects import Query, Source
from dsms.model.principal import AccessRules, Principal
from dsms.planner.physical.fragment_plan import plan_fragment
from dsms.registration.added_partitions import with_partitions, with_reading_suspended
from dsms.registration.environment import Environment
from dsms.runtime.lanes.manifest import Manifest
from dsms.runtime.lanes.revision import revised
from dsms.statements.registry import apply, parse, resolved_statement, run
from dsms.testing import LocalSession
from dsms.testing.local_context import LocalContext
from operators.core.errors import ExternalError, UserError
from tests.simulation.draw import drawn

COLUMNS = "k INT, v INT"
OBJECTS = """
REGISTER SOURCE Other (id INT) FROM other CONSTRAINT CLUSTERED BY id WITHIN 50;
REGISTER SOURCE Raw ({columns}) FROM raw CONSTRAINT k REFERENCES Other (id) WITHIN 100;
CREATE STREAM S OVER Raw KEY k; CREATE STREAM Bag OVER Raw KEY NULL WITH DELETIONS;
CREATE TABLE T (k INT PRIMARY KEY, x INT)
"""
QUERIES = """
CREATE VIEW V{n} AS SELECT S.k, sum(S.v) AS total FROM R(S) AS S GROUP BY S.k;
CREATE VIEW Everything{n} AS SELECT * FROM R(S);
CREATE VIEW Joined{n} AS SELECT * FROM T JOIN V{n} USING (k);
CREATE QUERY Q{n} AS SELECT * FROM Everything{n} WHERE k IN (SELECT k FROM T);
CREATE QUERY Rows{n} AS SELECT * FROM R(Bag)
"""
NAMES = ("V", "Everything", "Joined", "Q", "Rows")
ALTER = "ALTER SOURCE Raw ADD COLUMN w VARCHAR; ALTER TABLE T ADD COLUMN y INT"


def made(columns: str = COLUMNS, table: str = "x INT", n: str = "") -> LocalSession:
    session = LocalSession()
    session.execute(OBJECTS.format(columns=columns).replace("x INT", table) + ";" + QUERIES.format(n=n))
    return session


@pytest.fixture
def session() -> LocalSession:
    return made()


def feed(session: LocalSession, *, first: bool) -> None:
    """Records that were written before the change, or after it: those have a field `w`, and sometimes a wrong one."""
    if first:
        session.push("Other", [{"id": 1, "ts": 1}, {"id": 2, "ts": 1}])
        session.push("Raw", [{"k": 1, "v": 5, "ts": 1}, {"k": 2, "v": 7, "ts": 2}, {"k": 2, "v": "no", "ts": 2}])
        session.execute("INSERT INTO T (k, x) VALUES (1, 10)")
        session.advance(5)
        return
    session.push("Raw", [{"k": 1, "v": 9, "w": "a", "ts": 6}, {"k": 2, "v": 1, "w": 4, "ts": 7}])
    session.push("Raw", [{"k": 2, "v": 3, "w": "b", "ts": 8}, {"k": 1, "v": 2, "w": None, "ts": 9}])
    session.push("Raw", [{"k": 2, "v": 3, "w": "b", "op": "-", "ts": 10}, {"k": 3, "v": 3, "ts": 10}])
    session.execute("INSERT INTO T (k, x) VALUES (2, 20)")
    session.advance(12)


def computed(catalog: Catalog) -> dict[str, tuple[str, ...]]:
    """The names under which each query stores its state, by the name of the query."""
    lanes = revised(plan_fragment(catalog, 2), Manifest(), ()).lanes.values()
    return {output.name: lane.flow.keys for lane in lanes for output in lane.outputs}


def test_running_queries_go_on_as_if_nothing_had_been_altered() -> None:
    altered, untouched = made(), made()
    for session in (altered, untouched):
        feed(session, first=True)
    before = computed(altered.catalog)
    altered.execute(ALTER)
    assert computed(altered.catalog) == before
    altered.execute(QUERIES.format(n="2"))
    now = computed(altered.catalog)
    assert all(set(keys) <= set(now[name]) for name, keys in before.items())
    for session in (altered, untouched):
        feed(session, first=False)
    for name in NAMES:
        assert altered.changes(name) == untouched.changes(name)


def test_new_queries_read_all_records_with_the_new_columns() -> None:
    altered, with_all = made(), made(f"{COLUMNS}, w VARCHAR", "x INT, y INT", n="2")
    for session in (altered, with_all):
        feed(session, first=True)
    altered.execute(ALTER + ";" + QUERIES.format(n="2"))
    for session in (altered, with_all):
        feed(session, first=False)
    for name in NAMES:
        assert altered.changes(f"{name}2") == with_all.changes(f"{name}2")
    assert altered.relation("Everything2") == [{"k": 1, "v": 2, "w": None}]
    assert altered.relation("Everything") == [{"k": 1, "v": 2}]
    assert altered.relation("T") == [{"k": 1, "x": 10, "y": None}, {"k": 2, "x": 20, "y": None}]


def test_versions_of_an_avro_source_read_records_of_all_schemas() -> None:
    """By Avro's rules for evolution: a field that the reader does not declare is left out, a missing one is NULL."""
    avro, rows = FORMATS["avro"], pl.DataFrame({"k": [1], "v": [5], "w": ["a"]})
    earlier = pa.schema([("k", pa.int64()), ("v", pa.int64())])
    current = pa.schema([*earlier, ("w", pa.string())])
    schemas = {7: earlier, 8: current}
    written = [
        avro.encoder_of(schema, id).encode(rows.select(schema.names)).to_list()[0] for id, schema in schemas.items()
    ]
    assert avro.schema is not None
    known = {id: avro.schema(schema, "row") for id, schema in schemas.items()}
    assert avro.decoder(earlier, known.__getitem__).decode(written).frame.rows() == [(1, 5), (1, 5)]
    assert avro.decoder(current, known.__getitem__).decode(written).frame.rows() == [(1, 5, None), (1, 5, "a")]


def test_each_version_refuses_the_records_that_it_cannot_read() -> None:
    session = made()
    feed(session, first=True)
    session.execute(ALTER + ";" + QUERIES.format(n="2"))
    feed(session, first=False)
    refused = {letter["offset"]: letter["reason"] for letter in session.dead_letters("Raw")}
    assert refused[2] == 'column "v": expected INT, got "no"'
    assert refused[4] == 'column "w": expected STRING, got 4'
    assert "REFERENCES" in refused[8]
    assert session.changes("Everything")[-3:] == [
        ("u", {"k": 2, "v": 3}, 8),
        ("u", {"k": 1, "v": 2}, 9),
        ("-", {"k": 2}, 10),
    ]


def test_a_record_that_several_versions_refuse_is_listed_once() -> None:
    session = LocalSession()
    session.execute("REGISTER SOURCE A (b INT, k INT) FROM a; CREATE STREAM S OVER A KEY k")
    session.execute(
        "CREATE VIEW V AS SELECT k FROM R(S); ALTER SOURCE A DROP COLUMN b; CREATE VIEW W AS SELECT * FROM R(S)"
    )
    session.push("A", [{"b": "x", "k": "y", "ts": 1}])
    session.advance(3)
    assert len({letter.reason for letter in session.runtime.dead}) == 2
    assert [letter["offset"] for letter in session.dead_letters("A")] == [0]


def test_the_altered_objects_can_be_created_from_their_texts(session: LocalSession) -> None:
    session.execute("CREATE STREAM E (a INT, at BIGINT) ORDER BY at; CREATE TABLE B (a INT, CHECK (a > 0))")
    session.execute(ALTER)
    session.execute("ALTER STREAM E ADD b STRUCT<x INT, y DECIMAL(4, 1)>, ADD COLUMN c DATE")
    session.execute('ALTER TABLE B ADD COLUMN "from" VARCHAR')
    other = LocalSession()
    texts = dict.fromkeys(item.sql for item in session.catalog.objects.values())
    other.execute("; ".join(texts))
    for name in ("Raw", "T", "E", "E_source", "B"):
        assert other.execute(f"DESCRIBE {name}") == session.execute(f"DESCRIBE {name}")
    assert [row["column"] for row in session.execute("DESCRIBE E")] == ["a", "at", "b", "c"]


def test_what_a_view_keeps_is_shown(session: LocalSession) -> None:
    session.execute(ALTER)
    assert [row["column"] for row in session.execute("DESCRIBE Everything")] == ["k", "v"]
    for sql in ("SHOW CREATE Everything", "DESCRIBE Everything"):
        (shown,) = session.run(sql)
        before = 'reads source "Raw" with the columns that it had before ALTER: k, v'
        assert shown.notices == (f"{before}; CREATE OR REPLACE reads the current ones",)
    session.execute("CREATE VIEW New AS SELECT * FROM R(S)")
    assert session.run("DESCRIBE New")[0].notices == ()


@pytest.mark.parametrize("seed", range(1, 4))
def test_no_plan_of_random_queries_changes(seed: int) -> None:
    catalog = Catalog()
    for sql in drawn(seed).case.statements:
        catalog = applied(sql, catalog)
    before = computed(catalog)
    for source in catalog.sources():
        catalog = applied(f"ALTER SOURCE {source.name} ADD COLUMN added_{source.id} INT", catalog)
        assert computed(catalog) == before


def applied(sql: str, catalog: Catalog) -> Catalog:
    for statement in parse(sql):
        catalog, _ = apply(resolved_statement(statement, catalog), catalog, Environment())
    return catalog


def test_a_replaced_query_reads_the_current_columns_and_its_readers_keep_theirs(session: LocalSession) -> None:
    feed(session, first=True)
    session.execute("CREATE QUERY Both AS SELECT S.*, total FROM R(S) AS S JOIN V ON S.k = V.k")
    session.execute(ALTER)
    feed(session, first=False)
    assert "unchanged" not in session.run(f"CREATE OR REPLACE {QUERIES.format(n='').split('CREATE ')[1]}")[0].message
    session.execute(
        "CREATE OR REPLACE VIEW V AS SELECT S.k, sum(S.v) AS total FROM R(S) AS S WHERE w IS NULL GROUP BY k"
    )
    session.push("Raw", [{"k": 2, "v": 8, "w": None, "ts": 13}])
    session.push("Other", [{"id": 9, "ts": 13}])
    session.advance(15)
    assert session.relation("V") == [{"k": 1, "total": 2}, {"k": 2, "total": 8}]
    assert session.relation("Both") == [{"k": 1, "v": 2, "total": 2}, {"k": 2, "v": 8, "total": 8}]
    with pytest.raises(UserError, match=r"the columns would change from \(k int32, v int32\) to \(k int32, v int32, w"):
        session.execute("CREATE OR REPLACE VIEW Everything AS SELECT * FROM R(S)")


def test_a_repaired_query_keeps_its_columns() -> None:
    session = LocalSession()
    session.execute(
        "REGISTER SOURCE Raw (k INT, v INT) FROM raw; CREATE STREAM S OVER Raw KEY NULL;"
        "CREATE QUERY V WITH (max_loss = 0.5) AS SELECT * FROM S;"
        "ALTER SOURCE Raw ADD COLUMN w INT; REPAIR QUERY V"
    )
    session.push("Raw", [{"k": 1, "v": 5, "w": 1, "ts": 1}])
    session.advance(3)
    assert session.changes("V") == [("+", {"k": 1, "v": 5}, 1)]


def test_versions_that_no_query_reads_are_dropped() -> None:
    session = LocalSession()
    session.execute("REGISTER SOURCE Raw (k INT) FROM raw; CREATE STREAM S OVER Raw KEY k")
    first = session.catalog.find("Raw").id
    session.execute("ALTER SOURCE Raw ADD COLUMN a INT")
    source = session.catalog.find("Raw")
    assert (source.earlier, source.ids) == (None, (first, source.id))
    session.execute("CREATE VIEW V AS SELECT * FROM R(S); ALTER SOURCE Raw ADD COLUMN b INT")
    session.execute("CREATE VIEW W AS SELECT * FROM R(S); DROP VIEW V; ALTER SOURCE Raw ADD COLUMN c INT")
    versions = session.catalog.find("Raw").versions
    assert [version.schema.names for version in versions] == [["k", "a", "b"], ["k", "a", "b", "c"]]
    session.push("Raw", [{"k": 1, "a": 2, "b": 3, "c": 4, "ts": 1}])
    session.advance(3)
    assert session.relation("W") == [{"k": 1, "a": 2, "b": 3}]
    assert session.relation("S") == [{"k": 1, "a": 2, "b": 3, "c": 4}]


def test_an_altered_source_can_be_renamed_dropped_and_stored(session: LocalSession) -> None:
    session.execute(ALTER)
    before = computed(session.catalog)
    session.execute("ALTER SOURCE Raw RENAME TO Raw2; ALTER SOURCE Other ADD COLUMN b INT; ALTER STREAM S RENAME TO S2")
    assert computed(session.catalog) == before
    assert [version.name for version in session.catalog.find("Raw2").versions] == ["Raw2", "Raw2"]
    assert len({version.dead_letter_topic for version in session.catalog.find("Raw2").versions}) == 1
    assert msgspec.convert(msgspec.to_builtins(session.catalog), Catalog) == session.catalog
    with pytest.raises(UserError, match="is used by"):
        session.execute("DROP SOURCE Raw2")
    session.execute("DROP QUERY Q; DROP VIEW Joined; DROP VIEW Everything; DROP VIEW V; DROP QUERY Rows")
    session.execute("DROP STREAM S2; DROP STREAM Bag; DROP SOURCE Raw2")
    assert session.catalog.get("Raw2") is None


def test_a_former_version_of_a_query_needs_a_source_that_was_altered_and_renamed() -> None:
    session = LocalSession()
    session.execute("REGISTER SOURCE A (k INT) FROM a; CREATE STREAM S OVER A KEY k")
    session.execute(
        "REGISTER SOURCE B (k INT) FROM b; CREATE STREAM U OVER B KEY k; CREATE VIEW V AS SELECT k FROM R(S)"
    )
    session.push("A", [{"k": 1, "ts": 1}])
    session.advance(3)
    session.execute("CREATE OR REPLACE VIEW V AS SELECT k FROM R(U); ALTER SOURCE A ADD COLUMN w INT")
    session.execute("ALTER SOURCE A RENAME TO A2; DROP STREAM S")
    with pytest.raises(UserError, match='"A2" is used by V'):
        session.execute("DROP SOURCE A2")


def test_all_versions_of_a_silent_source_are_idle() -> None:
    session = LocalSession()
    session.execute("REGISTER SOURCE A (k INT) FROM a; CREATE STREAM S OVER A KEY k")
    session.execute("CREATE VIEW V AS SELECT * FROM R(S)")
    session.execute("ALTER SOURCE A ADD COLUMN w INT; CREATE VIEW W AS SELECT * FROM R(S)")
    session.push("A", [{"k": 1, "w": 2, "ts": 1}])
    assert session.changes("V") == session.changes("W") == []
    session.idle("A")
    assert session.changes("V") == [("+", {"k": 1}, 1)]
    assert session.changes("W") == [("+", {"k": 1, "w": 2}, 1)]


def test_a_stream_can_fill_an_altered_table(session: LocalSession) -> None:
    session.execute("CREATE TABLE F (k INT PRIMARY KEY, x INT); INSERT INTO F VALUES (1, 2); DELETE FROM F")
    session.execute("ALTER TABLE F ADD COLUMN y INT, ADD z INT; ALTER TABLE F DROP COLUMN x")
    session.execute("CREATE STREAM E (k INT, y INT); INSERT INTO F (k, y) SELECT k, y FROM E")
    session.execute("CREATE VIEW G AS SELECT * FROM F")
    session.push("E_source", [{"k": 4, "y": 5, "ts": 1}])
    session.advance(3)
    assert session.relation("G") == [{"k": 4, "y": 5, "z": None}]


def test_each_version_gets_the_partitions_that_are_added(session: LocalSession) -> None:
    session.execute(ALTER)
    session.execute("CREATE OR REPLACE VIEW V AS SELECT S.k, sum(S.v + 1) AS total FROM R(S) AS S GROUP BY S.k")
    catalog = session.catalog
    for version in session.catalog.find("Raw").versions:
        catalog = with_reading_suspended(catalog, version)
        assert plan_fragment(catalog, 2).suspended_sources == {version.id}
        held = next(each for each in catalog.source_versions() if each.id == version.id)
        catalog = with_partitions(catalog, held, 3, 9)
    assert {version.partitions for version in catalog.find("Raw").versions} == {3}
    partitions = {
        source.id: source.partitions for plan in plan_fragment(catalog, 2).queries.values() for source in plan.sources
    }
    assert {partitions[version.id] for version in catalog.find("Raw").versions} == {3}


def test_the_home_of_a_source_writes_the_dead_letters_of_all_versions(session: LocalSession) -> None:
    session.execute(ALTER)
    session.execute("CREATE VIEW W AS SELECT * FROM R(S)")
    source = session.catalog.find("Raw")
    assert isinstance(source, Source)
    moved = [
        msgspec.structs.replace(query, fragment="5") for query in session.catalog.queries() if isinstance(query, Query)
    ]
    home = plan_fragment(session.catalog.with_changed(*moved), 2, fragment=source.home)
    assert {version.id for version in source.versions} <= home.queries.keys()
    assert not home.foreign & {(version.id, 0) for version in source.versions}


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("ALTER SOURCE Raw ADD COLUMN V INT", 'line 1, column 29: two columns are named "V"'),
        ("ALTER SOURCE Raw ADD COLUMN ts INT", 'line 1, column 29: column name "ts" is reserved'),
        ("ALTER SOURCE Raw ADD COLUMN w BLOB9", "BLOB9"),
        ("ALTER SOURCE Raw ADD COLUMN w INT NOT NULL", '"w" cannot be NOT NULL: records written before have no value'),
        ("ALTER SOURCE Raw ADD COLUMN w INT, y INT", "expected ADD"),
        ("ALTER SOURCE Raw ADD COLUMN w", "a column needs a name and a type"),
        (
            "ALTER SOURCE Raw SET (slack = 1)",
            "only RENAME TO, SET SCHEMA, ADD COLUMN, DROP COLUMN and ALTER COLUMN are supported",
        ),
        ("ALTER SOURCE nope ADD COLUMN w INT", '"nope" not found'),
        ("ALTER TABLE Raw ADD COLUMN w INT", '"Raw" is a source, not a table'),
        ("ALTER SOURCE Raw ADD COLUMN w INT DEFAULT 7", "only columns of tables have a DEFAULT: records have NULL"),
        ("ALTER TABLE T ADD COLUMN y INT DEFAULT 'a'", "line 1, column 41: the default of"),
        ("ALTER TABLE T ADD COLUMN y INT DEFAULT x", 'the default of "y" reads column "x"'),
        ("ALTER TABLE T ADD COLUMN y INT DEFAULT", "expected something before"),
        ("ALTER TABLE T ADD COLUMN IF NOT EXISTS y INT DEFAULT 7", "DEFAULT cannot be combined with IF NOT EXISTS"),
        ("ALTER TABLE T ADD COLUMN y INT CHECK (y > 0)", "CHECK is not supported in ADD COLUMN; CREATE TABLE new"),
        ("ALTER STREAM S ADD COLUMN w INT", 'stream "S" has the columns of source "Raw"; ALTER SOURCE Raw …'),
        ("ALTER VIEW V ADD COLUMN w INT", 'the columns of a view are those of its SELECT'),
        ("ALTER STREAM D ADD COLUMN w INT", 'the columns of "D" are those of its SELECT'),
        ("ALTER TABLE F ADD COLUMN w INT", 'table "F" is filled by query "F_insert"'),
        ("ALTER SOURCE Lines ADD COLUMN w INT", 'source "Lines" is FORMAT CSV: running queries and new ones'),
        ("ALTER STREAM L ADD COLUMN w INT", '"L_source" and source "Missed_source" have the same columns'),
        ("ALTER SOURCE Missed_source ADD COLUMN w INT", '"Missed_source" and source "L_source" have the same columns'),
        ("ALTER SOURCE Timed ADD COLUMN at BIGINT", 'column "at" has the instant of a record of "Timed"'),
        ("ALTER SOURCE Timed ADD COLUMN op VARCHAR", 'column "op" has the operation of a record of "Timed"'),
    ],
)  # fmt: skip
def test_what_cannot_be_added_is_refused(session: LocalSession, statement: str, why: str) -> None:
    session.execute(
        "REGISTER SOURCE Lines (a INT) FROM l FORMAT CSV; CREATE STREAM D AS SELECT k FROM S;"
        "CREATE STREAM E (a INT); CREATE TABLE F (a INT PRIMARY KEY); INSERT INTO F SELECT a FROM E;"
        "CREATE STREAM L (a INT, at BIGINT) ORDER BY at LATE INTO Missed;"
        "REGISTER SOURCE Timed (a INT) FROM timed TIMESTAMP BY at TAGGED BY op"
    )
    before = session.catalog
    with pytest.raises(UserError) as refused:
        session.execute(statement)
    assert why in str(refused.value)
    assert session.catalog is before


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("ALTER SOURCE A DROP k", "it is used by the key of an object that you may not read"),
        ("ALTER SOURCE A DROP v", "WITHIN 50, a constraint of an object that you may not read"),
        ("ALTER STREAM Over_it ADD w INT", '"Over_it" has the columns of an object that you may not read'),
        ("ALTER STREAM L ADD w INT", '"L_source" and an object that you may not read have the same columns'),
        ("ALTER SOURCE Secret_late_source DROP a", "and an object that you may not read have the same columns"),
        ("ALTER TABLE T ADD w INT", '"T" is filled by an object that you may not read'),
    ],
)
def test_names_that_the_caller_may_not_read_are_not_shown(statement: str, why: str) -> None:
    session = LocalSession()
    session.execute(
        "REGISTER SOURCE A (k INT, v INT, w INT) FROM a CONSTRAINT CLUSTERED BY v WITHIN 50;"
        "CREATE STREAM Secret OVER A KEY k; REGISTER SOURCE Raw (k INT) FROM raw; CREATE STREAM Over_it OVER Raw KEY k;"
        "REGISTER SOURCE Hidden (x INT) FROM h CONSTRAINT x REFERENCES A (v) WITHIN 9;"
        "CREATE STREAM L (a INT, at BIGINT) ORDER BY at LATE INTO Secret_late;"
        "CREATE STREAM E (a INT); CREATE TABLE T (a INT PRIMARY KEY); INSERT INTO T SELECT a FROM E"
    )
    name = statement.split()[2]
    environment = Environment(caller=Principal("ann", "writer", AccessRules.of(write=[name])))
    with pytest.raises(UserError) as refused:
        apply(parse(statement)[0], session.catalog, environment)
    assert why in str(refused.value)
    hidden = ('Secret"', "Hidden", "Raw", "Missed", "T_insert") + (() if "Secret" in name else ("Secret",))
    assert not [each for each in hidden if each in str(refused.value)]


def test_a_default_is_that_of_duckdb() -> None:
    """Existing rows get the default at once, later ones if they are written without a value."""
    statements = [
        "CREATE TABLE T (k INT PRIMARY KEY, x INT)",
        "INSERT INTO T VALUES (1, 10), (2, NULL)",
        "ALTER TABLE T ADD COLUMN y INT DEFAULT (2 + 3)",
        "INSERT INTO T (k, x) VALUES (3, 30)",
        "INSERT INTO T VALUES (4, 40, NULL), (5, NULL, 7), (6, 1, DEFAULT)",
        "UPDATE T SET y = DEFAULT WHERE k = 5",
        "ALTER TABLE T ADD z VARCHAR DEFAULT 'it''s'",
    ]
    session, duck = LocalSession(), duckdb.connect()
    for at, sql in enumerate(statements):
        session.execute(sql)
        duck.execute(sql)
        if at == 1:
            session.execute("CREATE VIEW Earlier AS SELECT * FROM T; CREATE VIEW Sums AS SELECT sum(x) AS s FROM T")
            changes = {name: session.changes(name) for name in ("Earlier", "Sums")}
        rows = duck.execute("SELECT * FROM T ORDER BY k").fetchall()
        assert [tuple(row.values()) for row in session.execute("SELECT * FROM T ORDER BY k")] == rows, sql
        if at == 2:
            assert {name: session.changes(name) for name in ("Earlier", "Sums")} == changes
    other = LocalSession()
    other.execute(session.catalog.find("T").sql + "; INSERT INTO T (k) VALUES (1)")
    assert other.execute("SELECT y, z FROM T") == [{"y": 5, "z": "it's"}]


def test_a_default_overwrites_no_value_that_another_client_has_written_meanwhile() -> None:
    session = LocalSession()
    session.execute("CREATE TABLE T (k INT PRIMARY KEY); INSERT INTO T VALUES (1)")
    context = LocalContext(session, session._change_catalog, session._append)
    added, *filled = parse("ALTER TABLE T ADD COLUMN y INT DEFAULT 5, ADD \"select\" VARCHAR DEFAULT 'a'")
    run(added, context)
    session.execute("INSERT INTO T VALUES (9, 99, NULL), (8, NULL, 'b')")
    for statement in filled:
        run(resolved_statement(statement, session.catalog), context)
    assert session.execute("SELECT * FROM T ORDER BY k") == [
        {"k": 1, "y": 5, "select": "a"},
        {"k": 8, "y": 5, "select": "b"},
        {"k": 9, "y": 99, "select": "a"},
    ]


def test_a_default_that_fails_says_what_is_left_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ExternalError("Kafka is away", hint="try again later")

    session = LocalSession()
    session.execute("CREATE TABLE T (k INT PRIMARY KEY); INSERT INTO T VALUES (1)")
    with monkeypatch.context() as patch, pytest.raises(ExternalError) as failed:
        patch.setattr(LocalContext, "write", refuse)
        session.execute("ALTER TABLE T ADD COLUMN y INT DEFAULT 5, ADD z INT DEFAULT (3 + 4)")
    updates = 'UPDATE "T" SET "y" = 5 WHERE "y" IS NULL; UPDATE "T" SET "z" = (3 + 4) WHERE "z" IS NULL'
    left = f'column "y" was added, and stays; then run {updates}'
    assert str(failed.value) == f"Kafka is away; try again later; {left}"
    assert failed.value.hint == f"try again later; {left}"
    session.execute(updates)
    assert session.execute("SELECT * FROM T") == [{"k": 1, "y": 5, "z": 7}]


def test_a_column_that_exists_can_be_left_alone(session: LocalSession) -> None:
    (done,) = session.run("ALTER SOURCE Raw ADD COLUMN IF NOT EXISTS v INT")
    assert done.message == 'source "Raw" is unchanged'
    session.execute("ALTER SOURCE Raw ADD COLUMN IF NOT EXISTS V INT, ADD IF NOT EXISTS w INT")
    assert session.catalog.find("Raw").schema.names == ["k", "v", "w"]


def test_quoted_names_are_no_words_of_the_statement() -> None:
    session = LocalSession()
    session.execute('CREATE TABLE T ("default" INT, k INT PRIMARY KEY)')
    session.execute('ALTER TABLE T ADD "column" INT, ADD "if" INT DEFAULT 3; ALTER TABLE T DROP "column"')
    session.execute('INSERT INTO T ("default", k) VALUES (1, 2)')
    assert session.execute("SELECT * FROM T") == [{"default": 1, "k": 2, "if": 3}]
