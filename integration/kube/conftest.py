"""A Kubernetes cluster on this machine with the chart installed; when the session ends, nothing of it remains."""

import os
import secrets
import shutil
from collections.abc import Iterator

import psutil
import pytest
import redis

from dsms.local.installed import local_redis
from dsms.local.waiting import wait_until
from dsms.model.tokens import Token, new_token
from integration.kube.api import Api
from integration.kube.certificates import certificate_for
from integration.kube.control_plane import ControlPlane
from integration.kube.image import Image, build, foreign_images
from integration.kube.kubelet import Kubelet
from integration.kube.release import Release
from integration.kube.sandbox import check_sandboxes
from integration.kube.service_proxy import ServiceProxy

QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
NAMESPACE = "streams"
TLS = "api-tls"


@pytest.fixture(scope="session", autouse=True)
def nothing_left(no_leftovers: None) -> Iterator[None]:
    """No process started here outlives the session."""
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    yield
    assert wait_until(lambda: not _left(before), 120), f"left behind: {_left(before)}"


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory, nothing_left: None) -> Iterator[Image]:
    """The image that the Dockerfile builds."""
    check_sandboxes()
    directory = tmp_path_factory.mktemp("image")
    yield build(directory)
    shutil.rmtree(directory)


@pytest.fixture(scope="session")
def api(tmp_path_factory: pytest.TempPathFactory, nothing_left: None) -> Iterator[Api]:
    """The administrator's access to the control plane."""
    plane = ControlPlane(tmp_path_factory.mktemp("control-plane") / "data")
    try:
        api = plane.start()
        yield api
        api.close()
    finally:
        plane.stop()


@pytest.fixture(scope="session")
def kubelet(api: Api, image: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubelet]:
    """The kubelet that runs the pods."""
    kubelet = Kubelet(api, {"dsms": image, **foreign_images()}, tmp_path_factory.mktemp("pods"))
    try:
        yield kubelet
    finally:
        kubelet.stop()


@pytest.fixture(scope="session")
def guarded_redis(tmp_path_factory: pytest.TempPathFactory, nothing_left: None) -> Iterator[str]:
    """The URL of a Redis with a password."""
    server, password = local_redis(tmp_path_factory.mktemp("redis"), os.environ), secrets.token_urlsafe(12)
    server.start()
    try:
        with redis.Redis.from_url(server.url) as client:
            client.config_set("requirepass", password)
        yield server.url.replace("redis://", f"redis://:{password}@")
    finally:
        server.kill()


@pytest.fixture(scope="session")
def release(
    api: Api, kubelet: Kubelet, kafka: str, guarded_redis: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Release]:
    """The chart, installed with TLS, API tokens and a Redis with a password."""
    (administrator_token, administrator), (writer_token, writer) = (
        new_token("test", "administrator"),
        new_token("executors", "writer"),
    )
    release = Release(api, kubelet, tmp_path_factory.mktemp("release"), administrator_token, NAMESPACE)
    tls = certificate_for(release.service)
    release.ca = tls["ca.crt"]
    release.prepare({
        TLS: tls, "redis": {"url": guarded_redis.encode()}, "executors": {"token": writer_token.encode()},
        "kafka": {"client.properties": b"# for all clients\nclient.id=dsms-on-kubernetes\n"},
        "tokens": {"tokens.toml": _tokens(administrator, writer).encode()},
    })  # fmt: skip
    proxy = ServiceProxy(api, NAMESPACE)
    try:
        release.helm("install", values(kafka))
        yield release
    finally:
        proxy.stop()


def values(kafka: str) -> dict:
    """Values of the chart that use every kind of secret."""
    return {
        "cluster": f"k{secrets.token_hex(4)}",
        "kafka": {"bootstrap": kafka, "propertiesSecret": {"name": "kafka"}},
        "redis": {"urlSecret": {"name": "redis"}},
        "api": {"tokensSecret": {"name": "tokens"}, "executorTokenSecret": {"name": "executors"}, "tlsSecret": TLS},
        "listenAddress": "$(POD_IP)",
        "executor": {"cores": 2, "partitions": 2, "javaOptions": QUICK_START},
    }  # fmt: skip


def _tokens(*known: Token) -> str:
    return "\n".join(
        f'[[token]]\nname = "{token.name}"\nrole = "{token.role}"\nsha256 = "{token.sha256}"' for token in known
    )


def _left(before: set[int]) -> list[str]:
    left_over = [process for process in psutil.Process().children(recursive=True) if process.pid not in before]
    return [name for process in left_over if (name := _command(process))]


def _command(process: psutil.Process) -> str:
    try:
        return "" if process.status() == psutil.STATUS_ZOMBIE else " ".join(process.cmdline())[:200]
    except psutil.NoSuchProcess:
        return ""
