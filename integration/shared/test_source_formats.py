"""Records of other programs, read through Kafka: Debezium's change events, Protobuf messages and lines of CSV."""

import io
import json
import subprocess
import sys
from pathlib import Path

import fastavro
import httpx
import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import DESCRIPTOR as TIMESTAMP_FILE

from integration.cluster import Cluster
from integration.kafka_log import advance
from integration.kafka_topics import create_topic
from tests.support.protobuf_files import file, message

pytestmark = [pytest.mark.services, pytest.mark.timeout(600)]


def produce(kafka: str, topic: str, records: list[tuple[object, object]]) -> None:
    """Appends keys and values without this project's headers, as a connector does."""
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})
    for key, value in records:
        body = None if value is None else json.dumps(value)
        producer.produce(topic, body, json.dumps(key), partition=0)
    assert producer.flush(30) == 0


def envelope(op: str, before: dict | None, after: dict | None, at: int) -> dict:
    payload = {"before": before, "after": after, "op": op, "source": {"ts_ms": at}, "ts_ms": at + 3}
    return {"schema": {"type": "struct", "fields": []}, "payload": payload}


def test_the_changes_of_a_table_are_followed(shared: Cluster, unique: str):
    topic = create_topic(shared.kafka, f"{unique}shop.customers", partitions=1)
    shared.sql(f"""
        REGISTER SOURCE {unique}c (id INT NOT NULL, city VARCHAR) FROM "{topic}"
            FORMAT DEBEZIUM TIMESTAMP BY ts_ms SLACK 100 IDLE NEVER;
        CREATE STREAM {unique}s OVER {unique}c KEY id;
        CREATE STREAMED VIEW {unique}v AS SELECT city, COUNT(*) AS n FROM R({unique}s) GROUP BY city;
        CREATE STREAMED VIEW {unique}rows AS SELECT id, city FROM R({unique}s)
    """)
    row, key = (lambda id_, city: {"id": id_, "city": city}), (lambda id_: {"schema": {}, "payload": {"id": id_}})
    events = [
        (key(1), envelope("r", None, row(1, "Rome"), 1000)),
        (key(2), envelope("c", None, row(2, "Rome"), 1001)),
        (key(3), envelope("c", None, row(3, "Oslo"), 1002)),
        (key(2), envelope("u", row(2, "Rome"), row(2, "Oslo"), 1003)),
        (key(3), envelope("d", row(3, None), None, 1004)),
        (key(3), None),
        (key(1), envelope("r", None, row(1, "Rome"), 1005)),
        (key(1), envelope("t", None, None, 1006)),
        (key(4), row(4, "Bonn")),
    ]
    produce(shared.kafka, topic, events)
    advance(shared.kafka, topic, 2000)
    shared.await_frontier([f"dsms.{unique}v", f"dsms.{unique}rows"], 2000)
    rows = shared.sql(f"SELECT id, city FROM {unique}rows ORDER BY id")[-1]["rows"]
    assert rows == [[1, "Rome"], [2, "Oslo"]]
    assert sorted(shared.sql(f"SELECT city, n FROM {unique}v")[-1]["rows"]) == [["Oslo", 1], ["Rome", 1]]
    reasons = [letter["reason"] for letter in shared.get(f"sources/{unique}c/dead-letters")]
    assert reasons[0].startswith('the Debezium operation "t" does not change a row')
    assert reasons[1].startswith("not a change event of Debezium") and len(reasons) == 2


def framed(id_: int, schema: dict, datum: dict) -> bytes:
    """An Avro record in Confluent's wire format."""
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema), datum)
    return b"\0" + id_.to_bytes(4, "big") + body.getvalue()


