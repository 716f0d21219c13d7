"""The runs of a fragment in Redis: a hash for each run, a hash with the account of their sizes, and one with reports of
damage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import redis

from connectors.redis.client import key
from connectors.redis.errors import translated
from connectors.redis.state_memory import StateMemory
from connectors.runs.host_runs import HostRuns
from connectors.runs.shared import MAX_REPORTS

#: The fields of a run whose key is not a hash; no run has them.
_NO_RUN = {b"": b""}


class RedisRuns(HostRuns):
    """The runs of a fragment with Redis as the shared memory."""

    def __init__(self, client: redis.Redis, cluster: str, fragment: str, cache: Path, limit: int | None = None) -> None:
        super().__init__(RedisSharedRuns(client, cluster, fragment), cache, limit)


class RedisSharedRuns:
    """Implements `connectors.runs.shared.SharedRuns`."""

    store = "redis"

    def __init__(self, client: redis.Redis, cluster: str, fragment: str) -> None:
        self._client, self._memory = client, StateMemory(client, cluster, fragment)
        self._cluster, self.fragment = cluster, fragment
        self._prefix, self._damage = key(cluster, fragment, "run", ""), key(cluster, fragment, "damage")
        self.place = self._memory.run
        self.admit, self.resident, self.release = self._memory.admit, self._memory.resident, self._memory.release

    def put(self, runs: Mapping[str, Mapping[str, bytes]]) -> None:
        """Replaces the fields of runs."""
        with translated("writing state"):
            pipeline = self._client.pipeline(transaction=False)
            for name, fields in runs.items():
                pipeline.delete(self.place(name))
                pipeline.hset(self.place(name), mapping=fields)  # type: ignore[arg-type]
            pipeline.execute()

    def fields(self, name: str) -> Mapping[bytes, bytes]:
        """The fields of a run; none if it does not exist."""
        with translated("reading state"):
            if self._client.type(self.place(name)) not in (b"hash", b"none"):
                return _NO_RUN
            return cast("dict[bytes, bytes]", self._client.hgetall(self.place(name)))

    def count(self, name: str) -> int:
        """The number of fields of a run; 0 if it does not exist."""
        with translated("reading state"):
            return self._client.hlen(self.place(name))

    def field(self, name: str, field: str) -> bytes | None:
        """One field of a run."""
        with translated("reading state"):
            return cast("bytes | None", self._client.hget(self.place(name), field))

    def add(self, name: str, field: str, content: bytes) -> None:
        """Sets one field of a run."""
        with translated("writing state"):
            self._client.hset(self.place(name), field, content)

    def rename(self, name: str, other: str) -> None:
        """Gives a run another name, and replaces the run that has that name."""
        with translated("writing state"):
            self._client.rename(self.place(name), self.place(other))

    def copy(self, fragment: str, names: Mapping[str, str]) -> set[str]:
        """Copies runs of another fragment under new names, within the server if it can; returns the new names of those
        that existed. The keys of two fragments may be on different servers of a Redis Cluster, and servers before
        Redis 6.2 cannot copy."""
        other = RedisSharedRuns(self._client, self._cluster, fragment)
        copied = None if isinstance(self._client, redis.RedisCluster) else self._copy_in_server(other, names)
        return copied if copied is not None else self._copy_by_client(other, names)

    def _copy_in_server(self, other: RedisSharedRuns, names: Mapping[str, str]) -> set[str] | None:
        """None if the server refuses the command."""
        with translated("copying state"):
            pipeline = self._client.pipeline(transaction=False)
            for name, new in names.items():
                pipeline.copy(other.place(name), self.place(new), replace=True)
            try:
                return {new for new, copied in zip(names.values(), pipeline.execute(), strict=True) if copied}
            except redis.exceptions.OutOfMemoryError:
                raise
            except redis.ResponseError:  # before Redis 6.2, or the user may not copy
                return None

    def _copy_by_client(self, other: RedisSharedRuns, names: Mapping[str, str]) -> set[str]:
        copied = set[str]()
        for name, new in names.items():
            if fields := other.fields(name):
                self.put({new: {field.decode(): content for field, content in fields.items()}})
                copied.add(new)
        return copied

    def existing(self, names: Sequence[str]) -> set[str]:
        """Those of the runs that exist."""
        with translated("checking which state exists"):
            pipeline = self._client.pipeline(transaction=False)
            for name in names:
                pipeline.exists(self.place(name))
            return {name for name, there in zip(names, pipeline.execute(), strict=True) if there}

    def names(self) -> set[str]:
        """The names of all runs."""
        with translated("removing state"):
            keys = self._client.scan_iter(_escaped(self._prefix) + "*", count=1000)
            return {each.decode(errors="surrogateescape")[len(self._prefix) :] for each in keys}

    def remove(self, names: Iterable[str]) -> None:
        """Removes runs, but not from the account."""
        with translated("writing state"):
            self._client.delete(*map(self.place, names))

    def report(self, damage: Mapping[str, str]) -> None:
        """Adds reports of damage, unless too many wait already."""
        with translated("reporting damaged state"):
            if self._client.hlen(self._damage) < MAX_REPORTS:
                self._client.hset(self._damage, mapping=dict[Any, Any](damage))

    def drain(self) -> dict[str, str]:
        """Returns and removes the reports of damage."""
        with translated("reading reports of damaged state"):
            if self._client.type(self._damage) != b"hash":
                return {}
            found = cast("dict[bytes, bytes]", self._client.hgetall(self._damage))
            if found:
                self._client.hdel(self._damage, *found)
        return {place.decode(errors="replace"): reason.decode(errors="replace") for place, reason in found.items()}


def _escaped(prefix: str) -> str:
    return "".join(f"[{character}]" if character in "*?[" else character for character in prefix)
