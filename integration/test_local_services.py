"""The services of one machine, as real processes: they start, crash, restart and leave no process behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest
import redis
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from dsms.cli.main import run
from dsms.local.broker import Broker
from dsms.local.redis_server import RedisServer
from dsms.local.settings import LocalSettings
from dsms.local.state import LocalState, process_started, read_state, running_state
from dsms.local.supervisor import down, up
from dsms.local.waiting import wait_until
from integration.chaos.disk import can_mount, mounted
from integration.kafka_topics import TopicFactory, create_topic
from operators.core.errors import ConfigError, ExternalError

pytestmark = pytest.mark.services


def produce(kafka: str, topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value)
    producer.commit_transaction(30)


def consume(kafka: str, topic: str, count: int) -> list[bytes]:
    group = {"group.id": topic, "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    consumer = Consumer({"bootstrap.servers": kafka, **group})
    consumer.subscribe([topic])
    values: list[bytes] = []
    try:
        assert wait_until(lambda: len(values.extend(_values(consumer)) or values) >= count, 120)
    finally:
        consumer.close()
    return values


def _values(consumer: Consumer) -> list[bytes]:
    return [message.value() for message in consumer.consume(100, 0.1) if message.error() is None]


def set_key(url: str, key: str, value: str) -> None:
    with redis.Redis.from_url(url) as client:
        client.set(key, value)


def get_key(url: str, key: str) -> bytes | None:
    with redis.Redis.from_url(url) as client:
        return client.get(key)


def gone(pid: int | None) -> bool:
    return pid is not None and process_started(pid) is None


def test_a_transaction_is_read_back(kafka: str, topic: TopicFactory):
    name = topic("bids")
    produce(kafka, name, [b"1", b"2"])
    assert consume(kafka, name, 2) == [b"1", b"2"]


def test_topics_are_not_created_by_asking_for_them(kafka: str, unique: str):
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.list_topics(unique, timeout=10)
    assert unique not in admin.list_topics(timeout=10).topics


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_the_broker_keeps_its_data(restartable_kafka: Broker, unique: str, end: str):
    create_topic(restartable_kafka.address, unique)
    produce(restartable_kafka.address, unique, [b"kept"])
    first = restartable_kafka.pid
    getattr(restartable_kafka, end)()
    assert gone(first)
    restartable_kafka.start()
    assert consume(restartable_kafka.address, unique, 1) == [b"kept"]


def test_redis_keeps_its_data(restartable_redis: RedisServer):
    set_key(restartable_redis.url, "k", "kept")
    restartable_redis.stop()
    restartable_redis.start()
    assert get_key(restartable_redis.url, "k") == b"kept"


def test_redis_is_set_up_to_forget_nothing(redis_url: str):
    wanted = {"appendonly": "yes", "appendfsync": "everysec", "maxmemory-policy": "noeviction", "bind": "127.0.0.1"}
    with redis.Redis.from_url(redis_url) as client:  # before version 7, a call returns one setting
        stated = {name: client.config_get(name)[name] for name in wanted}
    assert stated == wanted


@pytest.fixture
def settings(tmp_path: Path) -> LocalSettings:
    return LocalSettings(data_dir=tmp_path / "data", kafka_port=0, redis_port=0, http_port=0, services_only=True)


@pytest.fixture
def local(settings: LocalSettings) -> Iterator[LocalState]:
    state = up(settings, report=lambda _: None)
    yield state
    down(settings.data_dir, report=lambda _: None)


def pids(state: LocalState) -> dict[str, int]:
    return {service.name: service.pid for service in state.services if service.pid is not None}


def test_up_is_idempotent_and_down_ends_everything(local: LocalState):
    said: list[str] = []
    again = up(LocalSettings(data_dir=local.data_dir), report=said.append)
    assert again == local
    assert said[0] == f'a cluster is already running in "{local.data_dir}"'
    assert down(local.data_dir, report=said.append)
    assert all(gone(pid) for pid in (*pids(local).values(), local.supervisor_pid))
    assert running_state(local.data_dir) is None
    assert not down(local.data_dir, report=said.append)


def test_data_survives_a_restart_of_the_services(settings: LocalSettings, unique: str):
    first = up(settings, report=lambda _: None)
    create_topic(first.kafka, unique)
    produce(first.kafka, unique, [b"kept"])
    set_key(first.redis, "k", "kept")
    down(settings.data_dir, report=lambda _: None)
    second = up(settings, report=lambda _: None)
    try:
        assert consume(second.kafka, unique, 1) == [b"kept"]
        assert get_key(second.redis, "k") == b"kept"
    finally:
        down(settings.data_dir, report=lambda _: None)


@pytest.mark.parametrize("name", ["kafka", "redis"])
def test_a_killed_service_is_started_again(local: LocalState, name: str):
    os.kill(pids(local)[name], signal.SIGKILL)

    def restarted() -> bool:
        state = running_state(local.data_dir)
        now = {service.name: service for service in state.services} if state else {}
        return name in now and now[name].running and now[name].restarts == 1

    assert wait_until(restarted, 120)
    state = running_state(local.data_dir)
    assert state is not None
    assert pids(state)[name] != pids(local)[name]
    assert get_key(state.redis, "none") is None
    assert AdminClient({"bootstrap.servers": state.kafka}).list_topics(timeout=20).brokers


def test_a_killed_supervisor_leaves_no_orphan_and_can_be_started_again(local: LocalState, settings: LocalSettings):
    os.kill(local.supervisor_pid, signal.SIGKILL)
    assert wait_until(lambda: all(gone(pid) for pid in (*pids(local).values(), local.supervisor_pid)), 120)
    assert running_state(local.data_dir) is None
    assert not down(local.data_dir, report=lambda _: None)
    again = up(settings, report=lambda _: None)
    assert again.phase == "running"


UP = """
import sys
from pathlib import Path
from dsms.local.settings import LocalSettings
from dsms.local.supervisor import {call}
settings = LocalSettings(data_dir=Path(sys.argv[1]), kafka_port=0, redis_port=0, http_port=0, services_only=True)
{call}(settings, report=lambda line: print(line, flush=True))
"""


def kafka_started(data_dir: Path) -> psutil.Process | None:
    for process in psutil.process_iter(["cmdline"]):
        if any(str(data_dir) in part for part in process.info["cmdline"] or ()) and process.name() == "java":
            return process
    return None


@pytest.mark.parametrize("call", ["up", "run_foreground"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_ending_the_command_while_it_starts_leaves_no_orphan(tmp_path: Path, call: str, number: signal.Signals):
    command = [sys.executable, "-c", UP.format(call=call), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as starting:
        assert wait_until(lambda: kafka_started(tmp_path) is not None, 120)
        starting.send_signal(number)
        starting.wait(60)
    assert wait_until(lambda: kafka_started(tmp_path) is None, 120)
    assert wait_until(lambda: running_state(tmp_path) is None, 120)


def test_port_in_use_is_reported(settings: LocalSettings, redis_url: str):
    port = int(redis_url.rsplit(":")[-1].split("/")[0])
    taken = LocalSettings(data_dir=settings.data_dir, kafka_port=0, redis_port=port, http_port=0, services_only=True)
    with pytest.raises(
        ConfigError, match=rf'port {port} on "127.0.0.1" is already in use by "redis-server".*"redis_port"'
    ):
        up(taken, report=lambda _: None)
    assert read_state(settings.data_dir) is None


def test_a_failed_start_ends_what_was_started(settings: LocalSettings):
    broken = settings.data_dir / "redis"
    settings.data_dir.mkdir()
    broken.write_text("a file where a directory should be")
    with pytest.raises(ExternalError, match="redis"):
        up(settings, report=lambda _: None)
    assert wait_until(lambda: kafka_started(settings.data_dir) is None, 120)


def test_start_with_a_filled_cache_needs_no_network(
    settings: LocalSettings, kafka: str, monkeypatch: pytest.MonkeyPatch
):
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.setenv("DSMS_MAVEN_MIRROR", "http://127.0.0.1:1")
    state = up(settings, report=lambda _: None)
    assert down(settings.data_dir, report=lambda _: None)
    assert state.phase == "running"


@pytest.mark.skipif(not can_mount(), reason="a disk that can be filled is a tmpfs, and mounting one needs root")
def test_full_disk_stops_the_services_until_space_is_free(tmp_path: Path, unique: str, capsys):
    with mounted(tmp_path / "disk", 600) as disk:
        data_dir = disk.directory / "data"
        given = LocalSettings(
            data_dir=data_dir, kafka_port=0, redis_port=0, http_port=0, executors=0, disk_reserve="60 MB"
        )
        place = ["--data-dir", str(data_dir)]
        state = up(given, report=lambda _: None)
        try:
            create_topic(state.kafka, unique)
            produce(state.kafka, unique, [b"kept"])
            disk.fill()
            assert wait_until(lambda: httpx_status(f"{state.coordinator}/readyz", "disk") == 503, 90)
            capsys.readouterr()
            assert run(["publish", unique, *place]) != 0
            assert f'the disk of "{data_dir}" has ' in capsys.readouterr().err
            assert run(["status", *place]) == 0
            assert "the services need" in "".join(capsys.readouterr())
            disk.free()
            assert wait_until(lambda: httpx_status(f"{state.coordinator}/readyz") == 200, 120)
            assert consume(state.kafka, unique, 1) == [b"kept"]
            assert wait_until(lambda: (now := running_state(data_dir)) is not None and now.paused_reason is None, 120)
        finally:
            down(data_dir, report=lambda _: None)


def httpx_status(url: str, reason: str = "") -> int:
    """The status of an answer that contains the reason; 0 for other answers and if there is no answer."""
    try:
        answer = httpx.get(url, timeout=2, trust_env=False)
    except httpx.HTTPError:
        return 0
    return answer.status_code if reason in answer.text else 0
