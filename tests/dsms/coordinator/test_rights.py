"""Rules of tokens: a statement or call is refused if it reads or changes an object that no pattern permits. Answers
leave out objects that the caller may not read."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fastapi.testclient import TestClient

from dsms.coordinator.catalog.lookup import error_for
from dsms.coordinator.http.access import Access
from dsms.coordinator.http.api import create_app
from dsms.coordinator.http.permitted import PermittedService
from dsms.coordinator.http.permitted_registry import PermittedRegistry
from dsms.coordinator.registry.subjects import SchemaRegistry
from dsms.model.principal import ANYBODY, AccessRules, Caller, Forbidden, NamePatterns, Principal
from dsms.model.roles import Role
from dsms.model.statements import Name
from dsms.model.tokens import new_token
from dsms.registration.table_targets import table_of
from dsms.statements.registry import STATEMENTS
from dsms.testing import LocalSession
from operators.core.errors import ConfigError, DsmsError, InternalError, SqlError
from tests.dsms.introspection.test_control import ControlService
from tests.support.statement_cluster import StatementCluster

OTHERS = """REGISTER SOURCE secrets (k INT, pin INT) FROM secrets PARTITIONS 1; CREATE STREAM secret OVER secrets KEY k;
CREATE VIEW ann_shared AS SELECT k, v FROM R(S); CREATE VIEW reader_of_ann AS SELECT k FROM ann_shared;
CREATE TABLE pins (k INT PRIMARY KEY, pin INT)"""


def caller(role: Role = "writer", **patterns: list[str]) -> Caller:
    return Caller(Principal("ann", role, AccessRules.of(**patterns)))


ANN = caller(read=["T", "S"], write=["ann_*", "query_*"], read_topics=["clicks*"], write_topics=["dsms.ann_*"])


@pytest.fixture
def cluster() -> StatementCluster:
    cluster = StatementCluster()
    cluster.execute(OTHERS)
    return cluster


ALLOWED = [
    "CREATE VIEW ann_mine AS SELECT k, v FROM R(S)",
    "CREATE STREAM ann_t OVER T KEY k",
    "REGISTER SOURCE ann_clicks (k INT) FROM clicks7",
    "CREATE STREAM ann_s (k INT) SOURCE 'clicks'",
    "CREATE TABLE ann_t (k INT PRIMARY KEY)",
    "CREATE OR REPLACE VIEW ann_mine AS SELECT k FROM R(S); DROP VIEW ann_mine",
    "WITH s2 AS (SELECT k FROM R(S)) SELECT k FROM s2",
    "CREATE VIEW ann_mine AS SELECT k FROM R(S); ALTER VIEW ann_mine RENAME TO ann_yours",
    "REGISTER SOURCE ann_clicks (k INT) FROM clicks7; ALTER SOURCE ann_clicks ADD COLUMN v INT",
    "CREATE SCHEMA ann_s; CREATE TABLE ann_s.t (k INT PRIMARY KEY); DROP SCHEMA ann_s CASCADE",
    "EXPLAIN SELECT STREAMED k FROM R(S); EXPLAIN S; DESCRIBE ann_shared; SHOW CREATE T",
]


@pytest.mark.parametrize("sql", ALLOWED)
def test_permitted_statements_are_run(cluster: StatementCluster, sql: str) -> None:
    cluster.execute(sql, ANN)


REFUSED = [
    # reading others' objects, under any name
    ("CREATE VIEW ann_x AS SELECT pin FROM R(secret)", 'read "secret"'),
    ("CREATE VIEW ann_x AS SELECT nope FROM R(secret)", 'read "secret"'),
    ("CREATE VIEW ann_x AS WITH secret AS (SELECT pin FROM R(secret)) SELECT pin FROM secret", 'read "secret"'),
    ("CREATE VIEW ann_x AS WITH a AS (WITH secret AS (SELECT k FROM R(S)) SELECT k FROM secret) SELECT b.pin FROM a, "
     "R(secret) b", 'read "secret"'),
    ("CREATE VIEW ann_x AS SELECT k FROM R(S) WHERE k IN (SELECT pin FROM R(SECRET))", 'read "SECRET"'),
    ("CREATE VIEW ann_x AS SELECT k, (SELECT MAX(pin) FROM R(secret)) AS m FROM R(S)", 'read "secret"'),
    ("CREATE VIEW ann_x AS SELECT k FROM R(S) UNION ALL SELECT pin FROM R(secret)", 'read "secret"'),
    ("CREATE VIEW ann_x AS SELECT x.k FROM R(S) x JOIN LATERAL (SELECT pin FROM R(secret)) y ON true", 'read "secret"'),
    ("CREATE VIEW ann_x AS SELECT k FROM R[secret](S)", 'read "secret"'),
    ("CREATE VIEW ann_x AS SELECT k FROM nothing_like_it", 'read "nothing_like_it"'),
    ("EXPLAIN SELECT STREAMED pin FROM R(secret)", 'read "secret"'),
    ("CREATE STREAM ann_x OVER secrets KEY k", 'read "secrets"'),
    ("REGISTER SOURCE ann_x (k INT) FROM clicks CONSTRAINT k REFERENCES secrets (k) WITHIN 5", 'read "secrets"'),
    ("EXPLAIN reader_of_ann", 'read "reader_of_ann"'), ("DESCRIBE pins", 'read "pins"'),
    ("SHOW CREATE secret", 'read "secret"'), ("SHOW OPERATORS FOR q", 'read "q"'), ("EXPLAIN ANALYZE q", 'read "q"'),
    ("INSERT INTO pins VALUES (1, 2)", 'read "pins"'), ("DELETE FROM pins", 'read "pins"'),
    # changing others' objects, also through the caller's own
    ("DROP VIEW base", 'write "base"'), ("DROP VIEW IF EXISTS other", 'write "other"'), ("PAUSE QUERY q", 'write "q"'),
    ("ALTER TABLE pins RENAME TO ann_pins", 'write "pins"'), ("ALTER VIEW ann_shared RENAME TO mine", 'write "mine"'),
    ("ALTER VIEW ann_shared RENAME TO ann_x", 'write "reader_of_ann"'),
    ("ALTER TABLE pins ADD COLUMN a INT", 'write "pins"'), ("ALTER SOURCE T ADD COLUMN a INT", 'write "T"'),
    ("ALTER TABLE pins ALTER pin SET DEFAULT 1", 'write "pins"'),
    ("ALTER QUERY q SET (weight = 2)", 'write "q"'), ("REPAIR QUERY q", 'write "q"'),
    ("CREATE VIEW other AS SELECT k FROM R(S)", 'write "other"'),
    ("CREATE OR REPLACE VIEW base AS SELECT k FROM R(S)", 'write "base"'),
    ("DROP VIEW ann_shared CASCADE", 'write "reader_of_ann"'),
    ("CREATE OR REPLACE VIEW ann_shared AS SELECT k, v FROM R(S) WHERE k > 1", 'write "reader_of_ann"'),
    ("CREATE SCHEMA sales", r'write "sales\.\*"'), ("DROP SCHEMA IF EXISTS sales", r'write "sales\.\*"'),
    ("ALTER VIEW ann_shared SET SCHEMA sales", 'write "sales.ann_shared"'),
    ("CREATE VIEW ann_x AS SELECT k FROM sales.t", 'read "sales.t"'), ("SHOW CREATE sales.t", 'read "sales.t"'),
    # topics
    ("REGISTER SOURCE ann_x (k INT) FROM secrets", 'read topic "secrets"'),
    ("REGISTER SOURCE ann_x (k INT) FROM clicks PARTITIONS 3", 'write topic "clicks"'),
    ("CREATE STREAM ann_x (k INT) SOURCE 'secrets'", 'read topic "secrets"'),
    ("CREATE VIEW ann_x WITH (topic = 'payments') AS SELECT k FROM R(S)", 'write topic "payments"'),
    ("SELECT STREAMED k FROM R(S)", 'write topic "dsms.query_'),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "what"), REFUSED)
def test_statements_without_permission_are_refused_and_change_nothing(
    cluster: StatementCluster, sql: str, what: str
) -> None:
    before, topics = cluster.store.catalog, list(cluster.topics.made)
    with pytest.raises(Forbidden, match=f'token "ann" may not {what}'):
        cluster.execute(sql, ANN)
    after = cluster.store.catalog
    assert {name: item for name, item in after.objects.items() if item != before.objects.get(name)} == {}
    assert after.objects.keys() == before.objects.keys() and cluster.topics.made == topics


def test_every_statement_names_what_it_is_about_or_is_known_to_check_what_it_reads() -> None:
    named = {kind.statement.__name__ for kind in STATEMENTS if names_of_kind(kind)}
    bound = {
        "Select",
        "Show",
        "ShowAggregates",
        "ShowAlarms",
        "ShowAudit",
        "ShowCreateSink",
        "ShowExecutors",
        "ShowFunctions",
        "ShowSchemas",
        "ShowSinks",
        "ShowSubplans",
        "AlterExecutor",
    }
    assert {kind.statement.__name__ for kind in STATEMENTS} - named == bound


def names_of_kind(kind: Any) -> bool:
    """Whether the kind has a function in place of the default, which returns no name."""
    default = type(kind)(statement=kind.statement)
    return kind.changed_names.__code__ != default.changed_names.__code__ or (
        kind.read_name.__code__ != default.read_name.__code__
    )


def test_lists_show_what_may_be_read(cluster: StatementCluster) -> None:
    shown = {kind: [row[0] for row in cluster.execute(f"SHOW {kind}", ANN)[0].rows] for kind in ("VIEWS", "SOURCES")}
    assert shown == {"VIEWS": ["ann_shared"], "SOURCES": ["T"]}
    assert len(cluster.execute("SHOW VIEWS")[0].rows) == 3


def test_a_plan_names_no_queries_that_may_not_be_read(cluster: StatementCluster) -> None:
    everything = "\n".join(str(row[0]) for row in cluster.execute("EXPLAIN ann_shared")[0].rows)
    shown = "\n".join(str(row[0]) for row in cluster.execute("EXPLAIN ann_shared", ANN)[0].rows)
    assert "base" in everything and "base" not in shown and "reader_of_ann" not in shown
    notices = cluster.execute("CREATE VIEW ann_filtered AS SELECT k, v FROM R(S) WHERE v > 1", ANN)[0].notices
    assert not [notice for notice in notices if '"base"' in notice or '"q"' in notice]


def test_an_administrator_may_be_restricted_too(cluster: StatementCluster) -> None:
    few = caller("administrator", read=["base"])
    cluster.execute("DESCRIBE base", few)
    with pytest.raises(Forbidden, match='may not write "base"'):
        cluster.execute("DROP VIEW base CASCADE", few)


def test_a_reader_s_script_is_refused_before_it_begins(cluster: StatementCluster) -> None:
    reader = Caller(Principal("eve", "reader"))
    with pytest.raises(Forbidden, match="statement 2 needs the role writer, the token has reader"):
        cluster.execute("SHOW VIEWS; DROP QUERY q", reader)


# --- over HTTP

SECRETS: dict[str, str] = {}


def token(name: str, role: Role, **patterns: list[str]) -> Any:
    SECRETS[name], kept = new_token(name, role, **{key: tuple(value) for key, value in patterns.items()})
    return kept


ACCESS = Access(
    (
        token("ann", "writer", read=["S", "T", "Hot"], write=["ann_*"], read_topics=["t"]),
        token("all", "writer"),
        token("reader", "reader"),
        token("eve", "reader", read=["nothing_*"]),
    )
)


def as_(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {SECRETS[name]}"}


@pytest.fixture
def client() -> TestClient:
    session = LocalSession(2)
    session.execute(
        "REGISTER SOURCE T (room VARCHAR, t INT) FROM t; CREATE STREAM S OVER T KEY room;"
        "CREATE VIEW Hot AS SELECT room, t FROM R(S) WHERE t > 80;"
        "CREATE QUERY Twin AS SELECT room, t FROM R(S) WHERE t > 80"
    )
    session.push("T", [{"room": "a", "t": 90, "ts": 1}])
    session.advance(5)
    registry = SchemaRegistry(lambda _: None)
    registry.register("t-value", '"string"')
    registry.register("secret-value", '"int"')
    service: Any = ControlService(session)
    service.results = None
    return TestClient(create_app(service, registry, ACCESS))


def test_control_tables_show_the_queries_that_may_be_read(client: TestClient) -> None:
    everything = client.get("/v1/control/operators", headers=as_("all")).json()
    assert {name for entity in everything for name in entity["queries"]} >= {"Hot", "Twin"}
    seen = client.get("/v1/control/operators", headers=as_("ann")).json()
    assert {name for entity in seen for name in entity["queries"]} <= {"Hot", "S"} and seen
    assert [query["id"] for query in client.get("/v1/control/queries", headers=as_("ann")).json()] == ["Hot"]
    assert client.get("/v1/control/operators?query=Twin", headers=as_("ann")).status_code == 403
    assert client.patch("/v1/control/queries/Twin", json={"weight": 2}, headers=as_("ann")).status_code == 404


def test_plans_are_exported_and_imported_with_the_caller_s_rights(client: TestClient) -> None:
    plan = client.get("/v1/plan", headers=as_("all")).json()
    seen = client.get("/v1/plan", headers=as_("ann")).json()
    assert [item["name"] for item in seen["objects"]] == ["T", "S", "Hot"]
    assert client.post("/v1/plan", json=plan, headers=as_("ann")).status_code == 403
    assert client.post("/v1/plan", json=seen, headers=as_("ann")).status_code == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/queries/Twin"), ("DELETE", "/v1/queries/Hot"), ("GET", "/v1/queries/Twin/relation"),
        ("GET", "/v1/queries/Twin/changes"), ("GET", "/v1/queries/nothing/changes"),
        ("GET", "/v1/queries/Twin/history"), ("GET", "/v1/sources/x/dead-letters"),
        ("POST", "/v1/tables/x/rows"), ("GET", "/subjects/secret-value/versions"), ("GET", "/schemas/ids/2"),
        ("GET", "/subjects/secret-value/versions/1/schema"), ("GET", "/config/secret-value"),
    ],
)  # fmt: skip
def test_calls_about_unpermitted_objects_are_forbidden(client: TestClient, method: str, path: str) -> None:
    answer = client.request(method, path, headers={**as_("ann"), "Accept": "application/x-ndjson"})
    assert (answer.status_code, answer.json()["error"]["kind"]) == (403, "forbidden")


def test_subjects_are_those_of_topics_that_may_be_read(client: TestClient) -> None:
    assert client.get("/subjects", headers=as_("ann")).json() == ["t-value"]
    assert client.get("/schemas/ids/1", headers=as_("ann")).status_code == 200
    written = client.post("/subjects/t-value/versions", json={"schema": '"string"'}, headers=as_("ann"))
    assert written.status_code == 403 and 'write topic "t"' in written.json()["error"]["message"]


def test_an_unknown_name_lists_what_may_be_read(client: TestClient) -> None:
    hint = client.get("/v1/queries/ann_none", headers=as_("ann")).json()["error"]["hint"]
    assert "Twin" not in hint and client.get("/v1/queries/none", headers=as_("all")).json()["error"]["hint"]


HINTING = [
    ("DROP VIEW ann_q17_total", "have: T, S, ann_shared"),
    ("REGISTER SOURCE ann_x (k INT) FROM clicks CONSTRAINT k REFERENCES S (k) WITHIN 5", "have: T"),
]


@pytest.mark.parametrize(("sql", "hint"), HINTING)
def test_hints_of_statements_list_what_may_be_read(cluster: StatementCluster, sql: str, hint: str) -> None:
    with pytest.raises(DsmsError) as everything:
        cluster.execute(sql)
    assert "pins" in everything.value.hint or "secrets" in everything.value.hint
    with pytest.raises(DsmsError) as refused:
        cluster.execute(sql, ANN)
    assert error_for(ANN.principal, refused.value).hint == hint


def test_the_hint_for_another_kind_of_object_lists_tables_that_may_be_read(cluster: StatementCluster) -> None:
    cluster.execute("CREATE TABLE ann_t (k INT PRIMARY KEY)")
    with pytest.raises(SqlError, match="have: pins, ann_t$") as refused:
        table_of(Name("ann_shared"), cluster.store.catalog)
    assert (
        str(error_for(ANN.principal, refused.value))
        == 'line 1, column 1: "ann_shared" is a view, not a table; have: ann_t'
    )


UNREADABLE = [
    ("DROP VIEW ann_shared", '"ann_shared" is used by 1 object that you may not read'),
    ("CREATE VIEW ann_x WITH (topic = 'dsms.base') AS SELECT k FROM R(S)", "belongs to a view that you may not read"),
    ("REGISTER SOURCE ann_x (k INT) FROM 'dsms.base'", "belongs to a view that you may not read"),
]


@pytest.mark.parametrize(("sql", "message"), UNREADABLE)
def test_messages_name_no_objects_that_may_not_be_read(cluster: StatementCluster, sql: str, message: str) -> None:
    with pytest.raises(DsmsError, match=message):
        cluster.execute(sql, ANN)
    with pytest.raises(DsmsError, match='used by reader_of_ann|belongs to view "base"'):
        cluster.execute(sql)


def test_functions_name_no_users_that_may_not_be_read(cluster: StatementCluster) -> None:
    made = "CREATE OR REPLACE FUNCTION ann_f(a BIGINT) RETURNS BIGINT LANGUAGE PYTHON AS $$def ann_f(a): return {}$$"
    cluster.execute(made.format("a"))
    cluster.execute("CREATE VIEW secret_v AS SELECT k, ann_f(v) AS v FROM R(S)")
    few = caller("administrator", write=["ann_*"])
    with pytest.raises(SqlError, match="is used by 1 object that you may not read"):
        cluster.execute("DROP FUNCTION ann_f", few)
    notices = " ".join(cluster.execute(made.format("[1]"), few)[0].notices)
    assert "1 object that you may not read" in notices and "secret_v" not in notices


def test_the_hint_of_drop_function_lists_what_may_be_read(cluster: StatementCluster) -> None:
    for name in ("secret_f", "ann_f"):
        cluster.execute(
            f"CREATE FUNCTION {name}(a BIGINT) RETURNS BIGINT LANGUAGE PYTHON AS $$def {name}(a): return a$$"
        )
    few = caller("administrator", write=["ann_*"])
    with pytest.raises(SqlError, match='function "ann_none" not found; have: ann_f$'):
        cluster.execute("DROP FUNCTION ann_none", few)


# --- rights are values


def test_rights_hold_in_every_thread() -> None:
    cluster = StatementCluster()
    permitted = [PermittedService(Executing(cluster), ANN), PermittedService(Executing(cluster), ANYBODY)]

    def run(at: int) -> bool:
        try:
            permitted[at % 2].execute("DESCRIBE q")
        except Forbidden:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(run, range(200))) == [at % 2 == 1 for at in range(200)]

    async def deferred() -> list[bool]:
        loop = asyncio.get_running_loop()
        return await asyncio.gather(*(loop.run_in_executor(None, run, at) for at in range(50)))

    assert asyncio.run(deferred()) == [at % 2 == 1 for at in range(50)]


class Executing:
    """A service that runs statements."""

    def __init__(self, cluster: StatementCluster) -> None:
        self.cluster = cluster

    def execute(self, sql: str, caller: Caller, cancelled: object = None) -> Any:
        return self.cluster.execute(sql, caller)


def test_a_story_names_only_queries_that_may_be_read(client: TestClient) -> None:
    everything = [event["text"] for event in client.get("/v1/fragments/0/story", headers=as_("reader")).json()]
    assert everything[0] == 'started with plan 3: runs queries "Hot", "Twin"' and len(everything) == 2
    seen = [event["text"] for event in client.get("/v1/fragments/0/story", headers=as_("ann")).json()]
    assert seen == ['started with plan 3: runs query "Hot"']
    assert client.get("/v1/fragments/0/story").status_code == 401


def test_a_fragment_without_a_readable_query_is_unknown(client: TestClient) -> None:
    refused = client.get("/v1/fragments/0/story", headers=as_("eve"))
    assert (refused.status_code, refused.json()["error"]["hint"]) == (404, "there is none yet")
    wrong = client.get("/v1/fragments/7/story", headers=as_("ann"))
    assert (wrong.status_code, wrong.json()["error"]["hint"]) == (404, "have: 0")


def test_a_control_table_without_a_caller_runs_nothing() -> None:
    session = LocalSession()
    service = ControlService(session)
    unbound: Any = type(service.control)(service.control.cluster, lambda: session.catalog, service.control.states)
    with pytest.raises(InternalError, match="without a caller"):
        unbound.import_plan(b'{"objects": [], "format": 1}')


@pytest.mark.parametrize("pattern", ["", "a*b", "*a", "**"])
def test_wrong_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(ConfigError, match="is not a pattern of names"):
        NamePatterns((pattern,))
    with pytest.raises(DsmsError):
        Access((new_token("x", "reader", read=(pattern,))[1],))


def test_global_registry_settings_need_the_right_to_all_topics() -> None:
    registry = SchemaRegistry(lambda _: None)
    few, all_topics = (Principal("x", "administrator", AccessRules.of(write_topics=[topic])) for topic in ("a*", "*"))
    with pytest.raises(Forbidden):
        PermittedRegistry(registry, few).set_compatibility("NONE")
    assert PermittedRegistry(registry, all_topics).set_compatibility("NONE") == "NONE"


IN_PYTHON = """CREATE AGGREGATE longest(text VARCHAR) RETURNS VARCHAR LANGUAGE PYTHON HANDLER 'Longest' AS $$
class Longest:
    def iterate(self, text):
        self.text = text
    def terminate(self):
        return self.text
$$"""
TAKING_ITS_PLACE = [
    "DROP AGGREGATE longest",
    "CREATE OR REPLACE AGGREGATE longest(x INT): INT { INITIALIZE: ITERATE: { INSERT INTO RETURN VALUES (x); } }",
    "CREATE WINDOW AGGREGATE longest(x INT): INT { INITIALIZE: ITERATE: { INSERT INTO RETURN VALUES (x); } }",
]


@pytest.mark.parametrize("sql", TAKING_ITS_PLACE)
def test_writers_neither_drop_nor_replace_code_of_administrators(cluster: StatementCluster, sql: str) -> None:
    administrator, writer = (Caller(Principal("bob", role)) for role in ("administrator", "writer"))
    cluster.execute(IN_PYTHON, administrator)
    before = cluster.store.catalog
    with pytest.raises(Forbidden, match='"longest" has Python code, which only administrators may change'):
        cluster.execute(sql, writer)
    assert cluster.store.catalog is before
    cluster.execute("CREATE VIEW longest_of AS SELECT k, longest(CAST(v AS VARCHAR)) AS v FROM R(S) GROUP BY k", writer)
    cluster.execute("DROP VIEW longest_of", writer)
    cluster.execute(sql, administrator)
