"""Topics that change under running sources: a source reads only records of the topic that was registered."""

import io
import json
from secrets import token_hex

import fastavro
import httpx
import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)

from connectors.kafka.client.config import KafkaSettings
from dsms.coordinator.doctor.examination import ExaminedCluster, examine
from dsms.local.waiting import wait_until
from integration.cluster import Cluster, Refused
from integration.kafka_log import Change, Input, Letter, advance, changes, letters, write
from integration.kafka_topics import create_topic

pytestmark = [pytest.mark.services, pytest.mark.timeout(600)]

SCHEMA = {
    "type": "record", "name": "r", "fields": [{"name": "k", "type": "string"}, {"name": "v", "type": "int"}],
}  # fmt: skip


def source(cluster: Cluster, name: str, *, partitions: int = 1) -> str:
    """Registers the source `name` with a stream and a view over it; returns its topic."""
    topic = create_topic(cluster.kafka, f"{name}.in", partitions=partitions)
    cluster.sql(f"""
        REGISTER SOURCE {name} (k VARCHAR, v INT) FROM "{topic}" IDLE NEVER;
        CREATE STREAM {name}S OVER {name} KEY k;
        CREATE STREAMED VIEW {name}V AS SELECT k, v FROM R({name}S)
    """)
    return topic


def feed(cluster: Cluster, topic: str, *instants: int, partition: int = 0) -> None:
    """Writes a record at each instant."""
    write(
        cluster.kafka, topic, [Input(json.dumps({"k": f"k{at}", "v": at}).encode(), at, partition) for at in instants]
    )


def delete(cluster: Cluster, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.kafka})
    admin.delete_topics([topic])[topic].result(30)
    assert wait_until(lambda: topic not in admin.list_topics(timeout=10).topics, 120)


def shown(cluster: Cluster, name: str) -> list[int]:
    return sorted(json.loads(change.value or b"")["v"] for change in changes(cluster.kafka, f"dsms.{name}V"))


def state(cluster: Cluster, kind: str, name: str) -> str:
    return cluster.get(f"{kind}/{name}")["state"]


@pytest.mark.parametrize("records", [1, 5], ids=["shorter", "longer"])
def test_recreated_topic_is_not_read_as_a_continuation(cluster: Cluster, unique: str, records: int):
    topic, other = source(cluster, unique), source(cluster, f"{unique}o")
    feed(cluster, topic, 1, 2, 3)
    advance(cluster.kafka, topic, 4)
    cluster.await_frontier(f"dsms.{unique}V", 4)
    delete(cluster, topic)
    create_topic(cluster.kafka, topic)
    feed(cluster, topic, *range(10, 10 + records))
    advance(cluster.kafka, topic, 100)
    failed = f'failed: topic "{topic}" was deleted and created again: its records do not continue those that source'
    assert wait_until(lambda: state(cluster, "queries", f"{unique}V").startswith(failed), 120), cluster.logs()
    assert "was deleted and re-created: drop the source" in state(cluster, "sources", unique)
    feed(cluster, other, 1)
    advance(cluster.kafka, other, 2)
    cluster.await_frontier(f"dsms.{unique}oV", 2)
    assert (shown(cluster, unique), shown(cluster, f"{unique}o")) == ([1, 2, 3], [1])
    cluster.sql(f"DROP VIEW {unique}V; DROP STREAM {unique}S; DROP SOURCE {unique}")
    cluster.sql(f"""
        REGISTER SOURCE {unique} (k VARCHAR, v INT) FROM "{topic}" IDLE NEVER;
        CREATE STREAM {unique}S OVER {unique} KEY k;
        CREATE STREAMED VIEW {unique}V AS SELECT k, v FROM R({unique}S)
    """)
    cluster.await_frontier(f"dsms.{unique}V", 100)
    assert shown(cluster, unique) == list(range(10, 10 + records))


def limit_records(cluster: Cluster, topic: str, size: int) -> None:
    """Sets the size of the largest record that a topic accepts."""
    entry = ConfigEntry("max.message.bytes", str(size), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": cluster.kafka})
    admin.incremental_alter_configs([resource])[resource].result(30)


def test_a_result_topic_that_takes_no_large_records_stops_one_query(cluster: Cluster, unique: str):
    topic = source(cluster, unique)
    cluster.sql(f"CREATE STREAMED VIEW {unique}oV AS SELECT k, v FROM R({unique}S)")
    feed(cluster, topic, 1)
    advance(cluster.kafka, topic, 2)
    cluster.await_frontier([f"dsms.{unique}V", f"dsms.{unique}oV"], 2)
    limit_records(cluster, f"dsms.{unique}V", 300)
    write(cluster.kafka, topic, [Input(json.dumps({"k": token_hex(400), "v": 5}).encode(), 5)])
    advance(cluster.kafka, topic, 6)
    refused = f'failed: topic "dsms.{unique}V" refuses records: Broker: Message size too large; raise its max.message'
    assert wait_until(lambda: state(cluster, "queries", f"{unique}V").startswith(refused), 120), cluster.logs()
    cluster.await_frontier(f"dsms.{unique}oV", 6)
    assert (shown(cluster, unique), shown(cluster, f"{unique}o")) == ([1], [1, 5])
    limit_records(cluster, f"dsms.{unique}V", 1_000_000)
    cluster.sql(f"PAUSE VIEW {unique}V")
    cluster.sql(f"RESUME VIEW {unique}V")
    cluster.await_frontier(f"dsms.{unique}V", 6)
    assert shown(cluster, unique) == [1, 5]
    assert state(cluster, "queries", f"{unique}V").startswith("running")


def register(cluster: Cluster, subject: str, schema: dict[str, object]) -> int:
    """Registers a schema; returns its id."""
    url = f"{cluster.url}/subjects/{subject}/versions"
    answer = httpx.post(url, json={"schema": json.dumps(schema)}, timeout=60, trust_env=False)
    return int(answer.raise_for_status().json()["id"])


def encoded(schema_id: int, at: int) -> bytes:
    """A record in Confluent's wire format."""
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(SCHEMA), {"k": f"k{at}", "v": at})
    return bytes([0]) + schema_id.to_bytes(4, "big") + body.getvalue()


