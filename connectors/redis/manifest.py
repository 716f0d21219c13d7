"""The manifest of a fragment: its last complete epoch, with all positions and the state of that epoch."""

from __future__ import annotations

from importlib import resources
from typing import NamedTuple, cast

import redis

from connectors.redis.client import key
from connectors.redis.errors import translated
from operators.core.errors import Fenced


class Claim(NamedTuple):
    """The claim of an incarnation on a fragment; the greatest claim holds. `lease` is that of the executor, `token`
    grows with every recovery under one lease.

    >>> Claim(lease=8, token=1) > Claim(lease=7, token=2) > Claim(lease=7, token=1)
    True
    """

    lease: int
    token: int


class ManifestStore:
    """Reads and replaces the manifest of one fragment, atomically."""

    def __init__(self, client: redis.Redis, cluster: str, fragment: str) -> None:
        self._client = client
        self._key = key(cluster, fragment, "manifest")
        script = resources.files("connectors.redis").joinpath("lua", "hold_manifest.lua")
        self._hold = client.register_script(script.read_text())

    def read(self) -> tuple[Claim, bytes | None]:
        """The greatest claim and the manifest; the least possible claim and None if there are none."""
        with translated("reading the manifest"):
            fields = cast("list[bytes | None]", self._client.hmget(self._key, ["lease", "token", "body"]))
        lease, token, body = fields
        return Claim(int(lease or 0), int(token or 0)), body

    def claim(self, claim: Claim) -> None:
        """Claims the fragment: from now on older incarnations cannot commit. Raises Fenced if there is a newer one."""
        with translated("claiming the manifest"):
            done = self._hold(keys=[self._key], args=[*claim])
        if not done:
            raise Fenced("a newer executor has claimed the fragment")

    def commit(self, claim: Claim, body: bytes) -> None:
        """Replaces the manifest by `body`. Raises Fenced if there is a newer incarnation."""
        with translated("writing the manifest"):
            done = self._hold(keys=[self._key], args=[*claim, body])
        if not done:
            raise Fenced("a newer executor of the fragment has written the manifest")
