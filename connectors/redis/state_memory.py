"""Accounts for the memory of a fragment's state in Redis."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import resources
from typing import cast

import redis

from connectors.redis.client import key
from connectors.redis.errors import translated

#: The bytes that Redis takes for a run in addition to its content.
OVERHEAD = 256


class StateMemory:
    """The account of the runs of a fragment in Redis, by name. It contains at least those that exist: a run is entered
    before it is written, and removed together with it."""

    def __init__(self, client: redis.Redis, cluster: str, fragment: str) -> None:
        self._client, self._place = client, (cluster, fragment)
        self._key = key(cluster, fragment, "resident")
        scripts = resources.files("connectors.redis").joinpath("lua")
        self._admit = client.register_script(scripts.joinpath("admit_runs.lua").read_text())
        self._release = client.register_script(scripts.joinpath("release_runs.lua").read_text())

    def admit(self, sizes: Mapping[str, int], limit: int | None) -> set[str]:
        """Enters and returns the runs that may be written: smallest first, while the total is within the limit."""
        ordered = sorted(sizes, key=lambda name: (sizes[name], name))
        entries = [part for name in ordered for part in (name, sizes[name] + OVERHEAD)]
        with translated("accounting for state"):
            count = int(self._admit(keys=[self._key], args=[-1 if limit is None else limit, *entries]))
        return set(ordered[:count])

    def release(self, names: Iterable[str]) -> None:
        """Removes runs from Redis and from the account."""
        listed = list(names)
        if not listed:
            return
        with translated("removing state"):
            self._release(keys=[self._key, *map(self.run, listed)], args=listed)

    def resident(self) -> dict[str, int]:
        """The bytes of each run."""
        with translated("reading the account of state"):
            if self._client.type(self._key) != b"hash":
                return {}
            sizes = cast("dict[bytes, bytes]", self._client.hgetall(self._key))
        return {
            name.decode(errors="surrogateescape"): int(size) for name, size in sizes.items() if name and size.isdigit()
        }

    def run(self, name: str) -> str:
        """The key of a run."""
        return key(*self._place, "run", name)