def test_records_wait_for_their_schema(cluster: Cluster, unique: str):
    """Other sources continue meanwhile. No record is refused, and no record is read twice."""
    topic, other = create_topic(cluster.kafka, f"{unique}.avro", partitions=2), source(cluster, f"{unique}o")
    cluster.sql(f"""
        REGISTER SOURCE {unique} (k VARCHAR, v INT) FROM "{topic}" FORMAT AVRO IDLE NEVER;
        CREATE STREAM {unique}S OVER {unique} KEY k;
        CREATE STREAMED VIEW {unique}V AS SELECT k, v FROM R({unique}S)
    """)
    known = register(cluster, f"{topic}-writer", SCHEMA)
    unknown = known + 1
    records = [(0, known, 1), (0, unknown, 2), (0, known, 3), (1, known, 4), (0, unknown, 5)]
    write(cluster.kafka, topic, [Input(encoded(schema, at), at, partition) for partition, schema, at in records])
    advance(cluster.kafka, topic, 6, 2)
    waits = f"waiting for schema {unknown} at {topic}/0/1: it is not in the registry"
    assert wait_until(lambda: waits in state(cluster, "sources", unique), 120), cluster.logs()
    assert wait_until(lambda: state(cluster, "queries", f"{unique}V") == waits, 120), state(
        cluster, "queries", f"{unique}V"
    )
    feed(cluster, other, 1)
    advance(cluster.kafka, other, 2)
    cluster.await_frontier(f"dsms.{unique}oV", 2)
    assert (shown(cluster, unique), shown(cluster, f"{unique}o")) == ([], [1])
    assert register(cluster, f"{topic}-later", {**SCHEMA, "name": "later"}) == unknown
    cluster.await_frontier(f"dsms.{unique}V", 6)
    assert shown(cluster, unique) == [1, 2, 3, 4, 5]
    assert wait_until(lambda: state(cluster, "sources", unique) == "registered", 120), state(cluster, "sources", unique)
    assert letters(cluster.kafka, unique) == []


def test_a_record_that_waits_is_skipped_by_a_statement(cluster: Cluster, unique: str):
    """The record is a dead letter for every query, even for one created after its schema was registered."""
    topic = create_topic(cluster.kafka, f"{unique}.avro")
    cluster.sql(f"""
        REGISTER SOURCE {unique} (k VARCHAR, v INT) FROM "{topic}" FORMAT AVRO IDLE NEVER;
        CREATE STREAM {unique}S OVER {unique} KEY k;
        CREATE STREAMED VIEW {unique}V AS SELECT k, v FROM R({unique}S)
    """)
    known = register(cluster, f"{topic}-writer", SCHEMA)
    unknown = known + 999
    records = [(known, 1), (unknown, 2), (known, 3)]
    write(cluster.kafka, topic, [Input(encoded(schema, at), at) for schema, at in records])
    advance(cluster.kafka, topic, 6)
    waits = f"waiting for schema {unknown} at {topic}/0/1: it is not in the registry"
    assert wait_until(lambda: state(cluster, "queries", f"{unique}V") == waits, 120), cluster.logs()
    for offset, reason in ((0, "has already been read"), (2, "is not the next record")):
        with pytest.raises(Refused, match=reason):
            cluster.sql(f"SKIP RECORD OF {unique} PARTITION 0 OFFSET {offset}")
    done = cluster.sql(f"SKIP RECORD OF {unique} PARTITION 0 OFFSET 1")[0]
    assert (
        done["message"]
        == f'record {topic}/0/1 becomes a dead letter of source "{unique}"; reading of its partition continues'
    )
    cluster.await_frontier(f"dsms.{unique}V", 6)
    httpx.put(f"{cluster.url}/mode/{topic}-writer?force=true", json={"mode": "IMPORT"}, trust_env=False)
    body = {"schema": json.dumps({**SCHEMA, "name": "later"}), "id": unknown}
    answer = httpx.post(f"{cluster.url}/subjects/{topic}-writer/versions", json=body, timeout=60, trust_env=False)
    assert answer.json() == {"id": unknown}
    cluster.sql(f"CREATE STREAMED VIEW {unique}LaterV AS SELECT k, v FROM R({unique}S)")
    cluster.await_frontier(f"dsms.{unique}LaterV", 6)
    assert shown(cluster, unique) == shown(cluster, f"{unique}Later") == [1, 3]
    (letter,) = letters(cluster.kafka, unique)
    assert dict(letter.headers)["dsms-error"] == "skipped by a statement"
    assert (letter.value, dict(letter.headers)["dsms-offset"]) == (encoded(unknown, 2), "1")
    shows = "registered, 1 dead letters"
    assert wait_until(lambda: state(cluster, "sources", unique) == shows, 120), state(cluster, "sources", unique)


