"""The runs of a fragment's traces: immutable frames, each under a name of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

import polars as pl

from connectors.state.run_memory import MemoryQuota, RunLocations


class RunStore(Protocol):
    """Writes a run once under its name and reads it from anywhere. Raises ExternalError while it is unavailable.

    A name is a path-like text (`incarnation/epoch/…`), and the content of a name never changes. The store has a limit
    of the bytes that the fragment's runs may take in memory that all hosts share; runs beyond it are only on the disk
    of the host that wrote them. A run that is lost is an error; recovery rebuilds its lanes from the logs.
    """

    def write(self, runs: Mapping[str, pl.DataFrame]) -> None:
        """Stores the runs: in shared memory up to the limit, the smallest first, the others on this host. All are
        durable when this returns. A retried task may write a run again."""
        ...

    def read(self, name: str) -> pl.DataFrame:
        """A run, from this host or else from shared memory. Raises ExternalError if neither has it, or if it is
        damaged: then the damage is reported and the copy removed."""
        ...

    def check(self, name: str) -> int | None:
        """Verifies this host's copy of a run, and replaces a damaged one by the shared copy. Returns its size in bytes,
        None if this host has none. Raises ExternalError if it was damaged and there is no other copy."""
        ...

    def damage(self) -> dict[str, str]:
        """The damage that any store of the fragment has found since the last call: the reason by location. Each is
        returned once."""
        ...

    def pieces(self, name: str) -> Iterator[bytes]:
        """The run as an Arrow IPC stream, piece by piece, for a checkpoint. Raises ExternalError if the run is lost, if
        it leaves shared memory in the meantime (a second call then reads it from this host), or, after the last piece,
        if it is damaged."""
        ...

    def restore(self, name: str, size: int, pieces: Iterable[bytes]) -> None:
        """Stores a run again from its `pieces`, `size` bytes in all: in shared memory if the limit allows, and on this
        host, which is about to read all runs. The run exists once `pieces` has ended without an error."""
        ...

    def missing(self, names: Iterable[str]) -> set[str]:
        """The runs that are neither in shared memory nor on this host."""
        ...

    def all_exist(self, names: Iterable[str]) -> bool:
        """Whether every one of the runs is in shared memory or on this host."""
        ...

    def spill(self, names: set[str], limit: int | None, quotas: Iterable[MemoryQuota] = ()) -> RunLocations:
        """Removes the runs that `runs_to_spill` names under these limits from shared memory, once they are on this
        host's disk. Returns the locations of all named runs."""
        ...

    def delete(self, names: Iterable[str]) -> None:
        """Removes runs that no manifest refers to."""
        ...

    def sweep(self, kept: set[str]) -> int:
        """Removes every run of the fragment that is not in `kept`, such as those of a crashed epoch, from shared memory
        and from this host. Returns how many of them were in shared memory."""
        ...
