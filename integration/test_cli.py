"""The commands publish and consume over a real broker."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import httpx
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from dsms.cli.main import run
from dsms.coordinator.http.api import create_app
from dsms.coordinator.registry.subjects import SchemaRegistry
from tests.support.fake_service import READINGS, FakeService
from tests.support.http_server_thread import serving

pytestmark = pytest.mark.services

AVRO = {
    "type": "record",
    "name": "reading",
    "fields": [{"name": "room", "type": "string"}, {"name": "t", "type": ["null", "long"]}],
}
AVRO_KEY = {"type": "record", "name": "key", "fields": [{"name": "room", "type": "string"}]}


@pytest.fixture
def service(kafka) -> FakeService:
    return FakeService(kafka)


@pytest.fixture
def url(service) -> Iterator[str]:
    with serving(create_app(service, SchemaRegistry())) as address:
        yield address


@pytest.fixture
def dsms(url, capsys, monkeypatch):
    """Runs a command; returns its exit code, output and errors."""
    monkeypatch.setenv("DSMS_COORDINATOR", url)

    def call(*arguments):
        code = run([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


def stored(kafka, topic, partitions=1):
    """Every record of a topic: (partition, key, value, headers)."""
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "stored", "enable.auto.commit": False})
    records = []
    for partition in range(partitions):
        place = TopicPartition(topic, partition, 0)
        end = consumer.get_watermark_offsets(place, 10)[1]
        consumer.assign([place])
        deadline = time.monotonic() + 20
        read = 0
        while read < end:
            assert time.monotonic() < deadline
            for message in consumer.consume(end - read, 1):
                assert message.error() is None
                records.append((partition, message.key(), message.value(), dict(message.headers() or [])))
                read += 1
    consumer.close()
    return records


def written(tmp_path, *lines):
    file = tmp_path / "lines.json"
    file.write_text("\n".join(lines) + "\n")
    return file


def test_publish_lines(dsms, kafka, unique, tmp_path):
    file = written(
        tmp_path, '{"room":"a","t":1,"ts":4}', "", '{"room":"a","t":2,"ts":6,"op":"u"}', '{"room":"a","op":"-"}'
    )
    code, out, err = dsms("publish", unique, file, "--key", "room", "--create", "--partitions", 1)
    assert (code, out) == (0, "")
    assert err.splitlines() == [f'3 records sent to "{unique}"']
    assert stored(kafka, unique) == [
        (0, b'{"room":"a"}', b'{"room":"a","t":1}', {"dsms-ts": b"4"}),
        (0, b'{"room":"a"}', b'{"room":"a","t":2}', {"dsms-ts": b"6", "dsms-op": b"u"}),
        (0, b'{"room":"a"}', None, {"dsms-op": b"-"}),
    ]


def test_advance_reaches_every_partition(dsms, kafka, topic):
    name = topic(partitions=3)
    code, _, err = dsms("publish", name, "--advance", 9)
    assert (code, err.strip()) == (0, f'advanced 3 partitions of "{name}" to 9')
    assert stored(kafka, name, 3) == [(p, None, None, {"dsms-heartbeat": b"9"}) for p in range(3)]


def test_a_wrong_line_ends_the_sending(dsms, kafka, topic, tmp_path):
    name = topic()
    file = written(tmp_path, '{"a":1}', '{"a":2}', "{oops", '{"a":3}')
    code, _, err = dsms("publish", name, file)
    assert code == 1
    assert f'stopped; 2 records sent to "{name}"' in err and "error: line 3: not JSON" in err
    assert [value for _, _, value, _ in stored(kafka, name)] == [b'{"a":1}', b'{"a":2}']


def test_unknown_topic_and_topic_that_exists(dsms, topic, unique, tmp_path):
    name, file = topic(), written(tmp_path, '{"a":1}')
    code, _, err = dsms("publish", f"{unique}.nowhere", file)
    assert code == 1 and "not found" in err and name in err
    code, _, err = dsms("publish", name, file, "--create")
    assert (code, err.strip()) == (0, f'1 record sent to "{name}"')


def test_system_topics_accept_records_only_with_force(dsms, kafka, unique, tmp_path):
    """In a cluster without tokens, every user is an administrator."""
    name, file = f"_dsms.{unique}.progress", written(tmp_path, '{"a":1}')
    code, _, err = dsms("publish", name, file, "--create")
    assert code == 1 and f'topic "{name}" is reserved: it is an internal topic, and only the system writes it' in err
    code, _, err = dsms("publish", name, file, "--create", "--force")
    assert (code, err.strip()) == (0, f'1 record sent to "{name}"')


def test_a_record_that_is_too_large(dsms, kafka, topic, tmp_path):
    """The broker refuses the batch with the large record. The command reports how many records arrived."""
    name = topic(config={"max.message.bytes": "1000000"})
    incompressible = random.Random(0).randbytes(1_000_000).hex()
    code, _, err = dsms("publish", name, written(tmp_path, '{"a":1}', json.dumps({"a": incompressible})))
    assert code == 1 and "too large" in err
    arrived = len(stored(kafka, name))
    assert f'stopped; {arrived} record{"" if arrived == 1 else "s"} sent to "{name}"' in err


def test_the_key_and_the_avro_format_come_from_the_source(dsms, service, url, topic, tmp_path):
    name = topic()
    service.objects = {"readings": {**READINGS, "topic": name, "format": "avro"}}
    code, _, err = dsms("publish", name, written(tmp_path, '{"room":"a","t":1}'))
    assert code == 1 and f'subject "{name}-key" has no schema in the registry' in err
    for kind, schema in (("key", AVRO_KEY), ("value", AVRO)):
        httpx.post(f"{url}/subjects/{name}-{kind}/versions", json={"schema": json.dumps(schema)}).raise_for_status()
    assert dsms("publish", name, written(tmp_path, '{"room":"a","t":1}', '{"room":"b","t":null,"ts":3}'))[0] == 0
    code, _, err = dsms("publish", name, written(tmp_path, '{"room":"c","t":"x"}'))
    assert code == 1 and "line 1: row does not fit the Avro schema" in err
    code, out, _ = dsms("consume", "readings", "--max-records", 2)
    assert (code, out.splitlines()) == (0, ["+<a,1>", "+<b,NULL>3"])


RESULTS = [
    (b'{"room":"a"}', b'{"room":"a","t":105}', [("dsms-ts", b"2")]),
    (b'{"room":"c"}', b'{"room":"c","t":101}', [("dsms-ts", b"3")]),
    (b'{"room":"c"}', b'{"room":"c","t":103}', [("dsms-op", b"u"), ("dsms-ts", b"6")]),
    (b'{"room":"a"}', None, [("dsms-op", b"-"), ("dsms-ts", b"5")]),
]


@pytest.fixture
def result(kafka, service, topic):
    """A result topic after one committed and one aborted transaction."""
    name = topic()
    service.objects = {"hot": {**READINGS, "name": "hot", "topic": name}}
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": name})
    producer.init_transactions(30)
    for records, commit in ((RESULTS, True), ([(b'{"room":"z"}', b'{"room":"z","t":0}', [])], False)):
        producer.begin_transaction()
        for key, value, headers in records:
            producer.produce(name, value, key, headers=headers)
        producer.flush(30)
        if commit:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
    return name


def test_consume_in_the_notation(dsms, result):
    code, out, _ = dsms("consume", "hot", "--timeout", 1)
    assert (code, out.splitlines()) == (0, ["+<a,105>2", "+<c,101>3", "u<c,103>6", "-<a>5"])


def test_consume_as_json(dsms, result):
    code, out, _ = dsms("consume", "hot", "--format", "json", "--max-records", 4)
    assert code == 0
    assert [json.loads(line) for line in out.splitlines()] == [
        {"op": "+", "row": {"room": "a", "t": 105}, "ts": 2},
        {"op": "+", "row": {"room": "c", "t": 101}, "ts": 3},
        {"op": "u", "row": {"room": "c", "t": 103}, "ts": 6},
        {"op": "-", "row": {"room": "a"}, "ts": 5},
    ]


def test_consume_as_a_table(dsms, result):
    code, out, _ = dsms("consume", "hot", "--format", "table", "--timeout", 1)
    assert code == 0
    assert "103" in out and "105" not in out


def test_consume_until_an_instant(dsms, service, result):
    code, out, _ = dsms("consume", "hot", "--until", 6)
    assert (code, out.splitlines()) == (0, ["+<a,105>2", "+<c,101>3", "-<a>5"])
    service.objects["hot"]["frontier"] = 100
    code, out, _ = dsms("consume", "hot", "--until", 50)
    assert (code, len(out.splitlines())) == (0, 4)


def test_consume_from_now_shows_nothing_old(dsms, result):
    assert dsms("consume", "hot", "--from-now", "--timeout", 1)[:2] == (0, "")


def test_interrupt(url, result):
    program = [sys.executable, "-c", "from dsms.cli.main import main; main()", "consume", "hot", "--coordinator", url]
    with subprocess.Popen(program, stdout=subprocess.PIPE, env={**os.environ, "PYTHONUNBUFFERED": "1"}) as process:
        assert process.stdout.readline() == b"+<a,105>2\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130


def test_up_status_down(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("DSMS_SERVICES_ONLY", "1")
    place = ["--data-dir", str(tmp_path / "data")]
    try:
        assert run(["up", *place, "--kafka-port", "0", "--redis-port", "0", "--format", "json"]) == 0
        addresses = json.loads(capsys.readouterr().out)
        assert run(["up", *place]) == 0
        assert "already running" in capsys.readouterr().err
        assert run(["status", *place, "--format", "json"]) == 0
        local = json.loads(capsys.readouterr().out)["local"]
        assert local["kafka"] == addresses["kafka"]
        assert [(s["name"], s["running"]) for s in local["services"]] == [("kafka", True), ("redis", True)]
    finally:
        assert run(["down", *place]) == 0
    assert run(["status", *place]) == 3
