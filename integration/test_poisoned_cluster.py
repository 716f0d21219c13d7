"""A cluster with junk in every internal topic and under every Redis key, as the previous version permitted. It starts,
its results are right, its alarms name the junk, and after `dsms doctor --repair` the doctor finds nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from confluent_kafka import Producer

from dsms.local.waiting import wait_until
from integration.cluster import Cluster, kill_9, running
from integration.kafka_log import Input, changes, last_values, write

pytestmark = pytest.mark.services

BOMB = b"[" * 100_000
#: Random bytes, invalid JSON, valid JSON of wrong types, a JSON bomb, a huge body, and a tombstone.
BODIES = (b"\xff\xfe\x00", b"{", b'{"frontier": "x", "query": 5}', b'[1, "x"]', b"null", BOMB, b"x" * 300_000, None)
KEYS = (
    b"", b"junk", b"\xff\xff", b"a/b", b"a/b/c", b"dead/x", b"dead/o1/x", b"object/nobody", b"registry/x",
    b"object/\xff",
)  # fmt: skip
PURPOSES = ("catalog", "progress", "heartbeats", "shed")
SQL = """REGISTER SOURCE {source} (room STRING, t INT) FROM "{topic}" PARTITIONS 1;
CREATE STREAM rooms OVER {source} KEY room;
CREATE STREAMED VIEW hot WITH (topic = '{topic}.hot') AS SELECT room, t FROM R(rooms) WHERE t > 80;
CREATE STREAMED VIEW most WITH (topic = '{topic}.most') AS SELECT max(t) AS t FROM R(rooms)"""


@pytest.fixture
def cluster(kafka: str, redis_url: str, tmp_path: Path) -> Iterator[Cluster]:
    with running(kafka, redis_url, tmp_path) as started:
        yield started


def publish(kafka: str, topic: str, records: list[tuple[str, int, int]]) -> None:
    write(kafka, topic, [Input(json.dumps({"room": room, "t": t}).encode(), ts) for room, t, ts in records])


def poison_topics(cluster: Cluster, source: str, result: str) -> None:
    """Writes junk under unknown keys and under the keys of real entries, without a writer and with the name of
    another writer."""
    producer = Producer({"bootstrap.servers": cluster.kafka, "message.max.bytes": 10_000_000})
    own = {
        "catalog": [b"catalog", b"object/hot", b"object/rooms"],
        "progress": [f"{result}/0".encode()],
        "heartbeats": [b"o1/0"],
        "shed": [b"o3/o1/0"],
    }
    valid = {
        "catalog": (b"catalog", b'{"version": 99999, "ids": 1, "term": 99999}'),
        "progress": (f"{result}/0".encode(), b'{"query": "o3", "frontier": 4611686018427387000, "epoch": 9}'),
        "heartbeats": (b"o1/0", b"[0,4611686018427387000]"),
        "shed": (b"o3/o1/0", b"[0,0.0]"),
    }
    for purpose in PURPOSES:
        topic = f"_dsms.{cluster.name}.{purpose}"
        for key in (*KEYS, *own[purpose]):
            for body in BODIES:
                producer.produce(topic, body, key)
        for headers in ([("dsms-by", b"elsewhere/7")], [("dsms-by", b"\xff")], None):
            producer.produce(topic, valid[purpose][1], valid[purpose][0], headers=headers)
        producer.poll(0)
    for purpose in ("operators", "queues"):
        for body in BODIES:
            producer.produce(f"_dsms.{cluster.name}.{purpose}", body, b"junk")
    for body in BODIES:
        producer.produce(f"dsms.{source}.dead-letters", body, b"junk", headers=[("dsms-offset", b"x")])
    assert producer.flush(60) == 0


def poison_redis(cluster: Cluster) -> None:
    client: Any = redis.Redis.from_url(cluster.redis_url)
    prefix, fragment = f"dsms:{{{cluster.name}}}:", f"dsms:{{{cluster.name}/0}}:"
    for run in client.scan_iter(match=fragment + "run:*"):
        client.delete(run)
        client.hset(run, mapping={"0": b"\xff" * 100, "x": b"junk"})
    client.delete(fragment + "manifest", fragment + "resident", prefix + "catalog", prefix + "assignments")
    client.hset(fragment + "manifest", mapping={"lease": "x", "token": "9" * 30, "body": BOMB})
    client.set(fragment + "resident", "junk")
    client.rpush(prefix + "catalog", "junk")
    client.set(prefix + "assignments", '{"0": {"executor": 7}}')
    client.set(prefix + "executor:ghost", '{"state": "running"}')
    client.set(prefix + "executor:broken", b"\xff")
    client.set(prefix + "report:0", b"\xc1")
    client.set(prefix + "tuning:executor-1", b"[]")
    client.set(fragment + "run:1/nowhere", "junk")


def doctor(cluster: Cluster, *options: str) -> tuple[int, list[dict[str, Any]]]:
    addresses = ["--kafka", cluster.kafka, "--redis", cluster.redis_url, "--cluster", cluster.name]
    command = [sys.executable, "-c", "from dsms.cli.main import main; main()", "doctor", *addresses]
    done = subprocess.run(
        [*command, "--format", "json", *options], capture_output=True, text=True, timeout=120, env=os.environ
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_a_poisoned_cluster_starts_and_is_cured(cluster: Cluster, unique: str) -> None:
    source, topic = f"s{unique}", f"{unique}.readings"
    hot, most = f"{topic}.hot", f"{topic}.most"
    cluster.start_executor()
    cluster.sql(SQL.format(topic=topic, source=source))
    publish(cluster.kafka, topic, [("a", 78, 1), ("a", 105, 2), ("c", 95, 4), ("b", 70, 10)])
    cluster.await_frontier([hot, most], 5)
    progress = f"_dsms.{cluster.name}.progress"
    assert wait_until(lambda: b"object/" in last_values(cluster.kafka, progress), 120), "no cut-over"
    kill_9(cluster.executors.pop())
    kill_9(cluster.coordinator)

    poison_topics(cluster, source, hot)
    poison_redis(cluster)
    cluster.coordinator.start()
    cluster.start_executor()
    cluster.await_state("running")
    publish(cluster.kafka, topic, [("c", 60, 11), ("d", 120, 12), ("b", 71, 20)])
    results = [f'{{"room":"{room}","t":{t}}}' for room, t in (("a", 105), ("d", 120))]
    assert wait_until(
        lambda: sorted(value.decode() for value in last_values(cluster.kafka, hot).values() if value) == results, 120
    ), f"{last_values(cluster.kafka, hot)}; {cluster.logs()}"
    emitted = [(change.op, change.ts) for change in changes(cluster.kafka, hot)]
    assert emitted == [("+", 2), ("+", 4), ("-", 11), ("+", 12)]
    assert cluster.get(f"sources/{source}/dead-letters") == []

    status = cluster.get("status")
    named = {alarm["place"] for alarm in status["alarms"]}
    assert {f"_dsms.{cluster.name}.{purpose}" for purpose in ("catalog", "progress", "heartbeats")} <= named
    assert any("executor:ghost" in place for place in named) and list(status["executors"]) == ["executor-1"]
    shown = cluster.sql("SHOW ALARMS")[0]
    assert {row[0] for row in shown["rows"]} >= {f"_dsms.{cluster.name}.catalog"}

    code, found = doctor(cluster)
    assert code == 1 and all(finding["repairable"] for finding in found), found
    code, repaired = doctor(cluster, "--repair")
    assert code == 0 and all(finding["repaired"] for finding in repaired), repaired
    assert doctor(cluster) == (0, [])
