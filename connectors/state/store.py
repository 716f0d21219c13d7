"""What a store of state does: `StateStore`, which returns the five parts that a store implements.

Documents, manifests, runs, answers and the inspection of `dsms doctor` have a protocol each, with the laws that
`tests/support/state_laws.py` tests over every store, also the simulated one. `dsms/state/stores.py` opens a store by
its URL. The protocols are here, not in `dsms.state`: a store returns their types, and connectors import nothing of
`dsms`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol, Self

import polars as pl

from connectors.state.run_memory import MemoryQuota, RunLocations

#: Leases and tokens are times. A claim that is further ahead of the clock than this was never given out.
AHEAD_MS = 10 * 24 * 3600 * 1000
#: How long the answers to idempotency keys are kept, and how many; the oldest are removed first.
TTL_S, MAX_KEYS = 24 * 3600, 10_000


class StateStore(Protocol):
    """A connection to the store of a cluster. The parts that it returns share the connection, and may be used by
    several threads; all stores of one cluster, in any process, see the same state."""

    def documents(self) -> DocumentStore:
        """The documents of the cluster."""
        ...

    def manifest(self, fragment: str) -> ManifestStore:
        """The manifest of a fragment, for one incarnation."""
        ...

    def runs(self, fragment: str, cache: Path, limit: int | None = None) -> RunStore:
        """The runs of a fragment. `cache` is the directory of their copies on this host, which the stores of a host
        share, and `limit` how many bytes they may take in shared memory; None means no limit."""
        ...

    def inspection(self) -> Inspection:
        """The content of the store, for checks."""
        ...

    def answers(self) -> AnswerStore:
        """The answers that are kept for idempotency keys."""
        ...


class Claim(NamedTuple):
    """The claim of an incarnation on a fragment; the greatest claim is the owner's. `lease` is that of the executor;
    `token` grows with every recovery under one lease.

    >>> Claim(lease=8, token=1) > Claim(lease=7, token=2) > Claim(lease=7, token=1)
    True
    """

    lease: int
    token: int


class DocumentStore(Protocol):
    """The documents of one cluster, such as "catalog", "executor:NAME" or "report:FRAGMENT". The store does not read
    their content. `doing` says in the message of an error what the caller was doing. Raises ExternalError while the
    store is unavailable."""

    @property
    def cluster(self) -> str:
        """The name of the cluster."""
        ...

    def get(self, name: str) -> bytes | None:
        """A document; None if it does not exist or has expired."""
        ...

    def set(self, name: str, body: bytes, doing: str, ttl_ms: int | None = None) -> None:
        """Replaces a document, which expires after `ttl_ms`; None means never."""
        ...

    def delete(self, name: str, doing: str) -> None:
        """Removes a document, if it exists."""
        ...

    def expiring(self, prefix: str, doing: str) -> dict[str, bytes]:
        """The documents that expire and whose names begin with a prefix, by the rest of their names, in order."""
        ...

    def place(self, name: str) -> str:
        """The location of a document, as alarms name it."""
        ...

    def ping(self) -> None:
        """Raises ExternalError unless the store answers."""
        ...


class ManifestStore(Protocol):
    """Reads and replaces the manifest of one fragment, atomically. Several incarnations may hold a store of the same
    fragment; only the one with the greatest claim can write. Raises ExternalError while the store is unavailable."""

    @property
    def place(self) -> str:
        """The location of the manifest, as alarms and findings name it."""
        ...

    def read(self) -> tuple[Claim, bytes | None]:
        """The greatest claim and the manifest; the least possible claim and None if there are none."""
        ...

    def claim(self, claim: Claim) -> None:
        """Claims the fragment: from now on older incarnations cannot commit. The manifest stays. Raises Fenced if there
        is a newer incarnation; the same claim may be made again. A stored claim further ahead of the clock than
        `AHEAD_MS` is ignored, since no executor can have made it."""
        ...

    def commit(self, claim: Claim, body: bytes) -> None:
        """Replaces the manifest by `body`: a reader sees the old one or the new one. Raises Fenced if there is a newer
        incarnation. A request may arrive twice; a copy that arrives after a later request of the same incarnation
        changes nothing."""
        ...


class RunStore(Protocol):
    """Writes a run once under its name and reads it from anywhere. Raises ExternalError while it is unavailable.

    A name is a path-like text (`incarnation/epoch/…`), and the content of a name never changes. The store has a limit
    of the bytes that the fragment's runs may take in memory that all hosts share; runs beyond it are only on the disk
    of the host that wrote them. A run that is lost is an error; recovery rebuilds its lanes from the logs.
    """

    def write(self, runs: Mapping[str, pl.DataFrame], disk_from: int | None = None) -> None:
        """Stores the runs: in shared memory up to the limit, the smallest first, the others on this host, and so are
        those of at least `disk_from` bytes. Those in shared memory are durable when this returns, the others once
        `flush` has returned. A retried task may write a run again."""
        ...

    def flush(self, names: Iterable[str]) -> None:
        """Waits until runs that are only on this host have reached its disk, so that they survive a loss of power.
        Raises ExternalError if the disk is full or fails, or if one of the runs is lost."""
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
        """The damage that any store of the fragment has found since the last call: by location, the reason and what was
        done ("…; it is removed, and restored from a copy or computed again"). Each is returned once."""
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

    def copy_from(self, other: Self, new_names: Mapping[str, str]) -> None:
        """Copies runs of another fragment, which `other` stores, under new names, given by old name. Those in shared
        memory are copied there up to the limit, the smallest first; the others are then on this host. All are durable
        when this returns. Raises ExternalError if one of them is neither in shared memory nor on this host."""
        ...

    def missing(self, names: Iterable[str]) -> set[str]:
        """The runs that are neither in shared memory nor on this host."""
        ...

    def all_exist(self, names: Iterable[str]) -> bool:
        """Whether every one of the runs is in shared memory or on this host."""
        ...

    def spill(self, names: set[str], limit: int | None, quotas: Iterable[MemoryQuota] = ()) -> RunLocations:
        """Removes the runs that `run_memory.runs_to_spill` names under these limits from shared memory, once they are
        on this host's disk. Returns the locations of all named runs."""
        ...

    def delete(self, names: Iterable[str]) -> None:
        """Removes runs that no manifest refers to."""
        ...

    def sweep(self, kept: set[str]) -> int:
        """Removes every run of the fragment that is not in `kept`, such as those of a crashed epoch, from shared memory
        and from this host. Returns how many of them were in shared memory."""
        ...


