"""The secrets of a cluster appear nowhere: not in logs, command lines, topics, Redis or answers."""

import base64
import io
import json
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import fastavro
import pytest
import redis
import sqlalchemy as sa

from dsms.local.broker import Broker
from dsms.local.installed import local_broker, local_redis
from dsms.local.ports import free_port
from dsms.local.redis_server import RedisServer
from dsms.local.waiting import wait_until
from dsms.model.tokens import entry, new_token
from integration.cluster import Cluster, Refused, log_of, running
from integration.kafka_log import Input, advance, changes, write
from integration.kafka_topics import create_topic
from integration.marked_secrets import KEPT, found_in_command_lines, found_in_files, found_in_redis, found_in_topics
from integration.s3_server import BUCKET, s3_server

pytestmark = [pytest.mark.services, pytest.mark.timeout(400)]
SCHEMA = {"type": "record", "name": "r", "fields": [{"name": "k", "type": "string"}, {"name": "v", "type": "int"}]}
LISTENER = """\
listeners=CLIENT://{{host}}:{{port}},CONTROLLER://127.0.0.1:{{controller_port}},SASL://127.0.0.1:{port}
advertised.listeners=CLIENT://{{host}}:{{port}},SASL://127.0.0.1:{port}
listener.security.protocol.map=CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT
listener.name.sasl.sasl.enabled.mechanisms=PLAIN
listener.name.sasl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule \
required user_dsms="{password}";
"""


@dataclass(frozen=True)
class Secrets:
    """The secrets. Each is a unique text, its mark."""

    kafka: str
    redis: str
    registry: str
    database: str
    store: str
    refused: str
    root: str
    executor: str

    def marks(self) -> dict[str, bytes]:
        """The texts to search for, by name: each secret itself, and the registry's secret as HTTP Basic encodes it."""
        basic = base64.b64encode(f"me:{self.registry}".encode()).rstrip(b"=")[:-1]
        return {**{name: text.encode() for name, text in asdict(self).items()}, "registry as Basic": basic}


@dataclass(frozen=True)
class Given:
    """A cluster with secrets, and the services that know them."""

    cluster: Cluster
    secrets: Secrets
    environment: dict[str, str]
    broker: Broker
    redis: redis.Redis
    registry: str
    database: Path


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory, no_leftovers: None) -> Iterator[Given]:
    directory = tmp_path_factory.mktemp("secrets")
    kept = directory / KEPT
    kept.mkdir()
    (root, root_entry), (executor, executor_entry) = new_token("root", "administrator"), new_token("executor", "writer")
    marks = [f"mark{uuid.uuid4().hex}" for _ in range(6)]
    secrets = Secrets(*marks, root, executor)
    tokens = directory / "tokens.toml"
    tokens.write_text(f"{entry(root_entry)}\n{entry(executor_entry)}\n")
    with (
        sasl_broker(kept, secrets.kafka) as (broker, address),
        redis_with_password(kept, secrets.redis) as (client, place),
        registry(secrets.registry) as registry_place,
        s3_server(kept, secrets.store) as store,
    ):
        environment = {
            "DSMS_TOKENS": str(tokens),
            "DSMS_LOAD_DATABASES": "true",
            "DSMS_TOKEN_FILE": written(kept / "token", secrets.executor),
            "DSMS_KAFKA_CONFIG_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
            "DSMS_KAFKA_CONFIG_SASL_MECHANISM": "PLAIN",
            "DSMS_KAFKA_CONFIG_SASL_USERNAME": "dsms",
            "DSMS_KAFKA_CONFIG_SASL_PASSWORD_FILE": written(kept / "kafka", secrets.kafka),
            "DSMS_SECRETS_DIR": str(kept),
            "DSMS_SECRET_REGISTRY": secrets.registry,
            "DSMS_SECRET_DATABASE": f"sqlite:///{kept / secrets.database}",
            **store,
        }
        written(kept / "redis", secrets.redis)
        with running(address, f"redis://:${{secret:redis}}@{place}/0", directory, environment=environment) as cluster:
            with sa.create_engine(environment["DSMS_SECRET_DATABASE"]).begin() as connection:
                connection.execute(sa.text("CREATE TABLE x (a INT)"))
                connection.execute(sa.text("INSERT INTO x VALUES (1), (2)"))
            yield Given(cluster, secrets, environment, broker, client, registry_place, kept / secrets.database)


