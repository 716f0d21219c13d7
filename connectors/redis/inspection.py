"""Lists the keys of a cluster in Redis for checks, without trusting their content."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

import redis

from connectors.redis.client import connect, key
from connectors.redis.errors import translated


@dataclass(frozen=True)
class Found:
    """A key: the name of the document, its type in Redis ("string", "hash", …), whether it never expires (`lasts`),
    and its body, None if it is not a string."""

    key: bytes
    name: str
    kind: str
    lasts: bool
    body: bytes | None


class Inspection:
    """The keys of one cluster."""

    def __init__(self, url: str, cluster: str) -> None:
        self._client: redis.Redis = connect(url)
        self.cluster = cluster
        self._prefix = ("dsms:{" + cluster + "}:").encode()

    @property
    def client(self) -> redis.Redis:
        """The Redis client."""
        return self._client

    def documents(self) -> list[Found]:
        """The documents of the cluster, except answers of calls, which expire."""
        with translated("looking at the documents"):
            keys = sorted(cast("Iterable[bytes]", self._client.scan_iter(match=self._prefix + b"*", count=1000)))
            return [self._found(each) for each in keys if not each.startswith(self._prefix + b"answer")]

    def fragments(self) -> list[str]:
        """The names of the fragments that have a manifest."""
        start, end = b"dsms:{" + self.cluster.encode() + b"/", b"}:manifest"
        with translated("looking at the manifests"):
            keys = sorted(cast("Iterable[bytes]", self._client.scan_iter(match=start + b"*" + end, count=1000)))
        names = (each[len(start) : -len(end)].decode(errors="ignore") for each in keys)
        return [name for name in names if name]

    def runs(self, fragment: str) -> dict[str, bytes]:
        """The keys of the runs of a fragment, by name."""
        prefix = key(self.cluster, fragment, "run", "").encode()
        with translated("looking at the runs"):
            keys = list(cast("Iterable[bytes]", self._client.scan_iter(match=prefix + b"*", count=1000)))
        return {each[len(prefix) :].decode(errors="replace"): each for each in keys}

    def fields(self, key_: bytes) -> dict[bytes, bytes] | None:
        """The fields of a key; None if it is not a hash."""
        with translated("reading state"):
            if self._client.type(key_) != b"hash":
                return None
            return cast("dict[bytes, bytes]", self._client.hgetall(key_))

    def delete(self, key_: bytes | str) -> None:
        """Removes a key."""
        with translated("removing an invalid key"):
            self._client.delete(key_)

    def _found(self, key_: bytes) -> Found:
        kind = cast(bytes, self._client.type(key_)).decode()
        body = cast("bytes | None", self._client.get(key_)) if kind == "string" else None
        name = key_[len(self._prefix) :].decode(errors="replace")
        return Found(key_, name, kind, self._client.pttl(key_) == -1, body)
