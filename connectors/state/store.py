"""A store of the state of one cluster, with all its parts."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from connectors.state.answers import AnswerStore
from connectors.state.cluster import ClusterState
from connectors.state.inspection import Inspection
from connectors.state.manifests import ManifestStore
from connectors.state.runs import RunStore


class StateStore(Protocol):
    """A connection to the store of a cluster. The parts that it returns share the connection, and may be used by
    several threads; all stores of one cluster, in any process, see the same state."""

    def cluster(self) -> ClusterState:
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
