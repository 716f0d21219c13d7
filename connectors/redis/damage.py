"""Damage of stored runs: workers that find it report it here, and the driver of the fragment raises the alarms."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, cast

import redis

from connectors.redis.client import key
from connectors.redis.errors import translated
from operators.core.errors import ExternalError

#: The most findings that wait to be heard, in a worker and in Redis.
_MOST = 1000


class DamageReports:
    """What was found damaged in the state of a fragment and not yet heard of: by place, why it does not count."""

    def __init__(self, client: redis.Redis, cluster: str, fragment: str) -> None:
        self._client, self._key = client, key(cluster, fragment, "damage")
        #: What could not be written yet, since Redis is away or full.
        self._waiting: dict[str, str] = {}

    def report(self, place: str, reason: str) -> None:
        """Notes damage at a place; where Redis refuses it, the note is written with the next one."""
        self._waiting = dict([*self._waiting.items(), (place, reason)][-_MOST:])
        with suppress(ExternalError), translated("reporting damaged state"):
            if self._client.hlen(self._key) < _MOST:
                self._client.hset(self._key, mapping=dict[Any, Any](self._waiting))
            self._waiting = {}

    def take(self) -> dict[str, str]:
        """The reports, which are removed."""
        with translated("reading reports of damaged state"):
            if self._client.type(self._key) != b"hash":
                return {}
            found = cast("dict[bytes, bytes]", self._client.hgetall(self._key))
            if found:
                self._client.hdel(self._key, *found)
        waiting, self._waiting = self._waiting, {}
        heard = {place.decode(errors="replace"): reason.decode(errors="replace") for place, reason in found.items()}
        return {**heard, **waiting}
