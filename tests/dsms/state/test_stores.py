"""Stores of state are opened by their URLs, in the processes to which an address is sent."""

from __future__ import annotations

import pickle

import pytest

from connectors.alarms import Alarms
from connectors.memory.store import MemoryState
from connectors.state.cluster import ClusterState
from dsms.state.stores import STORES, StateAddress
from operators.core.errors import ConfigError


def test_an_address_opens_the_store_of_its_scheme_after_it_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[tuple[str, str, Alarms]] = []

    def open_third(url: str, cluster: str, alarms: Alarms) -> MemoryState:
        opened.append((url, cluster, alarms))
        return MemoryState(cluster)

    monkeypatch.setitem(STORES, "third", open_third)  # type: ignore[arg-type]
    address, alarms = StateAddress("third://:password@host/0", "main"), Alarms()
    sent = pickle.loads(pickle.dumps(address))
    assert sent == address and ClusterState(sent.open(alarms).documents()).name == "main"
    assert opened == [("third://:password@host/0", "main", alarms)]
    assert "password" not in repr(address)


@pytest.mark.parametrize(
    "scheme",
    ["redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"],
)
def test_every_kind_of_redis_has_an_address(scheme: str) -> None:
    assert StateAddress(f"{scheme}://h:1/0", "main").url == f"{scheme}://h:1/0"


@pytest.mark.parametrize("url", ["rocks://:password@host/0", "host:6379", "", "redis:host"])
def test_an_unknown_scheme_is_refused_without_the_password(url: str) -> None:
    with pytest.raises(ConfigError, match=r"no known scheme; have: redis://, rediss://") as error:
        StateAddress(url, "main")
    assert "password" not in str(error.value)


def test_state_in_memory_is_refused_for_a_cluster() -> None:
    """The Python workers of an executor are processes of their own, and would not see what its driver stores."""
    with pytest.raises(ConfigError, match=r'"memory://" is in one process.*use redis://') as error:
        StateAddress("memory://", "main")
    assert "LocalSession" in str(error.value)
