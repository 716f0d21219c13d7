"""A broker with TLS that requires a user name and a password: with them results are right, without them nothing can be
read."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from dsms.local.broker import Broker
from dsms.local.installed import local_broker
from dsms.local.ports import free_port
from integration.cluster import running
from integration.kafka_log import Input, advance, changes, write
from integration.kafka_topics import create_topic
from integration.self_signed import certificate

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]
LISTENER = """\
listeners=CLIENT://{{host}}:{{port}},CONTROLLER://127.0.0.1:{{controller_port}},SECURE://127.0.0.1:{port}
advertised.listeners=CLIENT://{{host}}:{{port}},SECURE://127.0.0.1:{port}
listener.security.protocol.map=CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL
listener.name.secure.ssl.keystore.type=PEM
listener.name.secure.ssl.keystore.location={keystore}
listener.name.secure.sasl.enabled.mechanisms=PLAIN
listener.name.secure.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule \
required user_dsms="secret";
"""


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory, no_leftovers: None) -> Iterator[tuple[Broker, str, Path]]:
    """A broker with a second, secure listener, the address of that listener, and the certificate authority to trust."""
    directory = tmp_path_factory.mktemp("secure")
    made, port, keystore = certificate(directory), free_port(), directory / "keystore.pem"
    keystore.write_text(made.key.read_text() + made.certificate.read_text())
    broker = local_broker(directory / "kafka", os.environ)
    lines = LISTENER.format(port=port, keystore=keystore)
    broker = Broker(replace(broker.config, properties=lines, port=broker.port))
    broker.start()
    yield broker, f"127.0.0.1:{port}", made.certificate
    broker.kill()


def test_tls_and_sasl(
    secure: tuple[Broker, str, Path], redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, address, authority = secure
    client = {
        "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "dsms", "sasl.password": "secret",
        "ssl.ca.location": str(authority),
    }  # fmt: skip
    for name, value in client.items():
        monkeypatch.setenv(f"DSMS_KAFKA_CONFIG_{name.replace('.', '_').upper()}", value)
    topic = create_topic(broker.address, "secured")
    write(broker.address, topic, [Input(b'{"k": "a", "v": %d}' % at, at) for at in range(5)])
    advance(broker.address, topic, 100)
    with running(address, redis_url, tmp_path) as cluster:
        cluster.sql(f"REGISTER SOURCE t (k VARCHAR, v INT) FROM {topic}; CREATE STREAM s OVER t KEY k")
        cluster.sql("CREATE STREAMED VIEW sums AS SELECT k, SUM(v) AS total FROM R(s) GROUP BY k")
        cluster.start_executor()
        cluster.kafka = broker.address
        cluster.await_frontier(cluster.topic("sums"), 100)
        last = changes(broker.address, cluster.topic("sums"))[-1]
    assert last.value is not None and b'"total":4' in last.value.replace(b" ", b"")


def test_broker_answers_nothing_without_the_password(secure: tuple[Broker, str, Path]) -> None:
    _, address, authority = secure
    settings = {
        "bootstrap.servers": address,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "log_level": 0,
    }
    wrong = AdminClient({**settings, "sasl.username": "dsms", "sasl.password": "x", "ssl.ca.location": str(authority)})
    with pytest.raises(Exception, match=r"timed out|_TRANSPORT|authentication"):
        wrong.list_topics(timeout=3)