def test_events_in_avro_and_json_name_schemas_of_the_registry(shared: Cluster, unique: str):
    one, other = ({"type": "record", "name": n, "fields": [{"name": n.lower(), "type": "string"}]} for n in "AB")
    row = {"type": "record", "name": "Value", "fields": [
        {"name": "id", "type": "int"}, {"name": "city", "type": ["null", "string"], "default": None},
        {"name": "made", "type": ["null", {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}]},
        {"name": "more", "type": ["null", one, other]},
    ]}  # fmt: skip
    source = {"type": "record", "name": "Source", "fields": [{"name": "ts_ms", "type": "long"}]}
    schema = {"type": "record", "name": "Envelope", "fields": [
        {"name": "before", "type": ["null", row]}, {"name": "after", "type": ["null", "Value"]},
        {"name": "source", "type": source}, {"name": "op", "type": "string"},
    ]}  # fmt: skip
    key = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "int"}]}
    avro, plain = (create_topic(shared.kafka, f"{unique}{name}", partitions=1) for name in ("avro", "json"))
    named = (("value", schema), ("key", key))
    subjects = [(f"{shared.url}/subjects/{avro}-{part}/versions", json.dumps(document)) for part, document in named]
    ids = [httpx.post(url, json={"schema": text}).json()["id"] for url, text in subjects]
    shared.sql(f"""
        REGISTER SOURCE {unique}c (id INT NOT NULL, city VARCHAR, made TIMESTAMP, more STRUCT<a VARCHAR, b VARCHAR>)
            FROM "{avro}" FORMAT DEBEZIUM_AVRO TIMESTAMP BY ts_ms SLACK 100 IDLE NEVER;
        CREATE STREAM {unique}s OVER {unique}c KEY id;
        CREATE STREAMED VIEW {unique}rows AS
            SELECT id, city, CAST(made AS VARCHAR) AS made, more.b AS b FROM R({unique}s);
        REGISTER SOURCE {unique}j (id INT NOT NULL, at BIGINT) FROM "{plain}" FORMAT JSON_SCHEMA TIMESTAMP BY at
            TAGGED NONE IDLE NEVER;
        CREATE STREAM {unique}js OVER {unique}j KEY NULL;
        CREATE STREAMED VIEW {unique}jv AS SELECT id FROM {unique}js
    """)
    rome, oslo = (
        {"id": 1, "city": city, "made": 1_795_869_015_123_456, "more": ("B", {"b": "x"})} for city in ("Rome", "Oslo")
    )
    changes = [("c", None, rome), ("c", None, {"id": 2, "city": "Bonn"}), ("u", rome, oslo), ("d", {"id": 2}, None)]
    producer = Producer({"bootstrap.servers": shared.kafka, "enable.idempotence": True})
    for at, (op, before, after) in enumerate(changes):
        datum = {"before": before, "after": after, "source": {"ts_ms": 1000 + at}, "op": op}
        of_row = framed(ids[1], key, {"id": (after or before)["id"]})
        producer.produce(avro, framed(ids[0], schema, datum), of_row, partition=0)
    producer.produce(avro, None, framed(ids[1], key, {"id": 2}), partition=0)
    producer.produce(plain, b'\0\0\0\0\5{"id": 7, "at": 3}', partition=0)
    producer.produce(plain, b'{"id": 8, "at": 4}', partition=0)
    assert producer.flush(30) == 0
    advance(shared.kafka, avro, 2000)
    advance(shared.kafka, plain, 10)
    shared.await_frontier(f"dsms.{unique}rows", 2000)
    shared.await_frontier(f"dsms.{unique}jv", 10)
    assert shared.sql(f"SELECT id, city, made, b FROM {unique}rows")[-1]["rows"] == [
        [1, "Oslo", "2026-11-28 12:30:15.123456", "x"]
    ]
    assert shared.sql(f"SELECT id FROM {unique}jv")[-1]["rows"] == [[7]]
    assert shared.get(f"sources/{unique}c/dead-letters") == []
    (letter,) = shared.get(f"sources/{unique}j/dead-letters")
    assert "wire format" in letter["reason"]


MONEY = file("money.proto", message("Money", {"cents": "int64"}))
ORDER = file(
    "order.proto", message("Order", {"id": "int64", "price": ".shop.Money", "at": ".google.protobuf.Timestamp"}),
    message("Key", {"id": "int64"}), dependency=["money.proto", TIMESTAMP_FILE.name],
)  # fmt: skip


