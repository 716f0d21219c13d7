"""Tables on a real cluster: the effects of a statement are visible to the next statement, to streams at the right
instant, and after a restart."""

import json
import re
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Producer

from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.names import transactional_id
from connectors.kafka.records.epoch_writer import EpochWriter
from dsms.coordinator.doctor.examination import ExaminedCluster, examine
from dsms.local.waiting import wait_until
from integration.cluster import Cluster, Refused, kill_9
from integration.kafka_log import Input, changes, read_committed, write

pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]


def rows(cluster: Cluster, select: str) -> list[list[object]]:
    return cluster.sql(select)[0]["rows"]


def instant_of(answer: dict) -> int:
    found = re.search(r"instant (\d+)", answer["message"])
    assert found, answer
    return int(found[1])


def logged(cluster: Cluster, table: str) -> list[tuple[bytes, int]]:
    """Operation and instant of each record of a table's log, without promises, which have no key."""
    heads = [dict(message.headers()) for message in read_committed(cluster.kafka, f"dsms.{table}") if message.key()]
    return [(head.get("dsms-op", b"+"), int(head["dsms-ts"])) for head in heads]


def relation(cluster: Cluster, name: str) -> list[list[object]] | None:
    try:
        return sorted(cluster.get(f"queries/{name}/relation")["rows"])
    except Refused:
        return None


def test_statements_are_visible_to_the_next_one_and_survive_restarts(cluster: Cluster, unique: str):
    table = f"{unique}Rooms"
    cluster.sql(f"CREATE TABLE {table} (id INT PRIMARY KEY, name VARCHAR NOT NULL, area DECIMAL(6, 2))")
    done = cluster.sql(f"""
        INSERT INTO {table} VALUES (1, 'hall', 12.5), (2, 'attic', NULL), (3, 'cellar', 30);
        UPDATE {table} SET name = upper(name) WHERE area IS NULL OR area < 20;
        DELETE FROM {table} WHERE id = 3
    """)
    instants = [instant_of(result) for result in done]
    assert instants == sorted(set(instants))
    after = [[1, "HALL", "12.50"], [2, "ATTIC", None]]
    assert rows(cluster, f"SELECT * FROM {table} ORDER BY id") == after
    with pytest.raises(Refused, match=r"duplicate key \(id\) = \(2\)"):
        cluster.sql(f"INSERT INTO {table} VALUES (9, 'new', 1), (2, 'again', 1)")
    assert rows(cluster, f"SELECT * FROM {table} ORDER BY id") == after
    at = cluster.get(f"queries/{table}/relation?at={instants[0]}")
    assert sorted(at["rows"]) == [[1, "hall", "12.50"], [2, "attic", None], [3, "cellar", "30.00"]]

    kill_9(cluster.coordinator)
    cluster.coordinator.start()
    assert rows(cluster, f"SELECT * FROM {table} ORDER BY id") == after
    again = cluster.sql(f"INSERT INTO {table} VALUES (3, 'roof', 1)")
    assert instant_of(again[0]) > instants[-1]
    written = [*(instants[at] for at in (0, 0, 0, 1, 1, 2)), instant_of(again[0])]
    assert logged(cluster, table) == list(zip((b"+", b"+", b"+", b"u", b"u", b"-", b"+"), written, strict=True))


