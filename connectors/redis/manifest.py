"""The manifest of a fragment: which epoch is complete, and where everything stood then."""

from __future__ import annotations

from importlib import resources
from typing import NamedTuple, cast

import redis

from connectors.redis.client import key
from connectors.redis.errors import translated
from operators.core.errors import Fenced


class Claim(NamedTuple):
    """What an incarnation claims its fragment with; the greater claim holds it. `lease` is the one that its executor
    read, `token` grows with every recovery under it.

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
        """The greatest claim and the manifest; one below all others and None when there are none."""
        with translated("reading the manifest"):
            found = cast("list[bytes | None]", self._client.hmget(self._key, ["lease", "token", "body"]))
        lease, token, body = found
        return Claim(int(lease or 0), int(token or 0)), body

    def claim(self, claim: Claim) -> None:
        """From here on only this incarnation and newer ones can commit. Raises Fenced when there is a newer one."""
        with translated("claiming the manifest"):
            done = self._hold(keys=[self._key], args=[*claim])
        if not done:
            raise Fenced("a newer executor has claimed the fragment")

    def commit(self, claim: Claim, body: bytes) -> None:
        """Makes `body` the manifest. Raises Fenced when there is a newer incarnation."""
        with translated("writing the manifest"):
            done = self._hold(keys=[self._key], args=[*claim, body])
        if not done:
            raise Fenced("a newer executor of the fragment has written the manifest")
