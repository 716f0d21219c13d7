"""ALTER … RENAME TO: everything goes on under the new name, and no running query notices."""

from __future__ import annotations

import msgspec
import pytest

from dsms.coordinator.results.coverage import CoverageQuestion, Span, refusals
from dsms.coordinator.statements.dropped_topics import topics_of_dropped
from dsms.model.catalog import Catalog
from dsms.model.objects import Query
from dsms.planner.physical.fragment_plan import plan_fragment
from dsms.registration.environment import Environment
from dsms.runtime.lanes.manifest import Manifest
from dsms.runtime.lanes.revision import revised
from dsms.statements.registry import apply, parse, resolved_statement
from dsms.testing import LocalSession
from operators.core.errors import UserError
from tests.simulation.draw import drawn

OBJECTS = """
REGISTER SOURCE Other (id INT) FROM other CONSTRAINT CLUSTERED BY id WITHIN 50;
REGISTER SOURCE Raw (k INT, v INT) FROM raw CONSTRAINT k REFERENCES Other (id) WITHIN 100;
CREATE STREAM S OVER Raw KEY k; CREATE STREAM All_Rows OVER Raw KEY NULL;
CREATE TABLE T (k INT PRIMARY KEY, x INT);
CREATE VIEW V AS SELECT S.k, sum(S.v) AS total FROM S GROUP BY S.k;
CREATE VIEW Joined AS SELECT T.k, x, total FROM T JOIN V ON T.k = V.k;
CREATE QUERY Q AS SELECT k, total FROM V WHERE k IN (SELECT k FROM T);
CREATE QUERY Recent AS SELECT All_Rows.k, count(*) AS n FROM All_Rows [Range 10] GROUP BY All_Rows.k
"""
#: Each object that is renamed, by the words of its kind.
RENAMED = {
    "Raw": "SOURCE",
    "Other": "SOURCE",
    "S": "STREAM",
    "All_Rows": "STREAM",
    "T": "TABLE",
    "V": "VIEW",
    "Q": "QUERY",
}


@pytest.fixture
def session() -> LocalSession:
    made = LocalSession()
    made.execute(OBJECTS)
    return made


def computed(catalog: Catalog) -> dict[str, tuple[str, ...]]:
    """The names under which each query stores its state, by the id of the query."""
    lanes = revised(plan_fragment(catalog, 2), Manifest(), ()).lanes.values()
    return {output.id: lane.flow.keys for lane in lanes for output in lane.outputs}


@pytest.mark.parametrize(("name", "kind"), RENAMED.items())
def test_the_object_keeps_its_id_topics_place_and_state(session: LocalSession, name: str, kind: str) -> None:
    before = session.catalog
    old = before.find(name)
    session.execute(f"ALTER {kind} {name} RENAME TO Renamed")
    new = session.catalog.find("renamed")
    assert (new.name, new.id) == ("Renamed", old.id)
    assert getattr(new, "topic", None) == getattr(old, "topic", None)
    assert getattr(new, "dead_letter_topic", None) == getattr(old, "dead_letter_topic", None)
    assert session.catalog.get(name) is None
    assert [item.id for item in session.catalog.objects.values()] == [item.id for item in before.objects.values()]
    assert session.catalog.version == before.version + 1
    assert computed(session.catalog) == computed(before)
    assert topics_of_dropped(before, session.catalog) == []


@pytest.mark.parametrize(("name", "kind"), RENAMED.items())
def test_the_objects_can_be_created_from_their_texts(session: LocalSession, name: str, kind: str) -> None:
    session.execute(f"ALTER {kind} {name} RENAME TO Renamed")
    other = LocalSession()
    texts = dict.fromkeys(item.sql for item in session.catalog.objects.values())
    other.execute("; ".join(texts))
    assert [item.name for item in other.catalog.objects.values()] == [
        item.name for item in session.catalog.objects.values()
    ]


@pytest.mark.parametrize("seed", range(1, 6))
def test_no_plan_of_random_queries_changes(seed: int) -> None:
    catalog = Catalog()
    for sql in drawn(seed).case.statements:
        catalog = applied(sql, catalog)
    before = computed(catalog)
    for number, item in enumerate(catalog.objects.values()):
        kind = "VIEW" if isinstance(item, Query) else type(item).__name__.upper()
        catalog = applied(f"ALTER {kind} {item.name} RENAME TO n{number}", catalog)
        assert computed(catalog) == before


