"""One way to make a Redis client from a URL, with bounded waiting."""

from __future__ import annotations

import redis
from redis.backoff import ExponentialBackoff
from redis.retry import Retry


def connect(url: str) -> redis.Redis:
    """A client of `redis://`, `rediss://` or `unix://`; it connects on first use and reconnects after a failure."""
    retry = Retry(ExponentialBackoff(cap=0.5, base=0.02), 3)
    return redis.Redis.from_url(url, socket_timeout=20, socket_connect_timeout=2, retry=retry)


def key(cluster: str, fragment: str, *parts: str) -> str:
    """A key of a fragment; all keys of one fragment live in one slot of a Redis Cluster.

    >>> key("main", "f1", "manifest")
    'dsms:{main/f1}:manifest'
    """
    return ":".join(["dsms", "{" + f"{cluster}/{fragment}" + "}", *parts])