def test_planted_secrets_are_found(given: Given, unique: str, tmp_path: Path) -> None:
    """Shows that the search of the other test finds secrets."""
    marks = {"planted": f"planted{unique}".encode()}
    topic = create_topic(given.broker.address, f"{unique}.planted")
    write(given.broker.address, topic, [Input(marks["planted"], 1)])
    given.redis.hset(unique, "field", marks["planted"])
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "log").write_bytes(b"x " + marks["planted"])
    command = [sys.executable, "-c", "print(); input()", marks["planted"]]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()  # the kernel may show the command line only after Popen has returned
        lines = found_in_command_lines([os.getpid()], marks)
        process.communicate(b"\n")
    assert lines == [f"planted in the command line of {process.pid}"]
    assert found_in_topics(given.broker.address, marks) == [f"planted in topic {topic}"]
    assert found_in_redis(given.redis, marks) == [f"planted in {unique.encode()!r}"]
    assert found_in_files(tmp_path, marks) == [f"planted in {tmp_path / 'deep' / 'log'}"]
    given.redis.delete(unique)


def test_marked_secrets_are_found_nowhere(given: Given) -> None:
    cluster, secrets = given.cluster, given.secrets
    executor = cluster.start_executor(checkpoints=f"s3://{BUCKET}/copies", environment=given.environment)
    answers = [*successful_uses(given), *failing_uses(given), *output_of_commands(given)]
    given.redis.config_set("requirepass", "another")
    given.redis.client_kill_filter(_type="normal", skipme=True)
    assert wait_until(lambda: "redis" in log_of(executor).lower(), 120), log_of(executor)
    shut_out = cluster.answered("POST", "statements", secrets.root, json={"sql": "SHOW EXECUTORS"})
    assert shut_out.status_code == 503 and "redis failed" in shut_out.text
    answers.append(shut_out.text)
    marks = secrets.marks()
    pids = [process.pid for process in (cluster.coordinator, executor) if process.pid]
    said = "\n".join(answers).encode()
    assert len(said) > 20_000
    found = [f"{name} in an answer" for name, mark in marks.items() if mark in said]
    found += found_in_command_lines(pids, marks)
    found += found_in_topics(given.broker.address, marks)
    found += found_in_redis(given.redis, marks)
    found += found_in_files(cluster.directory, marks)
    assert found == []


def successful_uses(given: Given) -> list[str]:
    """Uses all secrets successfully: Avro records of a registry with a password become results, a table is loaded, a
    checkpoint is written. Returns the answers."""
    cluster, root = given.cluster, given.secrets.root
    topic = create_topic(given.broker.address, "marked")
    write(given.broker.address, topic, [Input(avro(f"k{at}", at), at) for at in range(5)])
    advance(given.broker.address, topic, 100)
    url = f"http://me:${{secret:registry}}@{given.registry}"
    answers = [
        text_of(cluster, "POST", "statements", root=root, sql=text)
        for text in (
            f"REGISTER SOURCE s (k VARCHAR, v INT) FROM {topic} FORMAT AVRO REGISTRY '{url}'",
            "CREATE STREAM t OVER s KEY k; CREATE STREAMED VIEW sums AS SELECT k, SUM(v) AS n FROM R(t) GROUP BY k",
            "CREATE TABLE loaded (a INT PRIMARY KEY)",
            "LOAD TABLE loaded FROM DATABASE '${secret:database}' QUERY 'SELECT a FROM x'",
        )
    ]
    name = json.loads(text_of(cluster, "GET", "queries/sums", root=root))["topic"]
    assert wait_until(lambda: len(changes(given.broker.address, name)) == 5, 120), cluster.logs()
    assert "[1],[2]" in text_of(cluster, "POST", "statements", root=root, sql="SELECT a FROM loaded ORDER BY a")
    assert wait_until(lambda: '"id":"' in text_of(cluster, "GET", "status", root=root), 120), cluster.logs()
    return answers + shown_answers(cluster, root)


