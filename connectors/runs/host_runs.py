"""Runs of traces: immutable Arrow blobs in the memory of a store, with a memory-mapped file cache on every host.

A run is in the store or, beyond the limit, only on this host's disk. Its place is not recorded: a reader looks in both.
If it is lost, recovery rebuilds its lanes from Kafka, so results are the same under every limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Self
from zlib import crc32

import polars as pl

from connectors.runs.blob import CHECK, frame_of_run, in_chunks, run_fields
from connectors.runs.damage import DamageReports
from connectors.runs.run_cache import RunCache
from connectors.runs.shared import SharedRuns
from connectors.state.run_memory import MemoryQuota, RunLocations, runs_below, runs_to_spill
from operators.core.decoding import Malformed
from operators.core.errors import ExternalError
from operators.core.frame_ipc import frame_to_ipc

#: The suffix of the name of a run that is being restored.
_UNFINISHED = "/unfinished"
_REBUILT = "its state is rebuilt from kafka"


class HostRuns:
    """Implements `connectors.state.store.RunStore`. `cache` is the directory of this host's copies, and `limit` how
    many bytes the fragment's runs may take in the store; None means no limit."""

    def __init__(self, shared: SharedRuns, cache: Path, limit: int | None = None) -> None:
        self._shared, self._limit = shared, limit
        self._cache = RunCache(cache, self._file_damaged)
        self._reports = DamageReports(shared)

    def write(self, runs: Mapping[str, pl.DataFrame], disk_from: int | None = None) -> None:
        """Stores the runs: in the store up to the limit, the others on disk, and so are those of at least `disk_from`
        bytes, which need not be encoded for the store. Those on disk are durable once `flush` has returned."""
        if not runs:
            return
        blobs = {name: frame_to_ipc(frame) for name, frame in runs_below(runs, disk_from).items()}
        admitted = self._shared.admit({name: len(blob) for name, blob in blobs.items()}, self._limit) if blobs else ()
        if admitted:
            self._shared.put({name: run_fields(blob) for name, blob in blobs.items() if name in admitted})
        for name, frame in runs.items():
            self._cache.write(name, frame)

    def flush(self, names: Iterable[str]) -> None:
        """Waits until those of the runs that are not in the store are on the disk of this host."""
        if listed := set(names):
            self._cache.flush(listed - self._shared.existing(sorted(listed)))

    def read(self, name: str) -> pl.DataFrame:
        """A run, from the file cache or else from the store. Raises ExternalError if it is lost; recovery rebuilds
        it."""
        frame = self._cache.read(name)
        if frame is None:
            frame = self._fetch(name)
            self._cache.write(name, frame)
        return frame

    def _fetch(self, name: str) -> pl.DataFrame:
        fields = self._shared.fields(name)
        if not fields:
            raise ExternalError(f'run "{name}" is neither in {self._shared.store} nor on this host', hint=_REBUILT)
        try:
            return frame_of_run(fields)
        except Malformed as error:
            self._shared_damaged(name, str(error))
            place = f'run "{self._shared.place(name)}"'
            raise ExternalError(f"{place} is damaged in {self._shared.store}: {error}", hint=_REBUILT) from error

    def check(self, name: str) -> int | None:
        """Verifies the checksums of a run's file. A damaged file is replaced by the copy in the store. Returns the
        size of the file in bytes, None if this host has none. Raises ExternalError if the file was damaged and there is
        no copy."""
        if self._cache.size(name) is None:
            return None
        if self._cache.check(name) is None:
            self.read(name)
        return self._cache.size(name)

    def damage(self) -> dict[str, str]:
        """The damage that any process has found since the last call: the reason by file or place in the store."""
        return self._reports.drain()

    def _file_damaged(self, name: str, reason: str) -> None:
        self._report(str(self._cache.path(name)), reason)

    def _shared_damaged(self, name: str, reason: str) -> None:
        """Removes a damaged run from the store, as damaged files are removed, so that recovery detects its loss."""
        self._report(self._shared.place(name), reason)
        self._shared.release([name])

    def _report(self, place: str, reason: str) -> None:
        self._reports.report(place, f"{reason}; it is removed, and restored from a copy or computed again")

    def pieces(self, name: str) -> Iterator[bytes]:
        """The blob of a run, piece by piece. Raises ExternalError if the run is lost, if it leaves the store in the
        meantime (a second call then reads it from this host), or, after the last piece, if it is damaged there."""
        count = self._shared.count(name)
        wanted = self._shared.field(name, CHECK) if count else None
        count -= wanted is not None
        if not count:
            frame = self._cache.read(name)
            if frame is None:
                raise ExternalError(f'run "{name}" is neither in {self._shared.store} nor on this host')
            yield frame_to_ipc(frame)
        check = 0
        for number in range(count):
            piece = self._shared.field(name, str(number))
            if piece is None:
                raise ExternalError(f'run "{name}" left {self._shared.store} while it was read')
            check = crc32(piece, check)
            yield piece
        if count and wanted is not None and wanted != str(check).encode():
            self._shared_damaged(name, "the checksum differs")
            raise ExternalError(f'run "{name}" is damaged in {self._shared.store}: the checksum differs')

    def restore(self, name: str, size: int, pieces: Iterable[bytes]) -> None:
        """Stores a run again from its blob of `size` bytes: in the store if the limit allows, else on disk. The run
        exists once `pieces` has ended without an error; `sweep` removes the remains of a crash. This host gets the
        run's file at once, since it is about to read all runs."""
        admitted = bool(self._shared.admit({name: size}, self._limit))
        with self._cache.writing_stream(name, durable=not admitted) as file:
            if admitted:
                self._send(name, _written(pieces, file))
            else:
                file.writelines(pieces)

    def _send(self, name: str, pieces: Iterable[bytes]) -> None:
        """Writes a run to the store; it gets its name once it is complete."""
        unfinished, check = name + _UNFINISHED, 0
        self._shared.remove([unfinished])
        for number, piece in enumerate(in_chunks(pieces)):
            check = crc32(piece, check)
            self._shared.add(unfinished, str(number), piece)
        self._shared.add(unfinished, CHECK, str(check).encode())
        self._shared.rename(unfinished, name)

    def copy_from(self, other: Self, new_names: Mapping[str, str]) -> None:
        """Copies runs of another fragment, which `other` stores, under new names. On this host, a copy shares its
        file with the run."""
        resident = other._shared.resident()
        sizes = {new: resident[name] for name, new in new_names.items() if name in resident}
        admitted = self._shared.admit(sizes, self._limit) if sizes else set()
        wanted = {name: new for name, new in new_names.items() if new in admitted}
        copied = self._shared.copy(other._shared.fragment, wanted) if wanted else set()
        self._release(admitted - copied)
        for name, new in new_names.items():
            linked = self._cache.link(new, other._cache, name, durable=new not in copied)
            if not linked and new not in copied:
                self._cache.write(new, other.read(name), durable=True)

    def missing(self, names: Iterable[str]) -> set[str]:
        """The runs that are neither in the store nor on this host."""
        listed = sorted(set(names))
        if not listed:
            return set()
        stored = self._shared.existing(listed)
        return {name for name in listed if name not in stored and self._cache.read(name) is None}

    def all_exist(self, names: Iterable[str]) -> bool:
        """Whether every one of the runs is in the store or on this host."""
        return not self.missing(names)

    def spill(self, names: set[str], limit: int | None, quotas: Iterable[MemoryQuota] = ()) -> RunLocations:
        """Removes the runs that exceed the limits from the store, once they are flushed to disk. Returns the locations
        of all named runs."""
        resident = {name: size for name, size in self._shared.resident().items() if name in names}
        gone = runs_to_spill(resident, limit, quotas)
        for name in sorted(gone):
            self.read(name)
        self._cache.flush(gone)
        self._release(gone)
        resident = {name: size for name, size in resident.items() if name not in gone}
        return RunLocations(resident, {name: self._cache.size(name) or 0 for name in names - resident.keys()})

    def delete(self, names: Iterable[str]) -> None:
        """Removes runs that no manifest refers to."""
        listed = sorted(set(names))
        self._release(listed)
        self._cache.delete(listed)

    def sweep(self, kept: set[str]) -> int:
        """Removes every run of the fragment that is not in `kept`, such as those of a crashed epoch, from the store and
        from this host. Returns how many of them were in the store."""
        orphans = self._shared.names() - kept
        self._release(orphans | (self._shared.resident().keys() - kept))
        self._cache.sweep(kept)
        return len(orphans)

    def _release(self, names: Iterable[str]) -> None:
        if listed := sorted(names):
            self._shared.release(listed)


def _written(pieces: Iterable[bytes], file: IO[bytes]) -> Iterator[bytes]:
    """The pieces; each is written to the file before it is yielded."""
    for piece in pieces:
        file.write(piece)
        yield piece
