"""The API with random requests, which may violate its OpenAPI document: no answer is a failure of the server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from integration.cluster import Cluster, running

pytestmark = [pytest.mark.services, pytest.mark.timeout(600)]
#: Objects that exist, so that not all calls fail with an unknown name.
SETTING = """
    REGISTER SOURCE src (k VARCHAR NOT NULL, v INT) FROM "fuzz-src" PARTITIONS 1; CREATE STREAM s OVER src KEY k;
    CREATE TABLE drawn (k VARCHAR PRIMARY KEY, v DECIMAL(9, 2));
    CREATE STREAMED VIEW warm AS SELECT k, v FROM s WHERE v > 1;
"""
NAMES = ["src", "s", "drawn", "warm", "nothing", "", "a/b", "ß", "%00", "*", "x" * 300]
TOKENS = [
    "o1:0/0",
    "o1:0/0-1",
    "o1:0/9223372036854775807",
    "o1:1/0",
    "o4:0",
    "o4:1",
    "o4:0,0",
    "o4:" + "9" * 30,
    "o9:0",
]
#: The elements of `TOKENS` that have the form of a position in a result.
POSITIONS = st.sampled_from([token for token in TOKENS if "/" not in token])
#: The media types of answers that need not end. Only the beginning of such an answer is checked.
JSON = "application/json"
ENDLESS = ("text/event-stream", "application/x-ndjson")
WORDS = [
    "SELECT", "STREAMED", "*", "FROM", "R(s)", "s", "warm", "drawn", "WHERE", "v", ">", "1", "AND", "k", "=", "'a'",
    "GROUP BY", "COUNT(*)", "CREATE", "QUERY", "q", "AS", "DROP", "VIEW", "INSERT INTO", "VALUES", "(1, 2)",
    "UPDATE", "SET", "DELETE", "SHOW", "QUERIES", "SOURCES", "DESCRIBE", "EXPLAIN", "REGISTER SOURCE", "src2", "(",
    "k INT", ")", ";", ",", ".", "'", "\"", "--", "/*", "[Rows 3]", "OVER", "PARTITION BY", "ORDER BY", "LIMIT",
    "9223372036854775808", "1e400", "NULL", "CASE", "WHEN", "JOIN", "ON", "TS", "Now", "Istream(", "EMIT FINAL",
    "\0", "é",
]  # fmt: skip
ROWS = [
    b"k,v\na,1.5\n", b"k\n\n", b'"', b'{"k": "a", "v": 2}\n{"k": "b", "ts": 7, "op": "-"}', b'[{"k": "a", "ts": 3}]',
    b'[{"k": "\\ud800"}]', b'{"v": ' + b"9" * 5000 + b"}", b'{"k": ' + b"[" * 100_000, b'{"ts": 1e3}', b"[1]", b"[",
]  # fmt: skip
SQL = st.one_of(st.text(max_size=60), st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join))
TEXT = st.one_of(st.sampled_from(NAMES), st.sampled_from(TOKENS), st.text(max_size=20), SQL)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXT)
ANYTHING = st.recursive(SCALARS, lambda below: st.lists(below, max_size=3) | st.dictionaries(TEXT, below, max_size=3))


@pytest.fixture(scope="module")
def cluster(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(kafka, redis_url, tmp_path_factory.mktemp("fuzz")) as cluster:
        cluster.sql(SETTING)
        yield cluster


@pytest.fixture(scope="module")
def document(cluster: Cluster) -> dict[str, Any]:
    return httpx.get(f"{cluster.url}/openapi.json", trust_env=False).json()


@pytest.fixture(scope="module")
def client(cluster: Cluster) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=cluster.url, timeout=60, trust_env=False) as client:
        yield client


def values(schema: dict[str, Any], document: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values of a JSON schema, and sometimes other values."""
    if "$ref" in schema:
        return values(document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]], document)
    if "anyOf" in schema:
        return st.one_of(*(values(choice, document) for choice in schema["anyOf"]))
    match schema.get("type"):
        case "object" if "properties" in schema:
            fields = {name: values(field_schema, document) for name, field_schema in schema["properties"].items()}
            needed = {name: fields[name] for name in schema.get("required", [])}
            proper = st.fixed_dictionaries(needed, optional={n: s for n, s in fields.items() if n not in needed})
            return st.one_of(proper, proper, proper, ANYTHING)
        case "array":
            return st.lists(values(schema.get("items", {}), document), max_size=3)
        case "integer":
            return st.one_of(st.integers(-3, 12_000), st.integers())
        case "boolean":
            return st.booleans()
        case "string":
            return TEXT
        case _:
            return ANYTHING


