"""Accounts for the memory of a fragment's state in Redis, and decides which runs must leave Redis."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import cast

import redis

from connectors.redis.client import key
from connectors.redis.errors import translated

#: The bytes that Redis takes for a run in addition to its content.
OVERHEAD = 256
#: New runs are written before those that they replace are removed, so each of the two gets half of the limit.
_SETTLED = 2


def overflow(resident: Mapping[str, int], limit: int | None) -> list[str]:
    """The runs to keep only on disk, given the bytes of each in Redis: the largest, which are rewritten least often,
    until the others take at most half of the limit.

    >>> overflow({"a": 70, "b": 20, "c": 40}, 130), overflow({"a": 70, "b": 20}, 200), overflow({"a": 70}, None)
    (['a'], [], [])
    """
    if limit is None:
        return []
    left, gone = sum(resident.values()), list[str]()
    for name in sorted(resident, key=lambda name: (-resident[name], name)):
        if left * _SETTLED <= limit:
            break
        gone.append(name)
        left -= resident[name]
    return gone


@dataclass(frozen=True)
class Part:
    """Some runs of a fragment, and how many bytes they may take in Redis."""

    names: frozenset[str]
    limit: int


def leaving(resident: Mapping[str, int], limit: int | None, parts: Iterable[Part]) -> set[str]:
    """The runs to keep only on disk: those of each part that exceed its limit, and then those of the rest that exceed
    the limit of all.

    >>> sorted(leaving({"a": 70, "b": 20, "c": 40}, 100, [Part(frozenset("bc"), 50)]))
    ['a', 'c']
    """
    own = [overflow({name: resident[name] for name in part.names & resident.keys()}, part.limit) for part in parts]
    gone = {name for listed in own for name in listed}
    return gone.union(overflow({name: size for name, size in resident.items() if name not in gone}, limit))


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
