"""The documents of a cluster in Redis."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import resources
from typing import cast

import redis

from connectors.alarms import Alarms
from connectors.redis.errors import translated

#: Redis's answer for the time to live of a key that never expires.
_NEVER = -1


class RedisDocumentStore:
    """Implements `connectors.state.documents.DocumentStore`. A key that cannot be such a document is ignored: one of
    another type, such as a list, or one among those that expire which never does."""

    def __init__(self, client: redis.Redis, cluster: str, alarms: Alarms) -> None:
        self._client, self._alarms = client, alarms
        self._prefix = "dsms:{" + cluster + "}:"
        replace = resources.files("connectors.redis").joinpath("lua/set_document.lua").read_text()
        self._replace = self._client.register_script(replace)

    def get(self, name: str) -> bytes | None:
        """A document; None if it does not exist or has expired."""
        with translated(f"reading the {name}"):
            # unlike GET, MGET returns None for a key that is not a string
            return cast("list[bytes | None]", self._client.mget([self._prefix + name]))[0]

    def set(self, name: str, body: bytes, doing: str, ttl_ms: int | None = None) -> None:
        """Replaces a document even if Redis is full: documents are small, and some of them help to free memory."""
        with translated(doing):
            self._replace(keys=[self._prefix + name], args=[body, ttl_ms or 0])

    def delete(self, name: str, doing: str) -> None:
        """Removes a document, if it exists."""
        with translated(doing):
            self._client.delete(self._prefix + name)

    def expiring(self, prefix: str, doing: str) -> dict[str, bytes]:
        """The documents that expire and whose names begin with a prefix, by the rest of their names, in order."""
        begin = (self._prefix + prefix).encode()
        with translated(doing):
            keys = sorted(cast("Iterable[bytes]", self._client.scan_iter(match=begin + b"*", count=1000)))
            bodies = cast("list[bytes | None]", self._client.mget(keys)) if keys else []
            pipeline = self._client.pipeline(transaction=False)
            for key in keys:
                pipeline.pttl(key)
            lives = pipeline.execute() if keys else []
        found = zip(keys, bodies, lives, strict=True)
        sound = (
            (key[len(begin) :].decode(), body)
            for key, body, life in found
            if body is not None and self._is_sound(key, life)
        )
        return dict(sound)

    def place(self, name: str) -> str:
        """The key of a document."""
        return self._prefix + name

    def ping(self) -> None:
        """Raises ExternalError unless Redis answers."""
        with translated("answering PING"):
            self._client.ping()

    def _is_sound(self, key: bytes, life_ms: int) -> bool:
        """Whether a document's key is UTF-8 and expires, as the key of every valid one does."""
        text, place = key.decode(errors="ignore"), key.decode(errors="replace")
        if text.encode() == key and life_ms != _NEVER:
            self._alarms.clear(place)
            return True
        self._alarms.raise_at(place, "it never expires, so no executor wrote it" if life_ms == _NEVER else "not UTF-8")
        return False
