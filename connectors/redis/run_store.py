"""Runs of traces: immutable Arrow blobs in Redis, with a memory-mapped file cache on every host."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import cast

import polars as pl
import pyarrow as pa
import redis

from connectors.redis.client import key
from connectors.redis.errors import translated
from operators.errors import ExternalError
from operators.frame_ipc import frame_from_ipc, frame_to_ipc

#: A Redis string holds 512 MB; pieces of this size keep every command short.
CHUNK = 48 * 1024 * 1024


class RunStore:
    """Writes a run once under its name and reads it from anywhere.

    A name is a path-like text (`incarnation/epoch/…`) and never changes its content.
    """

    def __init__(self, client: redis.Redis, cluster: str, fragment: str, cache: Path) -> None:
        self._client = client
        self._cluster, self._fragment = cluster, fragment
        self._cache = cache

    def write(self, runs: dict[str, pl.DataFrame]) -> None:
        """Stores the runs; all are in Redis when this returns."""
        if not runs:
            return
        with translated("writing state"):
            pipeline = self._client.pipeline(transaction=False)
            for name, frame in runs.items():
                blob = frame_to_ipc(frame)
                pieces = {str(at // CHUNK): blob[at : at + CHUNK] for at in range(0, len(blob), CHUNK)}
                pipeline.hset(self._key(name), mapping=pieces)  # type: ignore[arg-type]
            pipeline.execute()
        for name, frame in runs.items():
            self._cache_file(name, frame)

    def read(self, name: str) -> pl.DataFrame:
        """A run, from the file cache or else from Redis. Raises ExternalError when it is gone: recovery rebuilds it."""
        path = self._path(name)
        try:
            return _mapped(path)
        except (FileNotFoundError, pa.ArrowInvalid):
            self._cache_file(name, self._fetch(name))
        return _mapped(path)

    def _fetch(self, name: str) -> pl.DataFrame:
        with translated("reading state"):
            pieces = cast("dict[bytes, bytes]", self._client.hgetall(self._key(name)))
        if not pieces:
            raise ExternalError(f'run "{name}" is gone from redis', retryable=True, hint="state is rebuilt from kafka")
        return frame_from_ipc(b"".join(piece for _, piece in sorted(pieces.items(), key=lambda item: int(item[0]))))

    def present(self, names: Iterable[str]) -> bool:
        """Whether Redis holds every one of the runs."""
        listed = list(names)
        if not listed:
            return True
        with translated("looking for state"):
            pipeline = self._client.pipeline(transaction=False)
            for name in listed:
                pipeline.exists(self._key(name))
            return all(pipeline.execute())

    def delete(self, names: Iterable[str]) -> None:
        """Removes runs that no manifest names any more."""
        listed = list(names)
        with translated("removing state"):
            pipeline = self._client.pipeline(transaction=False)
            for name in listed:
                pipeline.unlink(self._key(name))
            pipeline.execute()
        for name in listed:
            self._path(name).unlink(missing_ok=True)

    def sweep(self, kept: set[str]) -> int:
        """Removes every run of the fragment that is not in `kept`, such as those of a crashed epoch; gives their
        number."""
        prefix = self._key("")
        with translated("removing state"):
            names = [
                found.decode()[len(prefix) :]
                for found in self._client.scan_iter(match=_escaped(prefix) + "*", count=1000)
            ]
        orphans = [name for name in names if name not in kept]
        if orphans:
            self.delete(orphans)
        return len(orphans)

    def _key(self, name: str) -> str:
        return key(self._cluster, self._fragment, "run", name)

    def _path(self, name: str) -> Path:
        return self._cache / (name.replace("/", "_") + ".arrow")

    def _cache_file(self, name: str, frame: pl.DataFrame) -> None:
        self._cache.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=self._cache, suffix=".tmp")
        os.close(handle)
        frame.write_ipc(temporary, compression="uncompressed", compat_level=pl.CompatLevel.newest())
        Path(temporary).rename(self._path(name))


def _mapped(path: Path) -> pl.DataFrame:
    with pa.memory_map(str(path)) as mapped:
        try:
            return cast(pl.DataFrame, pl.from_arrow(pa.ipc.open_file(mapped).read_all()))
        except pa.ArrowNotImplementedError:  # it has no integers of 128 bits; Polars copies the file
            return pl.read_ipc(path)


def _escaped(prefix: str) -> str:
    return "".join(f"[{character}]" if character in "*?[" else character for character in prefix)