def shown_answers(cluster: Cluster, root: str) -> list[str]:
    """The answers to all statements and calls that show something."""
    kinds = ("SOURCES", "STREAMS", "QUERIES", "VIEWS", "TABLES", "EXECUTORS", "OPERATORS", "QUEUES", "ALARMS", "AUDIT")
    texts = [f"SHOW {kind}" for kind in kinds]
    texts += ["SHOW CREATE s", "DESCRIBE s", "DESCRIBE sums", "EXPLAIN sums", "EXPLAIN ANALYZE sums", "SHOW CREATE t"]
    paths = ("status", "sources", "sources/s", "streams", "queries", "plan", "plan?format=xml", "version")
    shown = [text_of(cluster, "POST", "statements", root=root, sql=text) for text in texts]
    return shown + [text_of(cluster, "GET", path, root=root) for path in paths]


def failing_uses(given: Given) -> list[str]:
    """Calls that involve a secret and are refused or fail. Returns the answers."""
    cluster, secrets = given.cluster, given.secrets
    gone, other = f"127.0.0.1:{free_port()}", secrets.refused
    topic = create_topic(given.broker.address, "waiting")
    write(given.broker.address, topic, [Input(avro("a", 1), 1)])
    answers = []
    for text in (
        f"REGISTER SOURCE w1 (k VARCHAR, v INT) FROM {topic} FORMAT AVRO REGISTRY 'http://me:${{secret:registry}}@{gone}'",
        f"REGISTER SOURCE w2 (k VARCHAR, v INT) FROM {topic} FORMAT AVRO REGISTRY 'http://me:${{secret:redis}}@{given.registry}'",
        f"REGISTER SOURCE w3 (k VARCHAR, v INT) FROM {topic} FORMAT AVRO REGISTRY 'http://me:${{secret:none}}@{given.registry}'",
        *(f"CREATE STREAM x{n} OVER w{n} KEY k; CREATE STREAMED VIEW y{n} AS SELECT k FROM R(x{n})" for n in (1, 2, 3)),
    ):
        cluster.sql(text, secrets.root)
    refused = (
        f"REGISTER SOURCE v (k VARCHAR) FROM {topic} FORMAT AVRO REGISTRY 'http://me:{other}@{gone}'",
        f"LOAD TABLE loaded FROM DATABASE 'postgresql://me:{other}@{gone}/x' QUERY 'SELECT 1'",
        f"LOAD TABLE loaded FROM DATABASE 'postgresql://me@{gone}/x?password={other}' QUERY 'SELECT 1'",
        "LOAD TABLE loaded FROM DATABASE '${secret:database}' QUERY 'SELECT nothing FROM nowhere'",
        "LOAD TABLE loaded FROM DATABASE 'postgresql://me:${secret:registry}@h/x' QUERY 'SELECT 1'",
    )
    for text in refused:
        with pytest.raises(Refused) as error:
            cluster.sql(text, secrets.root)
        answers.append(str(error.value))
    wrong = cluster.answered("GET", "status", secrets.root + "x")
    assert wrong.status_code == 401
    shown = wait_for_all_waiting(cluster, secrets.root)
    return [*answers, wrong.text, shown, *shown_answers(cluster, secrets.root)]


