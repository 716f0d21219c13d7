"""Statements and calls of a hostile user through the real API: each is refused with the reason and creates nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka.admin import AdminClient

from dsms.model.tokens import new_token
from integration.cluster import Cluster, Refused, running
from integration.session_services import Services, started

pytestmark = [pytest.mark.services, pytest.mark.timeout(600)]
BASE = """REGISTER SOURCE src (k INT NOT NULL, v BIGINT, s VARCHAR) FROM "{topic}" PARTITIONS 1;
CREATE STREAM st OVER src KEY k; CREATE VIEW hot AS SELECT k, v FROM R(st) WHERE v > 1;
CREATE TABLE tab (k INT PRIMARY KEY, v INT)"""


def where(condition: str) -> str:
    return f"CREATE QUERY q AS SELECT k, v FROM R(st) WHERE {condition}"


def nested_schema(depth: int) -> str:
    return '{"type": "array", "items": ' * depth + '"int"' + "}" * depth


@pytest.fixture(scope="module")
def own_services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    """A broker and a Redis for this module alone, so that no other test creates topics meanwhile."""
    with started(tmp_path_factory.mktemp("services")) as services:
        yield services


@pytest.fixture(scope="module")
def kafka(own_services: Services) -> str:
    """The bootstrap address of this module's broker."""
    return own_services[0]


@pytest.fixture(scope="module")
def redis_url(own_services: Services) -> str:
    """The URL of this module's Redis."""
    return own_services[1]


