"""The kinds of Redis that a URL can name: TLS with a password, Sentinels, a cluster. All stores work with each kind."""

import itertools
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import redis

from connectors.redis.client import connect
from connectors.state.cluster import ClusterState
from dsms.local.ports import free_port
from dsms.local.waiting import wait_until
from dsms.state.stores import StateAddress
from integration.redis_state import redis_under_test
from integration.self_signed import certificate
from operators.core.errors import ExternalError
from tests.support.state_laws import LAWS

pytestmark = [
    pytest.mark.services,
    pytest.mark.skipif(shutil.which("redis-server") is None, reason="the wheel's redis-server has no TLS"),
]
_numbers = itertools.count()


@contextmanager
def server(directory: Path, *options: str, sentinel: bool = False) -> Iterator[None]:
    """Runs a Redis server with these lines of configuration."""
    home = directory / f"server-{next(_numbers)}"
    home.mkdir()
    config = home / "redis.conf"
    config.write_text("".join(f"{option}\n" for option in (f"dir {home}", 'save ""', "bind 127.0.0.1", *options)))
    command = ["redis-server", str(config), *(["--sentinel"] if sentinel else [])]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.kill()


def answers(client: Callable[[], redis.Redis]) -> bool:
    try:
        return bool(client().ping())
    except redis.RedisError:
        return False


def check_laws(url: str, directory: Path) -> None:
    """Checks all laws, and leaves a catalog copy in the cluster "last"."""
    for number, law in enumerate(LAWS):
        law(redis_under_test(url, f"c{number}", directory / f"c{number}"))
    cluster_at(url).set_catalog(b"catalog")


def cluster_at(url: str) -> ClusterState:
    return ClusterState(StateAddress(url, "last").open().documents())


def test_tls_and_a_password(tmp_path: Path) -> None:
    port, made = free_port(), certificate(tmp_path)
    tls = (
        f"tls-port {port}",
        "port 0",
        f"tls-cert-file {made.certificate}",
        f"tls-key-file {made.key}",
        "tls-auth-clients no",
    )
    url = f"rediss://:s%40cret@127.0.0.1:{port}/0?ssl_ca_certs={made.certificate}"
    with server(tmp_path, *tls, "requirepass s@cret"):
        assert wait_until(lambda: answers(lambda: connect(url)), 120)
        check_laws(url, tmp_path)
        for wrong in (url.replace("s%40cret", "guess"), f"rediss://:s%40cret@127.0.0.1:{port}/0"):
            with pytest.raises(ExternalError, match=r"password|certificate"):
                cluster_at(wrong).ping()


def test_a_cluster_of_three(tmp_path: Path) -> None:
    ports = [free_port() for _ in range(3)]
    clients = [redis.Redis(port=port) for port in ports]
    with ExitStack() as stack:
        for port in ports:
            options = (f"port {port}", "cluster-enabled yes", f"cluster-port {free_port()}")
            stack.enter_context(server(tmp_path, *options))
        assert wait_until(lambda: all(answers(lambda client=client: client) for client in clients), 120)
        buses = [client.config_get("cluster-port")["cluster-port"] for client in clients]
        for number, (client, port, bus) in enumerate(zip(clients, ports, buses, strict=True)):
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", number * 5462, min(number * 5462 + 5461, 16383))
            clients[0].execute_command("CLUSTER", "MEET", "127.0.0.1", port, bus)
        healthy = "cluster_state:ok"
        assert wait_until(
            lambda: all(healthy in str(client.execute_command("CLUSTER", "INFO")) for client in clients), 30
        )
        url = f"redis+cluster://127.0.0.1:{ports[1]},127.0.0.1:{ports[2]}"
        assert wait_until(lambda: len(redis.RedisCluster("127.0.0.1", ports[0]).get_nodes()) == len(ports), 120)
        check_laws(url, tmp_path)
        assert sum(client.dbsize() for client in clients) > 0


def test_the_sentinels_name_the_master(tmp_path: Path) -> None:
    first, second, watch = (free_port() for _ in range(3))
    settings = (f"sentinel monitor mymaster 127.0.0.1 {first} 1", "sentinel down-after-milliseconds mymaster 500")
    url = f"redis+sentinel://127.0.0.1:{watch}/mymaster/0"
    with ExitStack() as stack:
        master = stack.enter_context(ExitStack())
        master.enter_context(server(tmp_path, f"port {first}"))
        stack.enter_context(server(tmp_path, f"port {second}", f"replicaof 127.0.0.1 {first}"))
        stack.enter_context(server(tmp_path, f"port {watch}", *settings, sentinel=True))
        assert wait_until(lambda: answers(lambda: connect(url)), 120)
        check_laws(url, tmp_path)
        sentinel, state = redis.Redis(port=watch), cluster_at(url)
        assert wait_until(lambda: int(sentinel.sentinel_master("mymaster")["num-slaves"]) == 1, 120)
        assert wait_until(lambda: redis.Redis(port=second).dbsize() == redis.Redis(port=first).dbsize(), 120)
        master.close()
        assert wait_until(lambda: sentinel.sentinel_master("mymaster")["port"] == second, 120)
        assert wait_until(lambda: _catalog(state) == b"catalog", 120)
        state.set_catalog(b"after")
        assert state.catalog() == b"after"


def _catalog(state: ClusterState) -> bytes | None:
    try:
        return state.catalog()
    except ExternalError:
        return None
