"""Logs that lose their first records: queries that need these records fail with the reason, all others continue."""

import json
from collections.abc import Iterator

import pytest
import redis
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from dsms.local.waiting import wait_until
from integration.cluster import Cluster, Refused, kill_9, running
from integration.kafka_log import Input, advance, changes, write
from integration.kafka_topics import create_topic

pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]


@pytest.fixture
def cluster(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(kafka, redis_url, tmp_path_factory.mktemp("cut")) as cluster:
        cluster.start_executor()
        yield cluster


def feed(kafka: str, topic: str, values: range) -> None:
    """Writes a record at each instant to partition 0, with the instant as its value, and a heartbeat."""
    write(kafka, topic, [Input(json.dumps({"k": "a", "v": ts}).encode(), ts) for ts in values])
    advance(kafka, topic, values[-1] + 1)


def cut(kafka: str, topic: str, upto: int) -> None:
    """Removes the records below an offset of partition 0, as retention does."""
    admin = AdminClient({"bootstrap.servers": kafka})
    for future in admin.delete_records([TopicPartition(topic, 0, upto)]).values():
        future.result(30)


def allow_deletion(kafka: str, topic: str) -> None:
    """Permits the deletion of records of a compacted topic."""
    entry = ConfigEntry("cleanup.policy", "compact,delete", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.incremental_alter_configs([resource])[resource].result(30)


def lose_redis(cluster: Cluster) -> None:
    """Removes all keys of the cluster from Redis, while none of its executors runs."""
    client = redis.Redis.from_url(cluster.redis_url)
    keys = list(client.scan_iter("dsms:{" + cluster.name + "*"))
    assert client.delete(*keys) == len(keys) > 0


def register(cluster: Cluster, name: str) -> str:
    """Creates a source over a new topic, and a view of the sum of its values; returns the topic."""
    topic = create_topic(cluster.kafka, f"{cluster.name}-{name}")
    cluster.sql(f"""
        REGISTER SOURCE {name}Src (k VARCHAR NOT NULL, v INT) FROM "{topic}" IDLE NEVER;
        CREATE STREAM {name} OVER {name}Src KEY NULL;
        CREATE STREAMED VIEW {name}Sum WITH (topic = '{cluster.name}-{name}-sum') AS
            SELECT k, SUM(v) AS total FROM {name} GROUP BY k
    """)
    return topic


def totals(cluster: Cluster, name: str) -> list[tuple[str, int, int]]:
    """The published changes of a sum."""
    listed = changes(cluster.kafka, f"{cluster.name}-{name}")
    return [(change.op, json.loads(change.value or b"")["total"], change.ts) for change in listed]


def sums(values: range, from_: int = 0) -> list[tuple[str, int, int]]:
    """The changes of the sum of these values, each of which is also its instant, from the instant `from_` on."""
    listed, total = list[tuple[str, int, int]](), 0
    for value in values:
        total += value
        listed.append(("u" if listed else "+", total, value))
    return [change for change in listed if change[2] >= from_]


def state(cluster: Cluster, name: str) -> str:
    return cluster.get(f"queries/{name}")["state"]


def await_failed(cluster: Cluster, name: str) -> str:
    assert wait_until(lambda: state(cluster, name).startswith("failed"), 120), cluster.logs()
    return state(cluster, name)


def test_query_without_state_and_source_records_stops_and_others_continue(cluster: Cluster) -> None:
    lost, whole = register(cluster, "lost"), register(cluster, "whole")
    for topic in (lost, whole):
        feed(cluster.kafka, topic, range(1, 6))
    cluster.await_frontier([f"{cluster.name}-lost-sum", f"{cluster.name}-whole-sum"], 6)
    kill_9(cluster.executors[0])
    cut(cluster.kafka, lost, 3)
    lose_redis(cluster)
    for topic in (lost, whole):
        feed(cluster.kafka, topic, range(6, 9))
    cluster.start_executor()
    cluster.await_frontier(f"{cluster.name}-whole-sum", 9)
    reason = await_failed(cluster, "lostSum")
    assert f'offsets 0 to 2 of topic "{lost}" partition 0 are gone' in reason
    assert "restore a checkpoint" in reason
    assert totals(cluster, "whole-sum") == sums(range(1, 9))
    assert totals(cluster, "lost-sum") == sums(range(1, 6)), "nothing that is wrong was published"
    check_new_queries(cluster, lost)


def check_new_queries(cluster: Cluster, topic: str) -> None:
    """A new query begins at the remaining records. A query over a view and a replacement are refused."""
    (made,) = cluster.sql(
        f"CREATE STREAMED VIEW Rest WITH (topic = '{cluster.name}-rest') AS "
        "SELECT k, SUM(v) AS total FROM lost GROUP BY k"
    )
    assert any(f'earlier records of topic "{topic}" were deleted' in notice for notice in made["notices"])
    with pytest.raises(Refused, match="offsets 0 to 2 of topic .* were deleted, but a query over it needs them"):
        cluster.sql("CREATE STREAMED VIEW Over AS SELECT k, total FROM lostSum WHERE total > 3")
    with pytest.raises(Refused, match='were deleted, but replacing "lostSum" needs them'):
        cluster.sql(
            f"CREATE OR REPLACE STREAMED VIEW lostSum WITH (topic = '{cluster.name}-lost-sum') AS "
            "SELECT k, SUM(v) AS total FROM lost WHERE v > 1 GROUP BY k"
        )
    feed(cluster.kafka, topic, range(9, 11))
    cluster.await_frontier(f"{cluster.name}-rest", 11)
    # records 3 and 4 have the values 4 and 5; the heartbeat at offset 5 changes nothing
    assert totals(cluster, "rest") == sums(range(4, 11))


def test_query_stops_when_unread_records_were_deleted(cluster: Cluster) -> None:
    topic = register(cluster, "slow")
    feed(cluster.kafka, topic, range(1, 4))
    cluster.await_frontier(f"{cluster.name}-slow-sum", 4)
    cluster.sql("PAUSE VIEW slowSum")
    feed(cluster.kafka, topic, range(4, 8))
    cut(cluster.kafka, topic, 6)
    cluster.sql("RESUME VIEW slowSum")
    # three records and a heartbeat had been read
    assert f'offsets 4 to 5 of topic "{topic}" partition 0 are gone' in await_failed(cluster, "slowSum")
    assert totals(cluster, "slow-sum") == sums(range(1, 4))


def test_a_cut_progress_log_stops_queries_whose_progress_is_lost(cluster: Cluster) -> None:
    topic = register(cluster, "told")
    feed(cluster.kafka, topic, range(1, 4))
    cluster.await_frontier(f"{cluster.name}-told-sum", 4)
    kill_9(cluster.executors[0])
    progress = f"_dsms.{cluster.name}.progress"
    allow_deletion(cluster.kafka, progress)
    cut(cluster.kafka, progress, -1)
    feed(cluster.kafka, topic, range(4, 6))
    cluster.start_executor()
    reason = await_failed(cluster, "toldSum")
    assert "it is unknown up to which instant it has published" in reason
    assert progress in reason
    assert totals(cluster, "told-sum") == sums(range(1, 4))


def test_a_cut_heartbeat_log_stops_only_what_would_be_computed_again(cluster: Cluster) -> None:
    topic = create_topic(cluster.kafka, f"{cluster.name}-idle", partitions=2)
    cluster.sql(f"""
        REGISTER SOURCE IdleSrc (k VARCHAR NOT NULL, v INT) FROM "{topic}" IDLE AFTER 300 MS;
        CREATE STREAM Idle OVER IdleSrc KEY NULL;
        CREATE STREAMED VIEW IdleSum WITH (topic = '{cluster.name}-idle-sum') AS
            SELECT k, SUM(v) AS total FROM Idle GROUP BY k
    """)
    feed(cluster.kafka, topic, range(1, 4))
    cluster.await_frontier(f"{cluster.name}-idle-sum", 4)
    kill_9(cluster.executors[0])
    cut(cluster.kafka, f"_dsms.{cluster.name}.heartbeats", -1)
    cluster.start_executor()
    feed(cluster.kafka, topic, range(4, 6))
    cluster.await_frontier(f"{cluster.name}-idle-sum", 6)
    kill_9(cluster.executors[1])
    lose_redis(cluster)
    cluster.start_executor()
    reason = await_failed(cluster, "IdleSum")
    assert "without the heartbeats they depend on" in reason
    assert totals(cluster, "idle-sum") == sums(range(1, 6))
