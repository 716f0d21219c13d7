"""State beyond a limit is only on disk, and an executor waits while Redis is full: results are exact in both cases."""

import json
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from dsms.local.installed import local_redis
from dsms.local.waiting import wait_until
from integration.cluster import Cluster, kill_9, log_of, running
from integration.kafka_log import Input, advance, changes, write

pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]
MB, KEYS, END = 1_000_000, 12_000, 1_000
#: The memory of a Redis that has room for the statuses of executors and the catalog, but not for the state of the
#: query.
SMALL = "6mb"


@pytest.fixture
def small_redis(tmp_path: Path, no_leftovers: None) -> Iterator[redis.Redis]:
    """A Redis for one test, which never evicts keys."""
    server = local_redis(tmp_path / "redis", os.environ)
    server.start()
    client = redis.Redis.from_url(server.url)
    yield client
    client.close()
    server.kill()


def url_of(client: redis.Redis) -> str:
    return f"redis://127.0.0.1:{client.connection_pool.connection_kwargs['port']}/0"


class Texts:
    """Writes incompressible texts in pieces, several per key; remembers the greatest text of each key."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster, self.topic, self.name = cluster, f"{name}.t", name
        self.greatest: dict[int, str] = {}
        self._chance, self._at = random.Random(5), 0
        cluster.sql(f"""
            REGISTER SOURCE {name}T (k BIGINT, t VARCHAR) FROM "{self.topic}" TAGGED NONE PARTITIONS 1 IDLE NEVER;
            CREATE STREAM {name}S OVER {name}T KEY NULL;
            CREATE QUERY {name}Q AS SELECT k, MAX(t) AS t FROM {name}S GROUP BY k
        """)

    def piece(self, rows: int = KEYS, keys: int = KEYS) -> None:
        """Writes more rows, at a later instant."""
        drawn = [(self._chance.randrange(keys), f"{self._chance.getrandbits(1600):0400x}") for _ in range(rows)]
        self._at += 1
        write(
            self.cluster.kafka, self.topic, (Input(json.dumps({"k": k, "t": t}).encode(), self._at) for k, t in drawn)
        )
        for k, t in drawn:
            self.greatest[k] = max(t, self.greatest.get(k, ""))
        advance(self.cluster.kafka, self.topic, self._at + 1)

    def finish(self) -> None:
        """Asserts that the result has the greatest text of every key."""
        topic = f"dsms.{self.name}Q"
        self.cluster.await_frontier(topic, self._at + 1)
        greatest: dict[int, str] = {}
        for change in changes(self.cluster.kafka, topic):
            assert change.value is not None
            row = json.loads(change.value)
            assert (row["k"] in greatest) == (change.op == "u")
            greatest[row["k"]] = row["t"]
        assert greatest == self.greatest


def executor(cluster: Cluster) -> dict[str, object]:
    return next(executor for executor in cluster.get("control/executors") if executor["id"] == "executor-1")


def reason(cluster: Cluster) -> str:
    """The reason why the executor does not run. Asserts that its lease is valid, although Redis refuses writes."""
    assert cluster.executor_state("executor-1"), "the executor is taken for dead"
    return str(cluster.get("status")["executors"]["executor-1"].get("reason", ""))


def await_full(cluster: Cluster) -> None:
    assert wait_until(lambda: "redis is full" in reason(cluster), 120, pause_s=0.3), cluster.logs()
    assert "raise its maxmemory" in reason(cluster) and "state_memory" in reason(cluster)


def test_a_full_redis_is_waited_for(kafka: str, small_redis: redis.Redis, tmp_path: Path, unique: str) -> None:
    with running(kafka, url_of(small_redis), tmp_path) as cluster:
        texts = Texts(cluster, unique)
        cluster.start_executor(batch_records=4_000)
        texts.piece(rows=200)
        texts.finish()
        small_redis.config_set("maxmemory", SMALL)
        texts.piece()
        await_full(cluster)
        small_redis.config_set("maxmemory", "0")
        texts.finish()
        assert wait_until(lambda: reason(cluster) == "", 120)


def test_a_full_redis_gets_room_by_a_limit(kafka: str, small_redis: redis.Redis, tmp_path: Path, unique: str) -> None:
    """Redis is full of other data: the statement that sets a limit is accepted, and all state is on disk."""
    with running(kafka, url_of(small_redis), tmp_path) as cluster:
        texts = Texts(cluster, unique)
        started = cluster.start_executor(batch_records=4_000)
        texts.piece(rows=200)
        texts.finish()
        small_redis.config_set("maxmemory", "1mb")
        texts.piece()
        await_full(cluster)
        cluster.sql("ALTER EXECUTOR \"executor-1\" SET (state_memory = '0')")
        texts.finish()
        assert executor(cluster)["redis_bytes"] == 0 and int(str(executor(cluster)["disk_bytes"])) > 2 * MB
        kill_9(started)
        cluster.start_executor(batch_records=4_000)
        texts.piece(rows=500)
        texts.finish()


def test_state_beyond_a_limit(kafka: str, small_redis: redis.Redis, tmp_path: Path, unique: str) -> None:
    """A restarted executor continues from its disk; without its disk it rebuilds its state."""
    with running(kafka, url_of(small_redis), tmp_path) as cluster:
        texts = Texts(cluster, unique)
        started = cluster.start_executor(batch_records=4_000, state_memory="1 MB")
        texts.piece()
        texts.finish()
        status = executor(cluster)
        assert status["state_memory"] == MB and int(str(status["redis_bytes"])) <= MB < int(str(status["disk_bytes"]))
        for lost in (False, True):
            kill_9(started)
            if lost:
                shutil.rmtree(tmp_path / "executor-1-1" / "cache")
            (tmp_path / f"executor-1-{1 + lost}").mkdir()
            if not lost:
                (tmp_path / "executor-1-0" / "cache").rename(tmp_path / "executor-1-1" / "cache")
            started = cluster.start_executor(batch_records=4_000, state_memory="1 MB")
            texts.piece(rows=1_000)
            texts.finish()
            from_start = [line for line in log_of(started).splitlines() if "fragment started" in line]
            assert len(from_start) == 1
