"""Real services for the integration tests: a broker and a Redis per session, and private ones that may be killed."""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling, Scheduling
from xdist.workermanage import WorkerController

from connectors.native.library import build
from dsms.local.broker import Broker
from dsms.local.installed import local_broker, local_redis
from dsms.local.redis_server import RedisServer
from dsms.local.waiting import wait_until
from integration.kafka_topics import TopicFactory, create_topic
from integration.session_services import Services, received_addresses, send_addresses, started
from tests.support.time_limit import pytest_runtest_setup as pytest_runtest_setup

if TYPE_CHECKING:
    from playwright.sync_api import Browser

os.environ.setdefault("DSMS_PYTHON_SANDBOX", "prefer")  # as in tests/conftest.py
build()  # as there
SERVERS = ("java", "redis-server")
#: The tests that take longest. They begin first, so that no process waits for them at the end.
LONG = (
    "integration/test_log_law.py", "integration/test_crashes.py", "integration/shared", "integration/test_shares.py",
    "integration/test_summaries.py", "integration/test_state_memory.py", "integration/test_local_services.py",
    "integration/test_demo.py", "integration/test_query_life.py",
)  # fmt: skip


def group_of(nodeid: str) -> str:
    """The group of a test: its file, or its directory if the tests there share a cluster. One process runs a group."""
    file = nodeid.split("::", 1)[0]
    folder = file.rpartition("/")[0]
    return folder if folder.endswith("/shared") else file


class GroupScheduling(LoadFileScheduling):
    """Distributes groups of tests over the processes."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    """Distributes by `GroupScheduling` whenever there is more than one process."""
    return GroupScheduling(config, log)


def pytest_configure_node(node: WorkerController) -> None:
    """Passes the addresses of the services to each process."""
    send_addresses(node.workerinput, node.config)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Moves the longest groups to the front, in the order of `LONG`: groups are distributed in the order of their first
    tests."""
    items.sort(key=lambda item: LONG.index(group_of(item.nodeid)) if group_of(item.nodeid) in LONG else len(LONG))


@pytest.fixture(scope="session", autouse=True)
def no_leftovers() -> Iterator[None]:
    """Checks that no server outlives the session or leaves a file behind, although most servers are killed."""
    before, files = {process.pid for process in _children()}, _temporary()
    yield
    assert wait_until(lambda: not _servers(before), 120), f"left behind: {_servers(before)}"
    assert not _temporary() - files


@pytest.fixture(scope="session")
def services(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, no_leftovers: None
) -> Iterator[Services]:
    """The broker and the Redis that all tests share, except those that kill them."""
    shared = received_addresses(request.config)
    with nullcontext(shared) if shared else started(tmp_path_factory.mktemp("services")) as running:
        yield running


@pytest.fixture(scope="session")
def kafka(services: Services) -> str:
    """The bootstrap address of the session's broker."""
    return services[0]


@pytest.fixture(scope="session")
def redis_url(services: Services) -> str:
    """The URL of the session's Redis."""
    return services[1]


@pytest.fixture
def restartable_kafka(tmp_path: Path, no_leftovers: None) -> Iterator[Broker]:
    """A started broker for one test, which may call `kill()`, `stop()` and `start()`."""
    broker = local_broker(tmp_path / "kafka", os.environ)
    broker.start()
    yield broker
    broker.kill()


@pytest.fixture
def restartable_redis(tmp_path: Path, no_leftovers: None) -> Iterator[RedisServer]:
    """A started Redis for one test, which may call `kill()`, `stop()` and `start()`."""
    server = local_redis(tmp_path / "redis", os.environ)
    server.start()
    yield server
    server.kill()


@pytest.fixture
def unique() -> str:
    """A prefix for topics and keys that no other test has."""
    return f"t{uuid.uuid4().hex[:10]}"


@pytest.fixture
def topic(kafka: str, unique: str) -> TopicFactory:
    """Creates topics: `topic("bids", partitions=4)` returns the full name, which has a random prefix."""

    def create(name: str = "topic", *, partitions: int = 1, config: dict[str, str] | None = None) -> str:
        return create_topic(kafka, f"{unique}.{name}", partitions=partitions, config=config)

    return create


def _temporary() -> set[Path]:
    """The files that Spark and the broker create outside of their own directories by default."""
    made = ("spark-*", "artifacts-*", "liblz4-java-*", ".*.sock")
    return {path for pattern in made for path in Path(tempfile.gettempdir()).glob(pattern)}


def _children() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def _servers(before: set[int]) -> list[str]:
    return [name for process in _children() if process.pid not in before and (name := _name(process)) in SERVERS]


def _name(process: psutil.Process) -> str:
    try:
        return "" if process.status() == psutil.STATUS_ZOMBIE else process.name()
    except psutil.NoSuchProcess:
        return ""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium; the test is skipped if no browser is installed."""
    from integration.browser import chromium  # imported when needed: few tests need a browser

    with chromium() as opened:
        yield opened