class AnswerStore(Protocol):
    """Entries by key, limited in age and number. Raises ExternalError if it cannot be reached."""

    def begin(self, key: str, entry: bytes) -> bytes | None:
        """Stores the entry and returns None; if the key has an entry already, returns that one instead."""
        ...

    def replace(self, key: str, expected: bytes, entry: bytes) -> bool:
        """Replaces the entry if it equals `expected`; its age stays. Returns False if the key has another entry or
        none."""
        ...


@dataclass(frozen=True)
class FoundDocument:
    """A stored document: its key, its name, the type of its key in the store ("string", "hash", …), whether it never
    expires, and its body, None if the key has another type than a document."""

    key: bytes
    name: str
    kind: str
    never_expires: bool
    body: bytes | None


@dataclass(frozen=True)
class FoundManifest:
    """The manifest of a fragment: its key, its body, None if there is none, and what is wrong with its form, None if
    nothing is."""

    key: bytes
    body: bytes | None
    problem: str | None = None


class Inspection(Protocol):
    """The keys of one cluster. A key is opaque; decoded as text, it is the location that users see."""

    @property
    def cluster(self) -> str:
        """The name of the cluster."""
        ...

    @property
    def store(self) -> str:
        """What kind of store it is, such as "redis", in front of a location."""
        ...

    def documents(self) -> list[FoundDocument]:
        """The documents of the cluster, except answers of calls, which expire."""
        ...

    def fragments(self) -> list[str]:
        """The names of the fragments that have a manifest."""
        ...

    def manifest(self, fragment: str) -> FoundManifest:
        """The manifest of a fragment."""
        ...

    def runs(self, fragment: str) -> dict[str, bytes]:
        """The keys of the runs of a fragment, by name."""
        ...

    def damage(self, run: bytes) -> str | None:
        """Why the run under a key is damaged; None if it is sound."""
        ...

    def delete(self, key: bytes) -> None:
        """Removes a key."""
        ...
