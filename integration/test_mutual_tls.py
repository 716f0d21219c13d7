"""Mutual TLS between all: coordinator, executor, command line, client library, Kafka and Redis. Clients without a
certificate of the right authority are refused everywhere."""

import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from connectors.state.cluster import ClusterState
from dsms.client import Client
from dsms.client.errors import Unavailable
from dsms.local.broker import Broker
from dsms.local.installed import local_broker
from dsms.local.ports import free_port
from dsms.state.stores import StateAddress
from integration.cluster import Cluster, running
from integration.kafka_topics import create_topic
from integration.self_signed import Certificate, certificate, signed
from integration.tls_proxy import tls_proxy
from operators.core.errors import ExternalError

pytestmark = [pytest.mark.services, pytest.mark.timeout(400)]
LISTENER = """\
listeners=CLIENT://{{host}}:{{port}},CONTROLLER://127.0.0.1:{{controller_port}},SECURE://127.0.0.1:{port}
advertised.listeners=CLIENT://{{host}}:{{port}},SECURE://127.0.0.1:{port}
listener.security.protocol.map=CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SSL
listener.name.secure.ssl.keystore.type=PEM
listener.name.secure.ssl.keystore.location={keystore}
listener.name.secure.ssl.truststore.type=PEM
listener.name.secure.ssl.truststore.location={authority}
listener.name.secure.ssl.client.auth=required
"""


@dataclass(frozen=True)
class Secured:
    """A cluster in which all connections use mutual TLS, and the environment variables of its clients."""

    cluster: Cluster
    broker: Broker
    authority: Certificate
    client: Certificate
    stranger: Certificate
    environment: dict[str, str]


def kafka_environment(authority: Certificate, client: Certificate) -> dict[str, str]:
    """The environment variables of Kafka clients."""
    settings = {
        "SECURITY_PROTOCOL": "ssl",
        "SSL_CA_LOCATION": authority.certificate,
        "SSL_CERTIFICATE_LOCATION": client.certificate,
        "SSL_KEY_LOCATION": client.key,
    }
    return {f"DSMS_KAFKA_CONFIG_{name}": str(value) for name, value in settings.items()}


def redis_place(port: int, authority: Certificate, client: Certificate | None) -> str:
    """The URL of the Redis behind the proxy."""
    shown = f"&ssl_certfile={client.certificate}&ssl_keyfile={client.key}" if client else ""
    return f"rediss://127.0.0.1:{port}/0?ssl_ca_certs={authority.certificate}{shown}"


@pytest.fixture(scope="module")
def secured(redis_url: str, tmp_path_factory: pytest.TempPathFactory, no_leftovers: None) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("mutual")
    authority = certificate(directory)
    (directory / "strange").mkdir()
    stranger = signed(certificate(directory / "strange"), directory, "stranger")
    server, client = signed(authority, directory, "server"), signed(authority, directory, "client")
    keystore, port = directory / "keystore.pem", free_port()
    keystore.write_text(server.key.read_text() + server.certificate.read_text())
    lines = LISTENER.format(port=port, keystore=keystore, authority=authority.certificate)
    made = local_broker(directory / "kafka", os.environ)
    broker = Broker(replace(made.config, properties=lines, port=made.port))
    broker.start()
    theirs = {
        "DSMS_TLS_CA": str(authority.certificate),
        "DSMS_TLS_CLIENT_CERT": str(client.certificate),
        "DSMS_TLS_CLIENT_KEY": str(client.key),
        **kafka_environment(authority, client),
    }
    coordinators = {
        "DSMS_TLS_CERT": str(server.certificate),
        "DSMS_TLS_KEY": str(server.key),
        "DSMS_TLS_CLIENT_CA": str(authority.certificate),
        "DSMS_PROBE_PORT": str(free_port()),
    }
    try:
        with tls_proxy(int(redis_url.rsplit(":", 1)[-1].split("/")[0]), server, authority) as redis_port:
            place = redis_place(redis_port, authority, client)
            with running(f"127.0.0.1:{port}", place, directory, environment={**theirs, **coordinators}) as cluster:
                yield Secured(cluster, broker, authority, client, stranger, {**theirs, **coordinators})
    finally:
        broker.kill()


def dsms(secured: Secured, *arguments: str, text: str = "", **changed: str) -> subprocess.CompletedProcess[str]:
    """Runs a command of the command line. `changed` changes its environment; "" removes a variable."""
    environment = {**os.environ, **secured.environment, **changed}
    program = [str(Path(sys.executable).parent / "dsms"), *arguments, "--coordinator", secured.cluster.url]
    left = {name: value for name, value in environment.items() if value}
    return subprocess.run(program, input=text, env=left, capture_output=True, text=True, timeout=120, check=False)


