"""Lists the keys of a cluster in Redis for checks, without trusting their content."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import redis

from connectors.redis.client import key
from connectors.redis.errors import translated
from connectors.runs.blob import frame_of_run
from connectors.state.inspection import FoundDocument, FoundManifest
from operators.core.decoding import Malformed


class RedisInspection:
    """Implements `connectors.state.inspection.Inspection`."""

    store = "redis"

    def __init__(self, client: redis.Redis, cluster: str) -> None:
        self._client, self.cluster = client, cluster
        self._prefix = ("dsms:{" + cluster + "}:").encode()

    def documents(self) -> list[FoundDocument]:
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

    def manifest(self, fragment: str) -> FoundManifest:
        """The manifest of a fragment."""
        key_ = key(self.cluster, fragment, "manifest").encode()
        fields = self._fields(key_)
        if fields is None:
            return FoundManifest(key_, None, "the manifest is not a hash")
        return FoundManifest(key_, fields.get(b"body"))

    def damage(self, run: bytes) -> str | None:
        """Why the run under a key is damaged; None if it is sound."""
        fields = self._fields(run)
        if fields is None:
            return "it is not a run"
        try:
            frame_of_run(fields)
        except Malformed as error:
            return str(error)
        return None

    def delete(self, key: bytes) -> None:
        """Removes a key."""
        with translated("removing an invalid key"):
            self._client.delete(key)

    def _fields(self, key_: bytes) -> dict[bytes, bytes] | None:
        """The fields of a hash, empty if the key does not exist; None if it is not a hash."""
        with translated("reading state"):
            if self._client.type(key_) != b"hash":
                return None
            return cast("dict[bytes, bytes]", self._client.hgetall(key_))

    def _found(self, key_: bytes) -> FoundDocument:
        kind = cast(bytes, self._client.type(key_)).decode()
        body = cast("bytes | None", self._client.get(key_)) if kind == "string" else None
        name = key_[len(self._prefix) :].decode(errors="replace")
        return FoundDocument(key_, name, kind, self._client.pttl(key_) == -1, body)
