"""How target stages use the runs of a fragment: they read them, and need not wait until new ones are written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol

import polars as pl

from connectors.state.store import RunStore


class StageRuns(Protocol):
    """The runs of traces, by name."""

    def read(self, name: str) -> pl.DataFrame:
        """The rows of a run."""
        ...

    def write(self, runs: Mapping[str, pl.DataFrame]) -> Callable[[], None]:
        """Begins to store new runs. The returned function waits until they are stored; it raises if that fails."""
        ...


@dataclass(frozen=True)
class BackgroundRuns:
    """The runs of a store, which are written in a thread of its own."""

    store: RunStore
    #: The size from which on runs are written to disk only; None: as long as the store has room.
    disk_from: int | None = None
    writer: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "runs"))

    def read(self, name: str) -> pl.DataFrame:
        """A run, mapped from the host's cache; it is fetched into the cache first if necessary."""
        return self.store.read(name)

    def write(self, runs: Mapping[str, pl.DataFrame]) -> Callable[[], None]:
        """Begins to write the runs; the returned function waits for them."""
        return self.writer.submit(self.store.write, dict(runs), self.disk_from).result


class ImmediateRuns:
    """The runs of a store in memory, in which writing takes no time."""

    def __init__(self, store: RunStore) -> None:
        self._store = store

    def read(self, name: str) -> pl.DataFrame:
        """The rows of a run."""
        return self._store.read(name)

    def write(self, runs: Mapping[str, pl.DataFrame]) -> Callable[[], None]:
        """Writes the runs at once."""
        self._store.write(runs)
        return _nothing_to_wait_for


def _nothing_to_wait_for() -> None:
    """The runs are stored already."""
