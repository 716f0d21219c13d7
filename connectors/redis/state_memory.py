"""What of a fragment's state lies in Redis: which runs are to go (a pure decision), and the account that is kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import cast

import redis

from connectors.redis.client import key
from connectors.redis.errors import translated

#: What Redis takes for a run beside its bytes.
OVERHEAD = 256
#: Runs are written before those that they replace may go: one half is for what is there, the other for what is written.
_SETTLED = 2


def overflow(resident: Mapping[str, int], limit: int | None) -> list[str]:
    """The runs, of which the bytes in Redis are given, that are to live on disk alone: the largest, which are rewritten
    least, until the others take half of the limit.

    >>> overflow({"a": 70, "b": 20, "c": 40}, 130), overflow({"a": 70, "b": 20}, 200), overflow({"a": 70}, None)
    (['a'], [], [])
    """
    if limit is None:
        return []
    left, gone = sum(resident.values()), list[str]()
    for name in sorted(resident, key=lambda one: (-resident[one], one)):
        if left * _SETTLED <= limit:
            break
        gone.append(name)
        left -= resident[name]
    return gone


@dataclass(frozen=True)
class Part:
    """Some of the runs of a fragment, and the most bytes that they may take."""

    names: frozenset[str]
    limit: int


def leaving(resident: Mapping[str, int], limit: int | None, parts: Iterable[Part]) -> set[str]:
    """The runs that are to live on disk alone: those of each part that are beyond its limit, and of what is left those
    beyond the limit of all.

    >>> sorted(leaving({"a": 70, "b": 20, "c": 40}, 100, [Part(frozenset("bc"), 50)]))
    ['a', 'c']
    """
    own = [overflow({name: resident[name] for name in part.names & resident.keys()}, part.limit) for part in parts]
    gone = {name for listed in own for name in listed}
    return gone.union(overflow({name: size for name, size in resident.items() if name not in gone}, limit))


class StateMemory:
    """The account of the runs of one fragment in Redis, by name. It holds at least what is there: a run is entered
    before it is written, and struck together with it."""

    def __init__(self, client: redis.Redis, cluster: str, fragment: str) -> None:
        self._client, self._place = client, (cluster, fragment)
        self._key = key(cluster, fragment, "resident")
        scripts = resources.files("connectors.redis").joinpath("lua")
        self._admit = client.register_script(scripts.joinpath("admit_runs.lua").read_text())
        self._release = client.register_script(scripts.joinpath("release_runs.lua").read_text())

    def admit(self, sizes: Mapping[str, int], limit: int | None) -> set[str]:
        """Enters the runs that may be written, the smallest first while all together stay within the limit."""
        ordered = sorted(sizes, key=lambda one: (sizes[one], one))
        told = [part for name in ordered for part in (name, sizes[name] + OVERHEAD)]
        with translated("entering state"):
            count = int(self._admit(keys=[self._key], args=[-1 if limit is None else limit, *told]))
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
        with translated("looking for state"):
            found = cast("dict[bytes, bytes]", self._client.hgetall(self._key))
        return {name.decode(): int(size) for name, size in found.items() if name}

    def run(self, name: str) -> str:
        """The key of a run."""
        return key(*self._place, "run", name)
