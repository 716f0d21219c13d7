"""Result topics read with standard clients: Confluent's Avro deserializer, and kcat."""

import json
import shutil
import subprocess

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from integration.cluster import Cluster
from integration.kafka_log import Input, advance, read_committed, write

pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]
ROWS = [("a", 78, 1), ("a", 105, 2), ("b", 70, 3), ("c", 95, 4), ("a", 76, 5), ("c", 103, 6)]


@pytest.fixture(scope="module")
def cluster(shared: Cluster) -> Cluster:
    """A cluster with the complete results of a view of hot rooms in Avro and in JSON. Their names begin with the
    cluster's."""
    name = shared.name
    shared.sql(f"""
        REGISTER SOURCE {name}T (room VARCHAR NOT NULL, heat INT) FROM "{name}.t" PARTITIONS 1 IDLE NEVER;
        CREATE STREAM {name}S OVER {name}T KEY room;
        CREATE STREAMED VIEW {name}Avro WITH (format = avro) AS SELECT room, heat FROM R({name}S) WHERE heat > 80;
        CREATE STREAMED VIEW {name}Json AS SELECT room, heat FROM R({name}S) WHERE heat > 80
    """)
    rows = [Input(json.dumps({"room": room, "heat": heat}).encode(), ts) for room, heat, ts in ROWS]
    write(shared.kafka, f"{name}.t", rows)
    advance(shared.kafka, f"{name}.t", 9)
    shared.await_frontier([f"dsms.{name}{view}" for view in ("Avro", "Json")], 9)
    return shared


def test_the_avro_deserializer_with_our_registry(cluster: Cluster):
    topic = f"dsms.{cluster.name}Avro"
    with SchemaRegistryClient({"url": cluster.url}) as registry:
        decode = AvroDeserializer(registry)
        keys, values = (SerializationContext(topic, field) for field in (MessageField.KEY, MessageField.VALUE))
        records = [
            (decode(message.key(), keys), decode(message.value(), values))
            for message in read_committed(cluster.kafka, topic)
        ]
        subjects = registry.get_subjects()
    assert records == [
        ({"room": "a"}, {"room": "a", "heat": 105}),
        ({"room": "c"}, {"room": "c", "heat": 95}),
        ({"room": "a"}, None),
        ({"room": "c"}, {"room": "c", "heat": 103}),
    ]
    assert {f"{topic}-key", f"{topic}-value"} <= set(subjects)


@pytest.mark.skipif(shutil.which("kcat") is None, reason='kcat is not installed; try "apt-get install kcat"')
def test_kcat_reads_json(cluster: Cluster):
    command = [
        *("kcat", "-b", cluster.kafka, "-C", "-t", f"dsms.{cluster.name}Json", "-e", "-q", "-o", "beginning"),
        *("-X", "isolation.level=read_committed", "-f", "%k|%S|%s|%h\n"),
    ]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert printed.splitlines() == [
        '{"room":"a"}|23|{"room":"a","heat":105}|dsms-ts=2',
        '{"room":"c"}|22|{"room":"c","heat":95}|dsms-ts=4',
        '{"room":"a"}|-1||dsms-op=-,dsms-ts=5',
        '{"room":"c"}|23|{"room":"c","heat":103}|dsms-op=u,dsms-ts=6',
    ]
