"""Kill -9 of every process, at each step of the commit protocol: result topics equal those of an undisturbed run."""

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import redis

from dsms.local.broker import Broker
from dsms.local.installed import local_broker, local_redis
from dsms.local.process import ManagedProcess
from dsms.local.redis_server import RedisServer
from dsms.local.waiting import wait_until
from dsms.runtime.epoch.fault_points import POINTS
from dsms.spark.compat.shortcut import SWITCH
from dsms.spark.task_slots import SHORTCUT as LONG_TASKS
from integration.cluster import await_crash, kill_9, running
from integration.workload import Outcome, assert_begins, await_all, feed_of, finish, outcome

pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]
STEP = 40
#: Pieces of the input: one for each disturbance of the longest test.
PIECES = len(POINTS) + 1


@pytest.fixture(scope="module")
def undisturbed(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """The outcome of the whole input in an undisturbed run."""
    with running(kafka, redis_url, tmp_path_factory.mktemp("undisturbed")) as cluster:
        feed = feed_of(cluster, STEP, PIECES)
        cluster.start_executor()
        feed.rest()
        await_all(cluster, cluster.name)
        return outcome(kafka, cluster.name)


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory, no_leftovers: None) -> Iterator[Broker]:
    broker = local_broker(tmp_path_factory.mktemp("kafka"), os.environ)
    broker.start()
    yield broker
    broker.kill()


@pytest.fixture(scope="module")
def own_redis(tmp_path_factory: pytest.TempPathFactory, no_leftovers: None) -> Iterator[RedisServer]:
    server = local_redis(tmp_path_factory.mktemp("redis"), os.environ)
    server.start()
    yield server
    server.kill()


def test_the_executor_at_every_fault_point(kafka: str, redis_url: str, tmp_path: Path, undisturbed: Outcome):
    """Each restarted executor recovers from the last crash and then dies in its second epoch, at the next fault
    point."""
    with running(kafka, redis_url, tmp_path) as cluster:
        feed = feed_of(cluster, STEP, PIECES)
        for point in POINTS:
            executor = cluster.start_executor(fault=f"{point}:2", batch_records=20)
            feed.piece()
            await_crash(executor)
            assert_begins(outcome(kafka, cluster.name), undisturbed)
        cluster.start_executor(batch_records=20)
        finish(cluster, feed, undisturbed)


def kill_workers(executor: ManagedProcess) -> int:
    """Kills the forked Spark Python workers of an executor; returns their number."""
    killed = 0
    for process in psutil.Process(executor.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            parent = process.parent()
            if parent is not None and "dsms.spark.compat.worker_daemon" in parent.cmdline():
                process.kill()
                killed += 1
    return killed


def kill_the_planner(executor: ManagedProcess) -> None:
    """Kills the Python process in which Spark plans batches."""
    (planner, *_) = [
        process for process in psutil.Process(executor.pid).children(recursive=True) if _plans_batches(process)
    ]
    os.kill(planner.pid, signal.SIGKILL)
    assert wait_until(lambda: not planner.is_running(), 120)


def _plans_batches(process: psutil.Process) -> bool:
    try:
        return "python_streaming_source_runner" in " ".join(process.cmdline())
    except (psutil.ZombieProcess, psutil.NoSuchProcess):  # a short-lived child has ended since it was listed
        return False


def test_the_processes_of_spark_and_the_coordinator(kafka: str, redis_url: str, tmp_path: Path, undisturbed: Outcome):
    """Spark forks killed workers again. If batches are Spark jobs, the death of the process that plans them ends the
    stream, which is restarted; otherwise nothing needs this process."""
    with running(kafka, redis_url, tmp_path) as cluster:
        feed = feed_of(cluster, STEP, PIECES)
        executor = cluster.start_executor(batch_records=20)
        first = feed.piece()
        await_all(cluster, cluster.name, first)
        feed.piece()
        assert wait_until(lambda: kill_workers(executor) > 0, 120)
        await_all(cluster, cluster.name, feed.piece())
        kill_9(executor)
        executor = cluster.start_executor(batch_records=20, environment={SWITCH: LONG_TASKS.name})
        await_all(cluster, cluster.name, feed.piece())
        kill_the_planner(executor)
        await_all(cluster, cluster.name, feed.piece())
        kill_9(cluster.coordinator)
        feed.piece()
        cluster.coordinator.start()
        finish(cluster, feed, undisturbed)


def lose_the_last_second(server: RedisServer, copy: Path) -> None:
    """Replaces the data directory with an older copy while the server is dead."""
    shutil.rmtree(server.config.data_dir)
    shutil.copytree(copy, server.config.data_dir)


def test_redis_in_every_way(own_broker: Broker, own_redis: RedisServer, tmp_path: Path, undisturbed: Outcome):
    """Redis is killed; killed with its last second lost; emptied while it runs; restarted with an empty directory."""
    kafka = own_broker.address
    with running(kafka, own_redis.url, tmp_path / "cluster") as cluster:
        feed = feed_of(cluster, STEP, PIECES)
        executor = cluster.start_executor(batch_records=50)
        await_all(cluster, cluster.name, feed.piece())
        feed.piece()
        own_redis.kill()
        own_redis.start()
        await_all(cluster, cluster.name, feed.piece())

        copy = tmp_path / "copy"
        own_redis.kill()
        shutil.copytree(own_redis.config.data_dir, copy)
        own_redis.start()
        await_all(cluster, cluster.name, feed.piece())
        kill_9(executor)
        own_redis.kill()
        lose_the_last_second(own_redis, copy)
        own_redis.start()
        executor = cluster.start_executor(batch_records=50)
        await_all(cluster, cluster.name, feed.piece())

        with redis.Redis.from_url(own_redis.url) as client:
            client.flushall()
        await_all(cluster, cluster.name, feed.piece())

        own_redis.kill()
        shutil.rmtree(own_redis.config.data_dir)
        own_redis.start()
        finish(cluster, feed, undisturbed)


def test_the_broker(own_broker: Broker, own_redis: RedisServer, tmp_path: Path, undisturbed: Outcome):
    with running(own_broker.address, own_redis.url, tmp_path) as cluster:
        feed = feed_of(cluster, STEP, PIECES)
        cluster.start_executor(batch_records=50)
        await_all(cluster, cluster.name, feed.piece())
        feed.piece()
        own_broker.kill()
        own_broker.start()
        await_all(cluster, cluster.name, feed.piece())
        finish(cluster, feed, undisturbed)