def test_messages_of_protobuf_follow_a_table(shared: Cluster, unique: str):
    """The messages are written by Confluent's serializers, which register their schemas with the coordinator."""
    pool = DescriptorPool()
    for compiled in (TIMESTAMP_FILE.serialized_pb, MONEY.SerializeToString(), ORDER.SerializeToString()):
        pool.AddSerializedFile(compiled)
    order, key = (GetMessageClass(pool.FindMessageTypeByName(f"shop.{name}")) for name in ("Order", "Key"))
    topic = create_topic(shared.kafka, f"{unique}orders", partitions=1)
    shared.sql(f"""
        REGISTER SOURCE {unique}o (id BIGINT NOT NULL, price STRUCT<cents BIGINT>, at TIMESTAMP) FROM "{topic}"
            FORMAT PROTOBUF SLACK 100 IDLE NEVER;
        CREATE STREAM {unique}s OVER {unique}o KEY id;
        CREATE STREAMED VIEW {unique}v AS SELECT id, price.cents AS cents, at FROM R({unique}s)
    """)
    producer = Producer({"bootstrap.servers": shared.kafka})
    value, name = SerializationContext(topic, MessageField.VALUE), SerializationContext(topic, MessageField.KEY)
    with SchemaRegistryClient({"url": shared.url}) as registry:
        of_row, of_key = (ProtobufSerializer(kind, registry, {"use.deprecated.format": False}) for kind in (order, key))
        for at, (id_, cents) in enumerate([(1, 250), (2, 300), (1, 275), (2, None)], 1000):
            row = None if cents is None else order(id=id_, price={"cents": cents}, at={"seconds": 7})
            body = None if row is None else of_row(row, value)
            producer.produce(topic, body, of_key(key(id=id_), name), partition=0, timestamp=at)
        head = (of_row(order(), value) or b"")[:5]
    producer.produce(topic, head + b"\2\x50", of_key(key(id=3), name), partition=0, timestamp=1010)
    assert producer.flush(30) == 0
    advance(shared.kafka, topic, 2000)
    shared.await_frontier(f"dsms.{unique}v", 2000)
    assert shared.sql(f"SELECT id, cents, at FROM {unique}v")[-1]["rows"] == [[1, 275, "1970-01-01T00:00:07"]]
    (letter,) = shared.get(f"sources/{unique}o/dead-letters")
    assert "the schema has no message at [40]" in letter["reason"]


def dsms(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-c", "from dsms.cli.main import main; main()"]
    return subprocess.run([*program, *arguments], capture_output=True, text=True, timeout=60, check=True)


def test_inferred_source_reads_its_topic(shared: Cluster, unique: str):
    topic = create_topic(shared.kafka, f"{unique}orders", partitions=1)
    rows = [{"id": at % 3, "amount": at / 4, "placed": f"2026-11-27T07:00:0{at}Z"} for at in range(6)]
    produce(shared.kafka, topic, [({"id": row["id"]}, row) for row in rows])
    made = dsms("source", "infer", topic, "--name", f"{unique}o", "--coordinator", shared.url).stdout
    assert "TIMESTAMP BY placed" in made and "KEY id" in made
    shared.sql(f"{made} CREATE STREAMED VIEW {unique}v AS SELECT id, amount FROM R({unique}o)")
    more = [({"id": row["id"]}, row) for row in rows]  # a new source begins at the end of its topic
    produce(shared.kafka, topic, [*more, ({"id": 9}, {**rows[0], "id": 9, "placed": "2026-11-27T08:00:00Z"})])
    last = 1_795_766_399_999  # an instant before the last record's
    shared.await_frontier(f"dsms.{unique}v", last)
    assert sorted(shared.sql(f"SELECT id, amount FROM {unique}v")[-1]["rows"])[:3] == [[0, 0.75], [1, 1.0], [2, 1.25]]


def test_lines_of_a_file_are_rows(shared: Cluster, unique: str, tmp_path: Path):
    topic = create_topic(shared.kafka, f"{unique}trades", partitions=1)
    shared.sql(f"""
        REGISTER SOURCE {unique}t (at BIGINT, name VARCHAR, price DECIMAL(9, 2)) FROM "{topic}"
            FORMAT CSV TIMESTAMP BY at TAGGED NONE IDLE NEVER;
        CREATE STREAM {unique}s OVER {unique}t KEY NULL;
        CREATE STREAMED VIEW {unique}v AS SELECT name, SUM(price) AS total FROM {unique}s GROUP BY name
    """)
    lines = tmp_path / "trades.csv"
    lines.write_text('at,name,price\n1,"A, B",1.50\n2,"A, B",2.25\n3,C,\n4,C,7,8\n')
    sent = dsms("publish", topic, str(lines), "--coordinator", shared.url)
    assert "5 records sent" in sent.stderr
    advance(shared.kafka, topic, 10)
    shared.await_frontier(f"dsms.{unique}v", 10)
    rows = shared.sql(f"SELECT name, CAST(total AS VARCHAR) FROM {unique}v ORDER BY name")[-1]["rows"]
    assert rows == [["A, B", "3.75"], ["C", None]]
    reasons = [letter["reason"] for letter in shared.get(f"sources/{unique}t/dead-letters")]
    assert reasons == ['column "at": expected BIGINT, got "at"', "the line has 4 fields, but there are 3 columns"]
