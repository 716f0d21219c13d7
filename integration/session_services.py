"""The broker and the Redis of a test session. If several processes run the tests, the distributing process starts
them."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from dsms.local.installed import local_broker, local_redis

#: The bootstrap address of the broker, and the URL of the Redis.
Services = tuple[str, str]
_STARTED = pytest.StashKey[Services]()
_GIVEN = "services"


@contextmanager
def started(directory: Path) -> Iterator[Services]:
    """Runs both while the block runs."""
    broker, redis = local_broker(directory / "kafka", os.environ), local_redis(directory / "redis", os.environ)
    with ExitStack() as stack:
        for server in (broker, redis):
            stack.callback(server.stop)
            server.start()
        yield broker.address, redis.url


def started_once(config: pytest.Config) -> Services:
    """The services that all processes of the session use. The first call starts them; they end with the session."""
    if _STARTED not in config.stash:
        stack = ExitStack()
        config.add_cleanup(stack.close)
        directory = stack.enter_context(TemporaryDirectory(prefix="dsms-integration-"))
        config.stash[_STARTED] = stack.enter_context(started(Path(directory)))
    return config.stash[_STARTED]


def send_addresses(worker_input: dict[str, object], config: pytest.Config) -> None:
    """Passes the addresses to a process that will run tests."""
    worker_input[_GIVEN] = started_once(config)


def received_addresses(config: pytest.Config) -> Services | None:
    """The addresses that this process received; None if it runs all tests by itself."""
    addresses = getattr(config, "workerinput", {}).get(_GIVEN)
    return addresses and tuple(addresses)
