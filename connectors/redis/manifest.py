"""Stores the manifest of a fragment in Redis."""

from __future__ import annotations

import time
from importlib import resources
from typing import cast

import redis

from connectors.redis.client import key
from connectors.redis.errors import translated
from connectors.state.store import AHEAD_MS, Claim
from operators.core.errors import Fenced


class RedisManifest:
    """Implements `connectors.state.store.ManifestStore`: a hash that a script replaces atomically."""

    def __init__(self, client: redis.Redis, cluster: str, fragment: str) -> None:
        self._client = client
        self.place = key(cluster, fragment, "manifest")
        script = resources.files("connectors.redis").joinpath("lua", "hold_manifest.lua")
        self._commits = 0
        self._hold = client.register_script(script.read_text())

    def read(self) -> tuple[Claim, bytes | None]:
        """The greatest claim and the manifest; the least possible claim and None if there are none.

        Any other content of the key is ignored, and replaced by the next claim; Kafka fences older owners.
        """
        with translated("reading the manifest"):
            if self._client.type(self.place) != b"hash":
                return Claim(0, 0), None
            fields = cast("list[bytes | None]", self._client.hmget(self.place, ["lease", "token", "body"]))
        *claimed, body = fields
        lease, token = map(_number, claimed)
        return (Claim(lease, token) if max(lease, token) <= _latest() else Claim(0, 0)), body

    def claim(self, claim: Claim) -> None:
        """Claims the fragment: from now on older incarnations cannot commit. Raises Fenced if there is a newer one."""
        with translated("claiming the manifest"):
            done = self._hold(keys=[self.place], args=[*claim])
        if not done:
            raise Fenced("a newer executor has claimed the fragment")

    def commit(self, claim: Claim, body: bytes) -> None:
        """Replaces the manifest by `body`. Raises Fenced if there is a newer incarnation. A request whose answer was
        lost is resent; if a copy arrives after a later request, it changes nothing."""
        with translated("writing the manifest"):
            self._commits += 1
            done = self._hold(keys=[self.place], args=[*claim, body, self._commits])
        if not done:
            raise Fenced("a newer executor of the fragment has written the manifest")


def _number(text: bytes | None) -> int:
    """A number of a claim, as the Lua script reads it; 0 if it is not a number."""
    return int(text) if text is not None and len(text) < 16 and text.isdigit() else 0


def _latest() -> int:
    """The greatest valid lease or token now, in milliseconds since 1970, as the Lua script computes it."""
    return int(time.time()) * 1000 + AHEAD_MS
