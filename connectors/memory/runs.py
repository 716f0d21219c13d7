"""The runs of a fragment in memory."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import polars as pl

from connectors.state.run_memory import MemoryQuota, RunLocations, runs_below, runs_to_spill
from operators.core.errors import ExternalError
from operators.core.frame_ipc import frame_from_ipc, frame_to_ipc


@dataclass
class Runs:
    """The runs of a fragment: those in shared memory, and those of each host, by its directory."""

    shared: dict[str, pl.DataFrame] = field(default_factory=dict)
    hosts: dict[Path, dict[str, pl.DataFrame]] = field(default_factory=lambda: defaultdict(dict))
    #: The shared runs that a test has damaged.
    damaged: set[str] = field(default_factory=set)
    #: The damage that was found and not drained yet: the reason by run.
    damage: dict[str, str] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def names(self) -> set[str]:
        """The names of the shared runs."""
        return set(self.shared)

    def problem(self, name: str) -> str | None:
        """Why a shared run is damaged; None if it is sound."""
        return "the run is damaged" if name in self.damaged else None

    def remove(self, names: Iterable[str]) -> None:
        """Removes shared runs."""
        for name in names:
            self.shared.pop(name, None)


class MemoryRuns:
    """Implements `connectors.state.store.RunStore`. A copy on a host is in memory, too, and is never damaged there.
    Frames are stored as they are; they are encoded only for their sizes, if there is a limit, and for checkpoints.

    >>> runs = MemoryRuns(Runs(), Path("host"))
    >>> runs.write({"1/a": pl.DataFrame({"k": [1]})})
    >>> runs.read("1/a")["k"].to_list(), runs.missing(["1/a", "1/b"])
    ([1], {'1/b'})
    """

    def __init__(self, runs: Runs, cache: Path, limit: int | None = None) -> None:
        self._runs, self._lock, self._limit = runs, runs.lock, limit
        self._host = runs.hosts[cache]

    def write(self, runs: Mapping[str, pl.DataFrame], disk_from: int | None = None) -> None:
        """Stores the runs: in shared memory up to the limit, but not those of at least `disk_from` bytes, and all on
        this host."""
        with self._lock:
            for name in runs:
                self._runs.shared.pop(name, None)
            for name in self._admitted(runs_below(runs, disk_from)):
                self._runs.shared[name] = runs[name]
            self._host.update(runs)

    def flush(self, names: Iterable[str]) -> None:
        """Raises ExternalError if one of the runs is lost; there is no disk."""
        with self._lock:
            for name in names:
                self.read(name)

    def read(self, name: str) -> pl.DataFrame:
        """A run, from this host or else from shared memory."""
        with self._lock:
            if name not in self._host:
                self._host[name] = self._fetched(name)
            return self._host[name]

    def check(self, name: str) -> int | None:
        """The size of this host's copy, None if it has none."""
        with self._lock:
            return _size(self._host[name]) if name in self._host else None

    def damage(self) -> dict[str, str]:
        """The damage that any store of the fragment has found since the last call: the reason by run."""
        with self._lock:
            found, self._runs.damage = self._runs.damage, {}
        return found

    def pieces(self, name: str) -> Iterator[bytes]:
        """The run as an Arrow IPC stream, in one piece. Raises ExternalError if it is lost or damaged."""
        with self._lock:
            frame = self._fetched(name) if name in self._runs.shared else self.read(name)
        yield frame_to_ipc(frame)

    def restore(self, name: str, size: int, pieces: Iterable[bytes]) -> None:
        """Stores a run again from its pieces; `size` is not needed, since all of them are in memory at once."""
        self.write({name: frame_from_ipc(b"".join(pieces))})

    def copy_from(self, other: Self, new_names: Mapping[str, str]) -> None:
        """Copies runs of another fragment under new names: those in shared memory up to the limit, and all on this
        host."""
        copies = {new: other.read(name) for name, new in new_names.items()}
        with self._lock:
            shared = {new: copies[new] for name, new in new_names.items() if name in other._runs.shared}
            self._runs.shared |= {new: shared[new] for new in self._admitted(shared)}
            self._host.update(copies)

    def missing(self, names: Iterable[str]) -> set[str]:
        """The runs that are neither in shared memory nor on this host."""
        with self._lock:
            return set(names) - self._runs.shared.keys() - self._host.keys()

    def all_exist(self, names: Iterable[str]) -> bool:
        """Whether every one of the runs is in shared memory or on this host."""
        return not self.missing(names)

    def spill(self, names: set[str], limit: int | None, quotas: Iterable[MemoryQuota] = ()) -> RunLocations:
        """Removes the runs that exceed the limits from shared memory. Returns the locations of all named runs."""
        with self._lock:
            resident = {name: _size(self._runs.shared[name]) for name in names & self._runs.shared.keys()}
            for name in runs_to_spill(resident, limit, quotas):
                self.read(name)
                del self._runs.shared[name], resident[name]
            return RunLocations(resident, {name: self.check(name) or 0 for name in names - resident.keys()})

    def delete(self, names: Iterable[str]) -> None:
        """Removes runs that no manifest refers to."""
        with self._lock:
            for name in names:
                self._runs.shared.pop(name, None)
                self._host.pop(name, None)

    def sweep(self, kept: set[str]) -> int:
        """Removes every other run from shared memory and from this host. Returns how many were in shared memory."""
        with self._lock:
            orphans = self._runs.shared.keys() - kept
            self.delete(orphans | (self._host.keys() - kept))
            return len(orphans)

    def _admitted(self, runs: Mapping[str, pl.DataFrame]) -> Iterable[str]:
        """The runs for which shared memory has room, the smallest first."""
        if self._limit is None:
            return runs
        sizes = {name: _size(frame) for name, frame in runs.items()}
        taken, admitted = sum(map(_size, self._runs.shared.values())), list[str]()
        for name in sorted(sizes, key=lambda name: (sizes[name], name)):
            taken += sizes[name]
            if taken > self._limit:
                break
            admitted.append(name)
        return admitted

    def _fetched(self, name: str) -> pl.DataFrame:
        """A run from shared memory. A damaged one is removed, so that recovery detects its loss."""
        if name in self._runs.damaged:
            self._runs.damaged.discard(name)
            self._runs.shared.pop(name, None)
            self._runs.damage[name] = "damaged in memory; it is removed, and restored from a copy or computed again"
            raise ExternalError(f'run "{name}" is damaged in memory', hint="its state is rebuilt from kafka")
        if name not in self._runs.shared:
            problem = f'run "{name}" is neither in memory nor on this host'
            raise ExternalError(problem, hint="its state is rebuilt from kafka")
        return self._runs.shared[name]


def _size(frame: pl.DataFrame) -> int:
    return len(frame_to_ipc(frame))
