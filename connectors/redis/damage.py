"""Reports of damaged runs: workers that find damage report it here, and the fragment's driver raises the alarms."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, cast

import redis

from connectors.redis.client import key
from connectors.redis.errors import translated
from operators.core.errors import ExternalError

#: The most pending reports in a worker and in Redis.
_MOST = 1000


class DamageReports:
    """The pending reports of damaged state of a fragment: the reason by place, which is a file or a key of Redis."""

    def __init__(self, client: redis.Redis, cluster: str, fragment: str) -> None:
        self._client, self._key = client, key(cluster, fragment, "damage")
        #: Reports that could not be written yet, since Redis is unavailable or full.
        self._pending: dict[str, str] = {}

    def report(self, place: str, reason: str) -> None:
        """Reports damage at a place. If Redis refuses the report, it is written with the next one."""
        self._pending = dict([*self._pending.items(), (place, reason)][-_MOST:])
        with suppress(ExternalError), translated("reporting damaged state"):
            if self._client.hlen(self._key) < _MOST:
                self._client.hset(self._key, mapping=dict[Any, Any](self._pending))
            self._pending = {}

    def drain(self) -> dict[str, str]:
        """Returns and removes the reports."""
        with translated("reading reports of damaged state"):
            if self._client.type(self._key) != b"hash":
                return {}
            found = cast("dict[bytes, bytes]", self._client.hgetall(self._key))
            if found:
                self._client.hdel(self._key, *found)
        pending, self._pending = self._pending, {}
        reported = {place.decode(errors="replace"): reason.decode(errors="replace") for place, reason in found.items()}
        return {**reported, **pending}