def test_partitions_that_are_added_count_from_a_logged_instant(cluster: Cluster, unique: str):
    """Added partitions are read from their beginning. A query that runs then and one created later publish the same."""
    topic = source(cluster, unique, partitions=2)
    feed(cluster, topic, 1, 3, 9)
    feed(cluster, topic, 2, 12, partition=1)
    advance(cluster.kafka, topic, 8, 2)
    cluster.await_frontier(f"dsms.{unique}V", 8)
    admin = AdminClient({"bootstrap.servers": cluster.kafka})
    admin.create_partitions([NewPartitions(topic, 4)])[topic].result(30)
    assert wait_until(lambda: topic_partitions(admin, topic) == 4, 120)
    feed(cluster, topic, 4, 20, partition=2)
    feed(cluster, topic, 5, 21, partition=3)
    # the lesser of the greatest instants in the two partitions, 9 and 12
    added = [f"partition {number} was added and its frontier starts at instant 9" for number in (2, 3)]
    assert wait_until(lambda: all(said in state(cluster, "sources", unique) for said in added), 120), cluster.logs()
    feed(cluster, topic, 15)
    advance(cluster.kafka, topic, 30, 4)
    cluster.await_frontier(f"dsms.{unique}V", 30)
    assert shown(cluster, unique) == [1, 2, 3, 9, 12, 15, 20, 21]
    late = {
        json.loads(letter.value or b"")["v"]: dict(letter.headers)["dsms-error"] for letter in dead(cluster, unique)
    }
    assert late.keys() == {4, 5} and all(reason.startswith("late: ") for reason in late.values())
    cluster.sql(f"CREATE STREAMED VIEW {unique}oV AS SELECT k, v FROM R({unique}S)")
    cluster.await_frontier(f"dsms.{unique}oV", 30)
    assert unplaced(cluster, f"{unique}oV") == unplaced(cluster, f"{unique}V")
    assert len(dead(cluster, unique)) == 2


def unplaced(cluster: Cluster, name: str) -> list[Change]:
    """The changes of a result, all with partition 0. The two results have different numbers of partitions: that of the
    source when each was created."""
    return sorted(change._replace(partition=0) for change in changes(cluster.kafka, f"dsms.{name}"))


def topic_partitions(admin: AdminClient, topic: str) -> int:
    return len(admin.list_topics(topic, timeout=10).topics[topic].partitions)


def dead(cluster: Cluster, unique: str) -> list[Letter]:
    return letters(cluster.kafka, unique)


def setting(cluster: Cluster, topic: str, name: str) -> str:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": cluster.kafka})
    return admin.describe_configs([resource])[resource].result(30)[name].value


def test_topics_of_sources_keep_records_about_the_past(cluster: Cluster, unique: str) -> None:
    """Kafka's default removes records whose timestamp is seven days old. The answer of REGISTER names such topics."""
    made, short, arrival = f"{unique}.made", f"{unique}.short", f"{unique}.arrival"
    create_topic(cluster.kafka, short, config={"retention.ms": "86400000"})
    create_topic(cluster.kafka, arrival, config={"message.timestamp.type": "LogAppendTime"})
    registered = cluster.sql(f"""
        REGISTER SOURCE {unique}a (k INT) FROM "{made}" PARTITIONS 2;
        REGISTER SOURCE {unique}b (k INT) FROM "{short}"; REGISTER SOURCE {unique}c (k INT) FROM "{arrival}"
    """)
    assert (setting(cluster, made, "retention.ms"), setting(cluster, made, "retention.bytes")) == ("-1", "-1")
    warned = [[notice for notice in result["notices"] if "is too short" in notice] for result in registered]
    assert (warned[0], warned[2]) == ([], [])
    assert f'the retention of topic "{short}" is too short: it removes records that are 1 day old' in warned[1][0]
    examined = ExaminedCluster(KafkaSettings(cluster.kafka), cluster.redis_url, cluster.name)
    found = {finding.place: finding for finding in examine(examined, repair=False)}
    assert "1 day old by their own timestamps" in found[f"topic {short}"].problem
    assert not {f"topic {made}", f"topic {arrival}"} & found.keys()
