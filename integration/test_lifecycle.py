"""Queries are created and dropped while others run; the coordinator and executors may be replaced."""

import json
import os
from collections.abc import Iterator

import psutil
import pytest
from confluent_kafka.admin import AdminClient

from dsms.local.waiting import wait_until
from dsms.spark.compat.class_archive import archive
from integration.cluster import Cluster, Refused, kill_9, running
from integration.kafka_log import Input, advance, changes, write

pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def cluster(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(kafka, redis_url, tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.start_executor()
        yield cluster


def test_classes_come_from_the_archive(cluster: Cluster) -> None:
    """A JVM silently ignores the archive if it finds a class at another path than the archive says."""
    made = archive(os.environ)
    if made is None or not made.is_file():
        pytest.skip("no archive of Spark's classes was made")
    cluster.await_state("running")
    below = psutil.Process(cluster.executors[0].pid).children(recursive=True)
    jvms = [process for process in below if process.name() == "java" and process.status() != psutil.STATUS_ZOMBIE]
    assert [jvm for jvm in jvms if str(made) in {mapped.path for mapped in jvm.memory_maps()}]


def streams(cluster: Cluster, name: str) -> None:
    cluster.sql(f"""
        REGISTER SOURCE {name}T (k VARCHAR, v INT) FROM "{name}.t" PARTITIONS 1 IDLE NEVER;
        CREATE STREAM {name}S OVER {name}T KEY k
    """)


def view(cluster: Cluster, name: str, view: str) -> str:
    cluster.sql(f"CREATE STREAMED VIEW {name}{view} AS SELECT k, v FROM R({name}S)")
    return f"dsms.{name}{view}"


def feed(cluster: Cluster, name: str, *instants: int) -> None:
    rows = [Input(json.dumps({"k": f"k{ts}", "v": ts}).encode(), ts) for ts in instants]
    write(cluster.kafka, f"{name}.t", rows)
    advance(cluster.kafka, f"{name}.t", instants[-1] + 1)


def assert_has(cluster: Cluster, topic: str, *instants: int) -> None:
    cluster.await_frontier(topic, instants[-1] + 1)
    shown = [(change.op, json.loads(change.value or b"")["v"], change.ts) for change in changes(cluster.kafka, topic)]
    assert shown == [("+", ts, ts) for ts in instants]


def exists(cluster: Cluster, topic: str) -> bool:
    return topic in AdminClient({"bootstrap.servers": cluster.kafka}).list_topics(timeout=20).topics


def test_a_later_query_reads_from_the_beginning(cluster: Cluster, unique: str):
    streams(cluster, unique)
    early = view(cluster, unique, "Early")
    feed(cluster, unique, 1, 2, 3)
    assert_has(cluster, early, 1, 2, 3)
    late = view(cluster, unique, "Late")
    assert_has(cluster, late, 1, 2, 3)
    feed(cluster, unique, 4)
    assert_has(cluster, early, 1, 2, 3, 4)
    assert_has(cluster, late, 1, 2, 3, 4)


def test_startup_processes_of_a_stream_end_once_it_runs(cluster: Cluster, unique: str):
    streams(cluster, unique)
    topic = view(cluster, unique, "V")
    feed(cluster, unique, 1)
    assert_has(cluster, topic, 1)
    below = psutil.Process(cluster.executors[0].pid).children(recursive=True)
    modules = [process.cmdline()[1:] for process in below if process.status() != psutil.STATUS_ZOMBIE]
    assert ["-m", "pyspark.sql.streaming.python_streaming_source_runner"] in [arguments[:2] for arguments in modules]
    assert [arguments for arguments in modules if "pyspark.daemon" in arguments] == []


def test_a_dropped_query_goes_and_its_name_is_free(cluster: Cluster, unique: str):
    streams(cluster, unique)
    kept, dropped = view(cluster, unique, "Kept"), view(cluster, unique, "Gone")
    feed(cluster, unique, 1)
    assert_has(cluster, kept, 1)
    assert_has(cluster, dropped, 1)
    cluster.sql(f"DROP VIEW {unique}Gone")
    assert wait_until(lambda: not exists(cluster, dropped), 120)
    feed(cluster, unique, 2)
    assert_has(cluster, kept, 1, 2)
    assert not exists(cluster, dropped)
    again = view(cluster, unique, "Gone")
    assert_has(cluster, again, 1, 2)
    assert_has(cluster, kept, 1, 2)


def test_the_catalog_outlives_the_coordinator(cluster: Cluster, unique: str):
    streams(cluster, unique)
    topic = view(cluster, unique, "V")
    feed(cluster, unique, 1)
    assert_has(cluster, topic, 1)
    shown = [
        {**document, "state": "", "progress": None}
        for kind in ("sources", "streams", "queries")
        for document in cluster.get(kind)
    ]
    kill_9(cluster.coordinator)
    feed(cluster, unique, 2)
    assert_has(cluster, topic, 1, 2)
    cluster.coordinator.start()
    listed = [
        {**document, "state": "", "progress": None}
        for kind in ("sources", "streams", "queries")
        for document in cluster.get(kind)
    ]
    assert [document | {"frontier": 0} for document in listed] == [document | {"frontier": 0} for document in shown]
    with pytest.raises(Refused):
        view(cluster, unique, "V")
    assert_has(cluster, view(cluster, unique, "W"), 1, 2)


def test_a_dead_executor_is_replaced(cluster: Cluster, unique: str):
    streams(cluster, unique)
    topic = view(cluster, unique, "V")
    feed(cluster, unique, 1)
    assert_has(cluster, topic, 1)
    cluster.start_executor("executor-2")
    cluster.await_state("idle", "executor-2")
    first = next(executor for executor in cluster.executors if executor.spec.name.startswith("executor-1"))
    kill_9(first)
    feed(cluster, unique, 2)
    assert_has(cluster, topic, 1, 2)
    assert cluster.get("status")["assignments"]["0"]["executor"] == "executor-2"
    assert wait_until(lambda: cluster.get(f"queries/{unique}V")["state"] == "running", 120), cluster.logs()