def test_foreign_records_in_logs_and_results_are_ignored_and_reported(cluster: Cluster, unique: str):
    """Such records are ignored by SELECT, by views over the table and in feeds. Alarms and the doctor name the
    topics."""
    table, view = f"{unique}T", f"{unique}V"
    cluster.sql(f"CREATE TABLE {table} (k VARCHAR PRIMARY KEY, v INT)")
    cluster.sql(f"CREATE COMPLETE VIEW {view} AS SELECT k, v FROM {table} WHERE v > 10")
    at = instant_of(cluster.sql(f"INSERT INTO {table} VALUES ('a', 15)")[0])
    assert wait_until(lambda: relation(cluster, view) == [["a", 15]], 120, pause_s=0.3), cluster.logs()
    producer = Producer({"bootstrap.servers": cluster.kafka})
    heads = [("dsms-ts", str(at + 1).encode())]
    for topic in (f"dsms.{table}", f"dsms.{view}"):
        producer.produce(topic, b'{"k":"a","v":99}', b'{"k":"a"}', headers=heads)
        producer.produce(topic, b'{"k":"b","v":98}', b'{"k":"b"}', headers=[*heads, ("dsms-by", b"other/results")])
        producer.produce(topic, None, None, headers=[("dsms-heartbeat", b"9000000000000000000")])
    assert producer.flush(30) == 0
    cluster.sql(f"INSERT INTO {table} VALUES ('c', 35)")
    assert rows(cluster, f"SELECT * FROM {table} ORDER BY k") == [["a", 15], ["c", 35]]
    assert wait_until(lambda: relation(cluster, view) == [["a", 15], ["c", 35]], 120, pause_s=0.3), cluster.logs()
    lines = cluster.answered("GET", f"queries/{view}/changes?follow=false&format=ndjson").text
    assert '"v":15' in lines and '"v":99' not in lines and '"v":98' not in lines
    alarms = {alarm["place"] for alarm in cluster.get("status")["alarms"]}
    assert {f"dsms.{table}", f"dsms.{view}"} <= alarms
    examined = ExaminedCluster(KafkaSettings(cluster.kafka), cluster.redis_url, cluster.name)
    found = {finding.place: finding.problem for finding in examine(examined, repair=False)}
    for topic in (f"dsms.{table}", f"dsms.{view}"):
        assert found[f"topic {topic}"].startswith("it holds 3 records that the cluster has not written")


def test_a_complete_view_of_a_table_and_a_select_over_both(cluster: Cluster, unique: str):
    table, view = f"{unique}T", f"{unique}V"
    cluster.sql(f"CREATE TABLE {table} (k VARCHAR PRIMARY KEY, v INT)")
    cluster.sql(f"CREATE COMPLETE VIEW {view} AS SELECT k, v FROM {table} WHERE v > 10")
    first = instant_of(cluster.sql(f"INSERT INTO {table} VALUES ('a', 5), ('b', 15), ('c', 25)")[0])
    assert wait_until(lambda: relation(cluster, view) == [["b", 15], ["c", 25]], 120, pause_s=0.3), cluster.logs()
    cluster.sql(f"UPDATE {table} SET v = v + 10")
    assert wait_until(lambda: relation(cluster, view) == [["a", 15], ["b", 25], ["c", 35]], 120, pause_s=0.3)
    assert sorted(cluster.get(f"queries/{view}/relation?at={first}")["rows"]) == [["b", 15], ["c", 25]]
    answer = cluster.sql(f"SELECT t.k, w.v FROM {table} t JOIN {view} w ON t.k = w.k ORDER BY 1")[0]
    assert answer["rows"] == [["a", 15], ["b", 25], ["c", 35]]
    assert instant_of(answer) > first
    with pytest.raises(Refused, match="not final yet"):
        cluster.get(f"queries/{view}/relation?at={instant_of(answer) + 10**9}")


def test_conflicts_joins_and_returned_rows(cluster: Cluster, unique: str):
    table, prices = f"{unique}T", f"{unique}P"
    statements = [
        f"CREATE TABLE {table} (k VARCHAR PRIMARY KEY, v INT)",
        f"CREATE TABLE {prices} (k VARCHAR, v INT)",
        f"INSERT INTO {table} VALUES ('a', 1), ('b', 2) RETURNING *",
        f"INSERT INTO {prices} VALUES ('b', 20), ('c', 30)",
        f"INSERT INTO {table} VALUES ('a', 7), ('c', 3) ON CONFLICT (k) DO UPDATE SET v = {table}.v + EXCLUDED.v "
        "RETURNING k, v",
        f"INSERT INTO {table} VALUES ('a', 9) ON CONFLICT DO NOTHING RETURNING k",
        f"UPDATE {table} AS t SET v = p.v FROM {prices} p WHERE t.k = p.k RETURNING t.k, t.v",
        f"DELETE FROM {table} USING {prices} p WHERE {table}.k = p.k AND p.v > 20 RETURNING *",
    ]
    results = cluster.sql("; ".join(statements))
    assert [sorted(result["rows"]) for result in results[2:]] == [
        [["a", 1], ["b", 2]], [], [["a", 8], ["c", 3]], [], [["b", 20], ["c", 30]], [["c", 30]],
    ]  # fmt: skip
    assert rows(cluster, f"SELECT * FROM {table} ORDER BY k") == [["a", 8], ["b", 20]]
    operations = [op for op, _ in logged(cluster, table)]
    assert operations == [b"+", b"+", b"+", b"u", b"u", b"u", b"-"]