def applied(sql: str, catalog: Catalog) -> Catalog:
    for statement in parse(sql):
        catalog, _ = apply(resolved_statement(statement, catalog), catalog, Environment())
    return catalog


def test_results_go_on_as_if_nothing_had_been_renamed() -> None:
    renamed, untouched = LocalSession(), LocalSession()
    for session in (renamed, untouched):
        session.execute(OBJECTS)
        session.push("Other", [{"id": 1, "ts": 1}, {"id": 2, "ts": 1}])
        session.push("Raw", [{"k": 1, "v": 5, "ts": 1}, {"k": 2, "v": 7, "ts": 2}])
        session.execute("INSERT INTO T VALUES (1, 10)")
        session.advance(5)
    for number, (name, kind) in enumerate(RENAMED.items()):
        renamed.execute(f"ALTER {kind} {name} RENAME TO n{number}")
    for session, source, table in ((renamed, "n0", "n4"), (untouched, "Raw", "T")):
        session.push(source, [{"k": 1, "v": 9, "ts": 6}, {"k": 3, "v": 1, "ts": 7}])
        session.execute(f"INSERT INTO {table} VALUES (2, 20)")
        session.advance(10)
    for was, now in [("V", "n5"), ("Joined", "Joined"), ("Q", "n6"), ("Recent", "Recent"), ("T", "n4"), ("S", "n2")]:
        assert renamed.changes(now) == untouched.changes(was)
    assert len(renamed.dead_letters("n0")) == 6
    assert {letter["reason"] for letter in renamed.dead_letters("n0")} == {
        letter["reason"] for letter in untouched.dead_letters("Raw")
    }
    assert renamed.relation("Joined") == [{"k": 1, "x": 10, "total": 9}, {"k": 2, "x": 20, "total": 7}]


@pytest.mark.parametrize(
    ("select", "rewritten"),
    [
        ("SELECT k FROM S", "SELECT k FROM n"),
        ('SELECT s.k FROM "S" s', "SELECT s.k FROM n s"),
        ("SELECT S.k FROM S WHERE S.v > 1", "SELECT S.k FROM n AS S WHERE S.v > 1"),
        ("SELECT k FROM R(S)", "SELECT k FROM R(n)"),
        ("SELECT S.k FROM R(S), T WHERE S.k = T.k", "SELECT S.k FROM R(n) AS S, T WHERE S.k = T.k"),
        ("SELECT k FROM public.S -- of S", "SELECT k FROM public.n -- of S"),
        (
            "SELECT x.k FROM T x WHERE EXISTS (SELECT * FROM s WHERE k = x.k)",
            "SELECT x.k FROM T x WHERE EXISTS (SELECT * FROM n WHERE k = x.k)",
        ),
        (
            "SELECT x.k FROM (WITH s AS (SELECT k AS j FROM T) SELECT j AS k FROM s) x JOIN S ON x.k = S.k",
            "SELECT x.k FROM (WITH s AS (SELECT k AS j FROM T) SELECT j AS k FROM s) x JOIN n AS S ON x.k = S.k",
        ),
        ("SELECT k FROM S UNION SELECT k FROM S", "SELECT k FROM n UNION SELECT k FROM n"),
    ],
)
def test_the_text_of_a_query_names_the_new_name(session: LocalSession, select: str, rewritten: str) -> None:
    session.execute(f"CREATE VIEW W AS {select}")
    session.execute("ALTER STREAM S RENAME TO n")
    (shown,) = session.execute("SHOW CREATE W")
    assert shown["sql"] == f"CREATE VIEW W AS {rewritten}".partition(" --")[0]


def test_renaming_back_gives_the_first_text(session: LocalSession) -> None:
    before = session.catalog
    session.execute("ALTER TABLE T RENAME TO u; ALTER TABLE u RENAME TO T; ALTER SOURCE Raw RENAME TO Raw2")
    assert session.catalog.find("Q").sql == before.find("Q").sql
    assert computed(session.catalog) == computed(before)


