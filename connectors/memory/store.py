"""The store of a cluster's state in memory."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from connectors.memory.answers import MemoryAnswers
from connectors.memory.documents import MemoryDocumentStore
from connectors.memory.inspection import MemoryInspection
from connectors.memory.manifest import Manifest, MemoryManifest
from connectors.memory.runs import MemoryRuns, Runs
from connectors.state.cluster import ClusterState


class MemoryState:
    """Implements `connectors.state.store.StateStore`. All parts that it returns share its state, as several processes
    share the state of a server. `clock` returns seconds since 1970; leases expire by it.

    >>> state = MemoryState("main", clock=lambda: 0.0)
    >>> state.cluster().renew_lease("e", b"alive")
    >>> state.cluster().executors()
    {'e': b'alive'}
    """

    def __init__(self, cluster: str = "local", clock: Callable[[], float] = time.time) -> None:
        self._cluster = cluster
        self._documents = MemoryDocumentStore(clock)
        self._manifests: dict[str, Manifest] = defaultdict(lambda: Manifest(clock))
        self._runs: dict[str, Runs] = defaultdict(Runs)
        self._answers = MemoryAnswers(clock)

    def cluster(self) -> ClusterState:
        """The documents of the cluster."""
        return ClusterState(self._cluster, self._documents)

    def manifest(self, fragment: str) -> MemoryManifest:
        """The manifest of a fragment, for one incarnation."""
        return MemoryManifest(self._manifests[fragment], f"manifest {fragment}")

    def runs(self, fragment: str, cache: Path, limit: int | None = None) -> MemoryRuns:
        """The runs of a fragment on the host with this cache. No file is written."""
        return MemoryRuns(self._runs[fragment], cache, limit)

    def inspection(self) -> MemoryInspection:
        """The content of the store."""
        return MemoryInspection(self._cluster, self._documents, self._manifests, self._runs)

    def answers(self) -> MemoryAnswers:
        """The answers that are kept for idempotency keys."""
        return self._answers

    def damage_run(self, fragment: str, run: str) -> None:
        """Damages the shared copy of a run, as a fault of a server may; for tests."""
        self._runs[fragment].damaged.add(run)