@st.composite
def requests(draw: st.DrawFn, document: dict[str, Any], ending: str = "") -> dict[str, Any]:
    """A request to a path of the document that has the ending: method, URL, parameters and body."""
    path = draw(st.sampled_from(sorted(path for path in document["paths"] if path.endswith(ending))))
    method = draw(st.sampled_from(sorted(document["paths"][path])))
    call = document["paths"][path][method]
    url, params, headers = path, {}, {}
    for parameter in call.get("parameters", []):
        value = draw(values(parameter.get("schema", {}), document))
        if parameter["name"] == "wait":
            value = draw(st.sampled_from([0, 1, 61, "x"]))
        if parameter["name"] in ("token", "after"):
            known = st.one_of(POSITIONS, st.sampled_from(TOKENS))
            value = draw(st.one_of(known, known, known, st.just(value)) if ending else st.one_of(known, st.just(value)))
        if parameter["in"] == "path":
            result = st.sampled_from(["warm", *NAMES[:4]])  # draws depend on the modules imported so far
            value = draw(st.one_of(result, result, result, st.just(value))) if ending else value
            url = url.replace(f"{{{parameter['name']}}}", quote(str(value), safe="" if draw(st.booleans()) else "/"))
        elif parameter["in"] == "query" and (parameter.get("required") or draw(st.booleans())):
            params[parameter["name"]] = str(value)
        elif parameter["in"] == "header" and draw(st.booleans()):
            headers[parameter["name"]] = draw(st.one_of(POSITIONS, st.sampled_from([*TOKENS, "k", "", "x" * 300])))
    body = draw(bodies(call, document))
    headers |= body.pop("headers", {})
    return {"method": method.upper(), "url": url, "params": params, "headers": headers, **body}


def bodies(call: dict[str, Any], document: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """The body of a request: JSON as the document describes it, bytes, or nothing."""
    content = call.get("requestBody", {}).get("content", {})
    raw = st.binary(max_size=60).map(_as_bytes)
    if not content:
        return st.just({})
    schema = content.get("application/json", {}).get("schema")
    if schema is None:
        return st.one_of(raw, st.sampled_from(ROWS).map(_as_bytes))
    return st.one_of(values(schema, document).map(_as_json), values(schema, document).map(_as_json), raw)


def _as_json(value: Any) -> dict[str, Any]:
    return _as_bytes(json.dumps(value).encode())


def _as_bytes(body: bytes) -> dict[str, Any]:
    return {"content": body, "headers": {"Content-Type": "application/json"}}


def answered(client: httpx.Client, drawn: st.SearchStrategy[dict[str, Any]], count: int) -> set[tuple[int, str]]:
    """The statuses and media types of the answers to requests; checks that no answer is a server failure."""
    answers: set[tuple[int, str]] = set()

    @settings(max_examples=count, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(drawn)
    def send(request: dict[str, Any]) -> None:
        with client.stream(**request) as answer:
            media = answer.headers.get("content-type", "").partition(";")[0]
            text = next(answer.iter_text(), "") if media in ENDLESS else answer.read().decode(errors="replace")
        answers.add((answer.status_code, media))
        assert answer.status_code < 500, f"{request}: {answer.status_code} {text}"

    send()
    assert client.get("/readyz").status_code == 200
    return answers


@pytest.mark.parametrize(
    ("ending", "statuses"),
    [
        ("/changes", {(200, "application/x-ndjson"), (400, JSON), (404, JSON), (410, JSON)}),
        ("/covers", {(202, JSON), (400, JSON), (404, JSON)}),
        ("/records", {(200, JSON), (400, JSON), (404, JSON)}),
    ],
)
def test_fuzzed_calls_reach_successful_results(
    client: httpx.Client, document: dict[str, Any], ending: str, statuses: set[tuple[int, str]]
) -> None:
    client.post("/v1/sources/src/records", json={"k": "a", "v": 2})
    assert statuses <= answered(client, requests(document, ending), 400)


def test_no_call_makes_the_server_fail(client: httpx.Client, document: dict[str, Any]) -> None:
    """This test is the last one in the file because its requests may drop objects."""
    answers = answered(client, requests(document), 700)
    assert {200, 400, 404, 422} <= {status for status, _ in answers}
