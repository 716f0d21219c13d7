"""Runs of traces: immutable Arrow blobs in Redis up to a limit, with a memory-mapped file cache on every host.

A run is in Redis or, beyond the limit, on this host's disk alone. Nothing says where: it is read from wherever it is,
and one that is nowhere makes recovery rebuild its lanes from Kafka, so results are the same under every limit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import polars as pl
import redis

from connectors.redis.client import key
from connectors.redis.errors import translated
from connectors.redis.run_cache import RunCache
from connectors.redis.state_memory import Part, StateMemory, leaving
from operators.core.errors import ExternalError
from operators.core.frame_ipc import frame_from_ipc, frame_to_ipc

#: A Redis string holds 512 MB; pieces of this size keep every command short.
CHUNK = 48 * 1024 * 1024


@dataclass(frozen=True)
class RunLocations:
    """Where runs lie: the bytes of those in Redis, and of those on disk alone, by name."""

    resident: dict[str, int]
    disk: dict[str, int]


class RunStore:
    """Writes a run once under its name and reads it from anywhere.

    A name is a path-like text (`incarnation/epoch/…`) and never changes its content. `limit` is the most bytes that the
    runs of the fragment may take in Redis.
    """

    def __init__(
        self, client: redis.Redis, cluster: str, fragment: str, cache: Path, limit: int | None = None
    ) -> None:  # fmt: skip
        self._client = client
        self._cluster, self._fragment = cluster, fragment
        self._cache = RunCache(cache)
        self._memory, self._limit = StateMemory(client, cluster, fragment), limit

    def write(self, runs: dict[str, pl.DataFrame]) -> None:
        """Stores the runs: in Redis, or on the disk where there is no room for them. All are kept when this returns."""
        if not runs:
            return
        blobs = {name: frame_to_ipc(frame) for name, frame in runs.items()}
        admitted = self._memory.admit({name: len(blob) for name, blob in blobs.items()}, self._limit)
        with translated("writing state"):
            pipeline = self._client.pipeline(transaction=False)
            for name in admitted:
                blob = blobs[name]
                pieces = {str(at // CHUNK): blob[at : at + CHUNK] for at in range(0, len(blob), CHUNK)}
                pipeline.hset(self._memory.run(name), mapping=pieces)  # type: ignore[arg-type]
            pipeline.execute()
        for name, frame in runs.items():
            self._cache.write(name, frame, lasting=name not in admitted)

    def read(self, name: str) -> pl.DataFrame:
        """A run, from the file cache or else from Redis. Raises ExternalError when it is gone: recovery rebuilds it."""
        found = self._cache.read(name)
        if found is None:
            found = self._fetch(name)
            self._cache.write(name, found)
        return found

    def _fetch(self, name: str) -> pl.DataFrame:
        with translated("reading state"):
            pieces = cast("dict[bytes, bytes]", self._client.hgetall(self._memory.run(name)))
        if not pieces:
            raise ExternalError(
                f'run "{name}" is gone from redis and not on this host', hint="state is rebuilt from kafka"
            )
        return frame_from_ipc(b"".join(piece for _, piece in sorted(pieces.items(), key=lambda item: int(item[0]))))

    def present(self, names: Iterable[str]) -> bool:
        """Whether every one of the runs can be read here: Redis holds it, or this host."""
        listed = list(names)
        if not listed:
            return True
        with translated("looking for state"):
            pipeline = self._client.pipeline(transaction=False)
            for name in listed:
                pipeline.exists(self._memory.run(name))
            found = pipeline.execute()
        return all(
            there or self._cache.read(name) is not None for name, there in zip(listed, found, strict=True)
        )  # fmt: skip

    def spill(self, names: set[str], limit: int | None, parts: Iterable[Part] = ()) -> RunLocations:
        """Removes from Redis what of some runs, all that are named, is to live on disk alone. Gives where they lie."""
        resident = {name: size for name, size in self._memory.resident().items() if name in names}
        gone = leaving(resident, limit, parts)
        for name in gone:
            self.read(name)
            self._cache.settle(name)
        self._memory.release(gone)
        resident = {name: size for name, size in resident.items() if name not in gone}
        return RunLocations(resident, {name: self._cache.size(name) or 0 for name in names - resident.keys()})

    def delete(self, names: Iterable[str]) -> None:
        """Removes runs that no manifest names any more."""
        listed = list(names)
        self._memory.release(listed)
        self._cache.delete(listed)

    def sweep(self, kept: set[str]) -> int:
        """Removes every run of the fragment that is not in `kept`, such as those of a crashed epoch, from Redis and
        from this host; gives the number of those that were in Redis."""
        prefix = key(self._cluster, self._fragment, "run", "")
        with translated("removing state"):
            found = {
                name.decode()[len(prefix) :] for name in self._client.scan_iter(_escaped(prefix) + "*", count=1000)
            }
        orphans = found - kept
        self._memory.release(orphans | (self._memory.resident().keys() - kept))
        self._cache.sweep(kept)
        return len(orphans)


def _escaped(prefix: str) -> str:
    return "".join(f"[{character}]" if character in "*?[" else character for character in prefix)