def test_a_stream_waits_for_the_table_and_no_longer(cluster: Cluster, unique: str):
    cluster.sql(f"""
        CREATE TABLE {unique}Names (id INT PRIMARY KEY, name VARCHAR);
        REGISTER SOURCE {unique}T (id INT, v INT) FROM "{unique}.t" PARTITIONS 1 IDLE AFTER 1 SECOND;
        CREATE STREAM {unique}S OVER {unique}T KEY NULL;
        CREATE STREAMED VIEW {unique}J AS
            SELECT s.v, n.name FROM {unique}S s JOIN {unique}Names n ON s.id = n.id
    """)
    instant = instant_of(cluster.sql(f"INSERT INTO {unique}Names VALUES (1, 'one'), (2, 'two')")[0])
    records = [Input(json.dumps({"id": id_, "v": v}).encode(), instant + v) for v, id_ in ((1, 2), (2, 1), (3, 7))]
    write(cluster.kafka, f"{unique}.t", records)
    topic = cluster.topic(f"{unique}J")
    cluster.await_frontier(topic, instant + 4)
    # the promise for the silent stream is just after its own last record, and not at the time of the table
    assert cluster.frontier(topic) == instant + 4
    write(cluster.kafka, f"{unique}.t", [Input(json.dumps({"id": 2, "v": 5}).encode(), instant + 5)])
    cluster.await_frontier(topic, instant + 6)
    shown = [(change.op, json.loads(change.value or b"{}"), change.ts) for change in changes(cluster.kafka, topic)]
    assert shown == [
        ("+", {"v": 1, "name": "two"}, instant + 1),
        ("+", {"v": 2, "name": "one"}, instant + 2),
        ("+", {"v": 5, "name": "two"}, instant + 5),
    ]


def test_files_are_sent_and_loaded_at_one_instant(cluster: Cluster, unique: str, tmp_path: Path):
    table = f"{unique}L"
    cluster.sql(f"CREATE TABLE {table} (k INT PRIMARY KEY, day DATE)")
    url = f"{cluster.url}/v1/tables/{table}/rows?format=csv"
    body = "day,k\n" + "".join(f"2024-05-{1 + k % 28:02},{k}\n" for k in range(1_000))
    csv = {"Content-Type": "text/csv"}
    answer = httpx.post(url, content=body.encode(), headers=csv, trust_env=False, timeout=60)
    assert answer.status_code == 200, answer.text
    assert rows(cluster, f"SELECT count(*), min(day) FROM {table}") == [[1_000, "2024-05-01"]]
    assert len({ts for _, ts in logged(cluster, table)}) == 1
    doubled = b"k,day\n5000,2024-01-01\n7,2024-01-01\n"
    again = httpx.post(url, content=doubled, headers=csv, trust_env=False, timeout=60)
    assert "duplicate key (k) = (7)" in again.text
    assert rows(cluster, f"SELECT count(*) FROM {table}") == [[1_000]]
    for k in range(2_000, 2_020):
        cluster.sql(f"INSERT INTO {table} VALUES ({k}, NULL)")
        assert rows(cluster, f"SELECT count(*) FROM {table}") == [[k - 999]]
    with pytest.raises(Refused, match="may not read files"):
        cluster.sql(f"COPY {table} FROM '/etc/hosts'")
    cluster.sql(f"DROP TABLE {table}")
    with pytest.raises(Refused, match="not found"):
        cluster.sql(f"SELECT * FROM {table}")


def test_dropped_table_can_be_recreated_at_once(cluster: Cluster, unique: str):
    for number in range(5):
        cluster.sql(f"CREATE TABLE {unique}T (k INT PRIMARY KEY); INSERT INTO {unique}T VALUES ({number})")
        assert rows(cluster, f"SELECT k FROM {unique}T") == [[number]]
        cluster.sql(f"DROP TABLE {unique}T")


def test_fenced_table_writer_of_the_leader_recovers(cluster: Cluster, unique: str):
    """A late start of the same coordinator fences its writer like this, and so does a transaction timeout."""
    table = f"{unique}Fenced"
    cluster.sql(f"CREATE TABLE {table} (id INT PRIMARY KEY)")
    EpochWriter(KafkaSettings(cluster.kafka), transactional_id(cluster.name, "tables")).close()
    with suppress(Refused):  # succeeds if a promise has run into the fence before
        cluster.sql(f"INSERT INTO {table} VALUES (1)")
    cluster.sql(f"INSERT INTO {table} VALUES (2)")
    assert [2] in rows(cluster, f"SELECT * FROM {table}")
