"""The store of a cluster's state in Redis."""

from __future__ import annotations

from pathlib import Path

import redis

from connectors.alarms import Alarms
from connectors.redis.answers import RedisAnswers
from connectors.redis.client import connect
from connectors.redis.documents import RedisDocumentStore
from connectors.redis.inspection import RedisInspection
from connectors.redis.manifest import RedisManifest
from connectors.redis.runs import RedisRuns

#: The schemes of the URLs that `client.connect` opens.
SCHEMES = (
    "redis",
    "rediss",
    "unix",
    "redis+sentinel",
    "rediss+sentinel",
    "redis+cluster",
    "rediss+cluster",
)


class RedisState:
    """Implements `connectors.state.store.StateStore`. Each opened store has a pool of connections of its own."""

    def __init__(self, url: str, cluster: str, alarms: Alarms) -> None:
        self._client: redis.Redis = connect(url)
        self._cluster, self._alarms = cluster, alarms

    def documents(self) -> RedisDocumentStore:
        """The documents of the cluster."""
        return RedisDocumentStore(self._client, self._cluster, self._alarms)

    def manifest(self, fragment: str) -> RedisManifest:
        """The manifest of a fragment, for one incarnation."""
        return RedisManifest(self._client, self._cluster, fragment)

    def runs(self, fragment: str, cache: Path, limit: int | None = None) -> RedisRuns:
        """The runs of a fragment, with a cache of files in a directory of this host."""
        return RedisRuns(self._client, self._cluster, fragment, cache, limit)

    def inspection(self) -> RedisInspection:
        """The keys of the cluster."""
        return RedisInspection(self._client, self._cluster)

    def answers(self) -> RedisAnswers:
        """The answers that are kept for idempotency keys."""
        return RedisAnswers(self._client, self._cluster)