def test_an_unnamed_query_gets_a_label_and_a_filled_table_keeps_its_query(session: LocalSession) -> None:
    (started,) = session.run("SELECT STREAMED k FROM S")
    session.execute(f"ALTER QUERY {started.name} RENAME TO Labelled")
    assert session.catalog.find("labelled").sql == "Labelled: SELECT STREAMED k FROM S"
    session.execute("CREATE TABLE F (k INT PRIMARY KEY); CREATE STREAM E (a INT); INSERT INTO F SELECT a FROM E")
    session.execute("ALTER TABLE F RENAME TO G; ALTER QUERY F_insert RENAME TO Filler")
    table, filler = session.catalog.find("G"), session.catalog.find("Filler")
    assert (table.filled_by, filler.fills, filler.sql) == ("Filler", table.id, "INSERT INTO G SELECT a FROM E")
    session.push("E_source", [{"a": 4, "ts": 1}])
    session.advance(3)
    assert session.relation("G") == [{"k": 4}]


def test_the_checks_of_a_table_follow(session: LocalSession) -> None:
    session.execute("CREATE TABLE C (k INT PRIMARY KEY, x INT CHECK (C.x > 0 AND c.x <> 7), y VARCHAR DEFAULT 'C.x')")
    session.execute("ALTER TABLE C RENAME TO D; INSERT INTO D (k, x) VALUES (1, 2)")
    with pytest.raises(UserError, match="D.x > 0 AND D.x <> 7"):
        session.execute("INSERT INTO D (k, x) VALUES (2, 7)")
    assert session.execute("SELECT * FROM D") == [{"k": 1, "x": 2, "y": "C.x"}]
    assert "CHECK (D.x > 0 AND D.x <> 7), y VARCHAR DEFAULT 'C.x'" in session.catalog.find("D").sql


def test_comments_and_former_versions_follow(session: LocalSession) -> None:
    session.execute("COMMENT ON COLUMN V.k IS 'a key'")
    session.execute("CREATE OR REPLACE VIEW V AS SELECT k, sum(v + 1) AS total FROM S GROUP BY k")
    session.execute("ALTER VIEW V RENAME TO W; ALTER SOURCE Raw RENAME TO Raw2; ALTER STREAM S RENAME TO S2")
    assert session.catalog.comments == {"w": {"k": "a key"}}
    assert session.execute("DESCRIBE W")[0]["comment"] == "a key"
    with pytest.raises(UserError, match="is used by"):
        session.execute("DROP SOURCE Raw2")
    session.push("Raw2", [{"k": 1, "v": 5, "ts": 1}])
    session.push("Other", [{"id": 1, "ts": 1}])
    session.advance(5)
    assert session.relation("W") == [{"k": 1, "total": 6}]


def test_new_objects_may_have_the_old_name(session: LocalSession) -> None:
    session.execute("ALTER STREAM S RENAME TO S2; CREATE STREAM S OVER Raw KEY k; CREATE VIEW W AS SELECT k FROM S")
    session.execute("ALTER TABLE T RENAME TO U")
    with pytest.raises(UserError, match='topic "dsms.T" already belongs to table "U"'):
        session.execute("CREATE TABLE T (k INT PRIMARY KEY)")
    session.execute("ALTER SOURCE Raw RENAME TO Raw2")
    with pytest.raises(UserError, match='topic "dsms.Raw.dead-letters" holds the dead letters of source "Raw2"'):
        session.execute("REGISTER SOURCE Raw (k INT) FROM raw")