@pytest.fixture(scope="module")
def cluster(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(
        kafka, redis_url, tmp_path_factory.mktemp("hostile"), environment={"DSMS_LOAD_DATABASES": "true"}
    ) as cluster:
        cluster.sql(BASE.format(topic=f"{cluster.name}-src"))
        yield cluster


@pytest.fixture
def unchanged(cluster: Cluster, kafka: str) -> Iterator[None]:
    """Checks that the test creates neither a topic nor an object."""

    def state() -> tuple[set[str], list[str]]:
        topics = AdminClient({"bootstrap.servers": kafka}).list_topics(timeout=30).topics
        ours = {topic for topic in topics if topic.startswith(("dsms.", f"_dsms.{cluster.name}", "__", cluster.name))}
        return ours, [item["name"] for kind in ("sources", "streams", "queries") for item in cluster.get(kind)]

    before = state()
    yield
    assert state() == before


def refusal(cluster: Cluster, sql: str) -> dict[str, Any]:
    with pytest.raises(Refused) as raised:
        cluster.sql(sql)
    assert raised.value.status == 400, raised.value
    return raised.value.error


@pytest.mark.parametrize(
    ("sql", "limit"),
    [
        (where("(" * 10_000 + "v > 1" + ")" * 10_000), "statement_tokens"),
        (where("(" * 3_000 + "v > 1" + ")" * 3_000), "statement_nesting"),
        (where("NOT " * 5_000 + "v > 1"), "statement_nesting"),
        (where(" OR ".join(["v = 1"] * 20_000)), "statement_tokens"),
        (where("v > " + "CASE WHEN v > 1 THEN " * 1_000 + "1" + " END" * 1_000), "statement_nesting"),
        (where("cardinality(" + "ARRAY[" * 1_000 + "v" + "]" * 1_000 + ") > 1"), "statement_nesting"),
        (where("v > " + " + ".join(["v"] * 2_000)), "statement_levels"),
        (where("v > " + " + ".join(["v"] * 100)), "statement_operands"),
        (where("s ~ '" + "a?" * 20_000 + "'"), "pattern_length"),
        ("REGISTER SOURCE bad (a " + "STRUCT<a " * 1_000 + "INT" + ">" * 1_000 + ") FROM t", "statement_nesting"),
        ("REGISTER SOURCE bad (a INT" + "[]" * 3_000 + ") FROM t FORMAT AVRO", "statement_nesting"),
        ("SELECT " + "(" * 3_000 + "1" + ")" * 3_000, "statement_nesting"),
        ("EXPLAIN SELECT k FROM R(st) WHERE " + "NOT " * 5_000 + "v > 1", "statement_nesting"),
        ("INSERT INTO tab VALUES (1, " + "(" * 3_000 + "1" + ")" * 3_000 + ")", "statement_nesting"),
        ("UPDATE tab SET v = " + "(" * 3_000 + "1" + ")" * 3_000, "statement_nesting"),
        ("DELETE FROM tab WHERE " + "NOT " * 5_000 + "v > 1", "statement_nesting"),
        ("CREATE QUERY q AS SELECT " + ", ".join(f"v AS v{n}" for n in range(1_500)) + " FROM R(st)", "columns"),
        ("SELECT '" + "x" * 500_000 + "'", "statement_length"),
        ("SELECT 1;" * 500_000, "script_length"),
        ("REGISTER SOURCE bad (a INT) FROM new_topic PARTITIONS 1000", "partitions"),
    ],
    ids=lambda value: value if len(value) < 40 else f"{value[:20]}…{len(value)}",
)
def test_statements_above_a_limit_are_refused(cluster: Cluster, unchanged: None, sql: str, limit: str) -> None:
    assert f'the limit "{limit}" is set by DSMS_LIMITS' in refusal(cluster, sql)["hint"]


def test_views_that_double_each_other_are_refused(cluster: Cluster) -> None:
    cluster.sql("CREATE VIEW w0 AS SELECT k, v FROM R(st)")
    try:
        with pytest.raises(Refused) as raised:
            for number in range(30):
                columns = f"SELECT a.k, a.v FROM R(w{number}) a JOIN R(w{number}) b ON a.k = b.k"
                cluster.sql(f"CREATE VIEW w{number + 1} AS {columns}")
        assert raised.value.status == 400 and '"query_operators"' in raised.value.error["hint"]
    finally:
        cluster.sql("DROP VIEW w0 CASCADE")


@pytest.mark.parametrize(
    "statement",
    [
        'REGISTER SOURCE bad (a INT) FROM "{}"',
        'REGISTER SOURCE bad (a INT) FROM "{}" PARTITIONS 1',
        "CREATE STREAM bad (a INT) SOURCE '{}'",
        "CREATE VIEW bad WITH (topic = '{}') AS SELECT k, v FROM R(st)",
        "CREATE QUERY bad WITH (topic = '{}') AS SELECT k, v FROM R(st)",
    ],
)
def test_topics_of_the_system_and_of_other_clusters_are_reserved(
    cluster: Cluster, unchanged: None, statement: str
) -> None:
    own = [f"_dsms.{cluster.name}.{purpose}" for purpose in ("catalog", "progress", "heartbeats", "shed")]
    others = ["_dsms.other.progress", "__transaction_state", "__consumer_offsets"]
    for topic in (*own, *others, "dsms.src.dead-letters", "dsms.hot", "dsms.tab"):
        said = refusal(cluster, statement.format(topic))
        assert "reserved" in said["message"] or "already belongs to" in said["message"]


@pytest.mark.parametrize(
    "sql",
    [
        f'CREATE VIEW "{"v" * 300}" AS SELECT k, v FROM R(st)',
        f'REGISTER SOURCE "{"s" * 300}" (a INT) FROM new_topic PARTITIONS 1',
        f'CREATE TABLE "{"t" * 300}" (k INT PRIMARY KEY)',
        f"CREATE VIEW bad WITH (topic = '{'t' * 300}') AS SELECT k, v FROM R(st)",
        "CREATE VIEW bad WITH (topic = 'a/b') AS SELECT k, v FROM R(st)",
        "CREATE VIEW bad WITH (topic = '..') AS SELECT k, v FROM R(st)",
        "CREATE VIEW räume AS SELECT k, v FROM R(st)",
        f'REGISTER SOURCE bad (a INT) FROM "{"t" * 300}" PARTITIONS 1',
        "REGISTER SOURCE räume (a INT) FROM new_topic PARTITIONS 1",
        "CREATE TABLE räume (k INT PRIMARY KEY)",
        "REGISTER SOURCE bad (a INT) FROM new_topic PARTITIONS " + "9" * 5_000,
        "REGISTER SOURCE bad (a INT) FROM new_topic PARTITIONS 1 SLACK " + "9" * 30,
    ],
    ids=lambda sql: f"{sql[:30]}…{len(sql)}",
)
def test_names_and_numbers_are_checked_before_anything_is_made(cluster: Cluster, unchanged: None, sql: str) -> None:
    refusal(cluster, sql)


@pytest.mark.parametrize("depth", [200, 5_000, 60_000])
def test_deeply_nested_schemas_are_refused(cluster: Cluster, depth: int) -> None:
    body = {"schema": nested_schema(depth)}
    for path in ("subjects/x-value/versions", "subjects/x-value", "compatibility/subjects/x-value/versions"):
        answer = httpx.post(f"{cluster.url}/{path}", json=body, timeout=60, trust_env=False)
        assert answer.status_code == 422, answer.text
        assert "schema_" in answer.json()["message"]


def test_subjects_of_system_topics_are_reserved(cluster: Cluster) -> None:
    for subject in (f"_dsms.{cluster.name}.progress-value", "dsms.hot-value", "dsms.tab-key", "__x-value"):
        url = f"{cluster.url}/subjects/{subject}/versions"
        answer = httpx.post(url, json={"schema": '"int"'}, timeout=60, trust_env=False)
        assert answer.status_code == 422 and "reserved" in answer.json()["message"]


@pytest.mark.parametrize(
    "statement",
    [
        where("(" * 3_000 + "v > 1" + ")" * 3_000),
        'REGISTER SOURCE bad (a INT) FROM "__transaction_state"',
        "CREATE QUERY bad WITH (topic = '_dsms.local.progress') AS SELECT k, v FROM R(st)",
        f'CREATE VIEW "{"v" * 300}" AS SELECT k, v FROM R(st)',
    ],
    ids=lambda sql: f"{sql[:30]}…{len(sql)}",
)
def test_an_imported_plan_is_refused_as_its_statements_are(cluster: Cluster, unchanged: None, statement: str) -> None:
    document = {"format": 1, "objects": [{"name": "bad", "kind": "query", "statement": statement}]}
    answer = httpx.post(f"{cluster.url}/v1/plan", json=document, timeout=60, trust_env=False)
    assert answer.status_code == 400, answer.text


@pytest.mark.parametrize(
    "body",
    [
        b'{"format": 1, "objects": ' + b"[" * 100_000,
        b'{"format": 1, "objects": [], "more": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}",
        b"<plan>" + b"<object>" * 100_000,
        b"<plan>" + b"<object>" * 100_000 + b"</object>" * 100_000 + b"</plan>",
    ],
    ids=["open json", "json", "open xml", "xml"],
)
def test_deeply_nested_documents_are_refused(cluster: Cluster, unchanged: None, body: bytes) -> None:
    for path in ("v1/plan", "v1/sources/src/records", "v1/statements", "subjects/x-value/versions"):
        headers = {"Content-Type": "application/json"}
        answer = httpx.post(f"{cluster.url}/{path}", content=body, headers=headers, timeout=60, trust_env=False)
        assert 400 <= answer.status_code < 500, (path, answer.status_code, answer.text)


def test_missing_database_file_is_not_created(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "missing.db"
    said = refusal(cluster, f"LOAD TABLE tab FROM DATABASE 'sqlite:///{file}' QUERY 'SELECT 1 AS k'")
    assert "there is no sqlite database" in said["message"]
    assert list(tmp_path.iterdir()) == []


def test_an_administrator_opens_a_reserved_topic(kafka: str, redis_url: str, tmp_path: Path) -> None:
    with running(kafka, redis_url, tmp_path, environment={"DSMS_OPEN_TOPICS": "_dsms.*.shed"}) as cluster:
        cluster.sql(f'REGISTER SOURCE shed (a INT) FROM "_dsms.{cluster.name}.shed"')
        refusal(cluster, f'REGISTER SOURCE progress (a INT) FROM "_dsms.{cluster.name}.progress"')


def test_limits_are_set_by_the_coordinators_option(kafka: str, redis_url: str, tmp_path: Path) -> None:
    token, known = new_token("w", "writer")
    tokens = tmp_path / "tokens.toml"
    tokens.write_text(f'[[token]]\nname = "w"\nrole = "writer"\nsha256 = "{known.sha256}"\n')
    settings = {"DSMS_LIMITS": "statement_nesting=60 queries=1", "DSMS_TOKENS": str(tokens)}
    with running(kafka, redis_url, tmp_path, environment=settings) as cluster:
        headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": "once"}

        def status(sql: str) -> int:
            body = json.dumps({"sql": sql})
            call = {"content": body, "headers": {**headers, "Content-Type": "application/json"}}
            return httpx.post(f"{cluster.url}/v1/statements", timeout=60, trust_env=False, **call).status_code  # type: ignore[arg-type]

        assert status("SELECT " + "(" * 55 + "1" + ")" * 55) == 200
        headers["Idempotency-Key"] = "twice"
        assert status("SELECT " + "(" * 65 + "1" + ")" * 65) == 400