def test_all_work_together_with_certificates(secured: Secured) -> None:
    """Among others, executors read the schemas of Avro records from the coordinator, over HTTPS."""
    cluster = secured.cluster
    topic = create_topic(secured.broker.address, "mutual")
    cluster.sql(f"REGISTER SOURCE s (k VARCHAR, v INT) FROM {topic} FORMAT AVRO; CREATE STREAM t OVER s KEY k")
    cluster.sql("CREATE STREAMED VIEW sums AS SELECT k, SUM(v) AS n FROM R(t) GROUP BY k")
    cluster.start_executor(environment=secured.environment)
    records = b'{"k": "a", "v": 4, "ts": 1}\n{"k": "b", "v": 5, "ts": 2}\n'
    lines = {"Content-Type": "application/x-ndjson"}
    assert cluster.answered("POST", "sources/s/records", content=records, headers=lines).status_code == 200
    told = dsms(secured, "publish", "mutual", text='{"k": "c", "v": 6, "ts": 3}\n')
    assert told.returncode == 0, told
    assert dsms(secured, "publish", "mutual", "--advance", "9").returncode == 0
    seen = dsms(secured, "consume", "sums", "--until", "9")
    assert seen.returncode == 0 and sorted(seen.stdout.split()) == ["+<a,4>1", "+<b,5>2", "+<c,6>3"], seen


def test_the_library_presents_its_certificate(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Unavailable), Client(secured.cluster.url, attempts=1) as client:
        client.sources()
    for name in ("DSMS_TLS_CA", "DSMS_TLS_CLIENT_CERT", "DSMS_TLS_CLIENT_KEY"):
        monkeypatch.setenv(name, secured.environment[name])
    with Client(secured.cluster.url, attempts=1) as client:
        assert client.status()["cluster"] == secured.cluster.name


def test_calls_without_the_right_certificate_are_refused(secured: Secured) -> None:
    for shown in (None, secured.stranger):
        context = ssl.create_default_context(cafile=str(secured.authority.certificate))
        if shown:
            context.load_cert_chain(shown.certificate, shown.key)
        with httpx.Client(verify=context, trust_env=False) as client:
            for path in ("/v1/status", "/healthz", "/subjects"):
                with pytest.raises(httpx.TransportError):
                    client.get(f"{secured.cluster.url}{path}")
    with pytest.raises(httpx.TransportError):
        httpx.get(f"{secured.cluster.url.replace('https', 'http')}/v1/status", trust_env=False)


def test_the_command_line_says_what_is_wrong(secured: Secured) -> None:
    refused = dsms(secured, "status", DSMS_TLS_CLIENT_CERT="", DSMS_TLS_CLIENT_KEY="")
    assert refused.returncode == 3 and secured.cluster.url in refused.stderr, refused
    half = dsms(secured, "status", DSMS_TLS_CLIENT_KEY="")
    assert half.returncode == 1, half
    assert "only one of DSMS_TLS_CLIENT_CERT and DSMS_TLS_CLIENT_KEY is set" in half.stderr, half
    gone = dsms(secured, "status", DSMS_TLS_CLIENT_CERT="/nowhere")
    assert gone.returncode == 1 and '"/nowhere"' in gone.stderr, gone


def test_probe_port_needs_no_certificate_and_serves_only_probes(secured: Secured) -> None:
    place = f"http://127.0.0.1:{secured.environment['DSMS_PROBE_PORT']}"
    asked = {path: httpx.get(f"{place}{path}", trust_env=False) for path in ("/healthz", "/readyz", "/v1/status", "/")}
    assert [asked[path].status_code for path in ("/healthz", "/readyz", "/v1/status", "/")] == [200, 200, 404, 404]
    assert httpx.post(f"{place}/v1/statements", json={"sql": "SHOW VIEWS"}, trust_env=False).status_code == 404


def test_kafka_and_redis_refuse_clients_without_the_right_certificate(secured: Secured) -> None:
    base = {
        "bootstrap.servers": secured.cluster.kafka,
        "security.protocol": "ssl",
        "ssl.ca.location": str(secured.authority.certificate),
        "log_level": 0,
    }
    for shown in (None, secured.stranger):
        own = {"ssl.certificate.location": str(shown.certificate), "ssl.key.location": str(shown.key)} if shown else {}
        with pytest.raises(KafkaException):
            AdminClient({**base, **own}).list_topics(timeout=3)
        port = int(secured.cluster.redis_url.split("127.0.0.1:")[1].split("/")[0])
        with pytest.raises(ExternalError):
            state_at(redis_place(port, secured.authority, shown), secured).ping()
    state_at(secured.cluster.redis_url, secured).ping()


def state_at(url: str, secured: Secured) -> ClusterState:
    """The documents of the cluster, over a connection with the identity in the URL."""
    return StateAddress(url, secured.cluster.name).open().cluster()
