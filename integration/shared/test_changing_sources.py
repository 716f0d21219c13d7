"""Topics that change under running sources: what is read is never something else than what was registered."""

import json

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from dsms.local.waiting import wait_until
from integration.cluster import Cluster
from integration.kafka_log import Input, advance, changes, write
from integration.kafka_topics import create_topic

pytestmark = [pytest.mark.services, pytest.mark.timeout(600)]


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
    """Writes a record at each instant, and promises the next one."""
    write(
        cluster.kafka, topic, [Input(json.dumps({"k": f"k{at}", "v": at}).encode(), at, partition) for at in instants]
    )


def delete(cluster: Cluster, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.kafka})
    admin.delete_topics([topic])[topic].result(30)
    assert wait_until(lambda: topic not in admin.list_topics(timeout=10).topics, 60)


def shown(cluster: Cluster, name: str) -> list[int]:
    return sorted(json.loads(change.value or b"")["v"] for change in changes(cluster.kafka, f"dsms.{name}V"))


def state(cluster: Cluster, kind: str, name: str) -> str:
    return cluster.get(f"{kind}/{name}")["state"]


@pytest.mark.parametrize("records", [1, 5], ids=["shorter", "longer"])
def test_a_topic_made_anew_is_never_read_as_if_it_went_on(cluster: Cluster, unique: str, records: int):
    topic, other = source(cluster, unique), source(cluster, f"{unique}o")
    feed(cluster, topic, 1, 2, 3)
    advance(cluster.kafka, topic, 4)
    cluster.await_frontier(f"dsms.{unique}V", 4)
    delete(cluster, topic)
    create_topic(cluster.kafka, topic)
    feed(cluster, topic, *range(10, 10 + records))
    advance(cluster.kafka, topic, 100)
    failed = f'failed: topic "{topic}" was deleted and made anew: its records do not continue those that source'
    assert wait_until(lambda: state(cluster, "queries", f"{unique}V").startswith(failed), 120), cluster.logs()
    assert "was deleted and made anew: drop the source" in state(cluster, "sources", unique)
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
    """Sets the largest record that a topic takes."""
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
    limit_records(cluster, f"dsms.{unique}V", 10)
    feed(cluster, topic, 5)
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
