"""Creates a Redis client from a URL, with time-outs and retries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import SplitResult, unquote, urlsplit

import redis
from redis.backoff import ExponentialBackoff
from redis.cluster import ClusterNode
from redis.retry import Retry
from redis.sentinel import Sentinel

from connectors.redis.errors import translated
from operators.core.errors import ConfigError

_TIMEOUTS: dict[str, Any] = {"socket_timeout": 20, "socket_connect_timeout": 2}
_SENTINEL, _CLUSTER = "+sentinel", "+cluster"
_FORMS = "redis://HOST:PORT/0, redis+sentinel://HOST:PORT,HOST:PORT/MASTER, redis+cluster://HOST:PORT,HOST:PORT"


def connect(url: str) -> redis.Redis:
    """A client; it connects on first use and reconnects after a failure.

    `redis://`, `rediss://` and `unix://` address one server, `redis+sentinel://a:26379,b:26379/mymaster/0` the master
    that the Sentinels name, and `redis+cluster://a:7000,b:7000` a Redis Cluster, given by any of its nodes. `rediss+…`
    uses TLS. User and password are those of the Redis servers; parameters are those of redis-py.

    >>> connect("redis+sentinel://a:26379/")
    Traceback (most recent call last):
    ...
    operators.core.errors.ConfigError: no master in "redis+sentinel://a:26379/"; have: redis://HOST:PORT/0, ...
    """
    parts = urlsplit(url)
    if parts.scheme.endswith(_SENTINEL):
        return _by_sentinels(_SeveralServers.of(parts))
    if parts.scheme.endswith(_CLUSTER):
        return _of_cluster(_SeveralServers.of(parts))
    return redis.Redis.from_url(url, **_TIMEOUTS, retry=_retry())


@dataclass(frozen=True)
class _SeveralServers:
    """The parts of a URL of several servers; `shown` is the URL without the password."""

    shown: str
    hosts: tuple[tuple[str, int], ...]
    path: tuple[str, ...]
    options: dict[str, Any]

    @staticmethod
    def of(parts: SplitResult) -> _SeveralServers:
        login, _, hosts = parts.netloc.rpartition("@")
        shown = f"{parts.scheme}://{hosts}{parts.path}"
        user, _, password = login.partition(":")
        credentials = {"username": unquote(user) or None, "password": unquote(password) or None}
        tls = parts.scheme.startswith("rediss+")
        # redis-py parses the typed parameters only of single-server URLs
        read = redis.connection.parse_url(  # type: ignore[no-untyped-call]
            f"{'rediss' if tls else 'redis'}://host?{parts.query}"
        )
        options = {name: value for name, value in read.items() if name not in ("host", "connection_class")}
        path = tuple(part for part in parts.path.split("/") if part)
        return _SeveralServers(
            shown, tuple(_hosts(hosts, shown)), path, {**credentials, **options, **({"ssl": True} if tls else {})}
        )


def _hosts(text: str, shown: str) -> Iterator[tuple[str, int]]:
    for address in text.split(","):
        host, _, port = address.rpartition(":")
        if not (host and port.isdigit()):
            raise _wrong(f'"{address}" is not HOST:PORT', shown)
        yield host.strip("[]"), int(port)


def _by_sentinels(servers: _SeveralServers) -> redis.Redis:
    """A client that asks the Sentinels for the master at each connection."""
    if not servers.path:
        raise _wrong("no master", servers.shown)
    tls = {name: value for name, value in servers.options.items() if name.startswith("ssl")}
    options = {"sentinel_kwargs": {**_TIMEOUTS, **tls}, "retry": _retry(), **_TIMEOUTS}
    sentinels = Sentinel(list(servers.hosts), **options)  # type: ignore[no-untyped-call]
    number = int(servers.path[1]) if len(servers.path) > 1 and servers.path[1].isdigit() else 0
    return cast(redis.Redis, sentinels.master_for(servers.path[0], db=number, **servers.options))  # type: ignore[no-untyped-call]


def _of_cluster(servers: _SeveralServers) -> redis.Redis:
    """A client of a Redis Cluster; it asks for the cluster's nodes at once. A cluster has only one database."""
    nodes = [ClusterNode(host, port) for host, port in servers.hosts]  # type: ignore[no-untyped-call]
    with translated("looking for the nodes of its cluster"):
        return cast(
            redis.Redis, redis.RedisCluster(startup_nodes=nodes, retry=_retry(), **_TIMEOUTS, **servers.options)
        )


def _wrong(what: str, shown: str) -> ConfigError:
    return ConfigError(f'{what} in "{shown}"', hint=f"have: {_FORMS}")


def _retry() -> Retry:
    return Retry(ExponentialBackoff(cap=0.5, base=0.02), 3)


def key(cluster: str, fragment: str, *parts: str) -> str:
    """A key of a fragment. All keys of one fragment are in one slot of a Redis Cluster.

    >>> key("main", "f1", "manifest")
    'dsms:{main/f1}:manifest'
    """
    return ":".join(["dsms", "{" + f"{cluster}/{fragment}" + "}", *parts])
