"""CREATE SCHEMA and names `schema.name`: an object of a schema is like one of public with another name."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

from dsms.model.catalog import Catalog
from dsms.model.names import bare_name
from dsms.model.objects import Query
from dsms.model.principal import AccessRules, Principal
from dsms.planner.physical.fragment_plan import plan_fragment
from dsms.registration.environment import Environment
from dsms.runtime.lanes.manifest import Manifest
from dsms.runtime.lanes.revision import revised
from dsms.sql.binder.bind import plan_of
from dsms.sql.parser.queries import parse_query
from dsms.statements.registry import apply, parse, resolved_statement
from dsms.testing import LocalSession
from operators.core.errors import UserError

OBJECTS = """
REGISTER SOURCE {p}Raw (k INT, v INT) FROM raw;
CREATE STREAM {p}S OVER {p}Raw KEY k; CREATE STREAM {p}Bag OVER {p}Raw KEY NULL;
CREATE TABLE {p}T (k INT PRIMARY KEY, x INT DEFAULT 3, CHECK (T.x > 0));
CREATE VIEW {p}V AS SELECT k, v FROM {p}S
"""
#: Queries over these objects, with `{p}` before each name.
QUERIES = (
    "SELECT S.k, sum(S.v) AS total FROM {p}S GROUP BY S.k",
    "SELECT {p}S.k, v FROM {p}S WHERE {p}S.v > 3",
    "SELECT k, count(*) AS n FROM {p}Bag [Range 10 SECONDS] GROUP BY k",
    "SELECT T.k, V.k AS other, x FROM {p}T JOIN {p}V ON T.k = V.k",
    "SELECT * FROM {p}T, {p}S WHERE T.k = S.k",
    "SELECT a.k FROM R({p}S) AS a WHERE a.k IN (SELECT T.k FROM {p}T)",
    "SELECT S.k FROM R[{p}Bag]({p}S)",
    "SELECT Istream(k) FROM {p}Bag [Now]",
    "SELECT k, window_end, count(*) AS n FROM TUMBLE(TABLE {p}Bag, DESCRIPTOR(TS), 10 SECONDS) GROUP BY k, window_end",
    "WITH C AS (SELECT k FROM {p}V) SELECT C.k, u.x FROM C, {p}T AS u WHERE u.k = C.k",
    "SELECT k, TS FROM {p}V UNION ALL SELECT Bag.k, Bag.TS FROM {p}Bag",
)


def made(*texts: str, environment: Environment | None = None) -> Catalog:
    catalog = Catalog()
    for statement in parse(";".join(texts)):
        catalog, _ = apply(resolved_statement(statement, catalog), catalog, environment or Environment())
    return catalog


def lanes(catalog: Catalog) -> list[tuple[str, ...]]:
    """The names under which queries store their state."""
    flows = revised(plan_fragment(catalog, 2), Manifest(), ()).lanes.values()
    return [lane.flow.keys for lane in flows]


def spelled(query: str, prefix: str) -> str:
    return query.format(p=prefix)


@settings(max_examples=15)
@given(hs.lists(hs.sampled_from(QUERIES), min_size=1, max_size=3, unique=True), hs.sampled_from(["s.", "dsms.s."]))
def test_a_schema_changes_names_only(queries: list[str], prefix: str) -> None:
    """Columns, types and the shape of plans are those of the same objects in public."""
    texts = [f"CREATE VIEW {{p}}q{at} AS {query}" for at, query in enumerate(queries)]
    bare = made(*(spelled(text, "") for text in (OBJECTS, *texts)))
    inside = made("CREATE SCHEMA s", *(spelled(text, prefix) for text in (OBJECTS, *texts)))
    assert [bare_name(name) for name in inside.objects] == list(bare.objects)
    assert {inside.schema_of(name) for name in inside.objects} == {"s"}
    assert len(lanes(inside)) == len(lanes(bare))
    for at in range(len(queries)):
        one, other = plan_of(f"q{at}", bare), plan_of(f"s.q{at}", inside)
        assert repr(one) == without_schema(repr(other))


def without_schema(shown: str) -> str:
    """The text with the names of the objects in public: those of topics begin with `dsms.`, those in statements not."""
    shown = shown.replace("'dsms.s.", "'dsms.").replace("dsms.s.", "")
    for spelling in ("CREATE STREAM s.", "SOURCE s.", "TABLE s.", "VIEW s.", "OVER s.", "'s.", "FROM s."):
        shown = shown.replace(spelling, spelling.removesuffix("s."))
    return shown


@pytest.mark.parametrize("prefix", ["public.", "dsms.public."])
@pytest.mark.parametrize("query", QUERIES)
def test_public_is_no_part_of_a_name(query: str, prefix: str) -> None:
    bare = made(OBJECTS.format(p=""), f"CREATE VIEW q AS {spelled(query, '')}")
    written = made(OBJECTS.format(p=""), f"CREATE VIEW q AS {spelled(query, prefix)}")
    assert plan_of("q", bare) == plan_of("q", written)


@pytest.mark.parametrize("query", QUERIES)
def test_a_new_object_of_the_same_bare_name_changes_no_view(query: str) -> None:
    texts = ("CREATE SCHEMA s", OBJECTS.format(p=""), f"CREATE VIEW q AS {spelled(query, '')}")
    before = made(*texts)
    after = made(*texts, OBJECTS.format(p="s.").replace("FROM raw", "FROM other"))
    assert plan_of("q", before) == plan_of("q", after)


def test_a_catalog_without_schemas_is_stored_as_before() -> None:
    catalog = made(OBJECTS.format(p=""))
    assert msgspec.to_builtins(catalog)["schemas"] == {}
    assert msgspec.json.decode(b'{"version": 3, "ids": 2}', type=Catalog).schemas == {}


def test_default_topics_have_the_schema() -> None:
    catalog = made("CREATE SCHEMA Sales", OBJECTS.format(p="Sales."))
    view = catalog.find("SALES.v")
    assert isinstance(view, Query)
    assert (view.name, view.topic) == ("sales.V", "dsms.sales.V")


@pytest.fixture
def session() -> LocalSession:
    session = LocalSession()
    session.execute(
        "CREATE SCHEMA a; CREATE SCHEMA b; CREATE TABLE t (id INT PRIMARY KEY, n INT); INSERT INTO t VALUES (0, 0)"
    )
    session.execute("CREATE TABLE a.t (id INT PRIMARY KEY, n INT DEFAULT 3, CHECK (t.n > 0))")
    session.execute("CREATE TABLE b.t (id INT PRIMARY KEY, n INT)")
    return session


def rows(session: LocalSession, query: str) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in session.execute(query)]


def test_statements_change_rows_of_the_table_of_that_schema(session: LocalSession) -> None:
    assert rows(session, "INSERT INTO a.t VALUES (1, 10), (2, 20) RETURNING t.n, a.t.id") == [(10, 1), (20, 2)]
    session.execute("INSERT INTO a.t VALUES (1, 5) ON CONFLICT (id) DO UPDATE SET n = t.n + excluded.n")
    session.execute("INSERT INTO b.t SELECT id, n * 2 FROM a.t")
    assert rows(session, "UPDATE a.t SET n = t.n + 1 WHERE a.t.id = 2 RETURNING t.n") == [(21,)]
    assert rows(session, "SELECT x.n, y.n FROM a.t AS x JOIN b.t AS y ON x.id = y.id ORDER BY 1") == [
        (15, 30),
        (21, 40),
    ]
    session.execute("DELETE FROM b.t USING a.t AS q WHERE q.id = t.id AND t.id = 1")
    session.execute(
        "MERGE INTO b.t USING a.t AS q ON t.id = q.id WHEN MATCHED THEN UPDATE SET n = t.n + q.n "
        "WHEN NOT MATCHED THEN INSERT VALUES (q.id, q.n)"
    )
    assert rows(session, "SELECT * FROM b.t ORDER BY id") == [(1, 15), (2, 61)]
    assert rows(session, "SELECT t.id FROM public.t") == [(0,)]
    with pytest.raises(UserError, match='violates check "t_check"'):
        session.execute("INSERT INTO a.t VALUES (9, -1)")
    session.execute("TRUNCATE b.t")
    assert rows(session, "SELECT count(*) FROM b.t") == [(0,)]


def test_objects_move_between_schemas(session: LocalSession) -> None:
    session.execute(
        "CREATE VIEW w AS SELECT t.id, n FROM a.t; ALTER TABLE a.t RENAME TO u; ALTER TABLE a.u SET SCHEMA b"
    )
    assert rows(session, "SHOW CREATE w") == [("w", "CREATE VIEW w AS SELECT t.id, n FROM b.u AS t")]
    session.execute("INSERT INTO b.u VALUES (1, 1)")
    with pytest.raises(UserError, match="violates check"):
        session.execute("INSERT INTO b.u VALUES (2, 0)")
    session.execute("ALTER VIEW w SET SCHEMA a; ALTER TABLE b.u SET SCHEMA public")
    assert [name for name, *_ in rows(session, "SHOW TABLES")] == ["t", "b.t", "u"] or "u" in session.catalog.objects
    assert "a.w" in session.catalog.objects


def test_schemas_are_listed_with_comments_and_dropped(session: LocalSession) -> None:
    session.execute(
        "COMMENT ON SCHEMA a IS 'ours'; COMMENT ON COLUMN a.t.n IS 'count'; CREATE VIEW w AS SELECT id FROM a.t"
    )
    assert rows(session, "SHOW SCHEMAS") == [("public", 2, ""), ("a", 1, "ours"), ("b", 1, "")]
    assert session.catalog.comments_on("a.t") == {"n": "count"}
    with pytest.raises(UserError, match='schema "a" has objects: a.t; drop these first or add CASCADE'):
        session.execute("DROP SCHEMA a")
    session.execute("DROP SCHEMA a CASCADE; DROP SCHEMA IF EXISTS a; CREATE SCHEMA IF NOT EXISTS b")
    assert rows(session, "SHOW SCHEMAS") == [("public", 1, ""), ("b", 1, "")]
    assert list(session.catalog.objects) == ["t", "b.t"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CREATE TABLE c.x (id INT)", 'line 1, column 14: schema "c" not found; CREATE SCHEMA c'),
        ("CREATE SCHEMA a", 'line 1, column 15: schema "a" already exists'),
        ("CREATE SCHEMA public", 'schema "public" already exists'),
        ("CREATE SCHEMA pg_x", 'the name "pg_x" is reserved'),
        ("CREATE SCHEMA c AUTHORIZATION me", "schemas have no owners; leave it out: rights are patterns of names"),
        ("DROP SCHEMA public CASCADE", 'the schema "public" cannot be changed'),
        ("DROP SCHEMA c", 'schema "c" not found'),
        ("SELECT * FROM a.u", 'line 1, column 15: "a.u" not found'),
        ("SELECT * FROM other.a.t", 'database "other" not found; have: dsms'),
        ("COMMENT ON COLUMN x.y.z.t IS 'x'", "expected schema.name.column"),
        ("CREATE VIEW a.t AS SELECT id FROM t", 'a table named "a.t" already exists'),
    ],
)
def test_wrong_names_get_a_clear_error(session: LocalSession, text: str, message: str) -> None:
    with pytest.raises(UserError) as raised:
        session.execute(text)
    assert message in str(raised.value)


def test_objects_of_public_whose_names_have_dots_stay_there() -> None:
    catalog = made("CREATE TABLE t (id INT)")
    dotted = msgspec.structs.replace(catalog.find("t"), name="a.b")
    catalog = Catalog(objects={"a.b": dotted}, ids=1)
    assert catalog.schema_of("a.b") == "public"
    with pytest.raises(UserError, match="objects of public have its name before a dot: a.b"):
        apply(parse("CREATE SCHEMA a")[0], catalog, Environment())


def test_schemas_that_the_caller_may_not_read_are_hidden() -> None:
    catalog = made("CREATE SCHEMA a; CREATE SCHEMA b; CREATE SCHEMA c; CREATE TABLE b.t (id INT)")
    rules = AccessRules.of(read=["b.t"], write=["c.*"])
    _, shown = apply(parse("SHOW SCHEMAS")[0], catalog, Environment(caller=Principal("ann", "writer", rules)))
    assert shown.rows == (("public", 0, ""), ("b", 1, ""), ("c", 0, ""))


def test_a_query_is_called_by_its_bare_name() -> None:
    assert parse_query("SELECT S.t.a FROM s.T, R(s.u)").sql() == 'SELECT t.a FROM "s.T" AS T, R("s.u") AS u'