def test_stored_objects_of_earlier_versions_can_be_read_and_keep_their_fingerprints(session: LocalSession) -> None:
    stored = msgspec.to_builtins(session.catalog)
    for item in stored["objects"].values():
        for field in ("registered", "created_as"):
            item.pop(field, None)
            item.get("source", {}).pop(field, None) if isinstance(item.get("source"), dict) else None
    assert computed(msgspec.convert(stored, Catalog)) == computed(session.catalog)


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("ALTER TABLE V RENAME TO x", 'line 1, column 13: "V" is a view, not a table'),
        ("ALTER TABLE nope RENAME TO x", '"nope" not found'),
        ("ALTER VIEW V RENAME TO s", 'line 1, column 24: a stream named "S" already exists'),
        ("ALTER VIEW V RENAME TO v", 'a view named "V" already exists'),
        ("ALTER VIEW V, Joined RENAME TO v", "expected SET, found"),
        ("ALTER VIEW V RENAME x", "line 1, column 21: expected TO; columns cannot be renamed"),
        (
            "ALTER TABLE T RENAME COLUMN a TO b",
            "line 1, column 22: expected TO; columns cannot be renamed; DROP it and",
        ),
        (
            "ALTER FUNCTION f RENAME TO g",
            "functions and aggregates cannot be altered; create it again with",
        ),
        ("ALTER STREAM E RENAME TO g", 'stream "E" was declared together with source "E_source"'),
        ("ALTER SOURCE E_source RENAME TO g", "CREATE STREAM g AS SELECT * FROM E"),
        ("ALTER SCHEMA public RENAME TO g", 'unknown kind "SCHEMA"'),
    ],
)
def test_wrong_renames_are_refused(session: LocalSession, statement: str, why: str) -> None:
    session.execute("CREATE STREAM E (a INT)")
    before = session.catalog
    with pytest.raises(UserError) as refused:
        session.execute(statement)
    assert why in str(refused.value)
    assert session.catalog is before


def test_a_text_that_cannot_be_rewritten_is_named(session: LocalSession) -> None:
    session.execute("CREATE VIEW W AS WITH n AS (SELECT k FROM T) SELECT n.k FROM n JOIN S ON n.k = S.k")
    before = session.catalog
    with pytest.raises(UserError, match='"S" cannot be renamed: W names it in a way that cannot be rewritten; drop'):
        session.execute("ALTER STREAM S RENAME TO n")
    assert session.catalog is before


UNNAMED = "SELECT STREAMED k FROM S"


def test_an_unnamed_query_is_found_by_what_it_asks(session: LocalSession) -> None:
    first = session.run(UNNAMED)[-1].name
    session.execute("ALTER STREAM S RENAME TO former; CREATE STREAM S OVER Raw KEY NULL")
    second = session.run(UNNAMED)[-1].name
    assert second == f"{first}_2"
    assert "already running" in session.run(UNNAMED)[-1].message
    session.execute(f"ALTER QUERY {second} RENAME TO mine")
    assert session.run(UNNAMED)[-1].message == 'query "mine" is already running'


def test_names_that_only_look_like_the_table_stay(session: LocalSession) -> None:
    session.execute("CREATE TABLE pair (k INT PRIMARY KEY, p STRUCT(pair INT), CHECK (pair.p.pair > 0))")
    session.execute("ALTER TABLE pair RENAME TO couple")
    session.execute("INSERT INTO couple VALUES (1, {'pair': 2})")
    with pytest.raises(UserError, match="couple.p.pair > 0"):
        session.execute("INSERT INTO couple VALUES (2, {'pair': 0})")


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE VIEW Summary AS SELECT k FROM R(S)",
        "CREATE SUMMARY Sm ON public.U (k) WITH GRANULARITY 100 AND COLLAPSE(4, 3)",
    ],
)
def test_the_text_of_a_reader_has_the_new_name(session: LocalSession, statement: str) -> None:
    session.execute(f"CREATE STREAM U OVER Raw KEY NULL; {statement}")
    session.execute("ALTER STREAM S RENAME TO n1; ALTER STREAM U RENAME TO n2")
    name = statement.split()[2]
    text = session.catalog.get(name).sql
    assert ("n1" in text) != ("n2" in text), text


def test_the_dead_letters_of_a_renamed_query_are_still_its_own(session: LocalSession) -> None:
    session.execute("CREATE QUERY Ratio AS SELECT k, 6 / v AS q FROM S; ALTER QUERY Ratio RENAME TO Quotient")
    session.push("Raw", [{"k": 1, "v": 0, "ts": 1}, {"k": 2, "v": 2, "ts": 2}])
    session.advance(5)
    letters = [{"partition": 0, **letter} for letter in session.dead_letters("Raw")]
    asked = CoverageQuestion(session.catalog.find("Quotient"), (session.catalog.find("Raw"),), (Span(0, 0, 1),), 2)
    assert (0, "Ratio") in [(letter["offset"], letter["query"]) for letter in refusals(asked, letters)]
