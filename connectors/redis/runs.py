"""Runs of traces: immutable Arrow blobs in Redis up to a limit, with a memory-mapped file cache on every host.

A run is in Redis or, beyond the limit, only on this host's disk. Its place is not recorded: a reader looks in both. If
it is lost, recovery rebuilds its lanes from Kafka, so results are the same under every limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, cast
from zlib import crc32

import polars as pl
import redis

from connectors.redis.client import key
from connectors.redis.damage import DamageReports
from connectors.redis.errors import translated
from connectors.redis.run_cache import RunCache
from connectors.redis.state_memory import StateMemory
from connectors.state.run_memory import Part, RunLocations, leaving
from operators.core.decoding import Malformed
from operators.core.errors import ExternalError
from operators.core.frame_ipc import frame_from_ipc, frame_to_ipc, untrusted_frame

#: A Redis string holds up to 512 MB; pieces of this size keep every command short.
CHUNK = 48 * 1024 * 1024
#: The suffix of the name of a run that is being restored.
_UNFINISHED = "/unfinished"
#: The field of the check sum.
CHECK = "crc32"


def run_fields(blob: bytes) -> dict[str, bytes]:
    """The fields of a run's hash in Redis: its pieces by number, and the check sum of the whole.

    >>> run_fields(b"abc")
    {'0': b'abc', 'crc32': b'891568578'}
    """
    pieces = {str(at // CHUNK): blob[at : at + CHUNK] for at in range(0, len(blob), CHUNK)}
    return {**pieces, CHECK: str(crc32(blob)).encode()}


def frame_of_run(fields: Mapping[bytes, bytes]) -> pl.DataFrame:
    """The run in the fields of a hash in Redis. Raises Malformed if it is damaged. Older versions wrote no check sum:
    Arrow validates their runs."""
    pieces = {name: piece for name, piece in fields.items() if name != CHECK.encode()}
    blob = b"".join(pieces[number] for number in (str(at).encode() for at in range(len(pieces))) if number in pieces)
    if len(blob) != sum(map(len, pieces.values())):
        raise Malformed("pieces are missing")
    wanted = fields.get(CHECK.encode())
    if wanted is None:
        return untrusted_frame(blob)
    if wanted != str(crc32(blob)).encode():
        raise Malformed("the check sum differs")
    return frame_from_ipc(blob)


class RedisRuns:
    """Implements `connectors.state.store.RunStore`. `limit` is how many bytes the fragment's runs may take in Redis;
    None means no limit."""

    def __init__(self, client: redis.Redis, cluster: str, fragment: str, cache: Path, limit: int | None = None) -> None:
        self._client = client
        self._cluster, self._fragment = cluster, fragment
        self._cache = RunCache(cache, self._file_damaged)
        self._reports = DamageReports(client, cluster, fragment)
        self._memory, self._limit = StateMemory(client, cluster, fragment), limit

    def write(self, runs: Mapping[str, pl.DataFrame]) -> None:
        """Stores the runs: in Redis up to the limit, the others on disk. All are durable when this returns."""
        if not runs:
            return
        blobs = {name: frame_to_ipc(frame) for name, frame in runs.items()}
        admitted = self._memory.admit({name: len(blob) for name, blob in blobs.items()}, self._limit)
        with translated("writing state"):
            pipeline = self._client.pipeline(transaction=False)
            for name in admitted:
                blob = blobs[name]
                pipeline.delete(self._memory.run(name))
                pipeline.hset(self._memory.run(name), mapping=run_fields(blob))  # type: ignore[arg-type]
            pipeline.execute()
        for name, frame in runs.items():
            self._cache.write(name, frame, lasting=name not in admitted)

    def read(self, name: str) -> pl.DataFrame:
        """A run, from the file cache or else from Redis. Raises ExternalError if it is lost; recovery rebuilds it."""
        frame = self._cache.read(name)
        if frame is None:
            frame = self._fetch(name)
            self._cache.write(name, frame)
        return frame

    def _fetch(self, name: str) -> pl.DataFrame:
        key_ = self._memory.run(name)
        with translated("reading state"):
            fields = cast("dict[bytes, bytes]", self._client.hgetall(key_)) if self._is_run(key_) else {b"": b""}
        if not fields:
            raise ExternalError(
                f'run "{name}" is neither in redis nor on this host', hint="its state is rebuilt from kafka"
            )
        try:
            return frame_of_run(fields)
        except Malformed as error:
            self._redis_damaged(name, str(error))
            raise ExternalError(
                f'run "{key_}" is damaged in redis: {error}', hint="its state is rebuilt from kafka"
            ) from error

    def check(self, name: str) -> int | None:
        """Verifies the check sums of a run's file. A damaged file is replaced by the copy in Redis. Returns the size of
        the file in bytes, None if this host has none. Raises ExternalError if the file was damaged and there is no
        copy."""
        if self._cache.size(name) is None:
            return None
        if self._cache.check(name) is None:
            self.read(name)
        return self._cache.size(name)

    def damage(self) -> dict[str, str]:
        """The damage that any process has found since the last call: the reason by file or key of Redis."""
        return self._reports.drain()

    def _file_damaged(self, name: str, reason: str) -> None:
        self._report(str(self._cache.path(name)), reason)

    def _redis_damaged(self, name: str, reason: str) -> None:
        """Removes a damaged run from Redis, as damaged files are removed, so that recovery detects its loss."""
        self._report(self._memory.run(name), reason)
        self._memory.release([name])

    def _report(self, place: str, reason: str) -> None:
        self._reports.report(place, f"{reason}; it is removed, and restored from a copy or computed again")

    def _is_run(self, key_: str) -> bool:
        return self._client.type(key_) in (b"hash", b"none")

    def pieces(self, name: str) -> Iterator[bytes]:
        """The blob of a run, piece by piece. Raises ExternalError if the run is lost, if it leaves Redis in the
        meantime (a second call then reads it from this host), or, after the last piece, if it is damaged in Redis."""
        with translated("reading state"):
            count = self._client.hlen(self._memory.run(name))
            wanted = cast("bytes | None", self._client.hget(self._memory.run(name), CHECK)) if count else None
        count -= wanted is not None
        if not count:
            frame = self._cache.read(name)
            if frame is None:
                raise ExternalError(f'run "{name}" is neither in redis nor on this host')
            yield frame_to_ipc(frame)
        check = 0
        for number in range(count):
            with translated("reading state"):
                piece = cast("bytes | None", self._client.hget(self._memory.run(name), str(number)))
            if piece is None:
                raise ExternalError(f'run "{name}" left redis while it was read')
            check = crc32(piece, check)
            yield piece
        if count and wanted is not None and wanted != str(check).encode():
            self._redis_damaged(name, "the check sum differs")
            raise ExternalError(f'run "{name}" is damaged in redis: the check sum differs')

    def restore(self, name: str, size: int, pieces: Iterable[bytes]) -> None:
        """Stores a run again from its blob of `size` bytes: in Redis if the limit allows, else on disk. The run exists
        once `pieces` has ended without an error; `sweep` removes the remains of a crash. This host gets the run's file
        at once, since it is about to read all runs."""
        admitted = bool(self._memory.admit({name: size}, self._limit))
        with self._cache.writing_stream(name, lasting=not admitted) as file:
            if admitted:
                self._send(name, _written(pieces, file))
            else:
                file.writelines(pieces)

    def _send(self, name: str, pieces: Iterable[bytes]) -> None:
        """Writes a run to Redis; it gets its name once it is complete."""
        unfinished = self._memory.run(name + _UNFINISHED)
        with translated("writing state"):
            self._client.delete(unfinished)
        check = 0
        for number, piece in enumerate(_in_chunks(pieces)):
            check = crc32(piece, check)
            with translated("writing state"):
                self._client.hset(unfinished, str(number), piece)
        with translated("writing state"):
            self._client.hset(unfinished, CHECK, str(check))
            self._client.rename(unfinished, self._memory.run(name))

    def missing(self, names: Iterable[str]) -> set[str]:
        """The runs that are neither in Redis nor on this host."""
        listed = list(names)
        if not listed:
            return set()
        with translated("checking which state exists"):
            pipeline = self._client.pipeline(transaction=False)
            for name in listed:
                pipeline.exists(self._memory.run(name))
            stored = pipeline.execute()
        places = zip(listed, stored, strict=True)
        return {name for name, there in places if not there and self._cache.read(name) is None}

    def present(self, names: Iterable[str]) -> bool:
        """Whether every one of the runs is in Redis or on this host."""
        return not self.missing(names)

    def spill(self, names: set[str], limit: int | None, parts: Iterable[Part] = ()) -> RunLocations:
        """Removes the runs that exceed the limits from Redis, once they are flushed to disk. Returns the locations of
        all named runs."""
        resident = {name: size for name, size in self._memory.resident().items() if name in names}
        gone = leaving(resident, limit, parts)
        for name in gone:
            self.read(name)
            self._cache.flush(name)
        self._memory.release(gone)
        resident = {name: size for name, size in resident.items() if name not in gone}
        return RunLocations(resident, {name: self._cache.size(name) or 0 for name in names - resident.keys()})

    def delete(self, names: Iterable[str]) -> None:
        """Removes runs that no manifest refers to."""
        listed = list(names)
        self._memory.release(listed)
        self._cache.delete(listed)

    def sweep(self, kept: set[str]) -> int:
        """Removes every run of the fragment that is not in `kept`, such as those of a crashed epoch, from Redis and
        from this host. Returns how many of them were in Redis."""
        prefix = key(self._cluster, self._fragment, "run", "")
        with translated("removing state"):
            written = {
                name.decode(errors="surrogateescape")[len(prefix) :]
                for name in self._client.scan_iter(_escaped(prefix) + "*", count=1000)
            }
        orphans = written - kept
        self._memory.release(orphans | (self._memory.resident().keys() - kept))
        self._cache.sweep(kept)
        return len(orphans)


def _written(pieces: Iterable[bytes], file: IO[bytes]) -> Iterator[bytes]:
    """The pieces; each is written to the file before it is yielded."""
    for piece in pieces:
        file.write(piece)
        yield piece


def _in_chunks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces of `CHUNK` bytes, the last one shorter."""
    held = bytearray()
    for piece in pieces:
        held += piece
        while len(held) >= CHUNK:
            yield bytes(held[:CHUNK])
            del held[:CHUNK]
    if held:
        yield bytes(held)


def _escaped(prefix: str) -> str:
    return "".join(f"[{character}]" if character in "*?[" else character for character in prefix)
