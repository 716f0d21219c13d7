"""The manifest of a fragment: which epoch is complete, and where everything stood then."""

from __future__ import annotations

from importlib import resources
from typing import cast

import redis

from connectors.redis.client import key
from connectors.redis.errors import translated
from operators.errors import Fenced


class ManifestStore:
    """Reads and replaces the manifest of one fragment, atomically."""

    def __init__(self, client: redis.Redis, cluster: str, fragment: str) -> None:
        self._client = client
        self._key = key(cluster, fragment, "manifest")
        scripts = resources.files("connectors.redis").joinpath("lua")
        self._commit = client.register_script(scripts.joinpath("commit_manifest.lua").read_text())
        self._claim = client.register_script(scripts.joinpath("claim_manifest.lua").read_text())

    def read(self) -> tuple[int, bytes | None]:
        """The token of the last writer and the manifest; (0, None) when there is none."""
        with translated("reading the manifest"):
            token, body = cast("list[bytes | None]", self._client.hmget(self._key, ["token", "body"]))
        return int(token or 0), body

    def claim(self, token: int) -> None:
        """From here on only this incarnation and newer ones can commit."""
        with translated("claiming the manifest"):
            held = self._claim(keys=[self._key], args=[token])
        if int(held) > token:
            raise Fenced("a newer executor has claimed the fragment")

    def commit(self, token: int, body: bytes) -> None:
        """Makes `body` the manifest. Raises Fenced when a newer incarnation has written one."""
        with translated("writing the manifest"):
            done = self._commit(keys=[self._key], args=[token, body])
        if not done:
            raise Fenced("a newer executor of the fragment has written the manifest")
