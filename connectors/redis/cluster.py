"""The documents that coordinator and executors exchange through Redis."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import resources
from typing import cast

import redis

from connectors.alarms import Alarms
from connectors.redis.errors import translated
from connectors.state.cluster import LEASE_MS, STORY_MS

#: Redis's answer for the time to live of a key that never expires.
_NEVER = -1


class RedisCluster:
    """Implements `connectors.state.cluster.ClusterState`. A key that cannot be such a document is ignored: one of
    another type, such as a list, or a sign of life that never expires."""

    def __init__(self, client: redis.Redis, cluster: str, alarms: Alarms) -> None:
        self.name, self._client, self._alarms = cluster, client, alarms
        self._prefix = "dsms:{" + cluster + "}:"
        replace = resources.files("connectors.redis").joinpath("lua/set_document.lua").read_text()
        self._replace = self._client.register_script(replace)

    def catalog(self) -> bytes | None:
        """The copy of the catalog."""
        return self._get("catalog")

    def set_catalog(self, body: bytes) -> None:
        """Replaces the copy of the catalog."""
        with translated("writing the catalog copy"):
            self._set("catalog", body)

    def assignments(self) -> bytes | None:
        """The assignments of fragments to executors."""
        return self._get("assignments")

    def set_assignments(self, body: bytes) -> None:
        """Replaces the assignments."""
        with translated("writing the assignments"):
            self._set("assignments", body)

    def write_sign_of_life(self, executor: str, body: bytes) -> None:
        """Writes a sign of life of an executor; it expires with the executor's lease."""
        with translated("writing a sign of life"):
            self._set(f"executor:{executor}", body, LEASE_MS)

    def end_lease(self, executor: str) -> None:
        """Ends an executor's lease at once."""
        with translated("ending the lease of an executor"):
            self._client.delete(self._prefix + f"executor:{executor}")

    def executors(self) -> dict[str, bytes]:
        """The last signs of life of the executors that are alive."""
        return self._all("executor:", "reading signs of life")

    def write_report(self, fragment: str, body: bytes) -> None:
        """Writes the report of a fragment; it expires with the lease time unless it is renewed."""
        with translated("writing a report"):
            self._set(f"report:{fragment}", body, LEASE_MS)

    def reports(self) -> dict[str, bytes]:
        """The last reports by fragment."""
        return self._all("report:", "reading reports")

    def tuning(self, executor: str) -> bytes | None:
        """The settings of an executor that ALTER EXECUTOR has set."""
        return self._get(f"tuning:{executor}")

    def set_tuning(self, executor: str, body: bytes) -> None:
        """Replaces the settings of an executor, which last until Redis loses them."""
        with translated("writing the settings of an executor"):
            self._set(f"tuning:{executor}", body)

    def search(self, fragment: str) -> bytes | None:
        """The state of a fragment's search for the query that crashes its workers."""
        return self._get(f"search:{fragment}")

    def set_search(self, fragment: str, body: bytes) -> None:
        """Replaces the state of a fragment's search."""
        with translated("writing the search of a fragment"):
            self._set(f"search:{fragment}", body)

    def story(self, fragment: str, executor: str) -> bytes | None:
        """The story of a fragment on an executor."""
        return self._get(f"story:{fragment}:{executor}")

    def set_story(self, fragment: str, executor: str, body: bytes) -> None:
        """Replaces the story of a fragment on an executor; it expires after a day unless it is renewed."""
        with translated("writing the story of a fragment"):
            self._set(f"story:{fragment}:{executor}", body, STORY_MS)

    def stories(self, fragment: str) -> dict[str, bytes]:
        """The stories of a fragment, by executor."""
        return self._all(f"story:{fragment}:", "reading the story of a fragment")

    def checkpoint_request(self) -> int:
        """The number of the last request for checkpoints; 0 without one."""
        body = self._get("checkpoint-request")
        return int(body) if body and body.isdigit() and len(body) < 19 else 0

    def request_checkpoint(self, number: int) -> None:
        """Asks all executors for checkpoints; a later request has a greater number."""
        with translated("asking for a checkpoint"):
            self._set("checkpoint-request", str(number).encode())

    def place(self, name: str) -> str:
        """The key of a document such as "catalog", "executor:NAME" or "report:FRAGMENT"."""
        return self._prefix + name

    def _all(self, kind: str, doing: str) -> dict[str, bytes]:
        """The expiring documents of a kind, by the name of their subject."""
        prefix = (self._prefix + kind).encode()
        with translated(doing):
            keys = sorted(cast("Iterable[bytes]", self._client.scan_iter(match=prefix + b"*", count=1000)))
            bodies = cast("list[bytes | None]", self._client.mget(keys)) if keys else []
            pipeline = self._client.pipeline(transaction=False)
            for key in keys:
                pipeline.pttl(key)
            lives = pipeline.execute() if keys else []
        found = zip(keys, bodies, lives, strict=True)
        sound = (
            (key[len(prefix) :].decode(), body)
            for key, body, life in found
            if body is not None and self._is_sound(key, life)
        )
        return dict(sound)

    def _is_sound(self, key: bytes, life_ms: int) -> bool:
        """Whether a document's key is UTF-8 and expires, as the key of every valid one does."""
        text, place = key.decode(errors="ignore"), key.decode(errors="replace")
        if text.encode() == key and life_ms != _NEVER:
            self._alarms.clear(place)
            return True
        self._alarms.raise_at(place, "it never expires, so no executor wrote it" if life_ms == _NEVER else "not UTF-8")
        return False

    def ping(self) -> None:
        """Raises ExternalError unless Redis answers."""
        with translated("answering PING"):
            self._client.ping()

    def _set(self, name: str, body: bytes, lasts_ms: int = 0) -> None:
        """Writes a document even if Redis is full: documents are small, and some of them help to free memory."""
        self._replace(keys=[self._prefix + name], args=[body, lasts_ms])

    def _get(self, name: str) -> bytes | None:
        with translated(f"reading the {name}"):
            # unlike GET, MGET returns None for a key that is not a string
            return cast("list[bytes | None]", self._client.mget([self._prefix + name]))[0]
