"""Opens the store of a cluster's state by its URL. A new kind of store is a package in `connectors`, and a line of
`STORES`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from connectors.alarms import Alarms
from connectors.redis.store import SCHEMES as REDIS
from connectors.redis.store import RedisState
from connectors.state.store import StateStore
from operators.core.errors import ConfigError

#: Opens the store at a URL for a cluster. Alarms are raised for invalid content.
Open = Callable[[str, str, Alarms], StateStore]
#: The kinds of stores, by the scheme of their URLs.
STORES: Mapping[str, Open] = {
    **dict.fromkeys(REDIS, RedisState),
}
#: The scheme of the store of `connectors.memory`, which only code in the same process can use.
_MEMORY = "memory"


@dataclass(frozen=True)
class StateAddress:
    """The address of a cluster's state. It can be pickled, so that each process opens a connection of its own. Raises
    ConfigError for a URL that names no store which several processes can share.

    >>> StateAddress("memory://", "main")
    Traceback (most recent call last):
    ...
    operators.core.errors.ConfigError: state at "memory://" is in one process, but coordinator, executors and their ...
    >>> StateAddress("localhost:6379", "main")
    Traceback (most recent call last):
    ...
    operators.core.errors.ConfigError: the URL of the state begins with no known scheme; have: redis://, rediss://, ...
    """

    url: str = field(repr=False)
    cluster: str

    def __post_init__(self) -> None:
        _opener(self.url)

    def open(self, alarms: Alarms | None = None) -> StateStore:
        """Opens the store."""
        return _opener(self.url)(self.url, self.cluster, alarms or Alarms())


def _opener(url: str) -> Open:
    """The function that opens the store at a URL. No message contains the URL, as it may hold a password."""
    scheme = urlsplit(url).scheme if "://" in url else ""
    if scheme == _MEMORY:
        problem = f'state at "{_MEMORY}://" is in one process, but coordinator, executors and their workers are several'
        raise ConfigError(problem, hint="use redis://HOST:PORT/0; for tests without a cluster, use LocalSession")
    if scheme not in STORES:
        choices = ", ".join(f"{known}://" for known in STORES)
        raise ConfigError("the URL of the state begins with no known scheme", hint=f"have: {choices}")
    return STORES[scheme]
