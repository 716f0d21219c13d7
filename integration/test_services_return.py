"""Outages of Kafka, Redis and an executor's scratch files: a clear error at once, no loss, and no restart when they are
back."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dsms.local.broker import Broker
from dsms.local.installed import local_broker, local_redis
from dsms.local.redis_server import RedisServer
from dsms.local.services import http_ready
from dsms.local.waiting import wait_until
from dsms.spark.scratch import temporary_directory
from integration.cluster import Cluster, Refused, log_of, running
from integration.kafka_log import Input, advance, changes, write

pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, no_leftovers: None) -> Iterator[Broker]:
    broker = local_broker(tmp_path_factory.mktemp("kafka"), os.environ)
    broker.start()
    yield broker
    broker.kill()


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory: pytest.TempPathFactory, no_leftovers: None) -> Iterator[RedisServer]:
    server = local_redis(tmp_path_factory.mktemp("redis"), os.environ)
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="module")
def cluster(broker: Broker, redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(broker.address, redis_server.url, tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.start_executor()
        yield cluster


def make(cluster: Cluster, name: str) -> None:
    cluster.sql(f"""
        REGISTER SOURCE {name}T (k VARCHAR, v INT) FROM "{name}.t" PARTITIONS 1 IDLE NEVER;
        CREATE STREAM {name}S OVER {name}T KEY k;
        CREATE STREAMED VIEW {name}V AS SELECT k, v FROM R({name}S)
    """)


def feed(cluster: Cluster, name: str, ts: int) -> None:
    write(cluster.kafka, f"{name}.t", [Input(json.dumps({"k": "a", "v": ts}).encode(), ts)])
    advance(cluster.kafka, f"{name}.t", ts + 1)


def ready(cluster: Cluster) -> bool:
    return http_ready(f"{cluster.url}/readyz")


def assert_exact(cluster: Cluster, name: str, instants: list[int]) -> None:
    topic = f"dsms.{name}V"
    cluster.await_frontier(topic, instants[-1] + 1)
    ops = ["+", *("u" for _ in instants[1:])]
    shown = [(change.op, change.ts, json.loads(change.value or b"")["v"]) for change in changes(cluster.kafka, topic)]
    assert shown == [(op, ts, ts) for op, ts in zip(ops, instants, strict=True)]


def test_kafka(cluster: Cluster, broker: Broker, unique: str):
    make(cluster, unique)
    feed(cluster, unique, 1)
    assert_exact(cluster, unique, [1])
    broker.kill()
    with pytest.raises(Refused) as refused:
        make(cluster, f"{unique}Other")
    assert refused.value.status == 503
    assert "kafka" in refused.value.error["message"]
    assert wait_until(lambda: not ready(cluster), 120)
    broker.start()
    feed(cluster, unique, 2)
    assert_exact(cluster, unique, [1, 2])
    assert wait_until(lambda: ready(cluster), 120)
    make(cluster, f"{unique}Later")
    feed(cluster, f"{unique}Later", 1)
    assert_exact(cluster, f"{unique}Later", [1])


def test_redis(cluster: Cluster, redis_server: RedisServer, unique: str):
    make(cluster, unique)
    feed(cluster, unique, 1)
    assert_exact(cluster, unique, [1])
    redis_server.kill()
    with pytest.raises(Refused) as refused:
        cluster.get("status")
    assert refused.value.status == 503
    assert "redis" in refused.value.error["message"]
    assert wait_until(lambda: not ready(cluster), 120)
    make(cluster, f"{unique}Meanwhile")
    feed(cluster, f"{unique}Meanwhile", 1)
    feed(cluster, unique, 2)
    redis_server.start()
    assert_exact(cluster, unique, [1, 2])
    assert_exact(cluster, f"{unique}Meanwhile", [1])
    assert wait_until(lambda: ready(cluster), 120)


def test_drop_while_redis_is_unavailable(cluster: Cluster, redis_server: RedisServer, unique: str):
    make(cluster, unique)
    redis_server.kill()
    try:
        assert cluster.sql(f"DROP VIEW {unique}V")[0]["message"] == f"dropped {unique}V"
    finally:
        redis_server.start()
    with pytest.raises(Refused) as refused:
        cluster.get(f"queries/{unique}V")
    assert refused.value.status == 404


def test_scratch_files(cluster: Cluster, unique: str):
    """The Spark session has its files in the scratch directory. After their loss it is restarted; the process
    continues."""
    make(cluster, unique)
    feed(cluster, unique, 1)
    assert_exact(cluster, unique, [1])
    (scratch,) = cluster.directory.glob("executor-1-*/scratch/executor-1")
    for directory in {scratch, temporary_directory(scratch)}:
        shutil.rmtree(directory)
    for ts in (2, 3):
        feed(cluster, unique, ts)
        assert_exact(cluster, unique, list(range(1, ts + 1)))
    assert "restarting the Spark session" in log_of(cluster.executors[0]) and cluster.executors[0].alive
    assert wait_until(lambda: story(cluster)[-1]["event"] == "epoch committed", 120)
    events = [event["event"] for event in story(cluster)]
    (restart,) = (event for event in story(cluster) if event.get("reason") == "the executor restarts its Spark session")
    assert events[:2] == ["claimed", "started"]
    at = events.index("stopped")
    assert (
        restart["event"] == "stopped"
        and events[at - 1] == "failed"
        and events[at + 1 : at + 3] == ["claimed", "started"]
    )


def story(cluster: Cluster) -> list[dict[str, Any]]:
    """The last events of the fragment."""
    return cluster.get("fragments/0/story")


def test_no_leftover_directory(tmp_path: Path, cluster: Cluster):
    """The scratch directories of ended incarnations are removed; only that of the running fragment remains."""
    checkpoints = "executor-1-*/scratch/executor-1/*/checkpoint"
    assert wait_until(lambda: len(list(cluster.directory.glob(checkpoints))) == 1, 120)