def wait_for_all_waiting(cluster: Cluster, root: str) -> str:
    """Waits until each of the three sources waits for its registry; returns the output of SHOW SOURCES."""
    reasons = ("cannot reach the schema registry", "HTTP status 401", 'secret "none" not found')
    shown = ""

    def waiting() -> bool:
        nonlocal shown
        shown = text_of(cluster, "POST", "statements", root=root, sql="SHOW SOURCES").replace('\\"', '"')
        return all(reason in shown for reason in reasons)

    assert wait_until(waiting, 90), f"{shown} {cluster.logs()}"
    return shown


def output_of_commands(given: Given) -> list[str]:
    """The output of commands: about the cluster, and when they refuse a password in their command line."""
    cluster, secrets = given.cluster, given.secrets
    environment = {**os.environ, **given.environment}
    place = ["--kafka", cluster.kafka, "--redis", cluster.redis_url, "--cluster", cluster.name]
    executor = [sys.executable, "-m", "dsms.executor", "--kafka", "k:1", "--coordinator", cluster.url, "--data-dir"]
    asked = [
        [dsms(), "doctor", *place, "--data-dir", str(cluster.directory / "nowhere"), "--format", "json"],
        [dsms(), "status", "--coordinator", cluster.url, "--format", "json"],
        [*executor, str(cluster.directory / "none"), "--redis", f"redis://:{secrets.refused}@h"],
    ]
    done = [subprocess.run(one, env=environment, capture_output=True, text=True, check=False) for one in asked]
    assert [one.returncode for one in done][1:] == [0, 1], done
    assert "the command line contains a password" in done[2].stderr, done[2]
    return [one.stdout + one.stderr for one in done]


def dsms() -> str:
    """The command line's program."""
    return str(Path(sys.executable).parent / "dsms")


def text_of(cluster: Cluster, method: str, path: str, *, root: str, sql: str = "") -> str:
    """The text of a successful answer."""
    body = {"json": {"sql": sql}} if sql else {}
    answer = cluster.answered(method, path, root, **body)
    assert answer.is_success, answer.text
    return answer.text


def avro(key: str, value: int) -> bytes:
    """An Avro record in Confluent's wire format, with schema 1."""
    out = io.BytesIO(b"\0\0\0\0\1")
    out.seek(5)
    fastavro.schemaless_writer(out, SCHEMA, {"k": key, "v": value})
    return out.getvalue()


def written(file: Path, secret: str) -> str:
    """Writes a secret into a new file; returns its path."""
    file.write_text(secret + "\n")
    return str(file)


@contextmanager
def sasl_broker(directory: Path, password: str) -> Iterator[tuple[Broker, str]]:
    """A broker with a second listener that requires a password, and the address of that listener."""
    port = free_port()
    broker = local_broker(directory / "broker", os.environ)
    broker = Broker(replace(broker.config, properties=LISTENER.format(port=port, password=password), port=broker.port))
    broker.start()
    try:
        yield broker, f"127.0.0.1:{port}"
    finally:
        broker.kill()


@contextmanager
def redis_with_password(directory: Path, password: str) -> Iterator[tuple[redis.Redis, str]]:
    """A Redis that requires a password: an authenticated client and the address."""
    server: RedisServer = local_redis(directory / "redis-data", os.environ)
    server.start()
    client = redis.Redis.from_url(server.url)
    try:
        client.config_set("requirepass", password)
        yield client, f"127.0.0.1:{server.port}"
    finally:
        client.close()
        server.kill()


@contextmanager
def registry(password: str) -> Iterator[str]:
    """A schema registry with one schema, which it sends only to clients with the password."""
    expected = "Basic " + base64.b64encode(f"me:{password}".encode()).decode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.headers["Authorization"] == expected
            body = json.dumps({"schema": json.dumps(SCHEMA)} if known else {"message": "not allowed"}).encode()
            self.send_response(200 if known else 401)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            """Logs nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
